"""Quantile functions, as compiled scalars: one uniform in, one reward out."""

from __future__ import annotations

import math

from fedglb.kernels.jit import kernel

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
def poisson_quantile(mean: float, u: float) -> float:
    """Return the smallest k with P(Poisson(mean) ≤ k) ≥ u.

    The distribution function at the mode is summed from there down, so that neither a small
    nor a large mean underflows; then k walks to the quantile.
    """
    if mean > 1e12:  # the Poisson law is normal here to far more digits than a double has to spare
        return max(math.floor(mean + math.sqrt(mean) * normal_quantile(u)), 0.0)
    k = float(math.floor(mean))
    term = math.exp(k * math.log(mean) - mean - math.lgamma(k + 1.0)) if mean > 0.0 else 1.0
    below = 0.0  # P(Poisson < k)
    down, j = term, k
    while j > 0.0 and down > 1e-18 * term:
        down *= j / mean
        j -= 1.0
        below += down
    while u > below + term and term > 0.0:
        below += term
        k += 1.0
        term *= mean / k
    while k > 0.0 and u <= below:
        term *= k / mean
        k -= 1.0
        below -= term
    return k
