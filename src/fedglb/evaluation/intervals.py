"""Confidence intervals: a normal one, and one that is proven for any number of decisions."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from fedglb.typing import FloatArray


def normal_interval(value: float, error: float, confidence: float) -> tuple[float, float]:
    """Return value ± z·error."""
    reach = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * error
    return value - reach, value + reach


def proven_interval(
    weights: FloatArray, shares: FloatArray, confidence: float
) -> tuple[float, float]:
    """Return bounds on the value of a policy whose rewards lie in [0, 1].

    Either one is a lower bound: that of the value, and that of what is left to 1.
    """
    alpha = 0.5 * (1.0 - confidence)
    low = lower_bound(weights * shares, alpha)
    high = 1.0 - lower_bound(weights * (1.0 - shares), alpha)
    return low, high


def lower_bound(terms: FloatArray, alpha: float) -> float:
    """Return a bound that the terms' conditional means exceed, but for a probability α.

    The terms are ≥ 0, and each has a mean of at most V ≤ 1 given those before; then V is at least
    the bound. There need be no upper bound on the terms (docs/theory.md, Proposition 30).
    """
    n = terms.size
    before = np.arange(1, n + 1)  # with the half sample that the sums begin with
    sums = 0.5 + np.concatenate([[0.0], np.cumsum(terms)])
    guess = np.minimum(sums[:-1] / before, 1.0)
    squares = (terms - np.minimum(sums[1:] / (before + 1), 1.0)) ** 2
    spread = (0.25 + np.concatenate([[0.0], np.cumsum(squares)[:-1]])) / before
    surprise = math.log(1.0 / alpha)
    bets = np.minimum(np.sqrt(2.0 * surprise / (n * spread)), 0.5)
    cost = (terms - guess) ** 2 * (-np.log1p(-bets) - bets)
    return max(float((bets @ terms - surprise - cost.sum()) / bets.sum()), 0.0)
