"""How often a run's ellipsoids lose θ*: the one check that all coverage tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

import fedglb as fg

DIM, CLIENTS, ARMS, DELTA = 2, 3, 5, 0.05
LINKS = {"logistic": fg.Logistic(), "probit": fg.Probit(), "identity": fg.Identity()}

#: name → (exploration → algorithm): every radius, by every algorithm that uses it.
ALGORITHMS: dict[str, Callable[[float], fg.Algorithm]] = {
    "FedGLB, event": lambda e: fg.fedglb_ucb(2.0, fg.Newton(), e, 1.0, DELTA),
    "FedGLB, schedule": lambda e: fg.fedglb_ucb_2(5, fg.Newton(), e, 1.0, DELTA),
    "FedGLB, never": lambda e: fg.n_ons_glm(e, 1.0, DELTA),
    "Iterate, event": lambda e: fg.fedglb_iterate(0.5, fg.Newton(), e, 1.0, DELTA),
    "Iterate, never": lambda e: fg.n_ons_glm(e, 1.0, DELTA, fg.Iterate()),
    "GlobalModel": lambda e: fg.fedglb_ucb_1(5, fg.Newton(), e, 1.0, DELTA),
    "OwnModel, one": lambda e: fg.one_ucb_glm(e, 1.0, DELTA),
    "OwnModel, each": lambda e: fg.n_ucb_glm(e, 1.0, DELTA),
    "OwnModel, loose": lambda e: fg.n_ucb_glm(e, 1.0, DELTA, tolerance=0.1),
    "LazyOnsRadius": lambda e: fg.fedglb_ucb_3(5, e, 1.0, DELTA),
    "Linear": lambda e: fg.dislinucb(2.0, e, 1.0, DELTA),
}  # fmt: skip


@dataclass(frozen=True)
class Coverage:
    """‖centre − θ*‖_A/α: its largest value in each run, and its median over all choices."""

    worst: np.ndarray
    median: float

    @property
    def lost(self) -> float:
        """The fraction of runs in which some client's ellipsoid lost θ* before some choice."""
        # Before any data ‖θ*‖_A equals √(λ/c)S where ‖θ*‖ = S: a bit of rounding is no loss.
        return float(np.mean(self.worst > 1.0 + 1e-9))


def coverage(
    algorithm: fg.Algorithm,
    env: fg.Environment,
    horizon: int,
    seeds: Iterable[int],
    first: int = 1,
) -> Coverage:
    """Compare every client's ellipsoid before every choice, from step `first` on, with θ*."""
    worst, every = [], []
    for seed in seeds:
        star = env.parameter(seed)
        ratios: list[float] = []

        def watch(t, i, client, star=star, ratios=ratios):
            if t < first:
                return
            error = client.algorithm.confidence.centre(client.state) - star
            ratios.append(float(np.sqrt(error @ client.state.matrix @ error) / client.alpha))

        fg.simulate(algorithm, env, horizon, seed, engine="reference", observer=watch)
        assert len(ratios) == (horizon - first + 1) * env.clients
        worst.append(max(ratios))
        every += ratios
    return Coverage(np.array(worst), float(np.median(every)))


def small_problem(link: str, radius: float = 1.0) -> fg.Synthetic:
    return fg.Synthetic(fg.Problem(DIM, LINKS[link], radius), CLIENTS, ARMS)
