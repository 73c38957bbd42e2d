"""Paired differences between settings: at a seed all of them meet the same arms and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    low: float | None = None
    high: float | None = None
    p: float | None = None  # two-sided, of this comparison alone
    adjusted: float | None = None  # after Holm
    verdict: Verdict = "undecided"


def differences(
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    counts: Sequence[float],
    interval: Interval = "t",
    level: float = 0.95,
) -> list[Difference]:
    """Compare pairs of settings, given by their values at the same seeds.

    `counts` has for each step of `holm` the number of comparisons to correct for. Intervals hold
    together at `level`: they have Bonferroni's level of the first step. Holm's p decides, so a t
    interval without 0 always does; near 0 Holm may decide where the interval does not.
    """
    found = [_tested(a, b, counts[0], interval, level) for a, b in pairs]
    adjusted = holm([1.0 if each.p is None else each.p for each in found], counts)
    return [
        each if each.p is None else replace(each, adjusted=p, verdict=_verdict(each.mean, p, level))
        for each, p in zip(found, adjusted, strict=True)
    ]


def _verdict(mean: float, p: float, level: float) -> Verdict:
    if p > 1.0 - level:
        return "undecided"
    return "lower" if mean < 0.0 else "higher"


def holm(p: Sequence[float], counts: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down: the least times the first count, and so on.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03], [3, 2, 1])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    steps = np.asarray(counts) * np.asarray(p, dtype=np.float64)[order]
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return [float(each) for each in adjusted]


def steps_of_holm(settings: int, *, chosen: bool) -> list[float]:
    """Return the counts for all settings but one against that one.

    If it was not `chosen` as the best on the same seeds, these are Holm's k − 1, k − 2, …, 1.

    Otherwise a verdict says that a setting is not among the truly best. If r of k settings are, a
    wrong one needs one of the r to look worse than one of the k: r (k − 1) comparisons, each in one
    direction, which is half of a two-sided p. Closed testing, with Bonferroni for the r that are
    left, so has the counts r (k − 1)/2, r = k, …, 2. The first one is that of all pairs.

    Examples
    --------
    >>> steps_of_holm(4, chosen=False), steps_of_holm(4, chosen=True)
    ([3.0, 2.0, 1.0], [6.0, 4.5, 3.0])
    """
    if chosen:
        return [r * (settings - 1) / 2 for r in range(settings, 1, -1)]
    return [float(r) for r in range(settings - 1, 0, -1)]


def resamples(count: float, level: float) -> int:
    """Return how many resamples an interval takes that is corrected for so many comparisons."""
    return max(_RESAMPLES, math.ceil(_BEYOND * count / (1.0 - level)))


def _tested(
    a: FloatArray, b: FloatArray, count: float, interval: Interval, level: float
) -> Difference:
    """Return mean, interval and p of a − b."""
    n = len(a)
    if n == 0:
        return Difference(0, math.nan, verdict="too few seeds")
    with np.errstate(invalid="ignore"):  # inf − inf
        paired = a - b
        mean = float(paired.mean())
    if not math.isfinite(mean):
        return Difference(n, math.nan)
    rounding = _ROUNDING * float(np.maximum(np.abs(a), np.abs(b)).max())
    if float(np.abs(paired).max()) <= rounding:
        return Difference(n, 0.0, verdict="equal")
    if n < ENOUGH:
        return Difference(n, mean, verdict="too few seeds")
    if float(np.ptp(paired)) <= rounding:  # no spread, no interval; p as if signs were flipped
        return Difference(n, mean, p=2.0 ** (1 - n))
    together = 1.0 - (1.0 - level) / count
    if interval == "t":
        error = float(paired.std(ddof=1)) / math.sqrt(n)
        half = error * float(stats.t.ppf((1.0 + together) / 2.0, n - 1))
        p = 2.0 * float(stats.t.sf(abs(mean) / error, n - 1))
        return Difference(n, mean, mean - half, mean + half, p)
    drawn = resamples(count, level)
    ends = stats.bootstrap(
        (paired,), np.mean, n_resamples=drawn, confidence_level=together, method="BCa",
        random_state=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    flipped = stats.permutation_test(
        (paired,), np.mean, permutation_type="samples", vectorized=True, n_resamples=drawn,
        random_state=np.random.default_rng(0),
    )  # fmt: skip
    return Difference(n, mean, float(ends.low), float(ends.high), float(flipped.pvalue))
