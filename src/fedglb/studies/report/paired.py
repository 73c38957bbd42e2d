"""Paired differences between settings: at a seed all of them meet the same arms and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy import stats

from fedglb.studies.report.summary import ENOUGH
from fedglb.typing import FloatArray

#: How an interval is made, by the names of `SweepResult.compare`.
Interval: TypeAlias = Literal["t", "bootstrap"]
#: What the data say of a difference.
Verdict: TypeAlias = Literal["lower", "higher", "undecided", "equal", "too few seeds"]
#: Differences that vary by less than this share of the values do not vary: it is rounding.
_ROUNDING = 1e-12
#: The fewest resamples, and the fewest expected beyond an interval's ends.
_RESAMPLES, _BEYOND = 9_999, 20


@dataclass(frozen=True)
class Difference:
    """The mean of a − b over the seeds that both have."""

    seeds: int
    mean: float
    # None with fewer than 5 seeds, a value that is not finite, or a − b the same at every seed.
    low: float | None
    high: float | None
    p: float | None  # two-sided, of this comparison alone
    adjusted: float | None  # after Holm, for all comparisons
    verdict: Verdict


@dataclass(frozen=True)
class _Tested:
    """A difference before it is judged; without p, its verdict is known."""

    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    verdict: Verdict = "undecided"


def differences(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    family: int,
    interval: Interval = "t",
    level: float = 0.95,
) -> list[Difference]:
    """Compare pairs of settings, given by their values at the same seeds.

    `family` is the number of comparisons to correct for: these, and those that were as possible.
    Intervals hold together at `level` (Bonferroni). Differences are decided by Holm's p, so a t
    interval without 0 always decides; near 0 Holm may decide where the interval does not.
    """
    found = [_tested(a, b, family, interval, level) for a, b in pairs]
    adjusted = holm([1.0 if each.p is None else each.p for each in found], family)
    made = []
    for (a, _), each, p in zip(pairs, found, adjusted, strict=True):
        verdict = each.verdict
        if each.p is not None and p <= 1.0 - level:
            verdict = "lower" if each.mean < 0.0 else "higher"
        corrected = None if each.p is None else p
        made.append(Difference(len(a), each.mean, each.low, each.high, each.p, corrected, verdict))
    return made


def holm(p: Sequence[float], family: int) -> list[float]:
    """Return p-values adjusted by Holm's step-down; those of `family` that are not given count 1.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03], 3)
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    steps = (family - np.arange(len(p))) * np.asarray(p, dtype=np.float64)[order]
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(each) for each in adjusted]


def resamples(family: int, level: float) -> int:
    """Return how many resamples an interval for so many comparisons takes."""
    return max(_RESAMPLES, math.ceil(_BEYOND * family / (1.0 - level)))


def _tested(a: FloatArray, b: FloatArray, family: int, interval: Interval, level: float) -> _Tested:
    """Return mean, interval and p of a − b."""
    n = len(a)
    if n == 0:
        return _Tested(math.nan, verdict="too few seeds")
    with np.errstate(invalid="ignore"):  # inf − inf
        paired = a - b
        mean = float(paired.mean())
    if not math.isfinite(mean):
        return _Tested(math.nan)
    rounding = _ROUNDING * float(np.maximum(np.abs(a), np.abs(b)).max())
    if float(np.abs(paired).max()) <= rounding:
        return _Tested(0.0, verdict="equal")
    if n < ENOUGH:
        return _Tested(mean, verdict="too few seeds")
    if float(np.ptp(paired)) <= rounding:  # no spread, no interval; p as if signs were flipped
        return _Tested(mean, p=2.0 ** (1 - n))
    together = 1.0 - (1.0 - level) / family
    if interval == "t":
        error = float(paired.std(ddof=1)) / math.sqrt(n)
        half = error * float(stats.t.ppf((1.0 + together) / 2.0, n - 1))
        p = 2.0 * float(stats.t.sf(abs(mean) / error, n - 1))
        return _Tested(mean, mean - half, mean + half, p)
    count = resamples(family, level)
    ends = stats.bootstrap(
        (paired,), np.mean, n_resamples=count, confidence_level=together, method="BCa",
        random_state=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    flipped = stats.permutation_test(
        (paired,), np.mean, permutation_type="samples", vectorized=True, n_resamples=count,
        random_state=np.random.default_rng(0),
    )  # fmt: skip
    return _Tested(mean, float(ends.low), float(ends.high), float(flipped.pvalue))
