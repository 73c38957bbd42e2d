"""Two coordinators of one federation, as processes: one of them stops, and says why."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import sqlite3
import subprocess
import sys

import msgspec
import pytest

from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator import store
from fedglb.federation.coordinator.duplicate_coordinator import Announcement
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.errors import Superseded, Unavailable
from fedglb.federation.names import COORDINATOR
from tests.federation.helpers.in_process import Serving, opened
from tests.federation.helpers.nats_federation import PATIENCE, federation

SUPERSEDED = 3


def test_the_younger_one_stops_with_a_message_and_a_code_of_its_own(shared, tmp_path):
    command = [
        sys.executable, "-m", "fedglb.cli", "federation", "coordinator",
        str(shared.folder / COORDINATOR), "--state", str(tmp_path / "second.db"),
    ]  # fmt: skip
    with (
        Serving(shared, tmp_path / "first.db") as first,
        opened(shared, tmp_path, "a", 5) as agent,
    ):
        first.wait("joined", client="a")
        second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert second.returncode == SUPERSEDED, second.stderr
        words = " ".join(second.stderr.split())
        assert "another coordinator of demo runs" in words
        assert "and this one stops: it is younger, or has fewer updates" in words
        assert "joined" not in second.stdout  # it said nothing to clients
        assert first.texts("duplicate_coordinator")[0].startswith(
            "another coordinator of this federation runs"
        )
        agent.request_update()
        assert agent.wait_for_model(1, PATIENCE)  # the first goes on
        assert not first.texts("rejected")


def test_a_second_one_with_the_same_file_and_page_has_that_code_too(tmp_path):
    """As the printed unit starts it: with another code it would be started again for ever."""
    folder = federation(tmp_path).folder / COORDINATOR
    with socket.create_server(("127.0.0.1", 0)) as page:
        command = [
            sys.executable, "-m", "fedglb.cli", "federation", "coordinator", str(folder),
            "--http", f"127.0.0.1:{page.getsockname()[1]}",
        ]  # fmt: skip
        with contextlib.closing(
            CoordinatorStore(folder / "state.db", Bundle.read(folder).agreement)
        ):
            second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert second.returncode == SUPERSEDED, second.stderr
    assert f"is already open by process {os.getpid()}" in " ".join(second.stderr.split())
    assert second.stdout == ""  # it has not started


def test_a_program_that_looks_into_the_file_is_no_coordinator(tmp_path, monkeypatch):
    """It will go away: the next start helps."""
    monkeypatch.setattr(store, "_READER", 0.0)
    agreement = federation(tmp_path).coordinator_bundle.agreement
    path = tmp_path / "state.db"
    CoordinatorStore(path, agreement).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unavailable) as refused:
            CoordinatorStore(path, agreement)
    assert not isinstance(refused.value, Superseded)


def test_one_that_slept_while_another_took_its_place_stops():
    slept, other = Announcement("x", "here", 1.0, update=5), Announcement("y", "there", 2.0, 8)
    assert slept.yields_to(other)
    assert not other.yields_to(slept)


def test_never_do_both_stop_and_of_two_that_know_each_other_one_does():
    every = list(itertools.product("xy", ["place"], (1.0, 2.0), (3, 4)))
    for left, right in itertools.product(every, repeat=2):
        one, two = Announcement(*left), Announcement(*right)
        assert (one.yields_to(two) != two.yields_to(one)) == (left != right)


@pytest.mark.parametrize("payload", [b"", b"{}", b"\xff", b'{"id": 1}', b"[" * 10_000])
def test_what_is_no_announcement_is_ignored_and_so_is_its_own(payload):
    own = Announcement.new()
    assert own.other(payload) is None
    assert own.other(msgspec.json.encode(own.at(3))) is None
