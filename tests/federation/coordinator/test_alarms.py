"""The conditions of a coordinator's alarms: when each holds, and when it does not any more."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from fedglb.federation import alarms as shared
from fedglb.federation.coordinator.alarms import KINDS, alarms_of, current_alarms
from fedglb.federation.coordinator.events import CoordinatorEvent, History
from fedglb.federation.coordinator.service import Service
from fedglb.federation.coordinator.store import UpdateFinished
from fedglb.protocol.messages import BatchSums, Derivatives
from tests.federation.helpers.lossy_network import ask, harness, updated
from tests.federation.test_private import FIRST, private

NOW = 1.8e9
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def update(number: int, at: float, **left_out: str) -> UpdateFinished:
    return UpdateFinished(number, at, 1, None, 2, 5, 1, 0.0, 0.0, 0.1, 10, left_out)


def standing(*events: tuple[float, str, str | None], updates=(), ends=(), **more) -> list[str]:
    """The alarms after these events: seconds ago, what, about whom."""
    history = History(updates)
    for ago, kind, client in events:
        facts = {} if client is None else {"client": client}
        history.add(CoordinatorEvent(kind, kind, facts), NOW - ago)  # type: ignore[arg-type]
    given = {"started": NOW - DAY, "lost": None, "present": 2, **more}
    return [alarm.kind for alarm in alarms_of(history, dict(ends), NOW, **given)]


def test_how_long_an_alarm_stands():
    assert standing() == []
    assert standing(started=None) == ["stopped"]
    assert standing(lost=NOW - 30.0) == ["disconnected"]
    assert standing(lost=NOW - 5.0) == []  # it has just started, or connects again
    # a client that is rejected, until it is admitted
    assert standing((60, "rejected", "a")) == ["rejected"]
    assert standing((60, "rejected", "a"), (0, "joined", "a")) == []
    assert standing((60, "rejected", "a"), (0, "joined", "b")) == ["rejected"]
    assert standing((3700, "rejected", "a")) == []
    # one that comes with a copied certificate while its owner is there
    assert standing((90, "joined", "a"), (0, "rejected", "a")) == ["rejected"]
    # an update that was abandoned, until one leads to a model
    assert standing((60, "abandoned", None)) == ["abandoned"]
    assert standing((60, "abandoned", None), updates=[update(2, NOW - 5.0)]) == []
    # too few clients, and invalid messages
    assert standing((60, "waiting", "a"), (60, "invalid", "b")) == ["waiting", "invalid"]
    assert standing((400, "waiting", "a")) == []
    # a client that is left out again and again
    updates = [update(k, NOW - 100.0 + k, **({"b": "late"} if k < 3 else {})) for k in range(10)]
    assert standing(updates=updates) == ["left_out"]
    assert standing(updates=updates[1:]) == []


def test_certificates_that_end_soon():
    ends = {"a": NOW + 29 * DAY, "b": NOW + 31 * DAY, "the server": NOW - 1.0}
    server, client = alarms_of(History(), ends, NOW, started=NOW, lost=None, present=1)
    assert (server.kind, server.client, server.urgent) == ("certificate", "the server", True)
    assert (client.kind, client.client, client.urgent) == ("certificate", "a", False)
    assert re.fullmatch(
        r"the server's certificate expired on \S+: fedglb federation renew FOLDER server",
        server.text,
    )
    assert "certificate expires on" in client.text


def test_nobody_is_present():
    gone = {"a": (6 * MINUTE, DAY), "b": (2 * HOUR, DAY)}
    assert standing(present=0, absences=gone) == ["nobody"]
    assert standing(present=1, absences=gone) == []
    assert standing(present=0, absences=gone | {"c": (4 * MINUTE, DAY)}) == []
    assert standing(present=0, absences=gone, started=NOW - 4 * MINUTE) == []  # they come back
    assert standing(present=0, absences=gone, lost=NOW - 5.0) == []  # who is there is not known
    assert standing(present=0) == []  # a new federation


@pytest.mark.parametrize(
    ("away", "longest", "alarms"),
    [
        (0.99 * HOUR, 0.0, []),
        (1.01 * HOUR, 0.0, ["away"]),  # never away before
        (1.01 * HOUR, 60.0, ["away"]),
        (15.0 * HOUR, 14.0 * HOUR, []),  # nights are not all of one length
        (18.0 * HOUR, 14.0 * HOUR, ["away"]),
        (31 * DAY, 14.0 * HOUR, []),  # gone for good
    ],
)
def test_a_client_is_away_for_longer_than_ever(away, longest, alarms):
    assert standing(absences={"a": (away, longest), "b": (0.0, 0.0)}) == alarms


def test_a_revoked_client_is_not_missed():
    gone = {"a": (2 * HOUR, 0.0)}
    far = NOW + 100 * DAY
    assert standing(absences=gone, ends={"the coordinator": far}) == ["away"]
    assert standing(absences=gone, ends={"the server": far, "a": far}) == ["away"]
    assert standing(absences=gone, ends={"the server": far, "b": far}) == []


def test_an_update_is_overdue():
    assert standing(late=NOW - 1.0) == ["overdue"]
    assert standing(late=NOW + 1.0) == []


def test_each_kind_has_a_line_in_the_documentation():
    rows = Path("docs/operate.md").read_text(encoding="utf-8").splitlines()
    said = {name for row in rows if row[:1] == "|" for name in re.findall("`([a-z_]+)`", row[:60])}
    assert set(KINDS) <= said


# -- what the session knows ------------------------------------------------------------------------


def kinds(running, **more) -> list[str]:
    given = {"started": -DAY, "lost": None, **more}
    found = current_alarms(running.session, History(), {}, running.now, **given)
    return [alarm.kind for alarm in found]


def pass_by(running, seconds: float) -> None:
    running.now += seconds
    running.run(1.0)


def test_absences_are_measured_and_the_longest_is_kept_over_a_restart(running):
    running.nodes["b"].close()
    running.until(lambda: "b" not in running.session.members)
    pass_by(running, 2 * HOUR)
    assert running.session.absence("b") == pytest.approx(2 * HOUR, abs=60.0)
    assert running.session.absence("a") == 0.0
    assert kinds(running) == ["away"]
    running.come_back("b")
    running.run(1.0)
    assert (kinds(running), running.session.absence("b")) == ([], 0.0)
    running.crash()
    assert running.session.records["b"].longest == pytest.approx(2 * HOUR, abs=60.0)
    assert running.session.records["a"].longest == 0.0


def test_a_client_that_is_away_stays_away_over_a_restart(running):
    running.nodes["b"].close()
    running.until(lambda: "b" not in running.session.members)
    running.stop_for(2 * HOUR)
    assert running.session.absence("b") == pytest.approx(2 * HOUR, abs=60.0)


def test_nobody_is_away_because_the_coordinator_was(running):
    running.session.stop()  # the file says when clients were seen
    running.stop_for(3 * DAY)
    assert [running.session.absence(name) for name in "abc"] == [0.0] * 3
    running.run(1.0)
    assert running.everybody_here()
    assert all(record.longest == 0.0 for record in running.session.records.values())


def test_everybody_gone(running):
    for name in "abc":
        running.nodes[name].close()
    running.until(lambda: not len(running.session.members))
    assert kinds(running) == []
    pass_by(running, 6 * MINUTE)
    assert kinds(running) == ["nobody"]
    running.come_back("c")
    running.run(1.0)
    assert kinds(running) == []


def test_a_request_that_stands_without_an_update_is_overdue(running):
    """The policy has a time limit of 5 s per answer, so 150 s for an update."""
    for name in "bc":
        running.nodes[name].close()
    running.until(lambda: len(running.session.members) == 1)
    began = running.now
    ask(running)
    running.run(140.0)
    assert kinds(running) == []
    running.run(20.0)
    assert running.session.due_since() == pytest.approx(began, abs=1.0)
    assert kinds(running) == ["overdue"]
    running.come_back("b")
    running.until(lambda: running.coordinator.finished == 1)
    assert running.session.due_since() is None
    assert kinds(running) == []


def test_a_request_whose_client_has_left_does_not_stand(running):
    for name in "bc":
        running.nodes[name].close()
    running.until(lambda: len(running.session.members) == 1)
    ask(running)
    running.run(1.0)
    assert running.session.due_since() is not None
    running.leave("a")
    running.run(1.0)
    pass_by(running, 11 * MINUTE)
    assert running.session.due_since() is None


def test_an_update_in_progress_is_due_until_it_finishes(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives)
    ask(running)
    running.run(1.0)
    running.session._wall = lambda: running.now + 2 * HOUR
    assert running.session.due_since() == pytest.approx(running.now, abs=2.0)
    running.lost = lambda *_: False
    running.until(lambda: running.shared(1))
    assert running.session.due_since() is None


def test_no_update_is_due_after_a_restart_or_in_a_quiet_federation(running):
    assert running.session.due_since() is None
    updated(running)
    running.crash()
    running.run(20.0)
    assert running.session.due_since() is None
    pass_by(running, 3 * DAY)
    assert kinds(running) == []


def test_a_scheduled_time_that_passes_without_an_update_is_overdue(tmp_path):
    with harness(tmp_path, agreement=private()) as running:
        running.until(running.everybody_here)
        running.feed()
        assert running.session.due_since() is None
        running.lost = lambda way, name, m: isinstance(m, BatchSums)
        running.until(lambda: running.now > FIRST + 1.0)
        assert running.session.due_since() == FIRST  # it has begun, and no sum arrives
        running.lost = lambda *_: False
        running.until(lambda: running.shared(1))
        assert running.session.due_since() is None


def test_a_scheduled_time_of_a_downtime_was_due_then(tmp_path):
    with harness(tmp_path, agreement=private()) as running:
        running.until(running.everybody_here)
        running.lost = lambda *_: True
        running.stop_for(HOUR)
        running.session._awaited = set()  # the time for clients to come back is over
        running.run(1.0)
        assert not len(running.session.members)
        assert running.session.due_since() == FIRST


# -- the service -----------------------------------------------------------------------------------


def test_the_service_tells_of_an_alarm_once_at_its_start_and_once_at_its_end(join, monkeypatch):
    from tests.federation.coordinator.test_status import FakeBundle

    class Bundle(FakeBundle):
        sum_rules = agreement_file = client = lambda self: None

    events, free, now = [], [10**6], [NOW]
    running = join()
    service = Service(Bundle(running.agreement), running.file, running.policy, events.append)
    service._is_connected = lambda: True
    monkeypatch.setattr(shared.shutil, "disk_usage", lambda path: (10**12, 0, free[0]))
    monkeypatch.setattr("fedglb.federation.coordinator.service.time.time", lambda: now[0])
    service._began = NOW - 60.0

    def told() -> list[tuple[str, str]]:
        out = [(e.facts["kind"], e.facts["state"]) for e in events if e.kind == "alarm"]
        events.clear()
        return out

    for _ in range(3):
        assert [alarm.kind for alarm in service.status().alarms] == ["disk"]
        now[0] += 5.0
    assert told() == [("disk", "start")]
    free[0] = 11 * 10**8  # more than where it starts, less than where it ends
    now[0] += 61.0
    assert [alarm.kind for alarm in service.status().alarms] == ["disk"]
    free[0] = 10**10
    now[0] += 61.0
    assert service.status().alarms == ()
    assert told() == [("disk", "end")]
    assert [event.kind for event in service.status().events] == ["alarm", "alarm"]
    # it looks by itself
    free[0] = 0
    monkeypatch.setattr("fedglb.federation.coordinator.service.LOOK_EVERY", 0.0)

    async def scene():
        looking = asyncio.create_task(service._look_for_alarms())
        async with asyncio.timeout(60.0):
            while not events:
                await asyncio.sleep(0)
        looking.cancel()

    asyncio.run(scene())
    assert told() == [("disk", "start")]
