"""An agent's file: its decisions, its samples, and the state to resume after a crash.

A sample is a decision with a reward. Sequence numbers count rewards in order of arrival, which is
the order of learning. The client's state is not written after every reward: it is the last adopted
model with the later samples replayed on top.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from fedglb.errors import InvalidInput, one_of
from fedglb.federation.agent.activity import Activity, recent_activity
from fedglb.federation.agent.comparison import Comparison, compared
from fedglb.federation.agent.decisions import Decision
from fedglb.federation.agent.log_reader import LogEnd, LogReader
from fedglb.federation.agent.update_store import (
    STORED,
    AdoptedModel,
    SampleNumbers,
    UpdateStore,
    as_bytes,
    as_floats,
)
from fedglb.federation.agreement import ROSTER
from fedglb.federation.sqlite import (
    backup,
    close,
    connect,
    fact,
    on_disk,
    or_nan,
    pack,
    roll_back,
    set_fact,
    transaction,
    unpack,
)
from fedglb.protocol.persistence import Arrays
from fedglb.samples import Samples
from fedglb.typing import FloatArray, IntArray

#: What an acknowledged reward survives: the death of the process, or a power cut too.
Durability = Literal["process", "power"]
#: The outcome of a decision; unseen: an item of a ranking below the last click; absorbed: a sample
#: without a decision; unknown: no such id.
Outcome = Literal["observed", "pending", "expired", "unseen", "absorbed", "unknown"]

# Tables, columns and the names of facts are stored: changing one requires a new version, and then
# `connect` refuses files of another version.
_VERSION = 6
# decisions: x has the arm's features and, where arms have effects, its name. A propensity and its
# error are NULL where they are not a number. A row with no arms was absorbed. Decisions with an
# idempotency key have a digest of it behind the first eight letters of their prefix. `room` is for
# the reward: a row that grows would split its page, where SQLite leaves copies that outlive it.
# `record` has the records of the decision as JSON: context, arm, runner-up. x is encoded by the
# schema of number `revision`: rows of an older one are encoded again from their record. `subject`
# is a keyed digest of whom it is about. `proposed` is the arm that the agent would have played,
# where another system decided. `defaulted` is 1 while the reward is the default one. A row without
# x that is `rewarded` is an item of a ranking that nobody saw.
# prefetched: decisions that have not happened yet. late: rewards that came after the default one,
# until they are learned in its place; NULL: the sample goes, as nobody saw the arm.
# releases: what was released in one-pass updates. A batch has the samples after `first_sequence` up
# to `last_sequence`, taken at `theta`; `numbers` is what was sent, as long as it may be requested
# again. Arrays are NULL where nothing needs them any more.
# models: the newest is the adopted one. One may go back to those that are `kept`: not to one of
# another schema (its base is NULL), nor to one fitted with samples that were forgotten since.
# frozen: the models to choose with in place of the newest; the operator's comes before the agent's.
# secure_sum: where the agent stands in secure sums, with the release that it has masked and not
# consented to yet.
_DECISION = """
    number INTEGER PRIMARY KEY, prefix TEXT NOT NULL, made REAL NOT NULL, t INTEGER,
    arms INTEGER NOT NULL, arm INTEGER NOT NULL, arm_id, x BLOB, score REAL NOT NULL,
    width REAL NOT NULL, propensity REAL, model INTEGER NOT NULL,
    sequence INTEGER, step INTEGER, reward REAL, rewarded REAL, propensity_error REAL, room BLOB,
    revision INTEGER NOT NULL, record BLOB, subject BLOB, proposed INTEGER, defaulted INTEGER"""
_SCHEMA = f"""
CREATE TABLE facts(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE decisions({_DECISION});
CREATE TABLE prefetched({_DECISION});
CREATE TABLE late(number INTEGER PRIMARY KEY, reward REAL, at REAL NOT NULL);
CREATE TABLE snapshots(
    number INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, withdrawn INTEGER NOT NULL);
CREATE TABLE models(
    number INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, base BLOB, kept INTEGER NOT NULL);
CREATE TABLE frozen(
    by TEXT PRIMARY KEY, since REAL NOT NULL, number INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL, base BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE offers(number INTEGER PRIMARY KEY, arms BLOB NOT NULL, records BLOB);
CREATE TABLE absorbed(
    key TEXT PRIMARY KEY, samples INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE UNIQUE INDEX samples ON decisions(sequence) WHERE sequence IS NOT NULL;
CREATE INDEX waiting ON decisions(made) WHERE sequence IS NULL AND x IS NOT NULL;
CREATE INDEX subjects ON decisions(subject) WHERE subject IS NOT NULL;
CREATE INDEX prefetched_subjects ON prefetched(subject) WHERE subject IS NOT NULL;
CREATE INDEX compared ON decisions(number) WHERE proposed IS NOT NULL;
CREATE INDEX decisions_by_key ON decisions(substr(prefix, 9)) WHERE length(prefix) > 8;
CREATE INDEX prefetched_by_key ON prefetched(substr(prefix, 9)) WHERE length(prefix) > 8;
CREATE TABLE releases(
    number INTEGER PRIMARY KEY, at REAL NOT NULL, first_sequence INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL, theta BLOB NOT NULL, batch BLOB, numbers BLOB);
CREATE TABLE secure_sum(
    one INTEGER PRIMARY KEY CHECK (one = 1), slot INTEGER NOT NULL, attempt INTEGER NOT NULL,
    transcript BLOB NOT NULL, members BLOB NOT NULL, consented INTEGER NOT NULL, at REAL,
    first_sequence INTEGER, last_sequence INTEGER, theta BLOB, batch BLOB)
"""
_AGREEMENT, _INSTANCE, _SEED = "agreement", "instance", "seed"
_ROSTER = "roster"  # the accepted one, as in its file
_FEATURES = "features"  # the schema of records, as JSON
_COORDINATOR = "own_coordinator"  # of an agent that is alone
_LAST_FORGOTTEN = "last_number"  # the highest number of a decision when some were forgotten
_MOVED = "moved"  # whether pages were split since the last `scrub` with a whole copy
_EXPIRED = "expired"  # number of expired decisions
_DEFAULTED, _REPLACED = "defaulted", "replaced"  # number of default rewards, learned and replaced
_WAITS = "sequence IS NULL AND x IS NOT NULL"
_BARE = "FROM decisions WHERE x IS NOT NULL AND record IS NULL"
_AT_ONCE = 10_000  # rows


@dataclass
class PendingDecision:
    """A decision that waits for its reward; its id is `prefix` and its number."""

    prefix: str
    made: float
    t: int | None
    row: FloatArray  # the arm's features and, where arms have effects, its name
    record: bytes | None = None  # context, arm and runner-up as JSON, if they are records
    revision: int = 1  # of the schema
    subject: bytes | None = None  # a digest of whom it is about


@dataclass(frozen=True)
class MadeDecision:
    """A decision to be written."""

    number: int
    decision: Decision  # its arm is an index into `arms`
    pending: PendingDecision
    arms: FloatArray  # all that were offered
    records: bytes | None = None  # of all arms, if they are kept


class NewReward(NamedTuple):
    """The reward of a decision to be written; None: nobody saw its arm."""

    number: int
    reward: float | None
    sequence: int = 0
    step: int = 0
    row: FloatArray | None = None  # of the sample that it becomes


@dataclass(frozen=True)
class StoredSample:
    """A sample with its record."""

    sequence: int
    step: int
    x: bytes
    reward: float
    record: bytes
    at: float  # Unix time of its reward


@dataclass(frozen=True)
class OutdatedRow:
    """A decision whose row is encoded by an older schema."""

    number: int
    record: bytes
    x: bytes
    offered: bytes | None  # the records of all arms, if they are kept

    @property
    def context(self) -> dict[str, Any]:
        """The record of its context."""
        return json.loads(self.record)["context"]  # type: ignore[no-any-return]


class AgentStore:
    """Reads and writes an agent's file; creates it if missing."""

    def __init__(self, path: str | Path, durable: Durability, wait: float = 0.0) -> None:
        one_of("durable", durable, get_args(Durability))
        self._db = connect(path, _SCHEMA, "agent", _VERSION, wait)
        self.updates = UpdateStore(self._db)
        self._power = durable == "power"
        self._readers: weakref.WeakSet[LogReader] = weakref.WeakSet()
        self.path = Path(path)
        self._file = self.path.absolute()  # stays valid if the process changes its folder
        with suppress(sqlite3.Error):  # the disk may be full
            self._empty_log()  # a process that died may have deleted rows, not their last copy

    # -- identity ----------------------------------------------------------------------------

    @property
    def agreed(self) -> dict[str, str] | None:
        """The agreement in the file; None: the file is new."""
        known = fact(self._db, _AGREEMENT)
        return None if known is None else msgspec.json.decode(known, type=dict[str, str])

    @property
    def features(self) -> dict[str, Any] | None:
        """The schema of records in the file, as the tables of its own file."""
        known = fact(self._db, _FEATURES)
        return None if known is None else msgspec.json.decode(known, type=dict[str, Any])

    def agree(
        self,
        facts: Mapping[str, str],
        roster: bytes | None = None,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the agreement to a new file; raise for facts that differ from an old one's.

        `roster` is the content of the roster's file, with secure sums; `features` the schema.
        """
        before = self.agreed
        if before is None:
            new: dict[str, object] = {
                _AGREEMENT: msgspec.json.encode(dict(facts)),
                _INSTANCE: secrets.token_hex(16),
                _SEED: secrets.token_bytes(32),
            }
            if roster is not None:
                new[_ROSTER] = roster
            if features is not None:
                new[_FEATURES] = json.dumps(features).encode()
            with transaction(self._db):
                self._db.executemany("INSERT INTO facts VALUES (?, ?)", new.items())
            return
        self._check_same(before, facts)

    def _check_same(self, before: Mapping[str, str], facts: Mapping[str, str]) -> None:
        for name in sorted({*before, *facts}, key=lambda name: (not name.endswith(".name"), name)):
            if before.get(name) != facts.get(name):
                allowed = f"{before.get(name)!r}, as in {self.path}, or a new file"
                if name == ROSTER:
                    allowed = (
                        f"{before.get(name)!r}, accepted by the agent's owner; to accept this one, "
                        "compare it with the other owners' and run `fedglb agent accept`; with "
                        "follow_roster (--follow-roster) an agent follows a smaller one"
                    )
                raise InvalidInput(name, facts.get(name), allowed)

    @property
    def roster(self) -> bytes | None:
        """The content of the accepted roster's file; None: no secure sums."""
        return fact(self._db, _ROSTER)  # type: ignore[no-any-return]

    def accept_roster(self, facts: Mapping[str, str], roster: bytes) -> None:
        """Replace the accepted roster; there is no consent to a sum under the old one any more.

        `facts` are those of `agree`; all others must be the same as before.
        """
        before = self.agreed
        if before is None or ROSTER not in before:
            allowed = f"a file with a roster: {self.path} has none"
            raise InvalidInput(ROSTER, facts[ROSTER], allowed)
        self._check_same(before, {**facts, ROSTER: before[ROSTER]})
        with transaction(self._db):
            set_fact(self._db, _AGREEMENT, msgspec.json.encode(dict(facts)))
            set_fact(self._db, _ROSTER, roster)
            self.updates.withdraw(None, None)

    def change_schema(
        self, facts: Mapping[str, str], features: Mapping[str, Any], after: int, drop: bool
    ) -> None:
        """Replace the schema: the model and the snapshots of the old one are gone.

        Models up to update `after` are of the old schema. `drop`: decisions without a record go.
        Prefetched decisions go, too. The rows themselves are encoded again one by one
        (`outdated`, `renew`).
        """
        with transaction(self._db):
            set_fact(self._db, _AGREEMENT, msgspec.json.encode(dict(facts)))
            set_fact(self._db, _FEATURES, json.dumps(features).encode())
            self._db.execute("DELETE FROM snapshots")
            self._db.execute("DELETE FROM facts WHERE name = ?", (_COORDINATOR,))
            self._db.execute("DELETE FROM models")
            self._db.execute("DELETE FROM frozen")
            self._db.execute("INSERT INTO models VALUES (?, 0, NULL, 0)", (after,))
            set_fact(self._db, _LAST_FORGOTTEN, self.last_number())
            self._db.execute("DELETE FROM offers WHERE number IN (SELECT number FROM prefetched)")
            self._db.execute("DELETE FROM prefetched")
            if drop:
                self._db.execute(f"DELETE FROM offers WHERE number IN (SELECT number {_BARE})")
                self._db.execute(f"DELETE {_BARE}")

    def own_coordinator(self) -> Arrays | None:
        """Return the state of an agent's own coordinator, if it has one."""
        known = fact(self._db, _COORDINATOR)
        return None if known is None else unpack(known)

    def keep_coordinator(self, arrays: Arrays) -> None:
        """Write the state of an agent's own coordinator."""
        set_fact(self._db, _COORDINATOR, pack(arrays))

    def without_records(self) -> int:
        """Return how many samples and waiting decisions have no record."""
        return int(self._db.execute(f"SELECT count(*) {_BARE}").fetchone()[0])

    def outdated(self, revision: int, most: int) -> list[OutdatedRow]:
        """Return rows that are encoded by an older schema."""
        found = self._db.execute(
            "SELECT number, record, x, records FROM decisions LEFT JOIN offers USING (number) "
            "WHERE revision <> ? AND x IS NOT NULL ORDER BY number LIMIT ?",
            (revision, most),
        )
        return [OutdatedRow(*row) for row in found]

    def renew(self, revision: int, rows: Sequence[tuple[int, bytes, bytes | None]]) -> None:
        """Write rows (number, row, offered arms) that were encoded again."""
        with transaction(self._db):
            set_fact(self._db, _MOVED, 1)
            for number, x, offered in rows:
                self._db.execute(
                    "UPDATE decisions SET x = ?, revision = ? WHERE number = ?",
                    (x, revision, number),
                )
                if offered is not None:
                    self._db.execute(
                        "UPDATE offers SET arms = ? WHERE number = ?", (offered, number)
                    )

    def recorded_samples(self, after: int, most: int) -> list[StoredSample]:
        """Return the samples with records after a sequence number, at most so many (-1: all)."""
        found = self._db.execute(
            "SELECT sequence, step, x, reward, record, rewarded FROM decisions "
            "WHERE sequence > ? AND record IS NOT NULL ORDER BY sequence LIMIT ?",
            (after, most),
        )
        return [StoredSample(*row) for row in found]

    @property
    def instance(self) -> str:
        """The file's own identity."""
        return str(fact(self._db, _INSTANCE))

    @property
    def seed(self) -> bytes:
        """The key of random choices."""
        return bytes(fact(self._db, _SEED))

    # -- decisions and rewards ----------------------------------------------------------------

    def add_decisions(
        self, made: Sequence[MadeDecision], expired: Sequence[int], offered: bool
    ) -> None:
        """Write decisions (with all arms and their records, if `offered`) and expire others."""
        if len(made) == 1 and not expired and not offered:
            self._db.execute(_INSERT, _row(made[0]))
            return
        with transaction(self._db):
            self._expire(expired)
            self._insert(_INSERT, made, offered)

    def prefetch(self, made: Sequence[MadeDecision], offered: bool, old: tuple[int, float]) -> None:
        """Write decisions that have not happened yet.

        `old` is a number and a time: decisions up to them never happened.
        """
        with transaction(self._db):
            self._insert(_PREFETCH, made, offered)
            gone = [
                (number,)
                for number, at in self._db.execute(
                    "SELECT number, made FROM prefetched ORDER BY number LIMIT ?", (2 * len(made),)
                )
                if number <= old[0] or at < old[1]
            ]
            self._db.executemany("DELETE FROM prefetched WHERE number = ?", gone)
            self._db.executemany("DELETE FROM offers WHERE number = ?", gone)

    def _insert(self, statement: str, made: Sequence[MadeDecision], offered: bool) -> None:
        self._db.executemany(statement, map(_row, made))
        if offered:
            every = ((each.number, as_bytes(each.arms), each.records) for each in made)
            self._db.executemany("INSERT INTO offers VALUES (?, ?, ?)", every)

    def is_prefetched(self, number: int, prefix: str) -> bool:
        """Return whether this decision has not happened yet."""
        query = "SELECT 1 FROM prefetched WHERE number = ? AND prefix = ?"
        return self._db.execute(query, (number, prefix)).fetchone() is not None

    def activate(self, numbers: Sequence[int], now: float) -> None:
        """Let prefetched decisions happen now."""
        every = [(number,) for number in numbers]
        with transaction(self._db):
            newest = self._db.execute("SELECT max(number) FROM decisions").fetchone()[0] or 0
            if min(numbers) < newest:  # a row in between splits its page
                set_fact(self._db, _MOVED, 1)
            self._db.executemany(
                "INSERT INTO decisions SELECT * FROM prefetched WHERE number = ?", every
            )
            self._db.executemany(
                "UPDATE decisions SET made = ? WHERE number = ?", [(now, k) for k in numbers]
            )
            self._db.executemany("DELETE FROM prefetched WHERE number = ?", every)

    def expire(self, numbers: Sequence[int]) -> None:
        """Mark these decisions as expired."""
        with transaction(self._db):
            self._expire(numbers)

    def _expire(self, numbers: Sequence[int]) -> None:
        if not numbers:
            return
        every = [(number,) for number in numbers]
        self._db.executemany("UPDATE decisions SET x = NULL, record = NULL WHERE number = ?", every)
        self._db.executemany("DELETE FROM offers WHERE number = ?", every)
        self._count(_EXPIRED, len(every))

    def expired(self) -> int:
        """Return the number of expired decisions."""
        return int(fact(self._db, _EXPIRED) or 0)

    def add_rewards(
        self,
        rewards: Sequence[NewReward],
        now: float,
        late: Sequence[NewReward] = (),
        *,
        default: bool = False,
    ) -> None:
        """Write rewards, all or none: their decisions are samples from here on, also after a crash.

        `default`: nobody gave them. `late` ones came after the default reward: `replace` learns
        those that differ from it.
        """
        if len(rewards) == 1 and rewards[0].reward is not None and not late and not default:
            with self._surviving():  # one statement is a transaction
                self._db.execute(_REWARD, _values(rewards[0], now, None))
            return
        with self._surviving(), transaction(self._db):
            self._rewards(rewards, now, default)
            if default:
                self._count(_DEFAULTED, len(rewards))
            for each in late:
                confirmed = self._db.execute(_CONFIRM, (each.number, each.reward)).rowcount
                if not confirmed:
                    row = (each.number, each.reward, now)
                    self._db.execute("INSERT INTO late VALUES (?, ?, ?)", row)

    def _rewards(self, rewards: Sequence[NewReward], now: float, default: bool = False) -> None:
        self._db.executemany(
            _REWARD,
            [
                _values(each, now, 1 if default else None)
                for each in rewards
                if each.reward is not None
            ],
        )
        unseen = [(now, each.number) for each in rewards if each.reward is None]
        self._db.executemany(_UNSEEN, unseen)
        self._db.executemany(
            "DELETE FROM offers WHERE number = ?", [(number,) for _, number in unseen]
        )

    def _count(self, name: str, more: int) -> None:
        set_fact(self._db, name, int(fact(self._db, name) or 0) + more)

    # -- silence ------------------------------------------------------------------------------

    def silent(self, until: float, most: int) -> list[tuple[int, PendingDecision]]:
        """Return decisions made up to a time that wait for their reward, with their numbers."""
        found = self._db.execute(
            "SELECT number, prefix, made, t, x, record, revision FROM decisions "
            f"WHERE {_WAITS} AND made <= ? ORDER BY made, number LIMIT ?",
            (until, most),
        ).fetchall()
        return [
            (number, PendingDecision(prefix, made, t, as_floats(x), record, revision))
            for number, prefix, made, t, x, record, revision in found
        ]

    def default_counts(self) -> tuple[int, int]:
        """Return how often a default reward was learned, and how many were replaced."""
        return int(fact(self._db, _DEFAULTED) or 0), int(fact(self._db, _REPLACED) or 0)

    def defaulted(self, number: int, prefix: str) -> bool:
        """Return whether the decision has the default reward, and no other is on its way."""
        row = self._db.execute(
            "SELECT defaulted FROM decisions WHERE number = ? AND prefix = ? "
            "AND number NOT IN (SELECT number FROM late)",
            (number, prefix),
        ).fetchone()
        return row is not None and row[0] is not None

    def late(self) -> dict[int, float | None]:
        """Return the rewards that came after the default one, by decision."""
        return dict(self._db.execute("SELECT number, reward FROM late ORDER BY number"))

    def replace(
        self,
        rewards: Sequence[NewReward],
        now: float,
        withdraw_from: int | None,
        model: AdoptedModel | None = None,
    ) -> None:
        """Write rewards in place of default ones, and withdraw from an update."""
        with self._surviving(), transaction(self._db):
            self.updates.withdraw(withdraw_from, None, model)
            self._rewards(rewards, now)
            every = [(each.number,) for each in rewards]
            self._db.executemany("DELETE FROM late WHERE number = ?", every)
            self._count(_REPLACED, len(every))

    def _surviving(self) -> AbstractContextManager[None]:
        """With durable="power", wait for the disk inside this block."""
        return on_disk(self._db) if self._power else nullcontext()

    def absorb(
        self,
        first: int,
        prefix: str,
        now: float,
        model: int,
        revision: int,
        rows: Iterable[
            tuple[int, int, FloatArray, float, bytes | None, str | int | None, bytes | None]
        ],
        key: str | None,
    ) -> None:
        """Write samples: sequence, step, row, reward, record, arm id and subject of each."""
        with self._surviving(), transaction(self._db):
            count = self._db.executemany(
                _INSERT_SAMPLE,
                (
                    (
                        first + k,
                        prefix,
                        now,
                        id_,
                        as_bytes(x),
                        model,
                        n,
                        step,
                        y,
                        now,
                        revision,
                        record,
                        subject,
                    )
                    for k, (n, step, x, y, record, id_, subject) in enumerate(rows)
                ),
            ).rowcount
            if key is not None:
                self._db.execute("INSERT INTO absorbed VALUES (?, ?, ?)", (key, count, now))

    def absorbed(self, key: str) -> int | None:
        """Return the number of samples absorbed under this key, or None."""
        row = self._db.execute("SELECT samples FROM absorbed WHERE key = ?", (key,)).fetchone()
        return None if row is None else int(row[0])

    def outcome(self, number: int, prefix: str) -> Outcome:
        """Return the outcome of a decision."""
        row = self._db.execute(
            "SELECT sequence, x, arms, rewarded FROM decisions WHERE number = ? AND prefix = ?",
            (number, prefix),
        ).fetchone()
        if row is None:
            return "unknown"
        sequence, x, arms, rewarded = row
        if sequence is not None:
            return "observed" if arms else "absorbed"
        if x is None:
            return "expired" if rewarded is None else "unseen"
        return "pending"

    def reward(self, number: int) -> float | None:
        """Return the reward of a decision, or None; a late one counts already."""
        row = self._db.execute(
            "SELECT iif(late.number IS NULL, decisions.reward, late.reward) "
            "FROM decisions LEFT JOIN late USING (number) WHERE number = ?",
            (number,),
        ).fetchone()
        return None if row is None else row[0]

    def keyed(self, digest: str, revision: int) -> list[tuple[Decision, int, FloatArray | None]]:
        """Return the decisions made with a key, the number of their arms, and their rows.

        A row is None if the decision has expired, or is of another revision of the schema.
        """
        found = []
        rows = self._db.execute(_KEYED, {"revision": revision, "digest": digest})
        for row in sorted(rows, key=lambda row: int(row[0].rpartition("-")[2])):
            id_, arm, arm_id, score, width, propensity, model, error, arms, x, proposed = row
            decision = Decision(
                id_, arm, arm_id, score, width, or_nan(propensity), model, or_nan(error),
                proposed=proposed,
            )  # fmt: skip
            found.append((decision, arms, None if x is None else as_floats(x)))
        return found

    def of_subject(self, subject: bytes) -> list[int]:
        """Return the numbers of the decisions about a subject."""
        found = self._db.execute(
            "SELECT number FROM decisions WHERE subject = :subject UNION ALL "
            "SELECT number FROM prefetched WHERE subject = :subject",
            {"subject": subject},
        )
        return [number for (number,) in found]

    def forget(
        self,
        numbers: Sequence[int],
        withdraw_from: int | None,
        batches: Mapping[int, IntArray] | None = None,
        model: AdoptedModel | None = None,
    ) -> None:
        """Delete decisions and withdraw from an update; call `scrub` next.

        `batches` are the reduced batches of releases that had some of them, `model` is the adopted
        one without what they say.
        """
        with transaction(self._db):
            self.updates.withdraw(withdraw_from, batches, model)
            last = self.last_number()  # never reused: a late reward must not find another decision
            set_fact(self._db, _LAST_FORGOTTEN, last)
            if gone := self.sequence_numbers(numbers):
                self.updates.forget_models(min(gone))
            every = [(number,) for number in numbers]
            # Where pages are merged, SQLite leaves copies of rows: first nothing is in them.
            for table in ("decisions", "prefetched"):
                self._db.executemany(_BLANK.format(table), every)
                self._db.executemany(f"DELETE FROM {table} WHERE number = ?", every)
            for table in ("offers", "late"):
                self._db.executemany(f"DELETE FROM {table} WHERE number = ?", every)

    def scrub(self) -> bool:
        """Empty the write-ahead log, the last copy of the deleted rows.

        Where rows were encoded again and have grown, or were activated after newer ones, SQLite has
        split pages and left copies in them: then the whole file is written anew first, once.

        False: another reader blocks it; try again.
        """
        if fact(self._db, _MOVED):
            self._db.execute("VACUUM")
            self._db.execute("DELETE FROM facts WHERE name = ?", (_MOVED,))
        return self._empty_log()

    def _empty_log(self) -> bool:
        busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        return not busy

    # -- after an interrupted write ----------------------------------------------------------------

    def rollback(self) -> None:
        """Undo a write that was interrupted."""
        roll_back(self._db)

    def unchanged(self, number: int, waits: bool) -> bool:
        """After a failed write: undo it; return whether a decision surely is as before.

        As before: waiting for its reward or, if `waits` is False, absent.
        """
        try:
            roll_back(self._db)
            row = self._db.execute(
                f"SELECT {_WAITS} FROM decisions WHERE number = ?", (number,)
            ).fetchone()
        except sqlite3.Error:
            return False
        return (row is not None and bool(row[0])) if waits else row is None

    # -- reading all of it --------------------------------------------------------------------

    def samples(
        self,
        width: int,
        revision: int,
        renew: Callable[[Sequence[bytes], Sequence[bytes]], list[bytes]],
    ) -> tuple[Samples, SampleNumbers]:
        """Return the samples, rows of `width` numbers, in order, and their numbers.

        `renew` encodes rows of an older revision again, from their records and their old bytes.
        """
        sequenced = "FROM decisions WHERE sequence IS NOT NULL"
        n = self._db.execute(f"SELECT count(*) {sequenced}").fetchone()[0]
        X, y, at = np.empty((n, width)), np.empty(n), np.empty(n)
        numbers = np.empty((2, n), dtype=np.int64)
        rows = self._db.execute(
            "SELECT sequence, step, x, reward, rewarded, revision, record "
            f"{sequenced} ORDER BY sequence"
        )
        first = 0
        while found := rows.fetchmany(_AT_ONCE):
            sequence, step, x, reward, rewarded, revisions, record = map(
                list, zip(*found, strict=True)
            )
            old = [k for k, each in enumerate(revisions) if each != revision]
            new = renew([record[k] for k in old], [x[k] for k in old]) if old else []
            for k, row in zip(old, new, strict=True):
                x[k] = row
            place = slice(first, first + len(found))
            X[place] = np.frombuffer(b"".join(x), STORED).reshape(-1, width)
            numbers[0, place], numbers[1, place], y[place] = sequence, step, reward
            at[place] = rewarded
            first += len(found)
        return Samples.over(X, y, n, at), SampleNumbers(numbers)

    def sequence_numbers(self, numbers: Sequence[int]) -> set[int]:
        """Return the sequence numbers of the decisions that have a reward."""
        query = "SELECT sequence FROM decisions WHERE number = ? AND sequence IS NOT NULL"
        found = (self._db.execute(query, (number,)).fetchone() for number in numbers)
        return {row[0] for row in found if row is not None}

    def waiting(self, number: int, prefix: str) -> PendingDecision | None:
        """Return a decision that waits for its reward; None: no such decision waits."""
        row = self._db.execute(
            "SELECT made, t, x, record, revision FROM decisions "
            f"WHERE number = ? AND prefix = ? AND {_WAITS}",
            (number, prefix),
        ).fetchone()
        if row is None:
            return None
        return PendingDecision(prefix, row[0], row[1], as_floats(row[2]), row[3], row[4])

    def learned(self, number: int) -> PendingDecision:
        """Return a decision that has its reward."""
        row = self._db.execute(
            "SELECT prefix, made, t, x, record, revision FROM decisions WHERE number = ?",
            (number,),
        ).fetchone()
        prefix, made, t, x, record, revision = row
        return PendingDecision(prefix, made, t, as_floats(x), record, revision)

    def decided(
        self, number: int, prefix: str
    ) -> tuple[str | int | None, bytes, bytes | None, int] | None:
        """Return a decision's arm id, row, record and revision; None: not here, or expired."""
        return self._db.execute(  # type: ignore[no-any-return]
            "SELECT arm_id, x, record, revision FROM decisions "
            "WHERE number = ? AND prefix = ? AND x IS NOT NULL",
            (number, prefix),
        ).fetchone()

    def count_waiting(self) -> int:
        """Return how many decisions wait for their reward."""
        return int(self._db.execute(f"SELECT count(*) FROM decisions WHERE {_WAITS}").fetchone()[0])

    def count_waiting_of(self, numbers: Sequence[int]) -> int:
        """Return how many of these decisions wait for their reward."""
        query = f"SELECT 1 FROM decisions WHERE number = ? AND {_WAITS}"
        return sum(self._db.execute(query, (k,)).fetchone() is not None for k in numbers)

    def oldest_waiting(self, most: int) -> Iterator[tuple[int, float]]:
        """Yield number and time of up to `most` waiting decisions, oldest first."""
        rows = self._db.execute(
            f"SELECT number, made FROM decisions WHERE {_WAITS} ORDER BY made, number LIMIT ?",
            (most,),
        )
        try:
            yield from rows
        finally:
            rows.close()  # an open cursor would block emptying the WAL

    def try_to_write(self) -> None:
        """Write more than a decision takes, and delete it; raise if there is no room for it."""
        with transaction(self._db):
            self._db.execute("INSERT INTO facts VALUES ('room', zeroblob(8192))")
            self._db.execute("DELETE FROM facts WHERE name = 'room'")

    def last_number(self) -> int:
        """Return the highest number that a decision ever had, 0 before the first."""
        tables = ("decisions", "prefetched")
        newest = [self._db.execute(f"SELECT max(number) FROM {t}").fetchone()[0] for t in tables]
        return max(*(k or 0 for k in newest), int(fact(self._db, _LAST_FORGOTTEN) or 0))

    def played(self) -> list[tuple[str, int]]:
        """Return id and arm of each decision that has its reward."""
        return self._db.execute(
            "SELECT prefix || '-' || number, arm FROM decisions "
            "WHERE sequence IS NOT NULL AND arms > 0 ORDER BY number"
        ).fetchall()

    def log(self, end: LogEnd, dim: int, revision: int) -> LogReader:
        """Return a reader of the log up to `end`; `close` ends it."""
        found = LogReader(self._file, end, dim, revision)
        self._readers.add(found)
        return found

    def activity(self, pending: int, now: float) -> Activity:
        """Return recent decisions by time, read by another connection."""
        return recent_activity(self._file, pending, now)

    def comparison(self) -> Comparison:
        """Return how the agent would have done, read by another connection."""
        return compared(self._file)

    def backup(self, path: Path) -> None:
        """Write a copy of the file as it is now; others may write meanwhile."""
        backup("agent", self._file, path)

    def close(self) -> None:
        """Close the file: another process may open it."""
        for each in list(self._readers):
            each.close()
        close(self._db)


def _row(made: MadeDecision) -> tuple[object, ...]:
    """Return a decision's values for `_INSERT`."""
    decision, pending = made.decision, made.pending
    return (
        made.number, pending.prefix, pending.made, pending.t, len(made.arms), decision.arm,
        decision.arm_id, as_bytes(pending.row),
        decision.score, decision.width, decision.propensity, decision.model,
        decision.propensity_error, pending.revision, pending.record, pending.subject,
        decision.proposed,
    )  # fmt: skip


def _values(reward: NewReward, now: float, default: int | None) -> tuple[object, ...]:
    """Return the values of a reward for `_REWARD`."""
    return reward.sequence, reward.step, reward.reward, now, default, reward.number


_INSERT = (
    "INSERT INTO decisions(number, prefix, made, t, arms, arm, arm_id, x, score, width, "
    "propensity, model, propensity_error, revision, record, subject, proposed, room) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, zeroblob(32))"
)
_PREFETCH = _INSERT.replace("decisions", "prefetched")
_REWARD = (
    "UPDATE decisions SET sequence = ?, step = ?, reward = ?, rewarded = ?, defaulted = ?5, "
    "room = iif(?5, zeroblob(24), NULL) WHERE number = ?6"
)
_CONFIRM = "UPDATE decisions SET defaulted = NULL WHERE number = ? AND reward = ?"
_UNSEEN = (
    "UPDATE decisions SET x = NULL, record = NULL, sequence = NULL, step = NULL, reward = NULL, "
    "rewarded = ?, defaulted = NULL WHERE number = ?"
)
_KEYED = " UNION ALL ".join(
    "SELECT prefix || '-' || number, arm, arm_id, score, width, propensity, model, "
    "propensity_error, arms, iif(revision = :revision, x, NULL), proposed "
    f"FROM {table} WHERE substr(prefix, 9) = :digest AND length(prefix) > 8"
    for table in ("decisions", "prefetched")
)
_BLANK = (
    "UPDATE {} SET x = zeroblob(length(x)), record = zeroblob(length(record)), "
    "arm_id = iif(typeof(arm_id) = 'text', "
    "zeroblob(length(CAST(arm_id AS BLOB))), arm_id), subject = NULL WHERE number = ?"
)
_INSERT_SAMPLE = (
    "INSERT INTO decisions(number, prefix, made, arms, arm, arm_id, x, score, width, model, "
    "sequence, step, reward, rewarded, revision, record, subject) "
    "VALUES (?, ?, ?, 0, -1, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?)"
)
