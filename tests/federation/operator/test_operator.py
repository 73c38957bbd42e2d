"""The operator's folder with a real server: who is admitted, who is not, who is revoked."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime

import pytest

import fedglb as fg
from fedglb.federation.bundle import Bundle
from fedglb.federation.certificates import Certificate
from fedglb.federation.operator import nats_config, nats_server, operator
from fedglb.federation.operator.authority import Authority
from fedglb.federation.operator.registry import Registry
from fedglb.federation.probe import Probe
from fedglb.io.atomic import exclusive_lock
from tests.federation.helpers import nats_process
from tests.federation.helpers.nats_federation import (
    PATIENCE,
    connected,
    federation,
    refused,
    table,
    until,
)


def files(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name not in (".lock", "log", "nats.pid")
    }


def registry(running):
    return json.loads((running.folder / "authority" / "registry.json").read_text())


def test_what_init_makes(shared):
    for path in [shared.folder, *shared.folder.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        if path.is_dir():
            assert mode == 0o700
        if path.suffix == ".key" or path.name == "key.pem":
            assert mode == 0o600
    assert shared.coordinator_bundle.client == "coordinator"
    assert shared.bundle("a").server == f"tls://127.0.0.1:{shared.port}"
    members = registry(shared)["members"]
    assert set(members) == {"coordinator", *"abcde"}
    assert {(m["generation"], m["revoked"]) for m in members.values()} == {(1, None)}


def test_the_configuration_holds_wherever_the_server_is_started(shared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nats_server.check(shared.folder / "server")
    assert nats_server.running(shared.folder / "server") == shared.server.process.pid


def test_without_a_certificate_nobody_is_let_in(shared):
    anonymous = ssl.create_default_context(cafile=shared.folder / "authority" / "ca.pem")
    asyncio.run(refused(shared.bundle("a"), tls=anonymous))


def issued(shared, folder, identity="fedglb://demo/a/1", trusted=None, signer=None, **more):
    """A bundle with a certificate of this identity, by the federation's authority or another."""
    ours = Authority.read(shared.folder / "authority")
    bundle = Bundle(folder, "demo", "a", f"tls://127.0.0.1:{shared.port}", table())
    bundle.write((trusted or ours).pem, (signer or ours).issue(identity, **more))
    return bundle


def test_certificates_and_servers_of_another_authority_are_refused(shared, tmp_path):
    """The same names, signed by somebody else."""
    other = Authority.new("demo")
    why = asyncio.run(refused(issued(shared, tmp_path / "x", signer=other))).lower()
    assert "authorization" not in why  # TLS itself ends it
    why = asyncio.run(refused(issued(shared, tmp_path / "again", trusted=other))).lower()
    assert "certificate verify failed" in why


OTHERS = [
    "x/a/1",
    *(f"demo/{name}" for name in ("x/1", "a/2", "coordinator/2", ".operator", "$SYS")),
]


@pytest.mark.parametrize("name", OTHERS)
def test_who_is_signed_but_not_on_the_list_is_refused(shared, tmp_path, name):
    why = asyncio.run(refused(issued(shared, tmp_path / "x", f"fedglb://{name}"))).lower()
    assert "authorization violation" in why


def test_a_servers_certificate_is_no_members(shared, tmp_path):
    asyncio.run(refused(issued(shared, tmp_path / "x", hosts=["127.0.0.1"])))


def test_members_come_and_go_while_the_others_stay(tmp_path):
    """Revoked: cut off, alone. Added again: the new certificate is good, the old one is not."""
    with federation(tmp_path, ["a", "b"]) as running:
        shutil.move(running.folder / "clients" / "a", tmp_path / "stolen")
        stolen = Bundle.read(tmp_path / "stolen")

        async def scene():
            async with (
                connected(running.bundle("b")) as b,
                connected(running.coordinator_bundle) as head,
            ):
                await head.listen("fed.demo.up.*")
                async with connected(stolen) as a:
                    assert await asyncio.to_thread(operator.revoke, running.folder, ["a"])
                    await asyncio.wait_for(a.lost.wait(), PATIENCE)
                assert "authorization violation" in (await refused(stolen)).lower()
                assert not (running.folder / "clients" / "a").exists()
                assert await asyncio.to_thread(operator.add, running.folder, ["a", "c"])
                assert "authorization violation" in (await refused(stolen)).lower()
                for name in ("a", "c"):
                    async with connected(running.bundle(name)) as member:
                        await member.say(f"fed.demo.up.{name}", name.encode())
                        await member.flush()
                await b.say("fed.demo.up.b", b"b")
                await b.flush()
                await until(lambda: len(head.heard) == 3)
                assert [data for _, data in head.heard] == [b"a", b"c", b"b"]
                assert not b.lost.is_set()
                assert not head.lost.is_set()

        asyncio.run(scene())
        assert not list(running.folder.glob(".unfinished*"))
        members = registry(running)["members"]
        assert (members["a"]["generation"], members["a"]["revoked"]) == (2, None)
        assert members["b"]["generation"] == 1
        running.kill()  # and after a crash it is the same
        running.start()
        assert "authorization violation" in asyncio.run(refused(stolen)).lower()


