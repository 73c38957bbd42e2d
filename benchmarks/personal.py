"""Clients that differ, one shared model, and a model for each: `python -m benchmarks.personal`.

Regret of `fedglb_auto`, of learning alone (`fedglb_auto` without updates; beside it `n_ucb_glm`
with a width tuned in hindsight) and of `fedglb_personal` with and without directions, N = 50,
d = 10, K = 25, T = 1000, S = 1, paired by seed; that of the tenth of clients farthest from the
common θ, as a share of both ways of learning alone; and what an interaction and an update cost
where clients are alike.

    python -m benchmarks.personal [--first 7100] [--seeds 10] [--clients 50] [--link logistic]
        [--worlds 0,0.5,groups,"1 unequal"] [--cost]

A world is a spread, a name of `WORLDS`, or either of them with a word of `HOW` behind it.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from functools import partial

os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import joblib
import numpy as np

import fedglb as fg
from benchmarks.effects import interaction
from fedglb.environments.partial import stretches, unequal
from fedglb.typing import FloatArray

WORLDS = ("0", "0.25", "0.5", "1", "2", "3", "outliers", "groups", "three groups", "directions")
#: One client acts in each step, the last in one of 1,000; half of the clients act at a time, for
#: 100 steps each; rewards come 100 steps late.
HOW: dict[str, Callable[[fg.Environment], fg.Environment]] = {
    "unequal": partial(unequal, ratio=1000.0), "away": partial(stretches, length=100),
    "late": partial(fg.Delayed, steps=100),
}  # fmt: skip
LINKS: dict[str, tuple[type[fg.Link], float | None]] = {
    "logistic": (fg.Logistic, None), "identity": (fg.Identity, 0.5), "poisson": (fg.Poisson, 1.0),
}  # fmt: skip
ALGORITHMS = {
    "shared": fg.fedglb_auto(),
    "alone": fg.fedglb_auto(threshold=math.inf),
    "alone, tuned": fg.n_ucb_glm(exploration=0.03),
    "personal": fg.fedglb_personal(),
    "personal, directions": fg.fedglb_personal(spikes=True),
    "personal, adaptive": fg.fedglb_personal(memory=fg.Adaptive()),
}


def world(name: str, link: str, clients: int) -> fg.Environment:
    """Return an environment by its name."""
    plain, _, how = name.rpartition(" ")
    if how in HOW:
        return HOW[how](world(plain, link, clients))
    kind, noise = LINKS[link]
    problem = fg.Problem(dim=10, link=kind(), noise=noise)
    alike = fg.Synthetic(problem, clients=clients, arms=25)
    if name == "outliers":
        return fg.Outliers(alike, max(1, clients // 10))
    if name in ("groups", "three groups"):
        return fg.Grouped(alike, 2 if name == "groups" else 3)
    if name == "directions":
        return fg.Heterogeneous(alike, 1.0, directions=2)
    return fg.Heterogeneous(alike, float(name))


def regrets(name: str, link: str, clients: int, horizon: int, seed: int) -> list[list[float]]:
    """Return the regret of all clients and of the farthest tenth, for each algorithm."""
    env = world(name, link, clients)
    every = env.parameters(seed)
    assert every is not None
    common = every[0].mean(axis=0) if name != "outliers" else every[0, -1]
    away = np.linalg.norm(every[0] - common, axis=1) if every.shape[1] == clients else np.zeros(1)
    far = np.argsort(-np.resize(away, clients), kind="stable")[: max(1, clients // 10)]
    found = []
    for algorithm in ALGORITHMS.values():
        run = fg.simulate(algorithm, env, horizon, seed)
        found.append([run.regret, float(run.client_regret[far].sum())])
    return found


def table(names: list[str], link: str, clients: int, horizon: int, seeds: range) -> None:
    """Print a row per world."""
    titles = ["personal to the better of the first two", "directions", "adaptive", "farthest tenth"]
    print("| " + " | ".join(["world", *ALGORITHMS, *titles]) + " |")
    print("|" + "---|" * (len(ALGORITHMS) + 5))
    for name in names:
        found = np.array(
            joblib.Parallel(n_jobs=2)(
                joblib.delayed(regrets)(name, link, clients, horizon, seed) for seed in seeds
            )
        )
        mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(len(found))
        cells = [f"{m:.0f} ± {e:.0f}" for m, e in zip(mean[:, 0], error[:, 0], strict=True)]
        best = int(mean[:2, 0].argmin())
        ratios = [share(found[:, k, 0], found[:, best, 0]) for k in (3, 4, 5)]
        far = f"{mean[3, 1] / mean[1, 1]:.2f}, {mean[3, 1] / mean[2, 1]:.2f}"
        print("| " + " | ".join([name, *cells, *ratios, far]) + " |", flush=True)


def share(own: FloatArray, other: FloatArray) -> str:
    """Return regret as a share of another one, with the standard error of the paired difference."""
    error = (own - other).std(ddof=1) / math.sqrt(len(own))
    return f"{own.mean() / other.mean():.2f} ± {error / other.mean():.2f}"


def cost() -> None:
    """Print µs of an interaction and numbers per client and update, where clients are alike."""
    env = world("0", "logistic", 200)
    found = {name: interaction(env, ALGORITHMS[name], 3) for name in ("shared", "personal")}
    (old, few), (new, many) = found.values()
    print(f"an interaction: {new:.2f} µs, shared {old:.2f}: {new / old:.2f} ×")
    print(f"numbers per client and update: {many:.0f}, shared {few:.0f}: {many / few:.3f} ×")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=7100, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--link", choices=LINKS, default="logistic")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--cost", action="store_true", help="only what it costs")
    given = parser.parse_args()
    if given.cost:
        cost()
        return
    seeds = range(given.first, given.first + given.seeds)
    table(given.worlds.split(","), given.link, given.clients, given.horizon, seeds)


if __name__ == "__main__":
    main()
