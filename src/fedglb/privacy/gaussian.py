"""Gaussian noise that makes every release of the one-pass update differentially private."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from fedglb.errors import InvalidInput, integer, number, one_of
from fedglb.privacy import fixed_point
from fedglb.privacy.accounting import SMOOTHING, gdp_mu
from fedglb.privacy.factorisation import Factors, factors
from fedglb.privacy.sensitivity import Neighbours, joint, residual_bound, sensitivities
from fedglb.problem import Problem
from fedglb.typing import FloatArray, IntArray

#: Where noise is added.
NoisePlace = Literal["sums", "silo"]

# Sums must fit into 63 bits: this number of standard deviations of all clients' noise does.
_ROOM = 64.0


@dataclass(frozen=True)
class NoisePlan:
    """The noise of a stream of releases: made by `GaussianMechanism.plan`."""

    updates: int  # B, number of planned releases; see `factorisation`
    #: σ_v and σ_H, the standard deviations of the noise in one release for the accounting, in units
    #: of v and of H (off-diagonal entries times √2).
    vector_noise: float
    matrix_noise: float
    #: The standard deviations of one client's noise.
    vector_share: float
    matrix_share: float
    #: h, the number of clients whose noise adds up to σ_v and σ_H; 1 if each client's noise does.
    honest: int
    #: M, the smallest number of clients in a sum: above h, as a client knows its own share; 1 for
    #: one client, or if each client's noise adds up to σ_v and σ_H.
    members: int
    #: Differences of v and H between neighbouring datasets, before weights and rounding.
    vector_bound: float
    matrix_bound: float
    #: G_v and k_μ: a client clips |y − μ(z) + μ′(z)z| and μ′(z) to these.
    residual_limit: float
    slope_limit: float
    rewards: tuple[float, float]  # smallest and largest reward; a client clips rewards to them
    #: J and s: v and H of neighbouring datasets together differ by J times the two bounds, with a
    #: share of s for H (`sensitivity.joint`).
    joint: float
    hessian_share: float
    mu: float  # μ of the whole stream
    dim: int
    clients: int
    contributions: int  # interactions per user that are protected together

    @property
    def factors(self) -> Factors:
        """The factors from batches to releases, and back to sums of all batches."""
        return factors(self.updates)

    def encoded(self, batches: Mapping[int, IntArray], update: int) -> IntArray:
        """Return the release at an update b before noise: Σ_j E_bj·(batch j), rounded once.

        `batches` has the whole numbers of each batch up to b, by its update.
        """
        row = self.factors.encoder[update - 1]
        weights = np.array([row[j - 1] for j in batches])
        return fixed_point.weighted(weights, np.stack(list(batches.values())))

    def decoded(self, releases: Mapping[int, FloatArray], update: int) -> FloatArray:
        """Return Σ_j D_bj·(release j), the sum of all batches up to the update b.

        A missing release counts as 0.
        """
        row = self.factors.decoder[update - 1]
        return np.asarray(sum(row[j - 1] * numbers for j, numbers in releases.items()))

    def spent(self, releases: int) -> float:
        """Return μ of the first n releases: less than `mu` until the last one is made."""
        integer("releases", releases, at_least=0, at_most=self.updates)
        unit = self.vector_noise * math.sqrt(1.0 - self.hessian_share) / self.vector_bound
        return _changed(self, releases) / unit

    def against(self, colluding: int) -> float:
        """Return μ against a number of clients that know each other's noise, or leave it out.

        It is for an interaction of another client, with the coordinator among those who collude.
        """
        integer("colluding", colluding, at_least=0, at_most=self.clients - 1)
        others = max(self.members - colluding, 1)  # that other client at least
        return self.mu * math.sqrt(self.honest / others)

    def share_variance(self) -> tuple[Fraction, Fraction]:
        """Return the variances of the whole numbers that one client adds to v and to H.

        They are rounded up, with the margin of `accounting` for discrete noise.
        """
        return _variance(self.vector_share), _variance(self.matrix_share)

    def scales(self) -> FloatArray:
        """Return the standard deviation of each of one client's m whole numbers."""
        vector, matrix = (math.sqrt(variance) for variance in self.share_variance())
        out = np.full(fixed_point.size(self.dim), matrix)
        out[: self.dim] = vector
        return out


