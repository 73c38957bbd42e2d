"""Quantile functions, compiled: from one uniform to one reward."""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.quantiles import SMALLEST, normal_quantile


@kernel
def poisson_pmf(k: float, mean: float) -> float:
    """Return P(Poisson(mean) = k)."""
    return math.exp(k * math.log(mean) - mean - math.lgamma(k + 1.0))


@kernel
def poisson_quantile(mean: float, u: float) -> float:
    """Return the smallest k with P(Poisson(mean) ≤ k) ≥ u.

    Probabilities are summed from the far end of the tail that u lies in, so nothing cancels.
    """
    if not mean > 0.0:
        return 0.0
    spread = math.sqrt(mean)
    if mean > 1e8:  # here two terms of the Cornish-Fisher expansion are right to a unit or so
        z = normal_quantile(u)
        return float(np.floor(mean + spread * z + (z * z - 1.0) / 6.0))
    if u <= 0.5:
        k = float(max(math.floor(mean - 12.0 * spread - 20.0), 0))
        term = poisson_pmf(k, mean)
        total = term
        while total < max(u, SMALLEST):
            k += 1.0
            term *= mean / k
            total += term
        return k
    k = float(math.floor(mean + 12.0 * spread + 20.0))
    term = poisson_pmf(k, mean)
    while term == 0.0:  # a tiny mean: far out there is nothing that a double can hold
        k -= 1.0
        term = poisson_pmf(k, mean)
    above = term  # P(Poisson > k − 1)
    while k > 0.0 and above <= 1.0 - u:
        term *= k / mean
        k -= 1.0
        above += term
    return k
