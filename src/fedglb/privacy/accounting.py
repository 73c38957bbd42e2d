"""From noise to ε and δ, and back: Gaussian differential privacy and zCDP.

All releases of a stream together are one Gaussian mechanism whose parameter is μ: sensitivity over
standard deviation, also for streams that depend on earlier releases (Smith and Thakurta 2022,
*Fully adaptive composition for Gaussian differential privacy*). docs/privacy.md, section
Accounting, proves that the closed form also holds for the discrete noise that is really added.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.errors import number
from fedglb.typing import FloatArray

#: What a share's variance has beyond its part of σ², in squared units of the last place: then the
#: discrete noise is no less private than the continuous one, to 30 digits.
SMOOTHING = 32

# Gauss and Legendre's rule; twelve nodes are exact to the last digits on intervals below 0.1.
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(12)
# The safety margin of μ and ε, because δ(ε) is computed with rounding.
_MARGIN = 1e-12


def gdp_delta(epsilon: float, mu: float) -> float:
    """Return the δ of a Gaussian mechanism at ε.

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ). Both terms have the factor φ(μ/2 − ε/μ); it is taken
    out, so that nothing overflows and little cancels. Balle and Wang (2018), Theorem 8.
    """
    from scipy.special import erfcx, ndtr  # only here, and slow to import

    def mills(x: FloatArray) -> FloatArray:  # Φ(−x)/φ(x)
        return np.asarray(math.sqrt(0.5 * math.pi) * erfcx(x / math.sqrt(2.0)))

    number("epsilon", epsilon, at_least=0.0)
    number("mu", mu, above=0.0)
    centre, half = epsilon / mu, 0.5 * mu
    near, far = centre - half, centre + half
    density = math.exp(-0.5 * near * near) / math.sqrt(2.0 * math.pi)
    if half < 0.05:  # m(near) and m(far) agree in many digits: integrate m′ = xm − 1 instead
        x = centre + half * _NODES
        return density * half * float(_NODE_WEIGHTS @ (1.0 - x * mills(x)))
    first, second = mills(np.array([near, far]))
    if near < 0.0:
        return max(float(ndtr(-near)) - density * float(second), 0.0)
    return density * max(float(first - second), 0.0)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ of a Gaussian mechanism that is (ε, δ)-private.

    By bisection, reduced by a factor 1 − 10⁻¹²: rounding is on the safe side.
    """
    number("epsilon", epsilon, above=0.0)
    number("delta", delta, above=0.0, below=1.0)
    low, high = 1.0, 1.0
    while gdp_delta(epsilon, low) > delta:
        low *= 0.5
    while gdp_delta(epsilon, high) <= delta:
        high *= 2.0
    while low < (middle := 0.5 * (low + high)) < high:
        if gdp_delta(epsilon, middle) <= delta:
            low = middle
        else:
            high = middle
    return low * (1.0 - _MARGIN)


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 for which a Gaussian mechanism is (ε, δ)-private.

    By bisection, increased by a factor 1 + 10⁻¹²: rounding is on the safe side.
    """
    number("mu", mu, at_least=0.0)
    number("delta", delta, above=0.0, below=1.0)
    if mu == 0.0 or gdp_delta(0.0, mu) <= delta:
        return 0.0
    low, high = 0.0, 0.5 * mu * mu + mu * math.sqrt(2.0 * math.log(1.0 / delta)) + 1e-300
    while gdp_delta(high, mu) > delta:  # only after rounding errors
        high *= 1.0 + 1e-12
    while low < (middle := 0.5 * (low + high)) < high:
        if gdp_delta(middle, mu) <= delta:
            high = middle
        else:
            low = middle
    return high * (1.0 + _MARGIN)


def zcdp_epsilon(mu: float, delta: float) -> float:
    """Return the ε of zero-concentrated privacy with ρ = μ²/2, a looser bound.

    The discrete Gaussian has this ρ by a theorem about it alone, so this does not depend on the
    comparison with the continuous one. It is min over α > 1 of
    ρα + log(1/(αδ))/(α − 1) + log(1 − 1/α); every α gives a promise that holds. Canonne, Kamath and
    Steinke (2020), Theorem 4 and Proposition 12.
    """
    number("mu", mu, at_least=0.0)
    number("delta", delta, above=0.0, below=1.0)
    rho = 0.5 * mu * mu
    if rho == 0.0:
        return 0.0

    def promised(exponent: float) -> float:
        above = math.exp(exponent)  # α − 1
        order = 1.0 + above
        gain = math.log(1.0 / delta) - math.log(order)
        return rho * order + gain / above - math.log1p(1.0 / above)

    # Near the best α, α − 1 is about √(log(1/δ)/ρ): a grid around that, then golden sections.
    start = 0.5 * math.log(math.log(1.0 / delta) / rho)
    grid = [start + 0.05 * k for k in range(-200, 201)]
    best = min(range(len(grid)), key=lambda k: promised(grid[k]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    golden = 0.5 * (math.sqrt(5.0) - 1.0)
    for _ in range(60):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if promised(left) < promised(right):
            high = right
        else:
            low = left
    return max(min(promised(0.5 * (low + high)), promised(grid[best])), 0.0)
