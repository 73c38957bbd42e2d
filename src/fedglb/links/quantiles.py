"""Quantile functions, compiled: from one uniform to one reward."""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import kernel

_SMALLEST = 2.0**-54  # half the spacing of the uniforms: u = 0 must not give an infinite reward


@kernel
def normal_quantile(u: float) -> float:
    """Return Φ⁻¹(u), to rounding.

    A classical rational start (Abramowitz & Stegun 26.2.23, error 4.5e-4) in the smaller tail,
    then two steps of Halley's method on Φ, each of which triples the number of correct digits.
    """
    tail = max(min(u, 1.0 - u), _SMALLEST)
    t = math.sqrt(-2.0 * math.log(tail))
    z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )
    for _ in range(2):
        density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        newton = (0.5 * math.erfc(z / math.sqrt(2.0)) - tail) / density
        z += newton / (1.0 - 0.5 * z * newton)
    return z if u >= 0.5 else -z


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
        while total < max(u, _SMALLEST):
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
