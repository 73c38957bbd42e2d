"""Certificates renewed in a running federation: nobody is cut off, nobody counts twice."""

from __future__ import annotations

import asyncio
import os
import shutil
from datetime import UTC, datetime, timedelta

import pytest

import fedglb as fg
from fedglb.federation import connection
from fedglb.federation.bundle import Bundle
from fedglb.federation.certificates import Certificate
from fedglb.federation.operator import listing, nats_server, operator, renewal
from fedglb.federation.operator.doctor import operator as doctor
from fedglb.federation.operator.registry import Registry
from tests.federation.helpers.in_process import Serving, honest
from tests.federation.helpers.nats_federation import (
    PATIENCE,
    connected,
    federation,
    refused,
    table,
)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Agents and coordinator look at their files all the time."""
    monkeypatch.setattr(connection, "_LOOK", 0.02)


@pytest.fixture
def still(tmp_path):
    """A federation whose server does not run."""
    return federation(tmp_path, ["a", "b"], table(max_clients=5))


def member(running, name):
    return Registry.read(running.folder / "authority").members[name]


def accounts(running):
    return (running.folder / "server" / "accounts.conf").read_text()


def test_both_certificates_are_good_until_the_client_is_revoked(tmp_path):
    with federation(tmp_path, ["a", "b"]) as running:
        shutil.move(running.folder / "clients" / "a", tmp_path / "old")
        old, before = Bundle.read(tmp_path / "old"), accounts(running)

        async def scene():
            async with connected(running.bundle("b")) as b, connected(old) as first:
                done = await asyncio.to_thread(renewal.renew, running.folder, ["a"])
                assert done.verified
                assert done.folders == {"a": running.folder / "clients" / "a"}
                async with connected(running.bundle("a")) as second, connected(old):
                    assert not second.lost.is_set()
                assert not first.lost.is_set()
                assert not b.lost.is_set()

        asyncio.run(scene())
        assert member(running, "a").generation == 1
        assert accounts(running) == before
        shutil.copytree(running.folder / "clients" / "a", tmp_path / "new")
        assert operator.revoke(running.folder, ["a"])
        both = old, Bundle.read(tmp_path / "new")
        for bundle in both:
            asyncio.run(refused(bundle))
        operator.add(running.folder, ["a"])
        assert member(running, "a").generation == 2
        for bundle in both:
            asyncio.run(refused(bundle))


def test_an_agent_takes_its_new_certificate_without_a_restart(tmp_path):
    """Nobody leaves, nobody joins anew: the update after it is as if nothing had happened."""
    with (
        federation(tmp_path, ["a", "b"]) as running,
        Serving(running, tmp_path / "state.db") as serving,
        honest(running, tmp_path, serving, {"a": 3, "b": 3}) as agents,
    ):
        done = renewal.renew(running.folder, everybody=True)
        assert set(done.renewed) == {"a", "b", "coordinator", "server"}
        assert {member(running, n).generation for n in ("a", "b", "coordinator")} == {1}
        agents["a"].request_update()
        assert agents["a"].wait_for_model(1, PATIENCE)
        assert serving.wait("updated").facts["clients"] == 2
        assert serving.texts("left") == []
        assert len(serving.texts("joined")) == 2
        assert len(serving.session.members) == 2


def test_the_authority_is_renewed_and_old_and_new_understand_each_other(tmp_path):
    with federation(tmp_path, ["a", "b"]) as running:
        shutil.copytree(running.folder / "clients" / "a", tmp_path / "a")
        old, files = Bundle.read(tmp_path / "a"), ("authority/ca.pem", "server/server.pem")
        before = [Certificate((running.folder / file).read_bytes()) for file in files]

        async def connect():
            """The old client trusts the server by the old certificate of the authority."""
            new = running.bundle("b"), running.coordinator_bundle
            async with connected(old), connected(new[0]), connected(new[1]):
                pass

        async def scene():
            async with connected(old) as a:
                every = ["authority", "server", "coordinator", "b"]
                done = await asyncio.to_thread(renewal.renew, running.folder, every)
                assert done.verified  # the server was seen to show its new one
                await a.flush()
                assert not a.lost.is_set()
            await connect()

        asyncio.run(scene())
        after = [Certificate((running.folder / file).read_bytes()) for file in files]
        assert all(one.serial != two.serial for one, two in zip(before, after, strict=True))
        assert after[0].ends >= before[0].ends
        assert after[1].hosts == before[1].hosts
        assert after[1].has_key((running.folder / "server" / "server.key").read_bytes())
        assert (old.folder / "ca.pem").read_bytes() == before[0].content
        for place in ("server", "coordinator", "clients/a", "clients/b"):
            assert (running.folder / place / "ca.pem").read_bytes() == after[0].content
        running.kill()
        running.start()
        asyncio.run(connect())


def test_what_is_renewed_is_the_certificate_alone(still):
    before, old = member(still, "a"), still.bundle("a").certificate()
    renewal.renew(still.folder, ["a"])
    after, new = member(still, "a"), still.bundle("a").certificate()
    assert (after.generation, after.since) == (1, before.since)
    assert after.serial == new.serial != old.serial
    assert new.identities == old.identities
    still.bundle("a").check_key()
    for name, mode in (("key.pem", 0o600), ("cert.pem", 0o644)):
        path = still.folder / "clients" / "a" / name
        assert path.stat().st_mode & 0o777 == mode


def test_who_ends_soon(still):
    operator.add(still.folder, ["c"], days=10)
    assert set(renewal.renew(still.folder, everybody=True, within=30).renewed) == {"c"}
    assert set(renewal.renew(still.folder, everybody=True, within=30).renewed) == set()
    soon = datetime.now(UTC) + timedelta(days=729)
    assert all(m.ends > soon for m in listing.members(still.folder))


def test_the_coordinators_folder_keeps_what_else_is_in_it(still):
    (still.folder / "coordinator" / "state.db").write_bytes(b"kept")
    assert not renewal.renew(still.folder, ["coordinator"]).verified
    assert (still.folder / "coordinator" / "state.db").read_bytes() == b"kept"
    assert still.coordinator_bundle.certificate().identities == ["fedglb://demo/coordinator/1"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"names": ["nobody"]}, "client = 'nobody'.*one of the clients: a, b$"),
        ({"names": ["a", "a"]}, "each name once"),
        ({"names": ["a"], "days": 0}, "days = 0"),
        ({"everybody": True, "within": -1}, "within = -1"),
    ],
)
def test_what_cannot_be_renewed_is_refused_and_changes_nothing(still, given, said):
    before = accounts(still), member(still, "a")
    with pytest.raises(fg.InvalidInput, match=said):
        renewal.renew(still.folder, **given)
    assert (accounts(still), member(still, "a")) == before


def test_a_configuration_that_the_server_refuses_renews_nothing(still, monkeypatch):
    before = member(still, "a"), still.bundle("a").certificate().serial
    monkeypatch.setattr(
        renewal, "write_accounts", lambda *_: (_ for _ in ()).throw(nats_server.ServerFault("no"))
    )
    with pytest.raises(nats_server.ServerFault):
        renewal.renew(still.folder, ["a", "server"])
    assert (member(still, "a"), still.bundle("a").certificate().serial) == before


def test_no_certificate_outlasts_its_authority(still):
    renewal.renew(still.folder, ["a"], days=9999)
    authority = Certificate((still.folder / "authority" / "ca.pem").read_bytes())
    assert still.bundle("a").certificate().ends == authority.ends


def test_a_renewal_that_is_interrupted_anywhere_can_be_made_again(still, tmp_path, monkeypatch):
    """The old certificates stay good throughout, and the second attempt succeeds."""
    replace, names = os.replace, ["authority", "server", "coordinator", "a"]
    for failing in range(100):
        place, calls = tmp_path / str(failing), iter(range(1000))
        shutil.copytree(still.folder, place)
        path = place / "server" / "nats.conf"
        path.write_text(path.read_text().replace(str(still.folder), str(place)))

        def full(*paths, calls=calls, failing=failing):
            if next(calls) == failing:
                raise OSError(28, "No space left on device")
            replace(*paths)

        with monkeypatch.context() as patch:
            patch.setattr("os.replace", full)
            try:
                renewal.renew(place, names)
            except OSError:
                pass
            else:
                break  # it has written less often than that
        for who in ("a/1", "b/1", "coordinator/1"):
            assert f'"fedglb://demo/{who}"' in (place / "server" / "accounts.conf").read_text()
        renewal.renew(place, names)
        found = [f for f in doctor(place) if f.grade == "fault"]
        assert {f.check for f in found} == {"server"}, found  # which does not run
    assert failing > 10
