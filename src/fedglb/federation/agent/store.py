"""An agent's file: its decisions, its samples, and what it takes to go on after a crash.

A sample is a decision that has its reward. Its sequence number counts rewards in the order in
which they came, which is the order of learning. The client's state itself is not written after
every reward: it is that of the last adopted model, with the later samples replayed on top.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
import numpy as np

from fedglb.errors import InvalidInput, one_of
from fedglb.federation.agent.decisions import Decision
from fedglb.federation.npz import pack, unpack
from fedglb.federation.sqlite import close, connect, roll_back, transaction
from fedglb.protocol.persistence import Arrays
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    import polars as pl

#: What an acknowledged reward survives: the death of the process, or a power cut too.
Durability = Literal["process", "power"]
#: What became of a decision.
Outcome = Literal["observed", "pending", "expired"]

# Tables, columns and the names of facts are stored: whoever changes one raises the version, and
# then `connect` refuses files of the version before (or a migration is written).
_VERSION = 3
# A propensity and its error are NULL where they are not a number.
_DECISIONS = """
CREATE TABLE decisions(
    number INTEGER PRIMARY KEY, prefix TEXT NOT NULL, made REAL NOT NULL, t INTEGER,
    arms INTEGER NOT NULL, arm INTEGER NOT NULL, arm_id, x BLOB, score REAL NOT NULL,
    width REAL NOT NULL, propensity REAL, model INTEGER NOT NULL,
    sequence INTEGER, step INTEGER, reward REAL, rewarded REAL, propensity_error REAL)
