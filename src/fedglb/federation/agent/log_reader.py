"""The log of an agent as tables, read beside the agent's own writes.

Another process reads a long log: a thread would hold the interpreter's lock for much of the time
and delay every call of the application.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedglb.federation.agent.update_store import STORED
from fedglb.federation.errors import Unavailable
from fedglb.federation.sqlite import close, reader

if TYPE_CHECKING:
    import polars as pl

log = logging.getLogger(__name__)
_SHORT = 20_000  # rows read in this process: starting another one would take longer
_NICE = 10  # niceness of the process: exports are not urgent
_LENGTH = struct.Struct("<q")  # before each table; 0: the end
_PROGRAM = (
    "import json, sys\n"
    "sys.path[:] = json.loads(sys.argv[1])\n"
    "from fedglb.federation.agent.log_reader import send\n"
    "send(*sys.argv[2:])\n"
)
_PIECE = 1000  # rows per read: a few milliseconds, so the WAL can be emptied in between
# An export leaves out rewards that came after its start, and forgotten ones.
_ROWS = """
SELECT number, prefix || '-' || number, made, decisions.arms, arm, CAST(arm_id AS TEXT),
    iif(revision = :revision, substr(x, 1, :features), NULL), score, width, propensity, model,
    iif(sequence <= :sequence, reward, NULL), iif(sequence <= :sequence, rewarded, NULL),
    propensity_error, ifnull(sequence <= :sequence, 0),
    iif(revision = :revision, offers.arms, NULL), x IS NULL, CAST(record AS TEXT), proposed,
    ifnull(defaulted, 0), sequence IS NULL AND rewarded IS NOT NULL
FROM decisions LEFT JOIN offers USING (number)
WHERE number > :after AND number <= :number ORDER BY number LIMIT :rows
"""
_SELECTED = (
    "number", "id", "made", "arms", "arm", "arm_id", "x", "score", "width", "propensity", "model",
    "reward", "rewarded", "propensity_error", "observed", "offered", "expired", "record",
    "proposed", "defaulted", "unseen",
)  # fmt: skip
#: The columns of the table, in order.
COLUMNS = (
    "id", "made", "arms", "arm", "arm_id", "x", "score", "width", "propensity", "model", "reward",
    "rewarded", "outcome", "propensity_error", "offered", "record", "proposed", "defaulted",
)  # fmt: skip


@dataclass(frozen=True)
class LogEnd:
    """Where an export ends: the decisions up to a number, the rewards up to a sequence number."""

    number: int
    sequence: int


class LogReader:
    """Reads the log of an agent's file, which this process has open, up to `end`."""

    def __init__(self, path: Path, end: LogEnd, dim: int, revision: int) -> None:
        self._path, self._end, self._dim, self._revision = path, end, dim, revision
        self._stop: list[Callable[[], object]] = []  # actions that end the reading
        self._lock, self._open, self._process = threading.Lock(), True, os.getpid()

    def close(self) -> None:
        """Stop reading; no effect if closed, or in a forked child."""
        if os.getpid() == self._process:
            with self._lock:
                self._open = False
                while self._stop:
                    self._stop.pop()()

    def batches(self, rows: int) -> Iterator[pl.DataFrame]:
        """Yield tables of `rows` rows, the last one of fewer; at least one table."""
        try:
            found = self._here(rows)
            if self._end.number > _SHORT and _is_python(sys.executable):
                found = self._in_a_process(rows)
            yield from found
        finally:
            self.close()

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise Unavailable("an export belongs to the process that started it")
        if not self._open:
            raise Unavailable("this agent was closed during the export")

    # -- a short log -----------------------------------------------------------------------------

    def _here(self, rows: int) -> Iterator[pl.DataFrame]:
        with self._lock:
            self._check()
            db = reader(self._path)
            self._stop.append(lambda: close(db))
        found = frames(db, self._end, self._dim, self._revision, rows)
        while True:
            with self._lock:  # keeps it open meanwhile
                self._check()
                table = next(found, None)
            if table is None:
                return
            yield table

    # -- a long one ------------------------------------------------------------------------------

    def _in_a_process(self, rows: int) -> Iterator[pl.DataFrame]:
        end = self._end.number, self._end.sequence
        given = (self._path, *end, self._dim, self._revision, rows)
        command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), *map(str, given)]
        with self._lock:
            self._check()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            self._stop.append(lambda: _end(process))
        begun = False
        while True:
            try:
                table = _receive(process)
            except EOFError:
                self._check()
                if begun:
                    raise Unavailable("the process that reads the log has ended") from None
                log.warning("cannot start a process to read the log: reading it in this process")
                yield from self._here(rows)
                return
            if table is None:
                return
            begun = True
            yield table


def _is_python(path: str | None) -> bool:
    """Return whether a program is Python itself, not one that embeds it, such as uWSGI."""
    return bool(path) and "python" in Path(str(path)).name.lower()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        with suppress(OSError):
            process.stdout.close()


def _receive(process: subprocess.Popen[bytes]) -> pl.DataFrame | None:
    """Return the next table that a process sends; None: the end."""
    import polars as pl

    (length,) = _LENGTH.unpack(_exactly(process, _LENGTH.size))
    return pl.read_ipc(io.BytesIO(_exactly(process, length))) if length else None


def _exactly(process: subprocess.Popen[bytes], length: int) -> bytes:
    assert process.stdout is not None
    try:
        found = process.stdout.read(length)
    except ValueError:  # it was closed
        found = b""
    if len(found) < length:
        raise EOFError
    return found


