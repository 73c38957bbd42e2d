"""The links under test, each with its own formulas in NumPy, and links as a user writes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr
from scipy.stats import norm, poisson

import fedglb as fg

Function = Callable[[np.ndarray], np.ndarray]


class Hyperbolic(fg.Link):
    """A link of the user's own with the least that is asked for: no constants, no s."""

    name = "hyperbolic"
    support = (0.0, 1.0)
    default_noise = 0.5

    @staticmethod
    def scalar_cumulant(z):
        return 0.5 * (z + math.sqrt(1.0 + z * z))

    @staticmethod
    def scalar_mean(z):
        return 0.5 * (1.0 + z / math.sqrt(1.0 + z * z))

    @staticmethod
    def scalar_variance(z):
        return 0.5 / (1.0 + z * z) ** 1.5


class KnownHyperbolic(Hyperbolic):
    """The same link with everything that is known about it."""

    name = "known hyperbolic"

    def k_mu(self, radius):
        return 0.5

    def c_mu(self, radius):
        return self.variance(radius)

    def self_concordance(self, radius):
        return 1.5  # |μ″/μ′| = 3|z|/(1 + z²), largest at |z| = 1


class Positive(fg.Link):
    """μ(z) = (z + √(1+z²))/2 > 0 with exponential rewards: a support and a sampler of its own."""

    name = "positive"
    support = (0.0, math.inf)
    default_noise = 1.0

    @staticmethod
    def scalar_cumulant(z):
        root = math.sqrt(1.0 + z * z)
        return 0.25 * ((z * (z + root) if z >= 0.0 else z / (root - z)) + math.asinh(z))

    @staticmethod
    def scalar_mean(z):
        root = math.sqrt(1.0 + z * z)
        return 0.5 * (z + root) if z >= 0.0 else 0.5 / (root - z)

    @staticmethod
    def scalar_variance(z):
        root = math.sqrt(1.0 + z * z)
        return 0.5 * (1.0 + z / root) if z >= 0.0 else 0.5 / (root * (root - z))

    def scalar_sampler(self):
        return _exponential


def _exponential(mean, u, noise):
    return -mean * math.log1p(-u)


class Dip(fg.Link):
    """μ′(z) = 1 − ½/(1 + (z − 0.3)²): its infimum lies inside, away from any round number."""

    name = "dip"
    default_noise = 1.0

    @staticmethod
    def scalar_cumulant(z):
        v = z - 0.3
        return 0.5 * z * z - 0.5 * (v * math.atan(v) - 0.5 * math.log1p(v * v))

    @staticmethod
    def scalar_mean(z):
        return z - 0.5 * math.atan(z - 0.3)

    @staticmethod
    def scalar_variance(z):
        v = z - 0.3
        return 1.0 - 0.5 / (1.0 + v * v)


class Bump(fg.Link):
    """μ′(z) = 0.1 + ½/(1 + (z + 0.7)²): its supremum lies inside."""

    name = "bump"
    default_noise = 1.0

    @staticmethod
    def scalar_cumulant(z):
        v = z + 0.7
        return 0.05 * z * z + 0.5 * (v * math.atan(v) - 0.5 * math.log1p(v * v))

    @staticmethod
    def scalar_mean(z):
        return 0.1 * z + 0.5 * math.atan(z + 0.7)

    @staticmethod
    def scalar_variance(z):
        v = z + 0.7
        return 0.1 + 0.5 / (1.0 + v * v)


@dataclass(frozen=True)
class Family:
    """A link of the package and, independently of it, its functions and its rewards."""

    link: fg.Link
    cumulant: Function
    mean: Function
    slope: Function
    quantile: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (mean, u) → reward
    noise: float | None = None

    def problem(self, dim: int, radius: float) -> fg.Problem:
        return fg.Problem(dim, self.link, radius, noise=self.noise)


def _bernoulli(mean, u):
    return (u < mean).astype(float)


def _phi(z):
    return np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


def _hyperbolic(link: fg.Link) -> Family:
    return Family(
        link,
        lambda z: 0.5 * (z + np.sqrt(1.0 + z * z)),
        lambda z: 0.5 * (1.0 + z / np.sqrt(1.0 + z * z)),
        lambda z: 0.5 * (1.0 + z * z) ** -1.5,
        _bernoulli,
    )


FAMILIES = {
    "logistic": Family(
        fg.Logistic(),
        lambda z: np.logaddexp(0.0, z),
        expit,
        lambda z: expit(z) * expit(-z),
        _bernoulli,
    ),
    "poisson": Family(
        fg.Poisson(), np.exp, np.exp, np.exp, lambda mean, u: poisson.ppf(u, mean), noise=1.0
    ),
    "identity": Family(
        fg.Identity(),
        lambda z: 0.5 * z * z,
        lambda z: 1.0 * z,
        np.ones_like,
        lambda mean, u: norm.ppf(u, loc=mean),
    ),
    "probit": Family(fg.Probit(), lambda z: z * ndtr(z) + _phi(z), ndtr, _phi, _bernoulli),
    "hyperbolic": _hyperbolic(Hyperbolic()),
    "known hyperbolic": _hyperbolic(KnownHyperbolic()),
}
