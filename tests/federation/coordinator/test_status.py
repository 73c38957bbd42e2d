"""The picture of a coordinator: what it says is what the coordinator's state and file say."""

from __future__ import annotations

import math
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation.coordinator.events import (
    MOST_EVENTS,
    MOST_UPDATES,
    CoordinatorEvent,
    History,
)
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.status import CoordinatorStatus, status_of, stored_status
from fedglb.federation.coordinator.store import (
    CoordinatorStore,
    MemberRecord,
    Traffic,
    UpdateFinished,
)
from fedglb.federation.errors import Unavailable
from fedglb.parts.confidence.base import ALL_CLIENTS, INDEPENDENT, ONE_ORDER
from fedglb.protocol.messages import Derivatives
from tests.federation.coordinator.test_alarms import NOW, update
from tests.federation.helpers.lossy_network import DIM, agreed, ask, harness, joined, updated


@dataclass(frozen=True)
class FakeBundle:
    """What a status needs to know of a bundle."""

    agreement: object
    federation: str = "demo"
    server: str = "tls://127.0.0.1:4222"
    folder: Path = Path()
    roster: object = None


def seen(running, **more) -> CoordinatorStatus:
    """What its status says now, after the way over JSON."""
    history = History(running.file.last_updates(MOST_UPDATES))
    for event in running.events:
        if event.kind != "updated":  # the file has it
            history.add(event, time.time())
    given = {"started": time.time(), **more}
    found = status_of(FakeBundle(running.agreement), running.session, history, {}, **given)
    return CoordinatorStatus.from_json(found.to_json())


def test_it_says_what_the_coordinators_state_says(running):
    updated(running)
    found, coordinator = seen(running), running.coordinator
    assert (found.running, found.connected, found.present) == (True, True, 3)
    assert [(m.name, m.present, m.samples, m.model) for m in found.members] == [
        (name, True, 4, 1) for name in "abc"
    ]
    assert sum(m.share for m in found.members) == pytest.approx(1.0)
    assert found.members[0].software == "test"
    assert (found.model, found.updating, found.waiting_for) == (1, None, ())
    totals, ledger = found.totals, coordinator.ledger
    assert (totals.updates, totals.rounds, totals.samples) == (1, coordinator.rounds, 12)
    assert (totals.messages, totals.scalars) == (ledger.messages, ledger.scalars)
    assert (totals.sent, totals.bytes) == (running.session.traffic.messages, found.totals.bytes)
    (update,) = found.updates
    assert (update.number, update.clients, update.samples, update.left_out) == (1, 3, 12, {})
    assert found.alarms == ()
    assert [event.kind for event in found.events][:3] == ["joined"] * 3


def test_an_update_in_progress_and_for_whom_it_waits(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives) and name == "c"
    ask(running)
    running.run(1.0)
    found = seen(running)
    assert (found.updating, found.waiting_for, found.model) == (1, ("c",), 0)


def test_who_was_left_out_and_why_is_kept_over_a_restart(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives) and name == "c"
    updated(running)
    running.crash()
    (update,) = seen(running).updates
    assert update.left_out == {"c": "no answer within 5 s"}
    assert (update.clients, update.samples) == (2, 8)
    members = {m.name: m for m in seen(running).members}
    assert (members["c"].left_out, members["c"].samples, members["c"].share) == (1, 0, 0.0)
    assert members["a"].joined is not None


def test_who_was_left_out_is_kept_of_the_last_thousand_updates(tmp_path):
    with harness(tmp_path / "long") as running:
        arrays = running.coordinator.to_arrays()
        done = UpdateFinished(1, 0.0, 1, None, 1, 1, 1, float("nan"), float("nan"), 0.1, 100)
        for number in (1, 2, 1001):
            finished = replace(done, number=number, left_out={"b": "late"})
            running.file.write_state(arrays, Traffic(), {}, finished)
        assert [(u.number, u.left_out) for u in running.file.last_updates(10)] == [
            (1, {}), (2, {"b": "late"}), (1001, {"b": "late"}),
        ]  # fmt: skip
        assert [u.number for u in running.file.last_updates(2)] == [2, 1001]


def test_a_client_that_left_was_last_seen_then(running):
    running.leave("b")
    running.run(1.0)
    found = {m.name: m for m in seen(running).members}
    assert (found["b"].present, found["a"].present) == (False, True)
    assert found["b"].seen is not None


def test_what_is_remembered_is_bounded():
    history = History()
    for k in range(2 * MOST_EVENTS):
        history.add(CoordinatorEvent("rejected", f"no {k}", {"client": "a"}), float(k))
    assert (len(history.events), history.counts["rejected"], len(history.latest)) == (
        MOST_EVENTS, 2 * MOST_EVENTS, 1,
    )  # fmt: skip