def send(path: str, number: str, sequence: str, dim: str, revision: str, rows: str) -> None:
    """In another process: write the log to standard output, one table after the other."""
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    out = sys.stdout.buffer
    db = reader(path)
    with suppress(BrokenPipeError):  # the reader has stopped
        end = LogEnd(int(number), int(sequence))
        for table in frames(db, end, int(dim), int(revision), int(rows)):
            content = io.BytesIO()
            table.write_ipc(content)
            out.write(_LENGTH.pack(len(content.getbuffer())))
            out.write(content.getbuffer())
            out.flush()
        out.write(_LENGTH.pack(0))
        out.flush()
    os._exit(0)  # does not flush a pipe that may be broken


# -- tables ----------------------------------------------------------------------------------------


def frames(
    db: sqlite3.Connection, end: LogEnd, dim: int, revision: int, rows: int
) -> Iterator[pl.DataFrame]:
    """Yield the log in tables of `rows` rows, the last one of fewer; at least one table.

    Arms of an older revision of the schema, which are not encoded again yet, are null.

    Every piece is a short transaction, so that meanwhile the file can be written, scrubbed of
    forgotten samples, and closed.
    """
    import polars as pl

    pieces, count, after = [frame([], dim)], 0, 0
    while True:
        given = {"after": after, "rows": min(_PIECE, rows - count)}
        given |= {"features": dim * STORED.itemsize, "revision": revision}  # without its name
        found = db.execute(
            _ROWS, {**given, "number": end.number, "sequence": end.sequence}
        ).fetchall()
        if found:
            after, count = found[-1][0], count + len(found)
            pieces.append(frame(found, dim))
        if count == rows or (not found and (count or after == 0)):
            yield pl.concat(pieces)
            pieces, count = pieces[:1], 0
        if not found:
            return


def frame(rows: Sequence[tuple[Any, ...]], dim: int) -> pl.DataFrame:
    """Return rows of the log as a table."""
    import polars as pl

    columns = list(zip(*rows, strict=True)) or [()] * len(_SELECTED)
    given = dict(zip(_SELECTED, columns, strict=True))
    types: dict[type[pl.DataType], tuple[str, ...]] = {
        pl.String: ("id", "arm_id", "record"),
        pl.Int64: (
            "arms", "arm", "model", "observed", "expired", "proposed", "defaulted", "unseen",
        ),
        pl.Float64: (
            "made", "score", "width", "propensity", "reward", "rewarded", "propensity_error",
        ),
    }  # fmt: skip
    found = [pl.Series(n, given[n], dtype=kind) for kind, names in types.items() for n in names]
    found += [_vectors("x", given["x"], dim), _offers(given["offered"], dim)]
    absorbed = pl.col("arms") == 0  # absorbed samples have no arms
    return pl.DataFrame(found).with_columns(
        *(
            pl.from_epoch((pl.col(name) * 1e6).cast(pl.Int64), time_unit="us").alias(name)
            for name in ("made", "rewarded")
        ),
        # SQLite stores nan as NULL
        *(pl.col(name).fill_null(float("nan")) for name in ("propensity", "propensity_error")),
        *(
            pl.when(~absorbed).then(pl.col(name)).alias(name)
            for name in ("arm", "score", "width")
        ),
        defaulted=pl.col("defaulted") > 0,
        outcome=pl.when(absorbed).then(pl.lit("absorbed"))
        .when(pl.col("observed") > 0).then(pl.lit("observed"))
        .when(pl.col("unseen") > 0).then(pl.lit("unseen"))
        .when(pl.col("expired") > 0).then(pl.lit("expired"))
        .otherwise(pl.lit("pending")),
    ).select(COLUMNS)  # fmt: skip


def _vectors(name: str, blobs: Sequence[bytes | None], dim: int) -> pl.Series:
    """Return arms as a column of lists."""
    import polars as pl

    empty = bytes(dim * STORED.itemsize)
    lists = _lists(name, b"".join(empty if each is None else each for each in blobs), dim)
    missing = pl.Series([each is None for each in blobs], dtype=pl.Boolean)
    return lists.to_frame().select(pl.when(~missing).then(pl.col(name)).alias(name)).to_series()


def _lists(name: str, joined: bytes, dim: int) -> pl.Series:
    import polars as pl

    table = np.frombuffer(joined, STORED).reshape(-1, dim)
    return pl.Series(name, table, dtype=pl.Array(pl.Float64, dim)).cast(pl.List(pl.Float64))


def _offers(blobs: Sequence[bytes | None], dim: int) -> pl.Series:
    """Return all arms offered as a column of lists of lists; null where they were not kept."""
    import polars as pl

    size = dim * STORED.itemsize
    kept = [(row, each) for row, each in enumerate(blobs) if each is not None]
    if not kept:
        return pl.Series("offered", [None] * len(blobs), dtype=pl.List(pl.List(pl.Float64)))
    counts = [len(each) // size for _, each in kept]
    flat = _lists("offered", b"".join(each for _, each in kept), dim)
    rows = pl.Series("row", np.repeat([row for row, _ in kept], counts))
    lists = pl.DataFrame([rows, flat]).group_by("row", maintain_order=True).agg("offered")
    every = pl.DataFrame({"row": np.arange(len(blobs))})
    return every.join(lists, on="row", how="left", maintain_order="left")["offered"]
