"""The identity link: linear rewards with Gaussian noise."""

from __future__ import annotations

from fedglb.links.base import Link


class Identity(Link):
    """The identity link, μ(z) = z: rewards have Gaussian noise of standard deviation R.

    References
    ----------
    docs/theory.md, section 1.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.Identity().mean(0.3), fg.Identity().loss(2.0, 1.0)
    (0.3, 0.0)
    """

    name = "identity"
    likelihood = True  # divided by R²: R-sub-Gaussian rewards
    default_noise = 1.0

    @staticmethod
    def scalar_cumulant(z: float) -> float:
        """Return z²/2."""
        return 0.5 * z * z

    @staticmethod
    def scalar_mean(z: float) -> float:
        """Return z."""
        return z

    @staticmethod
    def scalar_variance(z: float) -> float:
        """Return 1."""
        return 1.0

    def k_mu(self, radius: float) -> float:
        """Return 1."""
        return 1.0

    def c_mu(self, radius: float) -> float:
        """Return 1."""
        return 1.0

    def self_concordance(self, radius: float) -> float:
        """Return 0: the loss is quadratic."""
        return 0.0

    def dispersion(self, noise: float) -> float:
        """Return R²."""
        return noise * noise
