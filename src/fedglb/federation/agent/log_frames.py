"""Rows of an agent's log as tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import polars as pl

STORED = np.dtype("<f8")  # how arms are stored
_PIECE = 1000  # rows that are read at once: a few milliseconds, so the log can be emptied between
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


def frames(db: sqlite3.Connection, end: LogEnd, dim: int, rows: int) -> Iterator[pl.DataFrame]:
    """Yield the log in tables of `rows` rows, the last one of fewer; at least one table.

    Every piece is a short transaction, so that the file can be written to, emptied of what is
    forgotten, and closed meanwhile.
    """
    import polars as pl

    pieces, count, after = [frame([], dim)], 0, 0
    while True:
        given = {"after": after, "rows": min(_PIECE, rows - count)}
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
