"""The coordinator's file: its state after the last update, and the update that is in progress.

An update in progress is written down as no more than its number, step and who asked for it: after
a crash it is begun anew under the next number, so that no answer to the old one can be taken for
an answer to the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import msgspec
import polars as pl

from fedglb.errors import InvalidInput
from fedglb.federation.agreement import Agreement
from fedglb.federation.sqlite import close, connect, pack, transaction, unpack
from fedglb.protocol.persistence import Arrays

_SCHEMA = """
CREATE TABLE facts(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE members(
    name TEXT PRIMARY KEY, instance TEXT NOT NULL, present INTEGER NOT NULL,
    model INTEGER NOT NULL, current INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE state(one INTEGER PRIMARY KEY CHECK (one = 1), arrays BLOB, traffic BLOB);
CREATE TABLE begun(number INTEGER PRIMARY KEY, t INTEGER NOT NULL, asked_by TEXT, over INTEGER);
CREATE TABLE updates(
    number INTEGER PRIMARY KEY, at REAL NOT NULL, t INTEGER NOT NULL, asked_by TEXT,
    clients INTEGER NOT NULL, samples INTEGER NOT NULL, rounds INTEGER NOT NULL,
    gradient_norm REAL, gap REAL, seconds REAL NOT NULL, bytes INTEGER NOT NULL)
"""
_VERSION = 1


@dataclass
class MemberRecord:
    """What is remembered of a client.

    Parameters
    ----------
    instance
        Which file it has.
    present
        Whether it is here.
    model
        The update of the last model that was sent to it.
    current
        Whether that file is the one whose samples the last model may cover.
    """

    instance: str
    present: bool
    model: int
    current: bool = True


@dataclass(frozen=True)
class UpdateStarted:
    """An update that was begun."""

    number: int
    t: int
    asked_by: str | None


@dataclass(frozen=True)
class UpdateFinished:
    """An update that led to a model.

    `gap` is the proven bound on F(θ) − min F, `bytes` what it cost on the wire, `at` a Unix time.
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


class CoordinatorFile:
    """All that is read from and written to the coordinator's file."""

    def __init__(self, path: str | Path, agreement: Agreement) -> None:
        self._db = connect(path, _SCHEMA, "coordinator", _VERSION)
        try:
            self._db.execute("PRAGMA synchronous=FULL")  # a model that agents hold must stay
            self._agree(Path(path), agreement)
        except BaseException:
            close(self._db)
            raise

    def _agree(self, path: Path, agreement: Agreement) -> None:
        row = self._db.execute("SELECT value FROM facts WHERE name = 'agreement'").fetchone()
        if row is None:
            text = msgspec.json.encode(agreement.facts())
            self._db.execute("INSERT INTO facts VALUES ('agreement', ?)", (text,))
            return
        differences = agreement.differences(msgspec.json.decode(row[0], type=dict[str, str]))
        if differences:
            allowed = f"a file of this federation ({'; '.join(differences)})"
            raise InvalidInput("path", str(path), allowed)

    def members(self) -> dict[str, MemberRecord]:
        """Return all clients that were ever taken in."""
        rows = self._db.execute("SELECT name, instance, present, model, current FROM members")
        return {r[0]: MemberRecord(r[1], bool(r[2]), r[3], bool(r[4])) for r in rows}

    def member(self, name: str, known: MemberRecord) -> None:
        """Write what is known of a client."""
        self._db.execute("REPLACE INTO members VALUES (?, ?, ?, ?, ?)", (name, *astuple(known)))

    def begin(self, begun: UpdateStarted) -> None:
        """Write that an update begins, before anybody hears of it."""
        self._db.execute("INSERT INTO begun VALUES (?, ?, ?, 0)", astuple(begun))

    def skip(self, number: int) -> None:
        """Write that updates up to this number are over, where the file that had them is lost."""
        self._db.execute("INSERT INTO begun VALUES (?, 0, NULL, 1)", (number,))

    def end(self, number: int) -> None:
        """Write that an update is over without a model."""
        self._db.execute("UPDATE begun SET over = 1 WHERE number = ?", (number,))

    def finish(
        self,
        arrays: Arrays,
        traffic: bytes,
        members: Mapping[str, MemberRecord],
        done: UpdateFinished | None,
    ) -> None:
        """Write the coordinator's state, and the update that led to it."""
        with transaction(self._db):
            self._db.execute("REPLACE INTO state VALUES (1, ?, ?)", (pack(arrays), traffic))
            self._db.executemany(
                "UPDATE members SET model = ?, current = ? WHERE name = ?",
                [(known.model, known.current, name) for name, known in members.items()],
            )
            if done is not None:
                self._db.execute("DELETE FROM begun WHERE number < ?", (done.number,))
                self._db.execute("UPDATE begun SET over = 1 WHERE number = ?", (done.number,))
                row = (*astuple(done),)
                self._db.execute(
                    "INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row
                )

    def state(self) -> tuple[Arrays, bytes] | None:
        """Return the coordinator's state and traffic as of the last `finish`."""
        row = self._db.execute("SELECT arrays, traffic FROM state").fetchone()
        return None if row is None else (unpack(row[0]), row[1])

    def last_begun(self) -> tuple[int, UpdateStarted | None]:
        """Return the highest number an update has had, and the update that is not over."""
        row = self._db.execute(
            "SELECT number, t, asked_by, over FROM begun ORDER BY number DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return 0, None
        return row[0], None if row[3] else UpdateStarted(*row[:3])

    def updates(self) -> pl.DataFrame:
        """Return one row an update."""
        rows = self._db.execute("SELECT * FROM updates ORDER BY number").fetchall()
        return pl.DataFrame(rows, schema=_FRAME, orient="row")

    def close(self) -> None:
        """Close the file."""
        close(self._db)


_FRAME = {
    "update": pl.Int64, "at": pl.Float64, "t": pl.Int64, "asked_by": pl.String,
    "clients": pl.Int64, "samples": pl.Int64, "rounds": pl.Int64,
    "gradient_norm": pl.Float64, "gap": pl.Float64, "seconds": pl.Float64, "bytes": pl.Int64,
}  # fmt: skip
