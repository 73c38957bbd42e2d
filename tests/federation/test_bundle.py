"""A member's folder: written, read back, and what is wrong with one, in words."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import stat
import tomllib

import pytest

import fedglb as fg
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.federation.operator.authority import Authority
from fedglb.io.toml import to_toml
from fedglb.problem_table import ProblemTable
from tests.federation.helpers.nats_federation import connected, table

FULL = AgreementTable(
    20,
    ProblemTable(None, "identity", 2.5, 0.5, 1e-05),
    {
        "name": "fedglb-ucb",
        "threshold": float("inf"),
        "exploration": 0.1,
        "solver": {"name": "agd", "stop": "fixed", "rounds": 20},
        "confidence": {"fixed": 0.3},
    },
    reward_limit=3.0,
    features=fg.Features(
        context={"age": fg.Number([18, 65.5])},
        arm={"größe": fg.Category(["S", "M"], weight=2.0), "tags": fg.Tags(buckets=3)},
        crosses=[("context.age", "arm.größe")],
    ).plain(),
    revision=3,
)


@pytest.fixture(scope="module")
def authority():
    return Authority.new("demo")


@pytest.fixture
def written(authority, tmp_path):
    def write(agreed=None, client="shop-1", identity="fedglb://demo/shop-1/1", days=730.0):
        folder = tmp_path / client
        agreed = table() if agreed is None else agreed
        bundle = Bundle(folder, "demo", client, "tls://127.0.0.1:4222", agreed)
        bundle.write(authority.pem, authority.issue(identity, days=days))
        return folder

    return write


@pytest.mark.parametrize("agreed", [table(), FULL])
def test_a_bundle_is_read_as_it_was_written(written, agreed):
    folder = written(agreed)
    bundle = Bundle.read(str(folder))
    assert (bundle.federation, bundle.client) == ("demo", "shop-1")
    assert bundle.server == "tls://127.0.0.1:4222"
    assert bundle.table == agreed
    assert bundle.agreement.facts() == agreed.build().facts()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
    context = bundle.tls()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3


def test_the_file_is_one_that_people_read(written):
    text = (written(FULL) / "federation.toml").read_text()
    for line in ('client = "shop-1"', "[agreement]", "max_clients = 20", "[agreement.problem]",
                 "[agreement.algorithm.solver]", "threshold = inf"):  # fmt: skip
        assert line in text.splitlines()


@pytest.mark.parametrize(
    "given",
    [
        {"text": 'quotes " and \\ and\nlines\tand \x00\x1f\x7f and é 😀'},
        {"a b": 1, 'with "quotes"': {"": "empty", "é.x": True}},
        {"list": [1, 2.5, "x", [False]], "small": 1e-300, "large": 1e300, "big": 10**18},
        {"minus": -0.5, "whole": 3.0, "inf": float("-inf"), "deep": {"deeper": {"deepest": {}}}},
    ],
)
def test_toml_is_read_as_it_was_written(given):
    assert tomllib.loads(to_toml(given)) == given


def test_toml_leaves_out_what_is_none_and_refuses_what_it_cannot_say():
    assert tomllib.loads(to_toml({"a": None, "b": {"c": None}})) == {"b": {}}
    with pytest.raises(fg.InvalidInput, match="numbers, text"):
        to_toml({"a": object()})


@pytest.mark.parametrize("name", ["federation.toml", "ca.pem", "cert.pem", "key.pem"])
def test_a_missing_file_is_named(written, name):
    folder = written()
    (folder / name).unlink()
    with pytest.raises(fg.InvalidInput, match=f"{name} is missing"):
        Bundle.read(folder)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[agreement]", "[agreement", "a TOML file without mistakes"),
        ("federation = ", "fedration = ", r"fedration = 'demo'.*did you mean federation"),
        ("max_clients", "max_client", "agreement.max_client = 10.*did you mean max_clients"),
        ("dim = 3", "dmi = 3", "agreement.problem.dmi = 3.*dim"),
        ("dim = 3", 'dim = "3"', "agreement.problem.dim = '3'.*whole number"),
        ("dim = 3", "dim = 0", r"federation.toml: agreement.*dim = 0"),
        ("max_clients = 10", "", "agreement.max_clients = None.*missing"),
        ("threshold", "treshold", r"federation.toml: agreement.algorithm.treshold"),
        ('"demo"', '"de.mo"', "federation = 'de.mo'"),
        ("tls://", "nats://", "server = 'nats://127.0.0.1:4222'.*tls://nats.example.org:4222"),
        ('"shop-1"', '"shop-2"', "client = 'shop-2'.*fedglb://demo/shop-1/1"),
    ],
)
def test_a_mistake_in_the_file_is_named(written, old, new, said):
    folder = written()
    path = folder / "federation.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(fg.InvalidInput, match=said):
        Bundle.read(folder)


def test_a_key_of_another_certificate(written, authority):
    folder = written()
    (folder / "key.pem").write_bytes(authority.issue("fedglb://demo/x/1").key)
    with pytest.raises(fg.InvalidInput, match=r"key\.pem.*not the key of cert\.pem.*renew"):
        Bundle.read(folder).tls()


def test_a_key_that_others_can_read_is_worth_a_warning(written, caplog):
    folder = written()
    with caplog.at_level(logging.WARNING, "fedglb.federation"):
        Bundle.read(folder)
        assert caplog.text == ""
        (folder / "key.pem").chmod(0o644)
        Bundle.read(folder)
    assert "chmod 600" in caplog.text


def test_a_certificate_at_its_end_is_worth_a_warning(written, caplog):
    with caplog.at_level(logging.WARNING, "fedglb.federation"):
        Bundle.read(written(days=-0.01))
    assert "ask the operator" in caplog.text


def test_nothing_is_said_in_the_clear_to_who_offers_no_tls(written):
    """nats-py alone would go on without TLS, whatever the address says."""
    bundle = Bundle.read(written())

    async def scene(**options):
        heard = []

        async def impostor(reader, writer):
            writer.write(b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576}\r\n')
            heard.append(await reader.read(100))
            writer.close()

        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with contextlib.suppress(Exception):
                async with connected(bundle, servers=f"tls://127.0.0.1:{port}", **options):
                    pass
        return b"".join(heard)

    assert b"CONNECT" not in asyncio.run(asyncio.wait_for(scene(), 10))
    assert b"CONNECT" in asyncio.run(asyncio.wait_for(scene(tls_handshake_first=False), 10))
