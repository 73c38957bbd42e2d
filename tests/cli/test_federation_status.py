"""`fedglb federation status`: with a coordinator that runs, was stopped, killed, or never ran."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat

import pytest

from fedglb.federation import sqlite
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator import board, service
from fedglb.federation.coordinator.store import CoordinatorStore, MemberRecord
from fedglb.federation.errors import Unavailable
from fedglb.federation.operator import operator
from fedglb.federation.operator.listing import certificate_ends
from fedglb.federation.owner_lock import OwnerLock, Taken
from tests.cli.in_process import agent as agent_command
from tests.cli.in_process import federation
from tests.cli.test_federation import INIT
from tests.federation.helpers.json_processes import agent, coordinator
from tests.federation.helpers.nats_federation import PATIENCE, eventually, table
from tests.federation.helpers.nats_federation import federation as nats_federation
from tests.service.test_coordinator import picture


def status(*arguments) -> tuple[int, str, str]:
    out = federation("status", *arguments)
    return out.returncode, out.stdout, out.stderr


def until_present(folder, names: set[str]) -> dict:
    """Wait until these clients are present; return the status."""
    found = {}

    def present() -> bool:
        _, out, _ = status(folder, "--json")
        found.update(json.loads(out) if out else {"members": []})
        return {m["name"] for m in found["members"] if m["present"]} == names

    eventually(present, f"{names} are present", lambda: found)
    return found


def test_running_killed_and_running_again(tmp_path, monkeypatch):
    monkeypatch.setattr(board, "_PATIENCE", PATIENCE)
    with nats_federation(tmp_path, ["a", "b"], table(4, 3)) as running:
        state = running.folder / "coordinator" / "state.db"
        patient = ("--absent-after", "600")  # an agent that is late is not absent
        with coordinator(running, state, *patient) as head, agent(running, "a", tmp_path) as a:
            a.next()
            a.ask(do="play", arms=[[1.0, 0.0, 0.0]], rewards=[1.0], t=1)
            until_present(running.folder, {"a"})
            a.ask(do="request")
            head.hear(lambda line: line["event"] == "updated")
            found = until_present(running.folder, {"a"})
            assert (found["running"], found["totals"]["updates"]) == (True, 1)
            made = federation("backup", running.folder, tmp_path / "copy.db")  # while it runs
            assert made.returncode == 0, made.stderr
            assert "copy.db: " in made.stdout
            assert (
                "a path without a file"
                in federation("backup", running.folder, tmp_path / "copy.db").stderr
            )
            assert [(m["name"], m["joined"] is None) for m in found["members"]] == [
                ("a", False), ("b", True),
            ]  # fmt: skip
            operator.add(running.folder, ["c"])  # while it runs

            def lists_c() -> bool:
                return "c" in {m["name"] for m in until_present(running.folder, {"a"})["members"]}

            eventually(lists_c, "c is listed")
            operator.revoke(running.folder, ["c"])
            eventually(lambda: not lists_c(), "c is not listed")
            code, out, _ = status(running.folder / "coordinator")  # this folder will do, too
            assert code == 0
            assert "the coordinator started at" in out
            assert "1 of 2 clients present; 1 updates, 1 samples in the model" in out
            socket = board.place_of(state)
            assert stat.S_IMODE(socket.stat().st_mode) == 0o600
            head.process.send_signal(signal.SIGKILL)
            head.process.wait(PATIENCE)
            assert socket.exists()  # it could not remove it
            code, out, _ = status(running.folder)
            assert code == 1
            assert "the coordinator does not run" in out
            assert "ALARM stopped" in out
            assert "0 of 2 clients present; 1 updates, 1 samples in the model" in out
            with coordinator(running, state) as again:
                found = until_present(running.folder, {"a"})
                assert found["totals"]["updates"] == 1
                assert again.process.poll() is None
        assert not socket.exists()
        code, out, _ = status(running.folder, "--json")
        found = json.loads(out)
        assert (code, found["running"]) == (1, False)
        assert [alarm["kind"] for alarm in found["alarms"]] == ["stopped"]
        names = [each["name"] for each in found["certificates"]]
        assert names == ["a", "b", "the authority", "the coordinator", "the server"]


def test_a_coordinator_starts_while_its_status_is_read(tmp_path, monkeypatch):
    """The reader has the lock for an instant: a coordinator that starts then must not give up."""
    running = nats_federation(tmp_path, ["a"], table(4, 3))
    agreement, file = running.coordinator_bundle.agreement, tmp_path / "state.db"
    CoordinatorStore(file, agreement).close()
    tried = []

    def lock(path):
        tried.append(path)
        if len(tried) < 3:
            raise Taken
        return OwnerLock(path)

    monkeypatch.setattr(sqlite, "OwnerLock", lock)
    CoordinatorStore(file, agreement).close()
    assert len(tried) == 3


@pytest.fixture
def folder(tmp_path):
    """A federation that has not run yet, with a certificate that ends soon."""
    place = tmp_path / "demo"
    federation("init", place, *INIT, "--clients", "shop-1", "--days", 5)
    return place


def test_one_that_never_ran(folder):
    before = sorted(folder.rglob("*"))
    code, out, _ = status(folder)
    assert code == 1
    assert "0 of 1 clients present; 0 updates" in out
    assert "shop-1  no    never " in out
    assert "ALARM certificate: shop-1's certificate expires on" in out
    assert "Note: " in out  # of fedglb_auto, that its index is not proven
    assert sorted(folder.rglob("*")) == before
    assert set(certificate_ends(folder / "coordinator")) == {
        "shop-1", "the authority", "the coordinator", "the server",
    }  # fmt: skip


def test_a_backup_is_a_file_to_start_with(folder, tmp_path):
    missing = federation("backup", folder, tmp_path / "copy.db")
    assert missing.returncode == 2
    assert "FOLDER = " in missing.stderr
    agreement = Bundle.read(folder / "coordinator").agreement
    store = CoordinatorStore(folder / "coordinator" / "state.db", agreement)
    store.write_member("shop-1", MemberRecord("one", True, 4))
    assert federation("backup", folder, tmp_path / "copy.db").returncode == 0
    store.close()
    refused = agent_command("backup", tmp_path / "copy.db", tmp_path / "other.db")
    assert (refused.returncode, "of an agent" in refused.stderr) == (2, True)
    copy = CoordinatorStore(tmp_path / "copy.db", agreement)
    assert copy.members() == {"shop-1": MemberRecord("one", True, 4)}
    copy.close()


def test_what_is_no_federation(folder, tmp_path):
    for place in (tmp_path, folder / "clients" / "shop-1"):
        code, _, err = status(place)
        assert code == 2
        assert "FOLDER = " in err
        assert "the operator's folder, or the coordinator's" in err


def test_a_file_that_is_open_by_a_coordinator_that_does_not_answer(tmp_path):
    running = nats_federation(tmp_path, ["a"], table(4, 3))
    state = running.folder / "coordinator" / "state.db"
    store = CoordinatorStore(state, running.coordinator_bundle.agreement)
    try:
        code, _, err = status(running.folder)  # it has no socket yet
        assert (code, "the coordinator is starting" in err) == (1, True)
        board.place_of(state).touch()
        code, _, err = status(running.folder)
        assert (code, "the coordinator does not respond" in err) == (1, True)
    finally:
        store.close()


def test_one_that_starts_after_one_that_was_killed(tmp_path, monkeypatch):
    """The dead one's socket is gone before kernels are compiled."""
    running = nats_federation(tmp_path, ["a"], table(4, 3))
    state = running.folder / "coordinator" / "state.db"
    board.place_of(state).touch()
    said = []

    def starting(*_, **__):
        said.append(status(running.folder))
        raise Unavailable("no more")

    monkeypatch.setattr(service, "Service", starting)
    federation("coordinator", running.folder / "coordinator")
    [(code, _, err)] = said
    assert (code, "the coordinator is starting" in err) == (1, True)


def test_a_folder_whose_path_is_longer_than_a_sockets_address(tmp_path):
    folder = tmp_path / ("long" * 20) / ("longer" * 10)
    folder.mkdir(parents=True)
    assert len(os.fsencode(folder)) > 108
    state = folder / "state.db"

    async def scene() -> object:
        async with board.answering(state, picture):
            return await asyncio.to_thread(board.ask, state)

    found = asyncio.run(scene())
    assert found is not None
    assert found.federation == "demo"
    assert board.ask(state) is None  # nobody is there any more
