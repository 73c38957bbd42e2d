"""Baselines that do not learn: random play, and the best-fitting fixed models.

A fixed model plays the arm it predicts to be best. There is one of each class, linear and with the
problem's link: the one that best fits the mean rewards of the arms on offer, by likelihood (least
squares for the linear one). It need not have the least regret of its class. Both classes *order*
arms in the same ways; they differ in which θ fits rewards that neither class describes exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import polars as pl

from fedglb.environments import Block, Environment
from fedglb.links import Identity, Link
from fedglb.provenance import cores
from fedglb.studies.results.tables import BASELINES
from fedglb.studies.run.sweep import SweepFailed
from fedglb.typing import FloatArray

RANDOM = "random play"

#: Maximum number of arms for a fit: enough for precision, few enough to be fast.
_MOST_ROWS = 100_000
#: Keeps a fit finite if the rewards are separable; relative to the number of arms.
_RIDGE = 1e-6
_MOST_STEPS = 100


def fixed_models(
    env: Environment, horizon: int, seeds: Iterable[int], jobs: int | None = None
) -> pl.DataFrame:
    """Return regret and reward of random play and of the best-fitting fixed models.

    They draw nothing: where no seed changes the environment, the first one is enough.
    """
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    seeds = list(seeds)[: None if env.randomised else 1]
    work = joblib.Parallel(n_jobs=jobs or cores())
    try:
        rows = work(joblib.delayed(_of_seed)(env, horizon, seed) for seed in seeds)
    except TerminatedWorkerError:
        what = "a worker process died while fixed models were measured (killed, or out of memory)"
        raise SweepFailed(what) from None
    return pl.DataFrame([row for some in rows for row in some], schema=BASELINES, orient="row")


def _of_seed(env: Environment, horizon: int, seed: int) -> list[tuple[str, int, float, float]]:
    X, y = _offered(env.blocks(horizon, seed))
    links = [env.problem.link, Identity()]
    players: dict[str, Callable[[Block], tuple[float, float]]] = {RANDOM: _at_random}
    for link in links:
        players[model_name(link)] = partial(_greedy, fit(link, X, y))
    totals = {name: np.zeros(2) for name in players}
    for block in env.blocks(horizon, seed):
        for name, play in players.items():
            totals[name] += play(block)
    return [(name, seed, float(total[0]), float(total[1])) for name, total in totals.items()]


def model_name(link: Link) -> str:
    """Return the name of the best-fitting model of a class."""
    return f"best-fitting {'linear' if isinstance(link, Identity) else link.name} model"


def _offered(blocks: Iterable[Block]) -> tuple[FloatArray, FloatArray]:
    """Return the first arms on offer and their mean rewards."""
    arms: list[FloatArray] = []
    means: list[FloatArray] = []
    left = _MOST_ROWS
    for block in blocks:
        arms.append(block.arms.reshape(-1, block.arms.shape[-1])[:left])
        means.append(block.means.reshape(-1)[:left])
        left -= means[-1].size
        if left == 0:
            break
    return np.concatenate(arms), np.concatenate(means)


def fit(link: Link, X: FloatArray, y: FloatArray) -> FloatArray:
    """Return the maximum-likelihood θ for mean rewards y of the arms X, by damped Newton steps."""
    n, d = X.shape
    ridge = _RIDGE * n
    theta = np.zeros(d)

    def objective(at: FloatArray) -> float:
        z = X @ at
        return float((link.cumulant(z) - y * z).sum() + 0.5 * ridge * (at @ at))

    value = objective(theta)
    for _ in range(_MOST_STEPS):
        z = X @ theta
        gradient = X.T @ (link.mean(z) - y) + ridge * theta
        hessian = (X.T * link.variance(z)) @ X + ridge * np.eye(d)
        step = np.linalg.solve(hessian, gradient)
        decrease = float(gradient @ step)
        if decrease <= 1e-12 * n:
            break
        size = 1.0
        with np.errstate(over="ignore"):  # a step that overflows is too long, and is halved
            while (
                not objective(theta - size * step) <= value - 0.25 * size * decrease and size > 1e-8
            ):
                size *= 0.5
        theta = theta - size * step
        value = objective(theta)
    return theta


def _gains(block: Block) -> FloatArray:
    """Return each arm's reward if known, else its mean."""
    return block.means if block.rewards is None else block.rewards


def _at_random(block: Block) -> tuple[float, float]:
    """Return the expected regret and reward of an arm drawn evenly."""
    regret = block.means.max(axis=2) - block.means.mean(axis=2)
    return _sum(regret, block), _sum(_gains(block).mean(axis=2), block)


def _greedy(theta: FloatArray, block: Block) -> tuple[float, float]:
    """Return the regret and reward of the arm of largest xᵀθ, the first of equals."""
    best = (block.arms @ theta).argmax(axis=2)[..., None]
    regret = block.means.max(axis=2) - np.take_along_axis(block.means, best, axis=2)[..., 0]
    return _sum(regret, block), _sum(np.take_along_axis(_gains(block), best, axis=2)[..., 0], block)


def _sum(values: FloatArray, block: Block) -> float:
    """Return the sum over the clients that act."""
    return float(values.sum() if block.active is None else values[block.active].sum())
