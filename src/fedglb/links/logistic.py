"""The logistic link: Bernoulli rewards."""

from __future__ import annotations

import math

from fedglb.links.base import Link


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

    @staticmethod
    def scalar_cumulant(z: float) -> float:
        """Return log(1 + e^z)."""
        return max(z, 0.0) + math.log1p(math.exp(-abs(z)))

    @staticmethod
    def scalar_mean(z: float) -> float:
        """Return 1/(1 + e^{−z}), without a branch on the sign, which would be mispredicted."""
        return 1.0 / (1.0 + math.exp(-z))

    @staticmethod
    def scalar_variance(z: float) -> float:
        """Return μ(1 − μ), which is even in z."""
        e = math.exp(-abs(z))
        return e / ((1.0 + e) * (1.0 + e))

    def k_mu(self, radius: float) -> float:
        """Return μ′(0)."""
        return 0.25

    def c_mu(self, radius: float) -> float:
        """Return μ′(radius): μ′ falls with |z|."""
        return self.variance(radius)

    def self_concordance(self, radius: float) -> float:
        """Return 1: μ″/μ′ = 1 − 2μ."""
        return 1.0

    def skew(self, radius: float) -> float:
        """Return tanh(radius/2), the largest |1 − 2μ|."""
        return math.tanh(0.5 * radius)

    def smooth_everywhere(self) -> bool:
        """Return True."""
        return True
