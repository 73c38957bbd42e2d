"""Two coordinators of one federation, as processes: one of them stops, and says why."""

from __future__ import annotations

import itertools
import subprocess
import sys

import msgspec
import pytest

from fedglb.federation.coordinator.duplicate_coordinator import Announcement
from fedglb.federation.names import COORDINATOR
from tests.federation.helpers.in_process import Serving, opened
from tests.federation.helpers.nats_federation import PATIENCE

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
