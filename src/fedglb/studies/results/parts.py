"""The result of one task: a frame of finished runs, each with its trace in lists."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import polars as pl

from fedglb.simulation import Run
from fedglb.typing import IntArray

#: The most points of a trace that are kept.
TRACE_POINTS = 500
TOTALS = {
    "regret": pl.Float64, "reward": pl.Float64, "syncs": pl.Int64, "rounds": pl.Int64,
    "transfers": pl.Int64, "scalars": pl.Int64,
}  # fmt: skip
TRACE = {"t": pl.Int32, **TOTALS}
_PART: dict[str, pl.DataType | type[pl.DataType]] = {
    "configuration": pl.Int32, "seed": pl.Int64, **TOTALS, "interactions": pl.Int64,
    "caveats": pl.List(pl.String), "seconds": pl.Float64,
    **{f"trace_{name}": pl.List(kind) for name, kind in TRACE.items()},
}  # fmt: skip


def recorded_steps(horizon: int) -> IntArray:
    """Return the steps of a trace that are kept: at most 500, evenly spaced, both ends included.

    Examples
    --------
    >>> recorded_steps(3).tolist(), recorded_steps(2000)[:3].tolist(), len(recorded_steps(2000))
    ([1, 2, 3], [1, 5, 9], 500)
    """
    points = min(horizon, TRACE_POINTS)
    return np.unique(np.rint(np.linspace(1, horizon, points)).astype(np.int64))


def part(indices: Sequence[int], seed: int, runs: Sequence[Run], seconds: float) -> pl.DataFrame:
    """Return the frame of some finished runs; `indices` are those of their configurations."""
    rows = []
    for index, run in zip(indices, runs, strict=True):
        kept = run.trace[recorded_steps(run.trace.height) - 1]
        rows.append(
            {
                "configuration": index, "seed": seed, "caveats": list(run.caveats),
                "interactions": int((run.choices >= 0).sum()), "seconds": seconds / len(runs),
                **{name: getattr(run, name) for name in TOTALS},
                **{f"trace_{name}": kept[name].to_list() for name in TRACE},
            }
        )  # fmt: skip
    return pl.DataFrame(rows, schema=_PART)


def to_bytes(frame: pl.DataFrame) -> bytes:
    """Return the frame as a Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def from_bytes(content: bytes) -> pl.DataFrame:
    """Return the frame of a Parquet file."""
    return pl.read_parquet(io.BytesIO(content))


def no_parts() -> pl.DataFrame:
    """Return a part without runs."""
    return pl.DataFrame(schema=_PART)