# -- without a coordinator -------------------------------------------------------------------------


def test_of_one_that_does_not_run_the_file_tells(tmp_path):
    running = joined(tmp_path)
    updated(running)
    live = seen(running)
    path, bundle = tmp_path / "coordinator.db", FakeBundle(running.agreement)
    with pytest.raises(Unavailable, match="is open"):
        stored_status(bundle, path, {})
    running.session.stop()
    live = seen(running)
    running.close()
    before = path.read_bytes()
    found = stored_status(bundle, path, {})
    assert path.read_bytes() == before
    assert (found.running, found.connected, found.started, found.present) == (False, False, None, 0)
    assert found.totals == live.totals
    assert [u.number for u in found.updates] == [1]
    assert [(m.name, m.samples, m.joined) for m in found.members] == [
        (m.name, m.samples, m.joined) for m in live.members
    ]
    assert [alarm.kind for alarm in found.alarms] == ["stopped"]


def test_of_one_that_was_killed_the_log_beside_the_file_is_read(running, tmp_path):
    """Its last writes are in the write-ahead log only."""
    updated(running)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("coordinator.db", "coordinator.db-wal"):
        shutil.copy(running.folder / name, copy / name)
    found = stored_status(FakeBundle(running.agreement), copy / "coordinator.db", {})
    assert (found.totals.updates, len(found.members)) == (1, 3)


def test_of_one_that_never_ran_there_is_nothing_and_no_file_is_made(tmp_path):
    found = stored_status(FakeBundle(agreed()), tmp_path / "state.db", {})
    assert (found.members, found.updates, found.totals.updates) == ((), (), 0)
    assert not (tmp_path / "state.db").exists()


def test_on_a_schedule_numbers_of_samples_are_unknown(tmp_path):
    agreement = agreed(algorithm=fg.fedglb_private(8, first=60.0, growth=2.0))
    store = CoordinatorStore(tmp_path / "state.db", agreement)
    store.write_member("a", MemberRecord("one", True, 1))
    session = CoordinatorSession(agreement, store, CoordinatorPolicy(), print)
    store.write_state(session.coordinator.to_arrays(), Traffic(), {}, update(1, NOW))
    store.close()
    found = stored_status(FakeBundle(agreement), tmp_path / "state.db", {})
    assert [(m.name, m.samples, m.share) for m in found.members] == [("a", None, None)]
    assert [(u.number, u.samples) for u in found.updates] == [(1, None)]
    assert found.totals.samples is None


def test_who_was_added_and_never_came_is_listed(running):
    """As the operator's folder or the roster has it; the server is no client."""
    updated(running)
    session, ends = running.session, {"d": NOW, "a": NOW, "the server": NOW}
    roster = SimpleNamespace(names=("a", "e"), digest=b"")
    for known, names in ((None, "abcd"), (roster, "abcde")):
        bundle = FakeBundle(running.agreement, roster=known)
        found = status_of(bundle, session, History(), ends, started=NOW)
        assert [m.name for m in found.members] == list(names)
        assert [m.present for m in found.members] == [name in "abc" for name in names]
        assert (found.members[3].joined, found.members[3].seen) == (None, None)
        assert found.members[3].samples == 0


@pytest.mark.parametrize(
    ("algorithm", "caveats"),
    [
        (fg.fedglb_mix(1.0), (ONE_ORDER,)),
        (fg.fedglb_iterate(1.0), (INDEPENDENT, ALL_CLIENTS)),
        (fg.dislinucb(1.0), (INDEPENDENT, ALL_CLIENTS)),
        (
            fg.fedglb_private(8, first=60.0, growth=2.0, confidence=fg.OnePassRadius()),
            (f"without privacy {INDEPENDENT}",),
        ),
    ],
)
def test_it_says_what_the_proofs_need_in_a_federation(tmp_path, algorithm, caveats):
    """In a simulation it holds by construction, and nothing is said."""
    found = stored_status(FakeBundle(agreed(algorithm=algorithm)), tmp_path / "state.db", {})
    simulated = algorithm.caveats(fg.Problem(dim=DIM))
    assert not set(simulated) & set(caveats)
    assert found.caveats == simulated + caveats
    assert f"{2.0 * math.log(100 * 101):.1f} at p = 100" in ONE_ORDER


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "state.db"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(InvalidInput, match="a coordinator can use"):
        stored_status(FakeBundle(agreed()), path, {})