def test_a_server_that_does_not_obey_is_reported(tmp_path, monkeypatch):
    with federation(tmp_path, ["a"]) as running:
        monkeypatch.setattr(nats_server, "reload", lambda folder: True)  # as if it had
        patient = Probe.wait_until_admitted
        monkeypatch.setattr(
            Probe, "wait_until_admitted", lambda *given: patient(*given, timeout=0.2)
        )
        with pytest.raises(nats_server.ServerFault, match="does not reject 'a'"):
            operator.revoke(running.folder, ["a"])
        with pytest.raises(nats_server.ServerFault, match="does not admit 'b'"):
            operator.add(running.folder, ["b"])
        monkeypatch.undo()
        assert operator.add(running.folder, ["c"])  # brings the rest with it
        asyncio.run(refused(issued(running, tmp_path / "x")))


@pytest.fixture
def still(tmp_path):
    """A federation whose server does not run."""
    return federation(tmp_path, ["a", "b"], table(max_clients=3))


def test_what_cannot_be_changed_is_refused_and_changes_nothing(still):
    operator.revoke(still.folder, ["b"])
    before = files(still.folder)
    for change, names, said in [
        (operator.add, ["a"], "client = 'a'.*an unused name"),
        (operator.add, ["c", "c"], "each name once"),
        (operator.add, ["c", "x.y"], "client = 'x.y'"),
        (operator.add, ["coordinator"], "coordinator's"),
        (operator.add, ["server"], "another name"),
        (operator.add, ["authority"], "another name"),
        (operator.add, ["c", "d"], "at most max_clients = 3 names"),
        (operator.revoke, ["b"], "client = 'b'.*one of the clients: a$"),
        (operator.revoke, ["a", "nobody"], "client = 'nobody'"),
        (operator.revoke, ["coordinator"], "coordinator's"),
    ]:
        with pytest.raises(fg.InvalidInput, match=said):
            change(still.folder, names)
    assert files(still.folder) == before
    operator.add(still.folder, ["b", "c"])  # a name that was there before counts once


def test_a_configuration_that_the_server_refuses_is_rolled_back(still, monkeypatch):
    before = files(still.folder)
    monkeypatch.setattr(nats_config, "accounts", lambda *_: "accounts { nonsense")
    with pytest.raises(nats_server.ServerFault, match="rejects the configuration"):
        operator.add(still.folder, ["c"])
    with pytest.raises(nats_server.ServerFault, match="rejects the configuration"):
        operator.revoke(still.folder, ["a"])
    assert files(still.folder) == before


def test_who_is_revoked_can_be_revoked_again_until_the_server_rejects_it(still, monkeypatch):
    """A kill before the server's reload must not end in "no such client" while it is admitted."""

    def dies(*_, **__):
        assert set(Registry.read(still.folder / "authority").clients) == {"a", "b"}
        raise nats_server.ServerFault("does not reject")

    monkeypatch.setattr(operator, "verify", dies)
    with pytest.raises(nats_server.ServerFault, match="does not reject"):
        operator.revoke(still.folder, ["a"])
    assert set(Registry.read(still.folder / "authority").clients) == {"b"}


