"""The logistic link: Bernoulli rewards."""

from __future__ import annotations

import math

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.elementary import exp
from fedglb.links.base import Link
from fedglb.typing import FloatArray, IntArray


@inlined_kernel
def mean_and_variance(z: float) -> tuple[float, float]:
    """Return μ = 1/(1 + e^{−z}) and μ(1 − μ), without a branch, and without overflow for any z."""
    e = exp(-abs(z))
    total = 1.0 + e
    return (1.0 if z >= 0.0 else e) / total, e / (total * total)


@kernel
def logistic_derivatives(
    z: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    functions: IntArray,
    with_variances: int,
) -> int:
    """Write μ(z) and, `with_variances`, μ′(z) of every z."""
    if with_variances == 0:
        for k in range(z.shape[0]):
            means[k] = mean_and_variance(z[k])[0]
    else:
        for k in range(z.shape[0]):
            means[k], variances[k] = mean_and_variance(z[k])
    return 0


class Logistic(Link):
    """The logistic link, μ(z) = 1/(1 + e^{−z}): rewards are 0 or 1.

    Rewards anywhere in [0, 1] are accepted.

    References
    ----------
    docs/theory.md, section 1.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.Logistic().mean(0.0), fg.Logistic().k_mu(1.0)
    (0.5, 0.25)
    """

    name = "logistic"
    support = (0.0, 1.0)
    likelihood = True  # also of rewards between 0 and 1: e^{hy} ≤ 1 − y + y e^h
    default_noise = 0.5  # Hoeffding: a variable on [0, 1] is 1/2-sub-Gaussian
    derivatives = staticmethod(logistic_derivatives)

    @staticmethod
    def scalar_cumulant(z: float) -> float:
        """Return log(1 + e^z)."""
        return max(z, 0.0) + math.log1p(exp(-abs(z)))

    @staticmethod
    def scalar_mean(z: float) -> float:
        """Return 1/(1 + e^{−z})."""
        return mean_and_variance(z)[0]

    @staticmethod
    def scalar_variance(z: float) -> float:
        """Return μ(1 − μ)."""
        return mean_and_variance(z)[1]

    def k_mu(self, radius: float) -> float:
        """Return μ′(0)."""
        return 0.25

    def c_mu(self, radius: float) -> float:
        """Return μ′(radius): μ′ falls with |z|."""
        return self.variance(radius)

    def self_concordance(self, radius: float) -> float:
        """Return tanh(radius/2), the largest |μ″/μ′| = |1 − 2μ|."""
        return math.tanh(0.5 * radius)