@dataclass(frozen=True)
class GaussianMechanism:
    """Differential privacy by Gaussian noise: (ε, δ) for all releases of a run together.

    Parameters
    ----------
    epsilon, delta
        The promise: ε > 0 and δ between 0 and 1. δ should be well below one over the number
        of interactions.
    noise
        Where noise is added. "sums": each client adds a share, and only sums over clients are
        visible (secure sums). "silo": each client adds all of it, and its messages are private
        without cryptography, with √clients times the noise.
    neighbours
        The neighbouring datasets. "zero-out": with and without one interaction's terms.
        "replace": with one interaction exchanged for any other; it needs up to twice the noise.
    contributions
        Interactions per user that are protected together; the application must limit users to
        this number.
    honest
        The share of clients trusted to add their noise and keep it secret; for "sums". If these
        are all clients of a sum, each adds enough for one less: it knows its own noise.
    hessian_share
        The share of μ² that is spent on the matrices.
    reward_limit
        Rewards are clipped to ± this. Required if the link's rewards have no bound.

    Raises
    ------
    InvalidInput
        If a value is outside its range.

    References
    ----------
    Balle and Wang (2018); Dong, Roth and Su (2022), *Gaussian differential privacy*.

    Examples
    --------
    >>> import fedglb as fg
    >>> plan = fg.GaussianMechanism(1.0, 1e-6).plan(fg.Problem(dim=10), 200, updates=30)
    >>> plan.honest, round(plan.mu, 4), round(plan.vector_noise, 2), round(plan.matrix_noise, 2)
    (180, 0.2367, 2.58, 1.84)
    """

    stored_name = "Gaussian"

    epsilon: float
    delta: float
    noise: NoisePlace = "sums"
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
        allowed = "a number > 0 and <= 1, the share of trusted clients"
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
            The problem, whose link has a range of rewards.

        Returns
        -------
        tuple
            Smallest and largest reward.

        Raises
        ------
        InvalidInput
            If the link's rewards have no bound and `reward_limit` is None.
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

    def plan(
        self, problem: Problem, clients: int, updates: int, members: int | None = None
    ) -> NoisePlan:
        """Return the noise of a run.

        Parameters
        ----------
        problem
            The problem: link, S and d.
        clients
            The number of clients.
        updates
            B, the number of planned releases.
        members
            The smallest number of clients in a sum, if that is more than the trusted ones; None:
            all clients are in every sum.

        Returns
        -------
        NoisePlan
            The noise of every release, and of every client's share.

        Raises
        ------
        InvalidInput
            If rewards have no bound, or the noise would not fit into 64 bits.
        """
        integer("clients", clients)
        integer("updates", updates, at_most=fixed_point.MOST_BATCHES)
        if members is not None:
            integer("members", members, at_most=clients)
        rewards = self.rewards(problem)
        residual, slope = residual_bound(problem.link, problem.S, rewards), problem.k_mu
        if residual > fixed_point.LARGEST:
            allowed = f"at most {fixed_point.LARGEST:g}: use a larger unit for rewards"
            raise InvalidInput("reward_limit", self.reward_limit, allowed)
        bounds = sensitivities(residual, slope, self.neighbours, self.contributions)
        mu, share = gdp_mu(self.epsilon, self.delta), self.hessian_share
        together = joint(problem.link, problem.S, rewards, self.neighbours, share)
        honest = least = 1
        if self.noise == "sums":
            # the product of a share and a whole number may be a little too large: 0.55 · 20
            trusted = max(math.ceil(self.honest * clients - 1e-9), 1)
            least = clients if members is None else max(members, trusted)
            # towards a client that knows its own share (docs/privacy.md, section Shares)
            honest = max(min(trusted, least - 1), 1)
        bare = NoisePlan(
            updates=updates,
            vector_noise=math.nan,  # these four follow from the others
            matrix_noise=math.nan,
            vector_share=math.nan,
            matrix_share=math.nan,
            honest=honest,
            members=least,
            vector_bound=bounds[0],
            matrix_bound=bounds[1],
            residual_limit=residual,
            slope_limit=slope,
            rewards=rewards,
            joint=together,
            hessian_share=share,
            mu=mu,
            dim=problem.dim,
            clients=clients,
            contributions=self.contributions,
        )
        noise = _changed(bare, updates) / mu
        vector, matrix = noise * bounds[0] / math.sqrt(1.0 - share), noise * bounds[1] / share**0.5
        largest = max(vector, matrix) * math.sqrt(clients / honest)
        if not _ROOM * largest < 2.0 ** (62 - fixed_point.BITS):
            raise InvalidInput(
                "epsilon",
                self.epsilon,
                f"a larger number: noise of standard deviation {largest:.3g} in the sums does not "
                "fit into 64 bits (a smaller reward_limit or fewer contributions help, too)",
            )
        return replace(
            bare,
            vector_noise=vector,
            matrix_noise=matrix,
            vector_share=vector / math.sqrt(honest),
            matrix_share=matrix / math.sqrt(honest),
        )


def _changed(plan: NoisePlan, releases: int) -> float:
    """Return the norm of the change between neighbouring datasets over n releases, in units of μ.

    v is measured in units of Δ_v/√(1 − s) and H in units of Δ_H/√s. A changed sample is rounded
    before and after (half a unit of the last place in each of m numbers, each time), and so is each
    release, in which rounding can add a whole unit to every difference.
    """
    growth = plan.factors.growth(releases)
    s, places = plan.hessian_share, math.sqrt(fixed_point.size(plan.dim))
    unit = math.hypot(math.sqrt(1.0 - s) / plan.vector_bound, math.sqrt(s) / plan.matrix_bound)
    rounding = plan.contributions * places * fixed_point.UNIT * unit
    return growth * (plan.joint + rounding) + math.sqrt(releases) * rounding


def _variance(share: float) -> Fraction:
    """Return a variance in squared units of the last place, rounded up (the margin: of floats)."""
    units = share * 2.0**fixed_point.BITS
    return Fraction(math.ceil(units * units * (1.0 + 1e-12)) + SMOOTHING)
