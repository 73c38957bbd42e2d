"""Gaussian noise that makes every release of the one-pass update differentially private."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from fedglb.errors import InvalidInput, integer, number, one_of
from fedglb.privacy import fixed_point
from fedglb.privacy.accounting import SMOOTHING, gdp_mu
from fedglb.privacy.factorisation import norm, square_root_weights
from fedglb.privacy.sensitivity import Neighbours, residual_bound, sensitivities
from fedglb.problem import Problem
from fedglb.typing import FloatArray

Place = Literal["sums", "silo"]

# Sums must fit into 63 bits: so many standard deviations of all clients' noise do.
_ROOM = 64.0


@dataclass(frozen=True)
class NoisePlan:
    """How much noise a stream of releases gets: made by `Gaussian.plan`.

    Parameters
    ----------
    weights
        f_0, …, f_{B−1}: at update b a client sends Σ_j f_{b−j}·(its batch j) + noise. They are
        multiples of 2⁻³⁰, so that `fixed_point.weighted` is exact.
    vector_noise, matrix_noise
        σ_v and σ_H, the standard deviations of the noise in one release that the accounting rests
        on, in units of v and of H (off-diagonal entries times √2).
    vector_share, matrix_share
        The standard deviations of what one client adds.
    honest
        h: the noise of so many clients makes up σ_v and σ_H. 1 where each client's own noise does.
    vector_bound, matrix_bound
        How much v and H of neighbouring datasets differ, before weights and rounding.
    residual_limit, slope_limit
        G_v and k_μ: a client clips |y − μ(z) + μ′(z)z| and μ′(z) to these.
    rewards
        Smallest and largest reward; a client clips rewards to them.
    mu
        μ of the whole stream.
    dim, clients, contributions
        d; how many clients there are; how many interactions of a user are protected together.
    """

    weights: tuple[float, ...]
    vector_noise: float
    matrix_noise: float
    vector_share: float
    matrix_share: float
    honest: int
    vector_bound: float
    matrix_bound: float
    residual_limit: float
    slope_limit: float
    rewards: tuple[float, float]
    mu: float
    dim: int
    clients: int
    contributions: int

    @property
    def updates(self) -> int:
        """B, how many releases are planned."""
        return len(self.weights)

    def spread(self, updates: int) -> float:
        """Return by what σ is multiplied in the prefix sum after so many updates.

        Examples
        --------
        >>> import fedglb as fg
        >>> plan = fg.Gaussian(1.0, 1e-6).plan(fg.Problem(dim=2), clients=10, updates=30)
        >>> plan.spread(1), round(plan.spread(30), 3)
        (1.0, 1.465)
        """
        return norm(self.weights[: integer("updates", updates, at_least=0, at_most=self.updates)])

    def total_vector(self, updates: int, present: int) -> float:
        """Return the standard deviation in the prefix sum of v if so many clients add shares."""
        return self.vector_share * math.sqrt(present) * self.spread(updates)

    def total_matrix(self, updates: int, present: int) -> float:
        """Return the standard deviation in the prefix sum of H if so many clients add shares."""
        return self.matrix_share * math.sqrt(present) * self.spread(updates)

    def spent(self, releases: int) -> float:
        """Return μ of the first so many releases: less than `mu` until the last one is made.

        Examples
        --------
        >>> import fedglb as fg
        >>> plan = fg.Gaussian(1.0, 1e-6).plan(fg.Problem(dim=2), clients=10, updates=30)
        >>> round(plan.spent(1), 3), round(plan.spent(30), 3)
        (0.162, 0.237)
        """
        factor, count = self.spread(releases), self.contributions
        vector = _over_releases(self.vector_bound, factor, releases, self.dim, count)
        matrix = _over_releases(self.matrix_bound, factor, releases, self.dim, count)
        return math.hypot(vector / self.vector_noise, matrix / self.matrix_noise)

    def share_variance(self) -> tuple[Fraction, Fraction]:
        """Return the variances of the whole numbers that one client adds to v and to H.

        They are rounded up, and have what `accounting` needs for discrete noise on top.
        """
        return _variance(self.vector_share), _variance(self.matrix_share)

    def scales(self) -> FloatArray:
        """Return the standard deviation of each of the m whole numbers that one client adds."""
        vector, matrix = (math.sqrt(variance) for variance in self.share_variance())
        out = np.full(fixed_point.size(self.dim), matrix)
        out[: self.dim] = vector
        return out


@dataclass(frozen=True)
class Gaussian:
    """Differential privacy by Gaussian noise: (ε, δ) for all releases of a run together.

    Parameters
    ----------
    epsilon, delta
        What is promised: ε > 0 and δ between 0 and 1. δ should be well below one over the number
        of interactions.
    noise
        Where noise is added. "sums": each client adds a share, and only sums over clients are
        seen (secure sums). "silo": each client adds all of it, and its messages are private by
        themselves: no cryptography, and √clients times the noise.
    neighbours
        Which datasets are to look alike. "zero-out": with and without what one interaction adds.
        "replace": with one interaction exchanged for any other; it needs up to twice the noise.
    contributions
        How many interactions of one user are protected together; the application has to make
        sure that there are no more.
    honest
        The share of clients that are trusted to add their noise and to keep it to themselves;
        for "sums".
    hessian_share
        The share of μ² that is spent on the matrices.
    reward_limit
        Rewards are clipped to ± this. To be given where the link's rewards have no bound.

    Raises
    ------
    InvalidInput
        Where a value is outside its range.

    References
    ----------
    Balle and Wang (2018); Dong, Roth and Su (2022), *Gaussian differential privacy*.

    Examples
    --------
    >>> import fedglb as fg
    >>> plan = fg.Gaussian(epsilon=1.0, delta=1e-6).plan(fg.Problem(dim=10), 200, updates=30)
    >>> plan.honest, round(plan.mu, 4), round(plan.vector_noise, 2), round(plan.matrix_noise, 2)
    (180, 0.2367, 3.95, 2.82)
    """

    stored_name = "Gaussian"

    epsilon: float
    delta: float
    noise: Place = "sums"
    neighbours: Neighbours = "zero-out"
    contributions: int = 1
    honest: float = 0.9
    hessian_share: float = 0.3
    reward_limit: float | None = None

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, above=0.0)
        number("delta", self.delta, above=0.0, below=1.0)
        one_of("noise", self.noise, ("sums", "silo"))
        one_of("neighbours", self.neighbours, ("zero-out", "replace"))
        integer("contributions", self.contributions)
        allowed = "a number > 0 and <= 1: the share of clients that are trusted"
        if number("honest", self.honest, above=0.0, allowed=allowed) > 1.0:
            raise InvalidInput("honest", self.honest, allowed)
        number("hessian_share", self.hessian_share, above=0.0, below=1.0)
        if self.reward_limit is not None:
            number("reward_limit", self.reward_limit, above=0.0)

    def rewards(self, problem: Problem) -> tuple[float, float]:
        """Return the range to which clients clip rewards.

        Parameters
        ----------
        problem
            Its link says which rewards there are.

        Returns
        -------
        tuple
            Smallest and largest reward.

        Raises
        ------
        InvalidInput
            Where the link's rewards have no bound and `reward_limit` is None.
        """
        low, high = problem.link.support
        if self.reward_limit is not None:
            low, high = max(low, -self.reward_limit), min(high, self.reward_limit)
        if not math.isfinite(high - low):
            raise InvalidInput(
                "reward_limit",
                self.reward_limit,
                f"a number > 0, e.g. reward_limit=10.0: {problem.link.name} rewards have no bound, "
                "and without one no noise hides a single reward",
            )
        if not low < high:
            raise InvalidInput(
                "reward_limit",
                self.reward_limit,
                f"a number that leaves some of the rewards {problem.link.support} of the "
                f"{problem.link.name} link",
            )
        return float(low), float(high)

    def plan(self, problem: Problem, clients: int, updates: int) -> NoisePlan:
        """Return how much noise a run gets.

        Parameters
        ----------
        problem
            What is known about rewards: link, S and d.
        clients
            How many clients there are.
        updates
            B, how many releases are planned.

        Returns
        -------
        NoisePlan
            The noise of every release, and of every client's share.

        Raises
        ------
        InvalidInput
            Where rewards have no bound, or the noise would not fit into 64 bits.
        """
        integer("clients", clients)
        integer("updates", updates, at_most=fixed_point.MOST_BATCHES)
        rewards = self.rewards(problem)
        residual, slope = residual_bound(problem.link, problem.S, rewards), problem.k_mu
        bounds = sensitivities(residual, slope, self.neighbours, self.contributions)
        weights = fixed_point.rounded_weights(square_root_weights(updates))
        mu, factor = gdp_mu(self.epsilon, self.delta), norm(weights)
        vector, matrix = (
            _over_releases(bound, factor, updates, problem.dim, self.contributions)
            for bound in bounds
        )
        vector_noise = vector / (mu * math.sqrt(1.0 - self.hessian_share))
        matrix_noise = matrix / (mu * math.sqrt(self.hessian_share))
        # the product of a share and a whole number may be a little too large: 0.55 · 20
        honest = max(math.ceil(self.honest * clients - 1e-9), 1) if self.noise == "sums" else 1
        largest = max(vector_noise, matrix_noise) * math.sqrt(clients / honest)
        if not _ROOM * largest < 2.0 ** (62 - fixed_point.BITS):
            raise InvalidInput(
                "epsilon",
                self.epsilon,
                f"a larger number: noise of standard deviation {largest:.3g} in the sums does not "
                "fit into 64 bits (a smaller reward_limit or fewer contributions help, too)",
            )
        return NoisePlan(
            weights=tuple(weights.tolist()),
            vector_noise=vector_noise,
            matrix_noise=matrix_noise,
            vector_share=vector_noise / math.sqrt(honest),
            matrix_share=matrix_noise / math.sqrt(honest),
            honest=honest,
            vector_bound=bounds[0],
            matrix_bound=bounds[1],
            residual_limit=residual,
            slope_limit=slope,
            rewards=rewards,
            mu=mu,
            dim=problem.dim,
            clients=clients,
            contributions=self.contributions,
        )


def _over_releases(
    bound: float, factor: float, releases: int, dim: int, contributions: int
) -> float:
    """Return the norm of what neighbouring datasets change over so many releases.

    A changed sample is rounded before and after (half a unit in each of m numbers, each time), and
    so is each release, in which rounding can add a whole unit to every difference.
    """
    m = fixed_point.size(dim)
    sample = contributions * math.sqrt(m) * fixed_point.UNIT
    return factor * (bound + sample) + math.sqrt(releases) * sample


def _variance(share: float) -> Fraction:
    """Return a variance in squared units of the last place, rounded up (the margin: of floats)."""
    units = share * 2.0**fixed_point.BITS
    return Fraction(math.ceil(units * units * (1.0 + 1e-12)) + SMOOTHING)
