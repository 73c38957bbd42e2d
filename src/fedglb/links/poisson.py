"""The Poisson link: counts."""

from __future__ import annotations

import math
from collections.abc import Callable

from fedglb.links.base import Link
from fedglb.links.quantiles import poisson_quantile


def _count(mean: float, u: float, noise: float) -> float:
    return poisson_quantile(mean, u)


class Poisson(Link):
    """The Poisson link, μ(z) = e^z: rewards are counts.

    Any reward ≥ 0 is accepted.

    A Poisson variable is not sub-Gaussian. So `Problem` must be given a `noise`, and no coverage
    is claimed.

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
    caveats = ("Poisson rewards are not sub-Gaussian: no coverage is claimed",)

    @staticmethod
    def scalar_cumulant(z: float) -> float:
        """Return e^z (held constant past the largest double)."""
        return math.exp(min(z, 709.0))

    @staticmethod
    def scalar_mean(z: float) -> float:
        """Return e^z (held constant past the largest double)."""
        return math.exp(min(z, 709.0))

    @staticmethod
    def scalar_variance(z: float) -> float:
        """Return e^z (held constant past the largest double)."""
        return math.exp(min(z, 709.0))

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