def test_without_nats_server_members_still_change_and_the_way_to_one_is_told(
    still, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    change = operator.revoke(still.folder, ["a"])  # the server may run in a container
    assert not change
    accounts = (still.folder / "server" / "accounts.conf").read_text()
    assert "fedglb://demo/a/1" not in accounts
    assert "fedglb://demo/b/1" in accounts
    with pytest.raises(nats_server.ServerFault, match=r"not on the PATH.*fedglb\[demo\]"):
        nats_server.program()


def test_one_command_at_a_time(still):
    with (
        exclusive_lock(still.folder),
        pytest.raises(fg.InvalidInput, match="command of the operator"),
    ):
        operator.add(still.folder, ["c"])


def test_the_rest_of_a_command_that_was_killed_is_cleared_away(still):
    rest = still.folder / ".unfinished-x" / "c"
    rest.mkdir(parents=True)
    (rest / "key.pem").write_text("secret")
    (still.folder / "clients" / "c").mkdir()  # it came as far as that, but not to the registry
    operator.add(still.folder, ["c"])
    assert not rest.exists()
    assert still.bundle("c").client == "c"


def test_a_process_that_has_the_number_by_chance_gets_no_signal(still):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        for content in (str(stranger.pid), "", "x", "0", "-1", "1", str(os.getpid()), "9" * 30):
            (still.folder / "server" / "nats.pid").write_text(content)
            assert nats_server.running(still.folder / "server") is None
            assert not nats_server.reload(still.folder / "server")
        (still.folder / "server" / "nats.pid").write_text(str(stranger.pid))
        assert not operator.add(still.folder, ["c"])
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_another_federations_server_gets_no_signal(still, shared):
    pid = shared.folder / "server" / "nats.pid"
    shutil.copy(pid, still.folder / "server" / "nats.pid")
    assert nats_server.running(still.folder / "server") is None
    assert nats_server.running(shared.folder / "server") == int(pid.read_text())


def test_a_pid_file_of_a_killed_server(tmp_path):
    with federation(tmp_path, ["a"]) as running:
        running.kill()
        assert (running.folder / "server" / "nats.pid").exists()
        assert not operator.revoke(running.folder, ["a"])


def test_a_port_that_is_taken_is_an_error(shared, tmp_path):
    folder = tmp_path / "second"
    operator.init(folder, "demo", table(), [], ["127.0.0.1"], shared.port, bind="127.0.0.1")
    with pytest.raises(nats_server.ServerFault, match="address already in use"):
        nats_process.start(folder / "server", tmp_path / "log")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"federation": "de.mo"}, "federation = 'de.mo'"),
        ({"clients": ["a", "a"]}, "each name once"),
        ({"clients": ["a/../b"]}, "client = 'a/../b'"),
        ({"clients": ["coordinator"]}, "coordinator's"),
        ({"clients": list("abcdefghijk")}, "at most max_clients = 10"),
        ({"hosts": []}, "at least one address"),
        ({"hosts": ["*.example.org"]}, "clients can reach"),
        ({"hosts": ["0.0.0.0"]}, "clients can reach"),
        ({"port": 70000}, "port = 70000"),
        ({"bind": "localhost"}, "bind = 'localhost'"),
        ({"table": table(dim=0)}, "dim = 0"),
        ({"table": table(treshold=1)}, "algorithm.treshold"),
    ],
)
def test_a_mistake_at_the_beginning_leaves_nothing(tmp_path, changed, said):
    given = {"federation": "demo", "table": table(), "clients": ["a"], "hosts": ["127.0.0.1"]}
    with pytest.raises(fg.InvalidInput, match=said):
        operator.init(tmp_path / "new", **{**given, **changed})
    assert os.listdir(tmp_path) == []


def test_a_federation_is_not_made_over_another(still, tmp_path):
    before = files(still.folder)
    with pytest.raises(fg.InvalidInput, match="holds a federation"):
        operator.init(still.folder, "demo", table(), ["a"], ["127.0.0.1"])
    assert files(still.folder) == before
    (tmp_path / "mine").mkdir()
    operator.init(tmp_path / "mine", "demo", table(), [], ["127.0.0.1"])  # an empty one will do
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(fg.InvalidInput, match="new or empty"):
        operator.init(tmp_path / "other", "demo", table(), ["a"], ["127.0.0.1"])


def test_init_is_all_or_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(operator.Registry, "write", full)
    with pytest.raises(OSError, match="No space"):
        operator.init(tmp_path / "new", "demo", table(), ["a"], ["127.0.0.1"])
    assert os.listdir(tmp_path) == []


def test_a_path_with_unusual_characters(tmp_path):
    odd = tmp_path / 'a "quoted" é $HOME \\ folder'
    odd.mkdir()
    with federation(odd, ["a"]) as running:
        assert operator.add(running.folder, ["b"])


@pytest.mark.parametrize("name", ["federation.toml", "registry.json"])
def test_a_folder_that_is_no_operators(still, name):
    (still.folder / "authority" / name).write_text("{ nonsense")
    with pytest.raises(fg.InvalidInput, match="folder = "):
        operator.add(still.folder, ["c"])
    with pytest.raises(fg.InvalidInput, match="fedglb federation init"):
        operator.add(still.folder / "clients", ["c"])
    assert not (still.folder / "clients" / ".lock").exists()


def test_coordinator_and_server_outlast_the_clients_certificates(tmp_path):
    running = federation(tmp_path)
    ends = {
        name: Certificate((running.folder / name).read_bytes()).ends - datetime.now(UTC)
        for name in ("clients/a/cert.pem", "coordinator/cert.pem", "server/server.pem")
    }
    assert [round(end.days / 365) for end in ends.values()] == [2, 10, 10]
