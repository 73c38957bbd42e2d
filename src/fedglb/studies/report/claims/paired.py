"""Compare two configurations seed by seed: a seed has the same arms and noise for both."""

from __future__ import annotations

import numpy as np
import polars as pl

from fedglb.studies.report.summary import ENOUGH
from fedglb.typing import FloatArray

#: How many standard errors a difference has to exceed to be clear.
ERRORS = 2.0


def by_seed(runs: pl.DataFrame, ours: str, theirs: str) -> tuple[FloatArray, FloatArray]:
    """Return the regrets of two labels at the seeds that both have."""
    first, second = (
        runs.filter(pl.col("label") == label).select("seed", "regret") for label in (ours, theirs)
    )
    pairs = first.join(second, on="seed", suffix="_other").sort("seed")
    return pairs["regret"].to_numpy(), pairs["regret_other"].to_numpy()


def difference(above: FloatArray, below: FloatArray) -> tuple[float | None, float | None]:
    """Return the mean of above − below and its standard error, paired; None where undefined.

    Examples
    --------
    >>> difference(np.array([2.0, 4.0, 3.0, 5.0, 1.0]), np.array([1.0, 3.0, 2.0, 4.0, 0.0]))
    (1.0, 0.0)
    """
    if len(above) == 0:
        return None, None
    rest = above - below
    error = float(rest.std(ddof=1) / np.sqrt(len(rest))) if len(rest) >= ENOUGH else None
    return float(rest.mean()), error


def ratio_error(above: FloatArray, below: FloatArray) -> float | None:
    """Return the standard error of mean(above)/mean(below), paired; None for too few pairs.

    Examples
    --------
    >>> ratio_error(np.array([2.0, 4.0, 6.0, 8.0, 2.0]), np.array([1.0, 2.0, 3.0, 4.0, 1.0]))
    0.0
    """
    if len(above) < ENOUGH or below.mean() == 0:
        return None
    rest = above - above.mean() / below.mean() * below
    return float(rest.std(ddof=1) / np.sqrt(len(rest)) / abs(below.mean()))
