"""The coordinator's file: its state after the last update, and the update that is in progress.

Of an update in progress only its number, its step and who asked for it are written: after a crash
it is started again under the next number, so that no answer to the old one can be taken for an
answer to the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import msgspec
import polars as pl

from fedglb.errors import InvalidInput
from fedglb.federation.agreement import Agreement
from fedglb.federation.npz import pack, unpack
from fedglb.federation.sqlite import backup, close, connect, transaction
from fedglb.protocol.persistence import Arrays

# The names of tables, columns and facts are stored: another name is another version.
_VERSION = 2
_SCHEMA = """
CREATE TABLE facts(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE members(
    name TEXT PRIMARY KEY, instance TEXT NOT NULL, present INTEGER NOT NULL,
    model INTEGER NOT NULL, current INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE state(
    id INTEGER PRIMARY KEY CHECK (id = 1), arrays BLOB NOT NULL, traffic BLOB NOT NULL);
CREATE TABLE started_updates(
    number INTEGER PRIMARY KEY, t INTEGER NOT NULL, asked_by TEXT, ended INTEGER NOT NULL);
CREATE TABLE finished_updates(
    number INTEGER PRIMARY KEY, at REAL NOT NULL, t INTEGER NOT NULL, asked_by TEXT,
    clients INTEGER NOT NULL, samples INTEGER NOT NULL, rounds INTEGER NOT NULL,
    gradient_norm REAL, gap REAL, seconds REAL NOT NULL, bytes INTEGER NOT NULL)
"""
_AGREEMENT = "agreement"  # the one fact


@dataclass
class MemberRecord:
    """What is remembered of a client.

    Parameters
    ----------
    instance
        Which file it has.
    present
        Whether it is present.
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
    """An update that was started."""

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


class CoordinatorStore:
    """All that is read from and written to the coordinator's file."""

    def __init__(self, path: str | Path, agreement: Agreement) -> None:
        self._db = connect(path, _SCHEMA, "coordinator", _VERSION)
        self._file = Path(path).absolute()
        try:
            self._db.execute("PRAGMA synchronous=FULL")  # a model that agents hold must stay
            self._check_agreement(Path(path), agreement)
        except BaseException:
            close(self._db)
            raise

    def _check_agreement(self, path: Path, agreement: Agreement) -> None:
        """Write what was agreed on into a new file; an older one must have the same."""
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (_AGREEMENT,)).fetchone()
        if row is None:
            text = msgspec.json.encode(agreement.facts())
            self._db.execute("INSERT INTO facts VALUES (?, ?)", (_AGREEMENT, text))
            return
        differences = agreement.differences(msgspec.json.decode(row[0], type=dict[str, str]))
        if differences:
            allowed = f"a file of this federation ({'; '.join(differences)})"
            raise InvalidInput("path", str(path), allowed)

    def members(self) -> dict[str, MemberRecord]:
        """Return all clients that were ever admitted."""
        rows = self._db.execute("SELECT name, instance, present, model, current FROM members")
        return {r[0]: MemberRecord(r[1], bool(r[2]), r[3], bool(r[4])) for r in rows}

    def write_member(self, name: str, record: MemberRecord) -> None:
        """Write what is remembered of a client."""
        self._db.execute("REPLACE INTO members VALUES (?, ?, ?, ?, ?)", (name, *astuple(record)))

    def start_update(self, started: UpdateStarted) -> None:
        """Write that an update starts, before any client is told."""
        self._db.execute("INSERT INTO started_updates VALUES (?, ?, ?, 0)", astuple(started))

    def skip_updates(self, number: int) -> None:
        """Write that all updates up to this one have ended; the file that had them is lost."""
        self._db.execute("INSERT INTO started_updates VALUES (?, 0, NULL, 1)", (number,))

    def end_update(self, number: int) -> None:
        """Write that an update has ended, with a model or without."""
        self._db.execute("UPDATE started_updates SET ended = 1 WHERE number = ?", (number,))

    def write_state(
        self,
        arrays: Arrays,
        traffic: bytes,
        members: Mapping[str, MemberRecord],
        finished: UpdateFinished | None = None,
    ) -> None:
        """Write the coordinator's state, and the update that led to it, if one did."""
        with transaction(self._db):
            self._db.execute("REPLACE INTO state VALUES (1, ?, ?)", (pack(arrays), traffic))
            self._db.executemany(
                "UPDATE members SET model = ?, current = ? WHERE name = ?",
                [(record.model, record.current, name) for name, record in members.items()],
            )
            if finished is not None:
                self._db.execute("DELETE FROM started_updates WHERE number < ?", (finished.number,))
                self.end_update(finished.number)
                self._db.execute(
                    "INSERT INTO finished_updates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    astuple(finished),
                )

    def state(self) -> tuple[Arrays, bytes] | None:
        """Return the coordinator's arrays and its traffic as of the last `write_state`."""
        row = self._db.execute("SELECT arrays, traffic FROM state").fetchone()
        return None if row is None else (unpack(row[0]), row[1])

    def last_started(self) -> tuple[int, UpdateStarted | None]:
        """Return the highest number of an update, and that update if it has not ended."""
        row = self._db.execute(
            "SELECT number, t, asked_by, ended FROM started_updates ORDER BY number DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return 0, None
        return row[0], None if row[3] else UpdateStarted(*row[:3])

    def updates(self) -> pl.DataFrame:
        """Return one row per finished update."""
        rows = self._db.execute("SELECT * FROM finished_updates ORDER BY number").fetchall()
        return pl.DataFrame(rows, schema=_FRAME, orient="row")

    def backup(self, path: str | Path) -> None:
        """Write a copy of the file, as it is now, to a new one; the coordinator goes on."""
        backup(self._file, path)

    def close(self) -> None:
        """Close the file."""
        close(self._db)


_FRAME = {
    "update": pl.Int64, "at": pl.Float64, "t": pl.Int64, "asked_by": pl.String,
    "clients": pl.Int64, "samples": pl.Int64, "rounds": pl.Int64,
    "gradient_norm": pl.Float64, "gap": pl.Float64, "seconds": pl.Float64, "bytes": pl.Int64,
}  # fmt: skip