"""
_SCHEMA = f"""
CREATE TABLE facts(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
{_DECISIONS};
CREATE TABLE snapshots(
    number INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, withdrawn INTEGER NOT NULL);
CREATE TABLE adopted_model(
    one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER, last_sequence INTEGER, base BLOB)
"""
# Version 2 had exact propensities only, and no column for their error.
_MIGRATIONS = {
    2: f"""
ALTER TABLE decisions RENAME TO decisions_before;
{_DECISIONS};
INSERT INTO decisions SELECT *, 0.0 FROM decisions_before;
DROP TABLE decisions_before
"""
}
_AGREEMENT, _INSTANCE, _SEED = "agreement", "instance", "seed"
_LAST_FORGOTTEN = "last_number"  # the highest number that a decision had when some were forgotten
_STORED = np.dtype("<f8")  # how x is stored


@dataclass
class Pending:
    """A decision that waits for its reward; its id is `prefix` and its number."""

    prefix: str
    made: float
    t: int | None
    x: FloatArray


@dataclass(frozen=True)
class Snapshot:
    """Which samples belong to an update: those up to the sequence number `last_sequence`.

    `withdrawn`: some of them were forgotten since, so the agent takes no further part.
    """

    last_sequence: int
    withdrawn: bool = False


@dataclass(frozen=True)
class AdoptedModel:
    """The last shared model that the agent adopted.

    It covers the samples up to the sequence number `last_sequence`; `base` is the client's state
    with the model and without any own sample.
    """

    update: int
    last_sequence: int
    base: Arrays

    @cached_property
    def packed(self) -> bytes:
        """The base as bytes."""
        return pack(self.base)


class AgentStore:
    """All that is read from and written to an agent's file.

    Parameters
    ----------
    path
        The file; it is made if it is not there.
    durable
        What an acknowledged reward survives.
    wait
        How many seconds to wait for another owner of the file, at most.
    """

    def __init__(self, path: str | Path, durable: Durability, wait: float = 0.0) -> None:
        one_of("durable", durable, get_args(Durability))
        self._db = connect(path, _SCHEMA, "agent", _VERSION, _MIGRATIONS, wait)
        self._power = durable == "power"
        self.path = Path(path)

    # -- who it is ----------------------------------------------------------------------------

    @property
    def agreed(self) -> dict[str, str] | None:
        """The facts with which the file was made; None: it is new."""
        known = self._fact(_AGREEMENT)
        return None if known is None else msgspec.json.decode(known, type=dict[str, str])

    def agree(self, facts: Mapping[str, str]) -> None:
        """Write the agreement into a new file; refuse, by name, what differs from it later."""
        before = self.agreed
        if before is None:
            text = msgspec.json.encode(dict(facts))
            with transaction(self._db):
                self._db.executemany(
                    "INSERT INTO facts VALUES (?, ?)",
                    [
                        (_AGREEMENT, text),
                        (_INSTANCE, secrets.token_hex(16)),
                        (_SEED, secrets.token_bytes(32)),
                    ],
                )
            return
        for name in sorted({*before, *facts}, key=lambda name: (not name.endswith(".name"), name)):
            if before.get(name) != facts.get(name):
                allowed = f"{before.get(name)!r}, with which {self.path} was made, or a new file"
                raise InvalidInput(name, facts.get(name), allowed)

    @property
    def instance(self) -> str:
        """The file's own identity."""
        return str(self._fact(_INSTANCE))

    @property
    def seed(self) -> bytes:
        """The key of random choices."""
        return bytes(self._fact(_SEED))

    def _fact(self, name: str) -> Any:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    # -- decisions and rewards ----------------------------------------------------------------

    def add_decision(
        self, number: int, decision: Decision, pending: Pending, arms: int, expired: Sequence[int]
    ) -> None:
        """Write a decision among `arms` arms, and that others have expired."""
        row = (
            number, pending.prefix, pending.made, pending.t, arms, decision.arm,
            decision.arm_id, pending.x.astype(_STORED, copy=False).tobytes(),
            decision.score, decision.width, decision.propensity, decision.model,
            decision.propensity_error,
        )  # fmt: skip
        if not expired:
            self._db.execute(_INSERT, row)
            return
        with transaction(self._db):
            self.expire(expired)
            self._db.execute(_INSERT, row)

    def expire(self, numbers: Iterable[int]) -> None:
        """Write that these decisions wait no longer."""
        self._db.executemany(
            "UPDATE decisions SET x = NULL WHERE number = ?", [(k,) for k in numbers]
        )

    def add_reward(self, number: int, sequence: int, step: int, reward: float, now: float) -> None:
        """Write the reward of a decision: from here on it is a sample, also after a crash."""
        if self._power:  # the log is forced to the disk, with every decision in it
            self._db.execute("PRAGMA synchronous=FULL")
        try:
            self._db.execute(
                "UPDATE decisions SET sequence = ?, step = ?, reward = ?, rewarded = ? "
                "WHERE number = ?",
                (sequence, step, reward, now, number),
            )
        finally:
            if self._power:
                self._db.execute("PRAGMA synchronous=NORMAL")

    def outcome(self, number: int, prefix: str) -> Outcome | Literal["unknown"]:
        """Return what became of a decision; "unknown": there is none with this id."""
        row = self._db.execute(
            "SELECT sequence, x FROM decisions WHERE number = ? AND prefix = ?", (number, prefix)
        ).fetchone()
        if row is None:
            return "unknown"
        return _outcome(*row)

    def forget(self, numbers: Sequence[int], withdraw_from: int | None) -> None:
        """Delete decisions and withdraw from an update; `scrub` is to follow."""
        with transaction(self._db):
            if withdraw_from is not None:
                self._db.execute(
                    "UPDATE snapshots SET withdrawn = 1 WHERE number = ?", (withdraw_from,)
                )
            last = self.last_number()  # never given again, or a late reward would find another
            self._db.execute("REPLACE INTO facts VALUES (?, ?)", (_LAST_FORGOTTEN, last))
            self._db.executemany("DELETE FROM decisions WHERE number = ?", [(k,) for k in numbers])

    def scrub(self) -> None:
        """Empty the write-ahead log, the last place that still has what was deleted."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- updates ------------------------------------------------------------------------------

    def freeze(self, update: int, snapshot: Snapshot) -> None:
        """Write which samples belong to an update."""
        row = (update, snapshot.last_sequence, snapshot.withdrawn)
        self._db.execute("INSERT INTO snapshots VALUES (?, ?, ?)", row)

    def adopt(self, model: AdoptedModel) -> None:
        """Write the model that the agent adopts; snapshots up to its update are not needed."""
        with transaction(self._db):
            self._db.execute(
                "REPLACE INTO adopted_model VALUES (1, ?, ?, ?)",
                (model.update, model.last_sequence, model.packed),
            )
            self._db.execute("DELETE FROM snapshots WHERE number <= ?", (model.update,))

    def snapshots(self) -> dict[int, Snapshot]:
        """Return the snapshot of each update since the adopted model."""
        rows = self._db.execute("SELECT number, last_sequence, withdrawn FROM snapshots")
        return {number: Snapshot(last, bool(withdrawn)) for number, last, withdrawn in rows}

    def adopted_model(self) -> AdoptedModel | None:
        """Return the last shared model, None before the first."""
        row = self._db.execute("SELECT number, last_sequence, base FROM adopted_model").fetchone()
        return None if row is None else AdoptedModel(row[0], row[1], unpack(row[2]))

    def rollback(self) -> None:
        """Undo a write that was cut short."""
        roll_back(self._db)

    # -- reading all of it --------------------------------------------------------------------

    def samples(self, dim: int) -> tuple[list[int], FloatArray, FloatArray, int]:
        """Return the samples: sequence numbers, X (n, d) and y (n,) in order; and the last step."""
        rows = self._db.execute(
            "SELECT sequence, x, reward, step FROM decisions "
            "WHERE sequence IS NOT NULL ORDER BY sequence"
        ).fetchall()
        X = np.frombuffer(b"".join(r[1] for r in rows), dtype=_STORED).reshape(len(rows), dim)
        y = np.array([r[2] for r in rows], dtype=np.float64)
        return (
            [r[0] for r in rows],
            np.array(X, dtype=np.float64),
            y,
            max((r[3] for r in rows), default=0),
        )

    def sequence_numbers(self, numbers: Sequence[int]) -> set[int]:
        """Return the sequence numbers of those of the decisions that are samples."""
        found: set[int] = set()
        for number in numbers:
            row = self._db.execute(
                "SELECT sequence FROM decisions WHERE number = ? AND sequence IS NOT NULL",
                (number,),
            ).fetchone()
            found |= {row[0]} if row else set()
        return found

    def pending(self) -> dict[int, Pending]:
        """Return the decisions that wait, oldest first."""
        rows = self._db.execute(
            "SELECT number, prefix, made, t, x FROM decisions "
            "WHERE sequence IS NULL AND x IS NOT NULL ORDER BY number"
        )
        return {
            r[0]: Pending(r[1], r[2], r[3], np.frombuffer(r[4], dtype=_STORED).astype(np.float64))
            for r in rows
        }

    def last_number(self) -> int:
        """Return the highest number that a decision ever had, 0 before the first."""
        newest = self._db.execute("SELECT max(number) FROM decisions").fetchone()[0] or 0
        return max(int(newest), int(self._fact(_LAST_FORGOTTEN) or 0))

    def frame(self) -> pl.DataFrame:
        """Return the log, one row per decision."""
        import polars as pl

        rows = self._db.execute(
            "SELECT prefix || '-' || number, made, arms, arm, CAST(arm_id AS TEXT), x, score, "
            "width, propensity, model, reward, rewarded, propensity_error, sequence "
            "FROM decisions ORDER BY number"
        ).fetchall()
        table = [
            (
                *r[:5],
                None if r[5] is None else np.frombuffer(r[5], _STORED).tolist(),
                *r[6:8],
                _number(r[8]),
                *r[9:12],
                _outcome(r[13], r[5]),
                _number(r[12]),
            )
            for r in rows
        ]
        return pl.DataFrame(table, schema=_columns(), orient="row").with_columns(
            pl.from_epoch((pl.col(name) * 1e6).cast(pl.Int64), time_unit="us").alias(name)
            for name in ("made", "rewarded")
        )

    def close(self) -> None:
        """Close the file: another process may open it."""
        close(self._db)


def _number(value: float | None) -> float:
    """Return a number that SQLite has, which stores nan as NULL."""
    return math.nan if value is None else value


def _outcome(sequence: int | None, x: bytes | None) -> Outcome:
    if sequence is not None:
        return "observed"
    return "expired" if x is None else "pending"


_INSERT = (
    "INSERT INTO decisions(number, prefix, made, t, arms, arm, arm_id, x, score, width, "
    "propensity, model, propensity_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _columns() -> dict[str, Any]:
    """Return the columns of the frame of decisions, with their types."""
    import polars as pl

    return {
        "id": pl.String, "made": pl.Float64, "arms": pl.Int64, "arm": pl.Int64, "arm_id": pl.String,
        "x": pl.List(pl.Float64), "score": pl.Float64, "width": pl.Float64,
        "propensity": pl.Float64, "model": pl.Int64, "reward": pl.Float64, "rewarded": pl.Float64,
        "outcome": pl.String, "propensity_error": pl.Float64,
    }  # fmt: skip
