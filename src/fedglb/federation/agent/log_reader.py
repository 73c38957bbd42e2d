"""The log of an agent, read piece by piece beside the agent's own writes."""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedglb.federation.errors import Unavailable
from fedglb.federation.sqlite import close

if TYPE_CHECKING:
    import polars as pl

STORED = np.dtype("<f8")  # how arms are stored
_PIECE = 1000  # rows that are read at once: a few milliseconds, so the log can be emptied between
_NICE = 10  # the reader's priority is lower by this, where a thread has one of its own (Linux)
_PATIENCE = 0.1  # seconds between two looks at whether the other side is there
# A reward that came later than the export began is not in it; nor is one that was forgotten.
_ROWS = """
SELECT number, prefix || '-' || number, made, decisions.arms, arm, CAST(arm_id AS TEXT), x, score,
    width, propensity, model, iif(sequence <= :sequence, reward, NULL),
    iif(sequence <= :sequence, rewarded, NULL), propensity_error,
    ifnull(sequence <= :sequence, 0), offers.arms
FROM decisions LEFT JOIN offers USING (number)
WHERE number > :after AND number <= :number ORDER BY number LIMIT :rows
"""


@dataclass(frozen=True)
class LogEnd:
    """Where an export ends: the decisions up to a number, the rewards up to a sequence number."""

    number: int
    sequence: int


class LogReader:
    """Reads the log up to where it ended when it was made, in a thread of its own.

    Every piece is a short transaction, so that the file can be written to, emptied of what is
    forgotten, and closed meanwhile.

    Parameters
    ----------
    connect
        Makes a connection of its own, when the first piece is read; it closes that.
    end
        Where to end.
    dim
        Number d of features.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], end: LogEnd, dim: int) -> None:
        self._connect, self._end, self._dim = connect, end, dim
        self._db: sqlite3.Connection | None = None
        self._reading, self._open, self._process = threading.Lock(), True, os.getpid()

    def close(self) -> None:
        """Read no further; harmless if it is closed, and in a forked child."""
        if os.getpid() != self._process:
            return
        with self._reading:
            self._open = False
            if self._db is not None:
                close(self._db)
                self._db = None

    def batches(self, rows: int) -> Iterator[pl.DataFrame]:
        """Yield frames of `rows` rows, the last one of fewer; at least one frame."""
        done = threading.Event()
        # one waits while the next is read: whoever takes them slowly does not fill the memory
        waiting: queue.Queue[pl.DataFrame | BaseException | None] = queue.Queue(maxsize=1)

        def put(item: pl.DataFrame | BaseException | None) -> None:
            while not done.is_set():
                with suppress(queue.Full):
                    waiting.put(item, timeout=_PATIENCE)
                    return

        def work() -> None:
            _lower_priority()
            try:
                for frame in self._frames(rows, done):
                    put(frame)
                put(None)
            except BaseException as error:
                put(error)

        thread = threading.Thread(target=work, name="fedglb-export", daemon=True)
        thread.start()
        try:
            while True:
                try:
                    item = waiting.get(timeout=_PATIENCE)
                except queue.Empty:
                    if os.getpid() != self._process:
                        raise Unavailable(
                            "an export belongs to the process that began it"
                        ) from None
                    continue
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            done.set()
            self.close()

    def _frames(self, rows: int, done: threading.Event) -> Iterator[pl.DataFrame]:
        """Yield frames of `rows` rows, put together from the pieces."""
        import polars as pl

        pieces, count, after = [frame([], self._dim)], 0, 0
        while not done.is_set():
            found = self._piece(after, min(_PIECE, rows - count))
            if found:
                after, count = found[-1][0], count + len(found)
                pieces.append(frame(found, self._dim))
            if count == rows or (not found and (count or after == 0)):
                yield pl.concat(pieces)
                pieces, count = pieces[:1], 0
            if not found:
                return

    def _piece(self, after: int, rows: int) -> list[tuple[Any, ...]]:
        with self._reading:
            if not self._open:
                raise Unavailable("this agent was closed while its log was read")
            if self._db is None:
                self._db = self._connect()
            given = {
                "after": after, "rows": rows,
                "number": self._end.number, "sequence": self._end.sequence,
            }  # fmt: skip
            return self._db.execute(_ROWS, given).fetchall()


def _lower_priority() -> None:
    """Let the application's threads go first: an export has time."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def frame(rows: Sequence[tuple[Any, ...]], dim: int) -> pl.DataFrame:
    """Return rows of the log as a table.

    Column by column and not value by value, because other threads of the process wait meanwhile.
    """
    import polars as pl

    columns = list(zip(*rows, strict=True)) or [()] * 16
    found = {
        name: pl.Series(name, values, dtype=kind)
        for (name, kind), values in zip(_columns(), columns[1:], strict=True)
        if kind is not None
    }
    x, offers, observed = columns[6], columns[15], pl.Series(columns[14], dtype=pl.Int64) > 0
    found["x"] = _vectors("x", x, dim)
    found["offered"] = _offers(offers, dim)
    absorbed = found["arms"] == 0  # it was no choice
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
        outcome=pl.when(absorbed).then(pl.lit("absorbed"))
        .when(observed).then(pl.lit("observed"))
        .when(pl.col("x").is_null()).then(pl.lit("expired"))
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


def _columns() -> list[tuple[str, Any]]:
    """Return names and types of what `_ROWS` selects after the number; None: made otherwise."""
    import polars as pl

    text, real, whole = pl.String, pl.Float64, pl.Int64
    return [
        ("id", text), ("made", real), ("arms", whole), ("arm", whole), ("arm_id", text),
        ("x", None), ("score", real), ("width", real), ("propensity", real), ("model", whole),
        ("reward", real), ("rewarded", real), ("propensity_error", real), ("observed", None),
        ("offered", None),
    ]  # fmt: skip


#: The columns of the table, in order.
COLUMNS = (
    "id", "made", "arms", "arm", "arm_id", "x", "score", "width", "propensity", "model", "reward",
    "rewarded", "outcome", "propensity_error", "offered",
)  # fmt: skip
