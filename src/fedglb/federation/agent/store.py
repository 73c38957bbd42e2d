"""An agent's file: its decisions, its samples, and what it takes to go on after a crash.

A sample is a decision that has its reward; `sample` is its place in the order in which rewards
came, which is the order of learning. The state itself is not written after every reward: it is
the last shared model's (`held`) and the samples after it, replayed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from fedglb.errors import InvalidInput, one_of
from fedglb.federation.agent.decisions import Decision
from fedglb.federation.sqlite import close, connect, pack, roll_back, transaction, unpack
from fedglb.protocol.persistence import Arrays
from fedglb.typing import FloatArray

#: What survives: the death of the process, or a power cut too.
DURABLE = ("process", "power")
_SCHEMA = """
CREATE TABLE facts(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE decisions(
    number INTEGER PRIMARY KEY, session TEXT NOT NULL, made REAL NOT NULL, t INTEGER,
    arms INTEGER NOT NULL, arm INTEGER NOT NULL, arm_id, x BLOB, score REAL NOT NULL,
    width REAL NOT NULL, propensity REAL NOT NULL, model INTEGER NOT NULL,
    sample INTEGER, step INTEGER, reward REAL, rewarded REAL);
CREATE TABLE marks(
    number INTEGER PRIMARY KEY, sample INTEGER NOT NULL, withdrawn INTEGER NOT NULL);
CREATE TABLE held(
    one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER, sample INTEGER, base BLOB)
"""
_VERSION = 1
_WRITTEN = np.dtype("<f8")


@dataclass
class Pending:
    """A decision that waits for its reward."""

    session: str
    made: float
    t: int | None
    x: FloatArray


@dataclass(frozen=True)
class Snapshot:
    """The last sample that belongs to an update; `withdrawn`: some of them were forgotten."""

    sample: int
    withdrawn: bool = False


@dataclass(frozen=True)
class AdoptedModel:
    """The last shared model as the agent holds it.

    `sample` is the last one, in the order of rewards, that the model covers; `base` the state
    before any own sample.
    """

    update: int
    sample: int
    base: Arrays

    @cached_property
    def packed(self) -> bytes:
        """The base as bytes."""
        return pack(self.base)


class AgentFile:
    """All that is read from and written to an agent's file."""

    def __init__(self, path: str | Path, durable: str) -> None:
        one_of("durable", durable, DURABLE)
        self._db = connect(path, _SCHEMA, "agent", _VERSION)
        self._power = durable == "power"
        self.path = Path(path)

    # -- who it is ----------------------------------------------------------------------------

    def agree(self, facts: Mapping[str, str]) -> None:
        """Remember the agreement of a new file; refuse another one later, by name."""
        known = self._fact("agreement")
        if known is None:
            text = msgspec.json.encode(dict(facts))
            with transaction(self._db):
                self._db.executemany(
                    "INSERT INTO facts VALUES (?, ?)",
                    [
                        ("agreement", text),
                        ("instance", secrets.token_hex(16)),
                        ("seed", secrets.token_bytes(32)),
                    ],
                )
            return
        before = msgspec.json.decode(known, type=dict[str, str])
        for name in sorted({*before, *facts}):
            if before.get(name) != facts.get(name):
                allowed = f"{before.get(name)!r}, with which {self.path} was made, or a new file"
                raise InvalidInput(name, facts.get(name), allowed)

    @property
    def instance(self) -> str:
        """The file's own identity."""
        return str(self._fact("instance"))

    @property
    def seed(self) -> bytes:
        """What exploration is drawn from."""
        return bytes(self._fact("seed"))

    def _fact(self, name: str) -> Any:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    # -- decisions and rewards ----------------------------------------------------------------

    def decide(
        self, number: int, decision: Decision, pending: Pending, arms: int, expired: Sequence[int]
    ) -> None:
        """Write a decision, and that others have expired."""
        row = (
            number, pending.session, pending.made, pending.t, arms, decision.arm,
            decision.arm_id, pending.x.astype(_WRITTEN, copy=False).tobytes(),
            decision.score, decision.width, decision.propensity, decision.model,
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

    def reward(self, number: int, sample: int, step: int, reward: float, now: float) -> None:
        """Write the reward of a decision: from here on it is a sample, whatever dies."""
        if self._power:  # the log is forced to the disk, with every decision in it
            self._db.execute("PRAGMA synchronous=FULL")
        try:
            self._db.execute(
                "UPDATE decisions SET sample = ?, step = ?, reward = ?, rewarded = ? "
                "WHERE number = ?",
                (sample, step, reward, now, number),
            )
        finally:
            if self._power:
                self._db.execute("PRAGMA synchronous=NORMAL")

    def outcome(self, number: int, session: str) -> str:
        """Return what became of a decision: "observed", "expired", "pending" or "unknown"."""
        row = self._db.execute(
            "SELECT sample, x FROM decisions WHERE number = ? AND session = ?", (number, session)
        ).fetchone()
        if row is None:
            return "unknown"
        return _outcome(*row)

    def forget(self, numbers: Sequence[int], withdraw_from: int | None) -> None:
        """Delete decisions, to be followed by `scrub`; withdraw from an update."""
        with transaction(self._db):
            if withdraw_from is not None:
                self._db.execute(
                    "UPDATE marks SET withdrawn = 1 WHERE number = ?", (withdraw_from,)
                )
            last = self.last_number()  # never given again, or a late reward would find another
            self._db.execute("REPLACE INTO facts VALUES ('last number', ?)", (last,))
            self._db.executemany("DELETE FROM decisions WHERE number = ?", [(k,) for k in numbers])

    def scrub(self) -> None:
        """Overwrite what was deleted, and empty the write-ahead log, where it still stands."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- updates ------------------------------------------------------------------------------

    def freeze(self, update: int, sample: int) -> None:
        """Write which samples belong to an update: those up to `sample`."""
        self._db.execute("INSERT INTO marks VALUES (?, ?, 0)", (update, sample))

    def hold(self, held: AdoptedModel) -> None:
        """Write the model that the agent now holds; marks of older updates are of no use."""
        with transaction(self._db):
            self._db.execute(
                "REPLACE INTO held VALUES (1, ?, ?, ?)",
                (held.update, held.sample, held.packed),
            )
            self._db.execute("DELETE FROM marks WHERE number <= ?", (held.update,))

    def marks(self) -> dict[int, Snapshot]:
        """Return the mark of each update since the model."""
        rows = self._db.execute("SELECT number, sample, withdrawn FROM marks")
        return {number: Snapshot(sample, bool(withdrawn)) for number, sample, withdrawn in rows}

    def held(self) -> AdoptedModel | None:
        """Return the last shared model, None before the first."""
        row = self._db.execute("SELECT number, sample, base FROM held").fetchone()
        return None if row is None else AdoptedModel(row[0], row[1], unpack(row[2]))

    def rollback(self) -> None:
        """Undo a write that was cut short."""
        roll_back(self._db)

    # -- reading all of it --------------------------------------------------------------------

    def samples(self, dim: int) -> tuple[list[int], FloatArray, FloatArray, int]:
        """Return the samples in order: their places, X (n, d), y (n,), and the last step."""
        rows = self._db.execute(
            "SELECT sample, x, reward, step FROM decisions WHERE sample IS NOT NULL ORDER BY sample"
        ).fetchall()
        X = np.frombuffer(b"".join(r[1] for r in rows), dtype="<f8").reshape(len(rows), dim)
        y = np.array([r[2] for r in rows], dtype=np.float64)
        return (
            [r[0] for r in rows],
            np.array(X, dtype=np.float64),
            y,
            max((r[3] for r in rows), default=0),
        )

    def places(self, numbers: Sequence[int]) -> set[int]:
        """Return the places of those decisions that are samples."""
        found: set[int] = set()
        for number in numbers:
            row = self._db.execute(
                "SELECT sample FROM decisions WHERE number = ? AND sample IS NOT NULL", (number,)
            ).fetchone()
            found |= {row[0]} if row else set()
        return found

    def pending(self) -> dict[int, Pending]:
        """Return the decisions that wait, oldest first."""
        rows = self._db.execute(
            "SELECT number, session, made, t, x FROM decisions "
            "WHERE sample IS NULL AND x IS NOT NULL ORDER BY number"
        )
        return {
            r[0]: Pending(r[1], r[2], r[3], np.frombuffer(r[4], dtype="<f8").astype(np.float64))
            for r in rows
        }

    def last_number(self) -> int:
        """Return the number of the newest decision, also of one that is forgotten; 0 for none."""
        newest = self._db.execute("SELECT max(number) FROM decisions").fetchone()[0] or 0
        return max(int(newest), int(self._fact("last number") or 0))

    def frame(self) -> pl.DataFrame:
        """Return the log, one row a decision."""
        rows = self._db.execute(
            "SELECT session || '-' || number, made, arms, arm, CAST(arm_id AS TEXT), x, score, "
            "width, propensity, model, reward, rewarded, sample FROM decisions ORDER BY number"
        ).fetchall()
        table = [
            (
                *r[:5],
                None if r[5] is None else np.frombuffer(r[5], "<f8").tolist(),
                *r[6:12],
                _outcome(r[12], r[5]),
            )
            for r in rows
        ]
        return pl.DataFrame(table, schema=_FRAME, orient="row").with_columns(
            pl.from_epoch((pl.col(name) * 1e6).cast(pl.Int64), time_unit="us").alias(name)
            for name in ("made", "rewarded")
        )

    def close(self) -> None:
        """Close the file: another process may open it."""
        close(self._db)


def _outcome(sample: int | None, x: bytes | None) -> str:
    if sample is not None:
        return "observed"
    return "expired" if x is None else "pending"


_INSERT = (
    "INSERT INTO decisions(number, session, made, t, arms, arm, arm_id, x, score, width, "
    "propensity, model) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_FRAME: dict[str, Any] = {
    "id": pl.String, "made": pl.Float64, "arms": pl.Int64, "arm": pl.Int64, "arm_id": pl.String,
    "x": pl.List(pl.Float64), "score": pl.Float64, "width": pl.Float64,
    "propensity": pl.Float64, "model": pl.Int64, "reward": pl.Float64, "rewarded": pl.Float64,
    "outcome": pl.String,
}  # fmt: skip
