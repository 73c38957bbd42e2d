"""Regret with memories under drift and after a jump: fedglb_auto, N = 50, d = 10, K = 25, S = 1.

Run from the repository's root: `.venv/bin/python -m benchmarks.memory` (`--seeds 2` for a look;
`--first 7000` to choose, 7100 to report). It prints mean regret with its standard error, and
updates and numbers sent per client and update, for each memory and each way in which θ moves.
"""

from __future__ import annotations

import argparse
import math
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import fedglb as fg

N = 50
MEMORIES: dict[str, fg.Algorithm] = {
    "Forever": fg.fedglb_auto(),
    "HalfLife(64)": fg.fedglb_auto(memory=fg.HalfLife(64.0)),
    "Adaptive": fg.fedglb_auto(memory=fg.Adaptive()),
    "personal": fg.fedglb_personal(),
    "personal, Adaptive": fg.fedglb_personal(memory=fg.Adaptive()),
}


def environments() -> dict[str, tuple[fg.Environment, int]]:
    """Return the environments and their horizons."""
    env = fg.Synthetic(fg.Problem(dim=10), clients=N, arms=25)
    moving: dict[str, tuple[fg.Environment, int]] = {"still": (env, 1000)}
    moving["spread 1"] = (fg.Heterogeneous(env, 1.0), 1000)
    for speed in (0.0003, 0.001, 0.003, 0.01):
        moving[f"{speed:g} rad/step"] = (fg.Drifting(env, speed), 1000)
    for T in (1000, 2000, 4000):
        moving[f"jump at {T // 2}"] = (fg.Jump(env, T // 2 + 1), T)
    return moving


def play(job: tuple[str, str, int]) -> tuple[float, int, float]:
    """Return regret, updates, and numbers per client and update."""
    where, memory, seed = job
    env, T = environments()[where]
    run = fg.simulate(MEMORIES[memory], env, T, seed=seed)
    return run.regret, run.syncs, run.scalars / (N * run.syncs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=7100)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    with ProcessPoolExecutor(2) as pool:
        cells = (f"{name}: regret | updates | numbers each" for name in MEMORIES)
        print(f"| θ | {' | '.join(cells)} |\n|{'---|' * (3 * len(MEMORIES) + 1)}")
        for where in environments():
            if given.only not in where:
                continue
            row = []
            for memory in MEMORIES:
                runs = np.array(list(pool.map(play, [(where, memory, seed) for seed in seeds])))
                error = np.std(runs[:, 0], ddof=1) / math.sqrt(len(runs))
                regret, updates, numbers = runs.mean(axis=0)
                row.append(f"{regret:.0f} ± {error:.0f} | {updates:.0f} | {numbers:.1f}")
            print(f"| {where} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
