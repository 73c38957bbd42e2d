"""Which sessions are admitted, and which have ended."""

from __future__ import annotations

from fedglb.federation.coordinator.members import Members
from fedglb.federation.coordinator.store import MemberRecord
from fedglb.federation.wire.messages import Hello
from tests.federation.helpers.lossy_network import agreed

AGREEMENT = agreed(max_clients=2)
KNOWN = {"a": MemberRecord("file", True, 0)}


def hello(instance: str = "file", **facts: str) -> Hello:
    return Hello(instance, 0, "test", AGREEMENT.facts() | facts)


def some_members() -> Members:
    out = Members(AGREEMENT, absent_after=10.0)
    out.admit("a", "one", "file", now=0.0)
    return out


def test_a_restart_replaces_the_first_session_at_once_and_for_good():
    members = some_members()
    assert members.rejection_reason("a", "two", hello(), KNOWN, 1.0) is None
    members.admit("a", "two", "file", 1.0)
    assert members.session("a") == "two"
    assert members.touch("a", "two", 1.0)
    assert not members.touch("a", "one", 1.0)
    assert members.has_ended("a", "one")
    assert "taken the place" in members.rejection_reason("a", "one", hello(), KNOWN, 99.0)


def test_another_file_waits_until_the_first_has_been_silent_long_enough():
    members = some_members()
    assert "another file" in members.rejection_reason("a", "two", hello("other"), KNOWN, 10.0)
    assert members.rejection_reason("a", "two", hello("other"), KNOWN, 10.001) is None
    assert members.touch("a", "one", 5.0)
    assert "another file" in members.rejection_reason("a", "two", hello("other"), KNOWN, 15.0)


def test_a_silent_session_may_come_back():
    members = some_members()
    assert members.silent(10.0) == []
    assert members.silent(10.001) == ["a"]
    members.drop("a")
    assert "a" not in members
    assert len(members) == 0
    assert members.session("a") == ""
    assert not members.has_ended("a", "one")
    assert members.rejection_reason("a", "one", hello(), KNOWN, 20.0) is None
    members.admit("a", "one", "file", 20.0)
    assert members.touch("a", "one", 21.0)


def test_a_silent_session_does_not_come_back_once_there_is_another():
    members = some_members()
    members.drop("a")
    members.admit("a", "two", "file", 20.0)
    assert members.has_ended("a", "one")
    assert members.rejection_reason("a", "one", hello(), KNOWN, 21.0) is not None


def test_goodbye_ends_a_session_for_good():
    members = some_members()
    members.end("a")
    assert members.has_ended("a", "one")
    assert "a" not in members
    members.end("a")  # harmless
    members.end("b")


def test_absence_clocks_restart_after_a_lost_connection():
    members = some_members()
    members.touch_all(100.0)
    assert members.silent(110.0) == []
    assert members.silent(110.1) == ["a"]


def test_rejection_reasons_name_the_fact_and_the_number_of_clients():
    members = some_members()
    differs = members.rejection_reason("a", "one", hello(**{"problem.dim": "7"}), KNOWN, 1.0)
    assert "problem.dim: '7', the federation has '2'" in differs
    full = {**KNOWN, "b": MemberRecord("other", False, 0)}
    assert "max_clients is 2" in members.rejection_reason("c", "s", hello(), full, 1.0)
    assert members.rejection_reason("b", "s", hello("other"), full, 1.0) is None


def test_the_newest_ended_sessions_are_remembered():
    members = some_members()
    for k in range(70):
        members.admit("a", f"s{k}", "file", 1.0)
    assert members.has_ended("a", "s68")
    assert not members.has_ended("a", "one")
