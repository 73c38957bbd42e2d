"""An apprentice: how the agent would have done beside the system that decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from fedglb.federation.sqlite import close, reader

_CONFIDENCE = 0.95
_FEW = 200  # effective decisions below which a normal interval is not to be trusted
# One statement: the interpreter is free while SQLite adds up. w is the weight 1/p of a decision in
# which the agent proposed what was played, else 0; u counts decisions whose p is not known.
_SUMS = """
WITH seen AS (
    SELECT reward AS r, proposed = arm AS agreed, propensity AS p,
        iif(proposed = arm, 1.0 / propensity, iif(propensity IS NULL, NULL, 0.0)) AS w
    FROM decisions WHERE proposed IS NOT NULL AND sequence IS NOT NULL)
SELECT count(*), ifnull(sum(agreed), 0), count(p), total(p >= 1.0 AND NOT agreed),
    total(iif(p IS NULL, NULL, r)), total(iif(p IS NULL, NULL, r * r)), total(w), total(w * w),
    total(w * r), total(w * r * r), total(w * w * r), total(w * w * r * r), total(r), total(r * r)
FROM seen
"""


@dataclass(frozen=True)
class MeanReward:
    """A mean reward, estimated.

    Parameters
    ----------
    value
        The estimate.
    low, high
        Its 95 % interval: the normal law for a mean of many terms.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """The agent beside the system that decides, returned by `Agent.compare`.

    Parameters
    ----------
    decisions
        The decisions of the other system that have their reward.
    agreed
        The share of them in which the agent would have played the same arm; None without any.
    other
        The mean reward of the other system; None for fewer than two decisions, as the others.
    agent
        What the agent would have had, by the decisions in which both agree, weighted with 1/p
        (self-normalised). None if propensities are missing, or they never agree.
    difference
        The agent's minus the other's.
    effective
        The effective number of decisions behind `agent`.
    verdict
        What the numbers say, in one sentence.
    caveats
        What speaks against the estimate, one sentence each.
    """

    decisions: int
    agreed: float | None
    other: MeanReward | None
    agent: MeanReward | None
    difference: MeanReward | None
    effective: float
    verdict: str
    caveats: tuple[str, ...]


def compared(path: Path) -> Comparison:
    """Return the comparison in an agent's file, read beside the agent's own connection."""
    db = reader(path)
    try:
        sums = db.execute(_SUMS).fetchone()
    finally:
        close(db)
    n, agreed, m, unsupported = sums[:4]
    caveats: list[str] = []
    agent = gap = None
    effective = 0.0
    if m < n:
        caveats.append(
            f"{n - m} of {n} decisions have no propensity and are left out of the agent's "
            "estimate: give propensity= with played="
        )
    if unsupported:
        caveats.append(
            f"in {100 * unsupported / m:.3g} % of the decisions the other system could only play "
            "one arm, and the agent would have played another: nothing is known about those"
        )
    r, rr, w, ww, wr, wrr, wwr, wwrr = sums[4:12]
    if w:
        effective = w * w / ww
        if effective < _FEW:
            caveats.append(f"only about {effective:.0f} decisions count: too few for the interval")
        # terms of the delta method: t = v + w(r − v)/w̄ for the agent, t − r for the difference
        v, mean_w = wr / w, w / m
        # Σ(t − v)², as Σ w(r − v) = 0
        spread = (wwrr - 2.0 * v * wwr + v * v * ww) / (mean_w * mean_w)
        cross = (wrr - v * wr) / mean_w  # Σ(t − v)·r
        agent = _around(v, spread, m)
        gap = _around(v - r / m, spread - 2.0 * cross + rr - r * r / m, m)
    other = _around(sums[12] / n, sums[13] - sums[12] * sums[12] / n, n) if n else None
    share = agreed / n if n else None
    verdict = _verdict(gap, effective)
    return Comparison(n, share, other, agent, gap, effective, verdict, tuple(caveats))


def _verdict(gap: MeanReward | None, effective: float) -> str:
    if gap is None or effective < _FEW:
        return "too early to say: go on as an apprentice"
    if gap.low > 0.0:
        return "the agent would have done better"
    if gap.high < 0.0:
        return "the agent would have done worse"
    return "these decisions show no difference: go on as an apprentice, or stay as you are"


def _around(value: float, squares: float, n: int) -> MeanReward | None:
    """Return a mean with its interval, from the sum of squared deviations of its n >= 2 terms.

    None for fewer terms, or rewards whose squares are no numbers.
    """
    if n < 2 or not math.isfinite(value + squares):
        return None
    error = math.sqrt(max(squares, 0.0) / (n - 1) / n)
    reach = NormalDist().inv_cdf(0.5 + 0.5 * _CONFIDENCE) * error
    return MeanReward(value, value - reach, value + reach)
