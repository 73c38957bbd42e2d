"""The coordinator's file: its state after the last update, and the update in progress.

Of an update in progress it has only the number, the step and the requesting client: after a crash
the update starts again under the next number, so that answers to the old one cannot be mistaken
for answers to the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

import msgspec

from fedglb.errors import InvalidInput
from fedglb.federation.agreement import ROSTER, Agreement
from fedglb.federation.frozen import KEPT
from fedglb.federation.sqlite import (
    check_pages,
    close,
    connect,
    fact,
    named_damage,
    or_nan,
    pack,
    read_copy,
    set_fact,
    transaction,
    unpack,
)
from fedglb.model import SharedModel
from fedglb.protocol.persistence import Arrays, from_arrays, nested

# The names of tables, columns and facts are stored: another name is another version.
_VERSION = 5
_READER = 2.0  # seconds to wait for a reader that looks at the file
_SCHEMA = """
CREATE TABLE facts(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE members(
    name TEXT PRIMARY KEY, instance TEXT NOT NULL, present INTEGER NOT NULL,
    model INTEGER NOT NULL, current INTEGER NOT NULL,
    joined REAL, seen REAL, software TEXT NOT NULL DEFAULT '',
    longest REAL NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE state(
    id INTEGER PRIMARY KEY CHECK (id = 1), arrays BLOB NOT NULL, traffic BLOB NOT NULL);
CREATE TABLE models(number INTEGER PRIMARY KEY, models INTEGER NOT NULL, arrays BLOB NOT NULL);
CREATE TABLE started_updates(
    number INTEGER PRIMARY KEY, t INTEGER NOT NULL, asked_by TEXT, ended INTEGER NOT NULL);
CREATE TABLE finished_updates(
    number INTEGER PRIMARY KEY, at REAL NOT NULL, t INTEGER NOT NULL, asked_by TEXT,
    clients INTEGER NOT NULL, samples INTEGER NOT NULL, rounds INTEGER NOT NULL,
    gradient_norm REAL, gap REAL, seconds REAL NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE left_out(
    number INTEGER NOT NULL, client TEXT NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (number, client)) WITHOUT ROWID
"""
_REMEMBERED = 1000  # updates with their left-out clients: these make the file grow
_AGREEMENT = "agreement"
_MODEL = "model"  # in the state's arrays
_TYPICAL = "typical_samples"  # of a client: see `WeightRule`
# Of a federation whose updates are on a schedule: its start, a Unix time, and the number of
# scheduled times done.
_OLD_SCHEMAS = "old_schemas"  # the last update of the schemas before this one
_START, _DONE = "schedule_start", "schedule_done"
_RELEASED = "released"  # the last one-pass update with sums of each client's file, as JSON


@dataclass
class MemberRecord:
    """The record of a client; times are Unix times."""

    instance: str  # the identity of its file
    present: bool
    model: int  # the update of the last model sent to it
    current: bool = True  # whether the last model may cover samples of that file
    joined: float | None = None  # when it was first admitted
    seen: float | None = None  # last message before it left, or before the last update or stop
    software: str = ""  # as of its last hello
    longest: float = 0.0  # seconds of its longest absence, after which it came back


@dataclass(frozen=True)
class UpdateStarted:
    """An update that was started."""

    number: int
    t: int
    asked_by: str | None


@dataclass(frozen=True)
class UpdateFinished:
    """An update that produced a model.

    `gap` is the proven bound on F(θ) − min F, `bytes` its traffic, `at` a Unix time, `left_out` the
    present clients that are not in the model, with reasons.
    """

    number: int
    at: float
    t: int
    asked_by: str | None
    clients: int
    samples: int
    rounds: int
    gradient_norm: float
    gap: float
    seconds: float
    bytes: int
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Traffic:
    """Messages and bytes per message type and direction ("up": from a client, or "down").

    The protocol's `Ledger` counts every message of an update once, as the simulator does; this
    counts every message sent or received, heartbeats included, in bytes of payload.
    """

    entries: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, kind: str, direction: str, size: int) -> None:
        """Count one message."""
        key = f"{kind}.{direction}"  # stored, as are its two halves
        messages, total = self.entries.get(key, (0, 0))
        self.entries[key] = (messages + 1, total + size)

    @property
    def messages(self) -> int:
        """All messages."""
        return sum(messages for messages, _ in self.entries.values())

    @property
    def size(self) -> int:
        """All bytes."""
        return sum(total for _, total in self.entries.values())


class CoordinatorStore:
    """Reads and writes the coordinator's file."""

    def __init__(self, path: str | Path, agreement: Agreement) -> None:
        self.path = Path(path)
        # `federation status` holds the lock for an instant, to see whether a coordinator runs
        self._db = connect(path, _SCHEMA, "coordinator", _VERSION, wait=_READER)
        try:
            self._db.execute("PRAGMA synchronous=FULL")  # agents' models must not get lost
            with named_damage("coordinator", path):
                check_pages(self._db)
                self._check_agreement(Path(path), agreement)
        except BaseException:
            close(self._db)
            raise

    @classmethod
    def copy_of(cls, path: str | Path) -> CoordinatorStore:
        """Return a copy in memory of a file that no coordinator has open; nothing is changed.

        It is empty if the file does not exist. Raises the same errors as opening the file.
        """
        self = cls.__new__(cls)
        self._db = read_copy(path, _SCHEMA, "coordinator", _VERSION)
        return self

    def _check_agreement(self, path: Path, agreement: Agreement) -> None:
        """Write the agreement to a new file; an older file must have the same.

        But for the roster, which changes with the members, and agents hold the coordinator to
        theirs; and for the schema of records, if this one is newer.
        """
        known = fact(self._db, _AGREEMENT)
        if known is not None:
            facts = msgspec.json.decode(known, type=dict[str, str])
            if agreement.is_older(facts):
                self.change_schema(agreement)
                return
            differences = agreement.compare(facts)
            if any(found.name != ROSTER for found in differences):
                allowed = f"a file of this federation ({'; '.join(map(str, differences))})"
                raise InvalidInput("path", str(path), allowed)
            if not differences:
                return
        set_fact(self._db, _AGREEMENT, msgspec.json.encode(agreement.facts()))

    def change_schema(self, agreement: Agreement) -> None:
        """Replace the schema of records: the model is gone, numbers of updates go on."""
        with transaction(self._db):
            set_fact(self._db, _AGREEMENT, msgspec.json.encode(agreement.facts()))
            self._db.execute("UPDATE state SET arrays = x''")
            self._db.execute("DELETE FROM models")
            self._db.execute("UPDATE started_updates SET ended = 1")
            number, _ = self.last_started()
            set_fact(self._db, _OLD_SCHEMAS, number)

    def last_of_old_schemas(self) -> int:
        """Return the last update of the schemas before this one, 0 if there is none."""
        return int(fact(self._db, _OLD_SCHEMAS) or 0)

    def members(self) -> dict[str, MemberRecord]:
        """Return all clients ever admitted."""
        rows = self._db.execute(
            "SELECT name, instance, present, model, current, joined, seen, software, longest "
            "FROM members"
        )
        return {r[0]: MemberRecord(r[1], bool(r[2]), r[3], bool(r[4]), *r[5:]) for r in rows}

    def write_member(self, name: str, record: MemberRecord) -> None:
        """Write the record of a client."""
        places = ", ".join("?" * 9)
        self._db.execute(f"REPLACE INTO members VALUES ({places})", (name, *astuple(record)))

    def schedule(self) -> tuple[float | None, int]:
        """Return the schedule's start (None: not yet) and the number of its times done."""
        return fact(self._db, _START), int(fact(self._db, _DONE) or 0)

    def start_schedule(self, now: float) -> None:
        """Write the schedule's start."""
        set_fact(self._db, _START, now)

    def start_update(self, started: UpdateStarted, done: int | None = None) -> None:
        """Write an update's start, before any message, and the schedule's progress."""
        with transaction(self._db):
            self._db.execute("INSERT INTO started_updates VALUES (?, ?, ?, 0)", astuple(started))
            if done is not None:
                set_fact(self._db, _DONE, done)

    def skip_updates(self, number: int) -> None:
        """Mark all updates up to this one as ended, after the loss of their file."""
        self._db.execute("INSERT INTO started_updates VALUES (?, 0, NULL, 1)", (number,))

    def end_update(self, number: int) -> None:
        """Mark an update as ended, with a model or without."""
        self._db.execute("UPDATE started_updates SET ended = 1 WHERE number = ?", (number,))

    def write_state(
        self,
        arrays: Arrays,
        traffic: Traffic,
        members: Mapping[str, MemberRecord],
        finished: UpdateFinished | None = None,
        typical: int = 0,
        released: Mapping[str, int] | None = None,
        frozen: int = 0,
    ) -> None:
        """Write the coordinator's state and the update that led to it, if any.

        The models of the last updates are kept, and that of update `frozen`.
        """
        with transaction(self._db):
            if released:
                self.write_released(released)
            if typical:
                set_fact(self._db, _TYPICAL, typical)
            counts = msgspec.json.encode(traffic.entries)
            self._db.execute("REPLACE INTO state VALUES (1, ?, ?)", (pack(arrays), counts))
            self._db.executemany(
                "UPDATE members SET model = ?, current = ?, seen = ? WHERE name = ?",
                [(m.model, m.current, m.seen, name) for name, m in members.items()],
            )
            if finished is not None:
                self._db.execute("DELETE FROM started_updates WHERE number < ?", (finished.number,))
                self.end_update(finished.number)
                self._keep_model(finished.number, arrays, frozen)
                *row, left_out = astuple(finished)
                places = ", ".join("?" * len(row))
                self._db.execute(f"INSERT INTO finished_updates VALUES ({places})", row)
                self._db.executemany(
                    "INSERT INTO left_out VALUES (?, ?, ?)",
                    [(finished.number, client, why) for client, why in left_out.items()],
                )
                oldest = finished.number - _REMEMBERED
                self._db.execute("DELETE FROM left_out WHERE number <= ?", (oldest,))

    def _keep_model(self, number: int, arrays: Arrays, frozen: int) -> None:
        row = (number, int(arrays["syncs"]), pack(nested(arrays, _MODEL)))
        self._db.execute("INSERT INTO models VALUES (?, ?, ?)", row)
        self._db.execute(
            "DELETE FROM models WHERE number <> ? AND number NOT IN "
            "(SELECT number FROM models ORDER BY number DESC LIMIT ?)",
            (frozen, KEPT),
        )

    def kept_models(self) -> list[int]:
        """Return the updates whose models are kept."""
        rows = self._db.execute("SELECT number FROM models ORDER BY number")
        return [number for (number,) in rows]

    def kept_model(self, update: int) -> tuple[SharedModel, int] | None:
        """Return the model of an update, and how many models there were then; None: not kept."""
        row = self._db.execute(
            "SELECT arrays, models FROM models WHERE number = ?", (update,)
        ).fetchone()
        return None if row is None else (from_arrays(SharedModel, unpack(row[0])), row[1])

    def write_released(self, released: Mapping[str, int]) -> None:
        """Write the last one-pass update with sums of each client's file."""
        set_fact(self._db, _RELEASED, msgspec.json.encode(dict(released)))

    def released(self) -> dict[str, int]:
        """Return the last one-pass update with sums of each client's file."""
        known = fact(self._db, _RELEASED)
        return {} if known is None else msgspec.json.decode(known, type=dict[str, int])

    def state(self) -> tuple[Arrays, Traffic] | None:
        """Return the coordinator's arrays and its traffic as of the last `write_state`."""
        row = self._db.execute("SELECT arrays, traffic FROM state").fetchone()
        if row is None or not row[0]:  # none yet, or none since the schema changed
            return None
        counts = msgspec.json.decode(row[1], type=dict[str, tuple[int, int]])
        return unpack(row[0]), Traffic(counts)

    def typical_samples(self) -> int:
        """Return the typical number of samples per client, as of the last `write_state`."""
        return int(fact(self._db, _TYPICAL) or 0)

    def last_started(self) -> tuple[int, UpdateStarted | None]:
        """Return the highest number of an update, and that update if it has not ended."""
        row = self._db.execute(
            "SELECT number, t, asked_by, ended FROM started_updates ORDER BY number DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return 0, None
        return row[0], None if row[3] else UpdateStarted(*row[:3])

    def last_updates(self, most: int) -> list[UpdateFinished]:
        """Return the last finished updates, oldest first, with the clients left out."""
        rows = self._db.execute(
            "SELECT * FROM finished_updates ORDER BY number DESC LIMIT ?", (most,)
        ).fetchall()[::-1]
        missing: dict[int, dict[str, str]] = {row[0]: {} for row in rows}
        if rows:
            excluded = self._db.execute("SELECT * FROM left_out WHERE number >= ?", (rows[0][0],))
            for number, client, why in excluded:
                missing.get(number, {})[client] = why
        found = [replace(UpdateFinished(*row), left_out=missing[row[0]]) for row in rows]
        return [replace(u, gradient_norm=or_nan(u.gradient_norm), gap=or_nan(u.gap)) for u in found]

    def close(self) -> None:
        """Close the file."""
        close(self._db)
