"""The names that a coordinator's file and its events have: a change of one is a decision.

Files and scripts outlive the code. Whoever changes a name below raises the file's version, or
tells those who read the events.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import get_args

import msgspec
import pytest

from fedglb.federation.coordinator.events import EventKind
from tests.federation.helpers.lossy_network import joined, updated

VERSION = 5
TABLES = {
    "facts": ["name", "value"],
    "members": [
        "name", "instance", "present", "model", "current", "joined", "seen", "software",
        "longest",
    ],
    "state": ["id", "arrays", "traffic"],
    "models": ["number", "models", "arrays"],
    "started_updates": ["number", "t", "asked_by", "ended"],
    "finished_updates": [
        "number", "at", "t", "asked_by", "clients", "samples", "rounds", "gradient_norm", "gap",
        "seconds", "bytes",
    ],
    "left_out": ["number", "client", "why"],
}  # fmt: skip
FACTS = ["agreement", "typical_samples"]
EVENTS = {
    "joined", "left", "rejected", "invalid", "waiting", "updating", "excluded", "abandoned",
    "updated", "limited", "samples", "restored", "duplicate_coordinator", "ignored", "ended",
    "schema", "frozen", "alarm", "memory",
}  # fmt: skip
#: Of one update, from the clients' joining to their model, and of a message that cannot be read.
TRAFFIC = {
    "Hello.up", "Admitted.down", "Heartbeat.up", "SyncRequest.up", "SumsRequest.down",
    "Covariance.up", "Evaluate.down", "Derivatives.up", "NewModel.down", "Malformed.up",
    "Rejected.down",
}  # fmt: skip
EVENT_FACTS = {
    "joined": {"client"},
    "updating": {"update", "asked_by"},
    "updated": {*TABLES["finished_updates"], "left_out", "scalars", "total_bytes"},
    "invalid": {"client"},
}


@pytest.fixture(scope="module")
def after_an_update(tmp_path_factory):
    """Return the path of a file after one update, and the events that led to it."""
    folder = tmp_path_factory.mktemp("stored")
    running = joined(folder)
    updated(running)
    running.run(1.0)  # heartbeats
    running.session.receive("b", b"garbage", running.now)
    running.session.stop()
    return folder / "coordinator.db", running.events


@pytest.fixture
def db(after_an_update):
    with contextlib.closing(sqlite3.connect(after_an_update[0])) as out:
        yield out


def test_tables_and_columns(db):
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {t: [c[1] for c in db.execute(f"PRAGMA table_info({t})")] for t in tables}
    assert found == TABLES
    assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert db.execute("PRAGMA application_id").fetchone()[0].to_bytes(4, "big") == b"coor"


def test_facts(db):
    assert [name for (name,) in db.execute("SELECT name FROM facts")] == FACTS


def test_traffic(db):
    (stored,) = db.execute("SELECT traffic FROM state").fetchone()
    assert set(msgspec.json.decode(stored)) == TRAFFIC


def test_events(after_an_update):
    assert set(get_args(EventKind)) == EVENTS
    assert {event.kind: set(event.facts) for event in after_an_update[1]} == EVENT_FACTS
