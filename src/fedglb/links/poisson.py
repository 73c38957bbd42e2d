"""The Poisson link: counts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.elementary import SMALLEST, exp, normal_quantile
from fedglb.links.base import Link
from fedglb.typing import FloatArray, IntArray


@inlined_kernel
def power(z: float) -> float:
    """Return e^z (held constant past the largest double)."""
    return exp(min(z, 709.0))


@kernel
def poisson_derivatives(
    z: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    functions: IntArray,
    with_variances: int,
) -> int:
    """Write μ(z) and, `with_variances`, μ′(z) of every z: they are the same."""
    for k in range(z.shape[0]):
        means[k] = power(z[k])
    if with_variances != 0:
        for k in range(z.shape[0]):
            variances[k] = means[k]
    return 0


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
    while term == 0.0:  # a tiny mean: the terms underflow
        k -= 1.0
        term = poisson_pmf(k, mean)
    above = term  # P(Poisson > k − 1)
    while k > 0.0 and above <= 1.0 - u:
        term *= k / mean
        k -= 1.0
        above += term
    return k


def _count(mean: float, u: float, noise: float) -> float:
    return poisson_quantile(mean, u)


class Poisson(Link):
    """The Poisson link, μ(z) = e^z: rewards are counts.

    Any reward ≥ 0 is accepted.

    A Poisson variable is not sub-Gaussian: no coverage is claimed, and algorithms whose radii need
    R require a `noise` of `Problem`.

    References
    ----------
    docs/theory.md, sections 1 and 2.7.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.Poisson().mean(0.0), fg.Poisson().sample(2.0, 0.5)
    (1.0, 2.0)
    """

    name = "poisson"
    support = (0.0, math.inf)
    default_noise = None
    sub_gaussian = False
    likelihood = True
    derivatives = staticmethod(poisson_derivatives)
    caveats = ("Poisson rewards are not sub-Gaussian: no coverage is claimed",)

    @staticmethod
    def scalar_cumulant(z: float) -> float:
        """Return e^z."""
        return power(z)

    @staticmethod
    def scalar_mean(z: float) -> float:
        """Return e^z."""
        return power(z)

    @staticmethod
    def scalar_variance(z: float) -> float:
        """Return e^z."""
        return power(z)

    def scalar_sampler(self) -> Callable[[float, float, float], float]:
        """Return the quantile function of the Poisson law."""
        return _count

    def k_mu(self, radius: float) -> float:
        """Return e^radius."""
        return self.variance(radius)

    def c_mu(self, radius: float) -> float:
        """Return e^{−radius}."""
        return self.variance(-radius)

    def self_concordance(self, radius: float) -> float:
        """Return 1: μ″ = μ′."""
        return 1.0
