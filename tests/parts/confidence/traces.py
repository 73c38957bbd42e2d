"""Real runs, kept moment by moment, so that every inequality can be checked along them.

A trace is taken from the outside: the samples, the models that predicted them and what the solver
returned. Everything that a lemma speaks of is then recomputed from these by NumPy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.linalg import norm
from scipy.special import ndtri

import fedglb as fg
from fedglb.parts.global_update import GlobalUpdate, Objective, Solution
from fedglb.parts.local_update import LocalState
from fedglb.setting import Setting
from tests import plain

LINKS = {
    "logistic": fg.Logistic(),
    "probit": fg.Probit(),
    "identity": fg.Identity(),
    "poisson": fg.Poisson(),
}
#: Where the noise is sub-Gaussian, so that the radii themselves are proven.
PROVEN = ["logistic", "probit", "identity"]
#: What the lemmas' terms are looked at in: `Case`s without their links.
CASES = [
    {"seed": 1},
    {"seed": 2, "star": 0.3},
    {"seed": 3, "noise": "bounded"},
    {"seed": 4, "radius": 2.5},
]


@dataclass(frozen=True)
class Case:
    """A problem with a known θ*, and the arms and rewards of a run.

    `star` is ‖θ*‖/S. `noise` is "own" (the link's: Bernoulli, Gaussian, Poisson) or "bounded"
    (uniform around the mean, within the support).
    """

    link: str
    seed: int = 0
    noise: str = "own"
    radius: float = 1.0
    star: float = 1.0
    dim: int = 3
    clients: int = 3
    arms: int = 6
    horizon: int = 30

    @property
    def problem(self) -> fg.Problem:
        given = 0.5 if self.link == "poisson" else None
        return fg.Problem(self.dim, LINKS[self.link], self.radius, given)

    def environment(self) -> fg.Recorded:
        rng = np.random.default_rng([self.seed, list(LINKS).index(self.link)])
        star = rng.standard_normal(self.dim)
        star *= self.star * self.radius / norm(star)
        arms = rng.standard_normal((self.horizon, self.clients, self.arms, self.dim))
        arms /= np.maximum(norm(arms, axis=-1, keepdims=True), 1.0)
        means = plain.LINKS[self.link].mean(arms @ star)
        u = np.broadcast_to(rng.random((self.horizon, self.clients, 1)), means.shape)
        if self.noise == "bounded":
            low, high = self.problem.link.support
            reach = np.minimum(np.minimum(means - low, high - means), self.problem.R)
            rewards = means + (2.0 * u - 1.0) * reach
        elif self.link == "identity":
            rewards = means + self.problem.R * ndtri(u)
        else:
            rewards = np.asarray(self.problem.link.sample(means, u, self.problem.R))
        return fg.Recorded(self.problem, arms, means, rewards=rewards, parameter=star)


@dataclass(frozen=True)
class Sync:
    """One global update: what the solver was given and returned, and the samples since the last."""

    objective: Objective
    solution: Solution
    arms: np.ndarray
    rewards: np.ndarray
    earlier: Sync | None

    @property
    def history(self) -> list[Sync]:
        """All updates up to this one, in order."""
        return [*([] if self.earlier is None else self.earlier.history), self]

    @property
    def X(self) -> np.ndarray:
        """All samples so far."""
        return np.concatenate([s.arms for s in self.history])

    @property
    def y(self) -> np.ndarray:
        """Their rewards."""
        return np.concatenate([s.rewards for s in self.history])


@dataclass(frozen=True)
class Moment:
    """A client right before a choice."""

    t: int
    client: object
    setting: Setting
    link: plain.Link
    star: np.ndarray
    state: LocalState  # a copy
    alpha: float
    sync: Sync | None  # the last one
    X: np.ndarray  # own samples since then
    y: np.ndarray
    models: np.ndarray  # the θ that predicted each of them, (m, d)

    @property
    def epoch(self) -> int:
        return 1 if self.sync is None else 1 + len(self.sync.history)

    @property
    def old_X(self) -> np.ndarray:
        return self.X[:0] if self.sync is None else self.sync.X

    @property
    def old_y(self) -> np.ndarray:
        return self.y[:0] if self.sync is None else self.sync.y

    @property
    def z(self) -> np.ndarray:
        """Predictions of the own samples, each by the model of its time."""
        return np.einsum("md,md->m", self.X, self.models)

    def noise(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """η of these samples."""
        return y - self.link.mean(X @ self.star)


@dataclass(frozen=True)
class Trace:
    moments: list[Moment]
    syncs: list[Sync]


def watched(solver: GlobalUpdate, told: Callable[[Objective, Solution], None]) -> GlobalUpdate:
    """The same solver, but it tells what it was given and what it returned."""

    class Watched(type(solver)):
        def solve(self, objective):
            solution = yield from super().solve(objective)
            told(objective, solution)
            return solution

    twin = copy.copy(solver)
    object.__setattr__(twin, "__class__", Watched)
    return twin


@lru_cache(maxsize=64)
def trace(algorithm: fg.Algorithm, case: Case) -> Trace:
    """Run and keep everything."""
    env, link = case.environment(), plain.LINKS[case.link]
    star = env.parameter(0)
    assert star is not None
    clients: dict[object, fg.Client] = {}
    models: dict[object, list[np.ndarray]] = {}
    covered: dict[object, int] = {}
    moments: list[Moment] = []
    syncs: list[Sync] = []

    def told(objective: Objective, solution: Solution) -> None:
        # Nobody acts during an update, so it covers all samples there are.
        new = [(c.samples.X[covered[k] :], c.samples.y[covered[k] :]) for k, c in clients.items()]
        X, y = (np.concatenate(part) for part in zip(*new, strict=True))
        syncs.append(Sync(objective, solution, X, y, syncs[-1] if syncs else None))
        for k, client in clients.items():
            covered[k] = len(client.samples)

    def watch(t: int, i: int, client: fg.Client) -> None:
        k = client.id
        clients.setdefault(k, client)
        covered.setdefault(k, 0)
        past = models.setdefault(k, [])
        assert len(past) == len(client.samples)
        moments.append(
            Moment(
                t, k, client.setting, link, star, copy.deepcopy(client.state), client.alpha,
                syncs[-1] if syncs else None,
                client.samples.X[covered[k] :].copy(), client.samples.y[covered[k] :].copy(),
                np.array(past[covered[k] :]).reshape(-1, case.dim),
            )
        )  # fmt: skip
        past.append(client.state.theta.copy())

    if algorithm.global_update is not None:
        algorithm = replace(algorithm, global_update=watched(algorithm.global_update, told))
    fg.simulate(algorithm, env, engine="reference", observer=watch)
    return Trace(moments, syncs)


def ellipsoid_norm(v: np.ndarray, A: np.ndarray) -> float:
    """‖v‖_A."""
    return float(np.sqrt(v @ A @ v))


def dual_norm(v: np.ndarray, A: np.ndarray) -> float:
    """‖v‖_{A⁻¹}."""
    return float(np.sqrt(v @ np.linalg.solve(A, v)))
