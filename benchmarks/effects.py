"""What effects of recurring arms cost: `python -m benchmarks effects`.

An interaction in lockstep of the default rule, beside one of the same federation without effects,
secant weights and draws (`Bayes` around `Anchored`): processor time of one thread, the least of a
few repetitions, and the numbers sent per update and client. d = 10, N = 200, logistic.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace

os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import fedglb as fg
from fedglb.parts.local_update import Anchored
from fedglb.simulation.compiled import CompiledEngine, block_arrays

N, T, D = 200, 200, 10


class Same(fg.Environment):
    """The same arms in every step and for every client."""

    problem, clients = fg.Problem(dim=D), N

    def __init__(self, arms: int) -> None:
        self.arms = arms

    def parameter(self, seed: int) -> None:
        """Return nothing: the arms' means are not linear."""
        return

    def blocks(self, horizon: int, seed: int) -> Iterator[fg.Block]:
        """Yield all steps, a few at a time."""
        draw = np.random.default_rng(seed)
        X = draw.normal(size=(self.arms, D))
        X /= np.linalg.norm(X, axis=1)[:, None]
        means = 1.0 / (1.0 + np.exp(-2.0 * draw.normal(size=self.arms)))
        for first in range(1, horizon + 1, self.block_steps()):
            steps = min(self.block_steps(), horizon + 1 - first)
            shape = (steps, N, self.arms)
            arms = np.broadcast_to(X, (*shape, D))
            noise = draw.random(shape[:2])
            yield fg.Block(first, arms, np.broadcast_to(means, shape), uniforms=noise)


def interaction(env: fg.Environment, algorithm: fg.Algorithm, repeats: int) -> tuple[float, float]:
    """Return µs of an interaction without drawing arms, and the numbers of an update per client."""
    spent = []
    for _ in range(repeats):
        engine, seconds = CompiledEngine(algorithm, env, T, 1), 0.0
        for block in env.checked_blocks(T, 1):
            arrays = block_arrays(block)
            start = time.process_time()
            engine.play(arrays)
            seconds += time.process_time() - start
        spent.append(seconds)
    run = engine.result()
    return min(spent) / (N * T) * 1e6, run.scalars / max(run.syncs, 1) / N


def main() -> None:
    """Print one line per kind of arms."""
    default = fg.fedglb_auto()
    before = replace(fg.fedglb_auto(choice=fg.Bayes()), local_update=Anchored())
    environments: dict[str, fg.Environment] = {
        "25 new arms": fg.Synthetic(fg.Problem(dim=D), clients=N, arms=25),
        **{f"{arms} same arms": Same(arms) for arms in (10, 32, 100, 1000)},
    }
    for name, env in environments.items():
        repeats = 1 if env.arms == 1000 else 3
        (old, few), (new, many) = (interaction(env, a, repeats) for a in (before, default))
        found = {
            "arms": name, "microseconds": round(new, 2), "without effects": round(old, 2),
            "ratio": round(new / old, 2), "numbers": round(many), "numbers without": round(few),
        }  # fmt: skip
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
