"""Two coordinators of one federation, as processes: one of them stops, and says why."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from fedglb.federation.coordinator.duplicate_coordinator import Presence
from fedglb.federation.names import COORDINATOR
from tests.federation.helpers.in_process import Serving, opened
from tests.federation.helpers.json_processes import coordinator
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
        assert "another coordinator of demo is there" in words
        assert "and this one stops: it is the younger one, or knows of fewer updates" in words
        assert "joined" not in second.stdout  # it said nothing to clients
        assert first.texts("duplicate_coordinator")[0].startswith(
            "another coordinator of this federation is there"
        )
        agent.request_update()
        assert agent.wait_for_model(1, PATIENCE)  # the first goes on
        assert not first.texts("rejected")


@pytest.mark.slow
def test_nobody_stops_because_of_a_predecessor_that_was_killed(shared, tmp_path):
    state = tmp_path / "state.db"
    with opened(shared, tmp_path, "a", 5):
        for _ in range(3):
            with coordinator(shared, state) as head:
                head.hear(lambda line: line["event"] == "joined")
                head.process.kill()
                head.process.wait()
        with coordinator(shared, state) as head:
            head.hear(lambda line: line["event"] == "joined")
            assert head.process.poll() is None


def test_one_that_slept_while_another_took_its_place_stops():
    slept, other = Presence(started=1.0), Presence(started=2.0)
    assert slept.yields_to(slept.read(other.announce(update=8)), update=5)
    assert not other.yields_to(other.read(slept.announce(update=5)), update=8)


def test_never_do_both_stop_and_of_two_that_know_each_other_one_does():
    ids = ("x", "y")
    for left, right in itertools.product(itertools.product((1.0, 2.0), (3, 4), ids), repeat=2):
        if left[2] == right[2]:
            continue
        one, two = Presence(left[0], left[2], "here"), Presence(right[0], right[2], "there")
        first = one.yields_to(one.read(two.announce(right[1])), left[1])
        second = two.yields_to(two.read(one.announce(left[1])), right[1])
        assert first != second


@pytest.mark.parametrize("payload", [b"", b"{}", b"\xff", b'{"id": 1}', b"[" * 10_000])
def test_what_is_no_announcement_is_ignored(payload):
    assert Presence().read(payload) is None
