"""An interaction beside bare scoring, a pass over samples beside the memory's bandwidth.

`python -m benchmarks simulation`. All numbers are processor time of one thread, the least of a few
repetitions. An interaction is d=10, K=25, N=200, logistic: "16 side by side" shares the drawing of
arms and noise among 16 settings, as a sweep does. "plain NumPy" is `tests/plain.py`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import fedglb as fg
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE
from fedglb.kernels.scoring import pick, tie_level, upper_bounds
from fedglb.kernels.sums import add_derivatives
from fedglb.simulation.compiled import CompiledEngine, block_arrays
from fedglb.typing import FloatArray
from tests import plain

N, T, K, D, SETTINGS = 200, 300, 25, 10, 16
PRESETS: dict[str, Callable[[], fg.Algorithm]] = {
    "fedglb_ucb": lambda: fg.fedglb_ucb(10.0, fg.Newton(), exploration=0.1),
    "fedglb_mix": lambda: fg.fedglb_mix(10.0),
    "fedglb_auto": lambda: fg.fedglb_auto(),
}


def least(call: Callable[[], Any], repeats: int) -> float:
    """Return the smallest processor time of a call."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return min(spent)


@kernel
def bare_scoring(arms: FloatArray, centre: FloatArray, A_inv: FloatArray, alpha: float) -> int:
    """Choose an arm for each client in each step, and do nothing else."""
    scores, widths = np.empty(arms.shape[3]), np.empty(arms.shape[3])
    total = 0
    for s in range(arms.shape[0]):
        for i in range(arms.shape[1]):
            upper_bounds(arms[s, i], centre[i], A_inv[i], alpha, scores, widths)
            total += pick(scores, tie_level(scores), 0)
    return total


def pieces(env: fg.Synthetic, algorithms: list[fg.Algorithm]) -> FloatArray:
    """Return µs per interaction of drawing, of playing one setting, and of bare scoring."""
    engines = [CompiledEngine(algorithm, env, T, 1) for algorithm in algorithms]
    learners, spent, start = engines[0].learners, np.zeros(3), time.process_time()
    for block in env.checked_blocks(T, 1):
        shared = block_arrays(block)
        drawn = time.process_time()
        for engine in engines:
            engine.play(shared)
        played = time.process_time()
        centre = np.ascontiguousarray(learners.vectors[:, CENTRE])
        A_inv = np.ascontiguousarray(learners.matrices[:, INVERSE])
        bare_scoring(shared.arms[:1], centre, A_inv, 0.3)
        begun = time.process_time()
        bare_scoring(shared.arms, centre, A_inv, 0.3)
        scored = time.process_time() - begun
        spent += drawn - start, (played - drawn) / len(engines), scored
        start = time.process_time()
    return spent / (N * T) * 1e6


def plain_numpy() -> float:
    """Return µs per interaction of the plain version of FedGLB-UCB."""
    problem = fg.Problem(D)
    (block,) = fg.Synthetic(problem, 10, K).blocks(100, seed=1)
    assert block.uniforms is not None
    rewards = (block.uniforms[..., None] < block.means).astype(float)
    given = plain.Problem("logistic", problem.S, problem.R, problem.c_mu, 1.0, 0.01)
    call = lambda: plain.fedglb_ucb(given, block.arms, rewards, threshold=10.0)  # noqa: E731
    return least(call, 1) / 1000 * 1e6


def interactions() -> dict[str, float]:
    """Return µs per interaction and ratios to bare scoring."""
    env, found = fg.Synthetic(fg.Problem(D), N, K), {}
    for name, preset in PRESETS.items():
        algorithms = [preset() for _ in range(4)]
        pieces(env, algorithms)  # compile, and get memory from the system
        drawing, playing, scoring = np.minimum(pieces(env, algorithms), pieces(env, algorithms))
        found[f"{name}: drawing, µs"] = drawing
        found[f"{name}: playing, µs"] = playing
        found[f"{name}: bare scoring, µs"] = scoring
        found[f"{name}: alone / bare scoring"] = (drawing + playing) / scoring
        found[f"{name}: 16 side by side / bare scoring"] = (drawing / SETTINGS + playing) / scoring
    found["plain NumPy, µs"] = plain_numpy()
    return found


def passes(n: int = 1_000_000) -> dict[str, float]:
    """Return ns per sample of a pass over samples, and its share of the memory's bandwidth."""
    functions, found = fg.Logistic().compiled_functions, {}
    for d in (10, 55):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y, theta = rng.integers(0, 2, n).astype(float), 0.1 * rng.standard_normal(d)
        stream = X.nbytes / least(X.sum, 5)
        for hessian in (False, True):
            gradient, H = np.zeros(d), np.zeros((d, d))
            took = least(
                lambda: add_derivatives(X, y, theta, functions, gradient, H, hessian),  # noqa: B023
                3,
            )
            name = f"pass, d={d}, " + ("with Hessian" if hessian else "gradient")
            found[f"{name}, ns per sample"] = took / n * 1e9
            found[f"{name}, share of NumPy's sum"] = (X.nbytes + y.nbytes) / took / stream
    return found


def growth() -> dict[str, float]:
    """Return µs per interaction of N-ONS-GLM as d grows, the ball active and not."""
    found = {}
    for radius, ball in ((1.0, "active"), (30.0, "not active")):
        for d in (10, 50, 200):
            clients, steps = max(2, 400 // d), 200
            problem = fg.Problem(d, radius=radius, curvature=0.25)
            env, algorithm = fg.Synthetic(problem, clients, 16), fg.n_ons_glm(0.1, ridge=0.1)
            fg.simulate(algorithm, env, 2, 1)
            many = least(lambda: fg.compare([algorithm] * 3, env, steps, 1), 2)  # noqa: B023
            one = least(lambda: fg.compare([algorithm], env, steps, 1), 2)  # noqa: B023
            found[f"d={d}, ball {ball}, µs"] = (many - one) / (2 * clients * steps) * 1e6
    return found


if __name__ == "__main__":
    print(json.dumps({**interactions(), **passes(), **growth()}))
