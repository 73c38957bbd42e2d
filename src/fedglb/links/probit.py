"""The probit link: Bernoulli rewards, as a quasi-likelihood."""

from __future__ import annotations

import math

from fedglb.kernels.compile import kernel
from fedglb.links.base import Link


@kernel
def normal_density(z: float) -> float:
    """Return φ(z)."""
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


@kernel
def normal_cdf(z: float) -> float:
    """Return Φ(z), accurate in the lower tail."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


class Probit(Link):
    """The probit link, μ(z) = Φ(z): rewards are 0 or 1.

    Rewards anywhere in [0, 1] are accepted.

    The loss is the one whose derivative in z is Φ(z) − y, with m(z) = zΦ(z) + φ(z): a
    quasi-likelihood. It is convex and its minimiser is consistent, but μ′ = φ is not the
    variance of the reward.

    References
    ----------
    docs/theory.md, sections 1 and 2.7.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.Probit().mean(0.0), round(fg.Probit().k_mu(1.0), 4)
    (0.5, 0.3989)
    """

    name = "probit"
    support = (0.0, 1.0)
    default_noise = 0.5
    caveats = ("probit is a quasi-likelihood here: μ′ is not the variance of the reward",)

    @staticmethod
    def scalar_cumulant(z: float) -> float:
        """Return zΦ(z) + φ(z)."""
        return z * normal_cdf(z) + normal_density(z)

    @staticmethod
    def scalar_mean(z: float) -> float:
        """Return Φ(z)."""
        return normal_cdf(z)

    @staticmethod
    def scalar_variance(z: float) -> float:
        """Return φ(z)."""
        return normal_density(z)

    def k_mu(self, radius: float) -> float:
        """Return φ(0)."""
        return self.variance(0.0)

    def c_mu(self, radius: float) -> float:
        """Return φ(radius)."""
        return self.variance(radius)

    def self_concordance(self, radius: float) -> float:
        """Return radius: μ″/μ′ = −z, which is bounded on bounded sets only."""
        return radius
