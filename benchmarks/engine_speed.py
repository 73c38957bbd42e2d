"""An interaction and a pass, before and after: drawing, checking, playing, beside bare scoring.

Run from the repository's root: `.venv/bin/python -m benchmarks.engine_speed [--before FOLDER]`.
Times are of the processor, in one thread; "alone, 2 threads" is the time that passes, and means
something only on a machine with two idle cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.beside import in_turns, rows

INTERACTION = """
import json, os, sys, time
os.environ["NUMBA_NUM_THREADS"] = "1"
import numpy as np
import fedglb as fg
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE
from fedglb.kernels.scoring import pick, upper_bounds
from fedglb.simulation.compiled import CompiledEngine, block_arrays

N, T, K, d, SETTINGS = 200, int(sys.argv[1]), 25, 10, 16
env = fg.Synthetic(fg.Problem(d), N, K)

@kernel
def bare(arms, centre, A_inv, alpha):
    scores, widths = np.empty(arms.shape[3]), np.empty(arms.shape[3])
    total = 0
    for s in range(arms.shape[0]):
        for i in range(arms.shape[1]):
            upper_bounds(arms[s, i], centre[i], A_inv[i], alpha, scores, widths)
            total += pick(scores)
    return total

def once(algorithms):
    engines = [CompiledEngine(algorithm, env, T, 1) for algorithm in algorithms]
    spent = np.zeros(3)
    start = time.process_time()
    for block in env.checked_blocks(T, 1):
        shared = block_arrays(block)
        drawn = time.process_time()
        for engine in engines:
            engine.play(shared)
        played = time.process_time()
        learners = engines[0].learners
        centre = np.ascontiguousarray(learners.vectors[:, CENTRE])
        A_inv = np.ascontiguousarray(learners.matrices[:, INVERSE])
        bare(shared.arms[:1], centre, A_inv, 0.3)
        scored = time.process_time()
        bare(shared.arms, centre, A_inv, 0.3)
        end = time.process_time()
        spent += drawn - start, (played - drawn) / len(engines), end - scored
        start = time.process_time()
    return spent / (N * T) * 1e6

presets = {
    "fedglb_ucb D=10": lambda k: fg.fedglb_ucb(10.0, fg.Newton(), exploration=0.1 + 0.001 * k),
    "fedglb_mix D=10": lambda k: fg.fedglb_mix(10.0),
    "fedglb_auto": lambda k: fg.fedglb_auto(),
}
said = {}
for name, preset in presets.items():
    algorithms = [preset(k) for k in range(4)]
    once(algorithms)
    drawing, playing, scoring = np.minimum(once(algorithms), once(algorithms))
    said[f"{name}: drawing, µs"] = drawing
    said[f"{name}: playing, µs"] = playing
    said[f"{name}: bare scoring, µs"] = scoring
    said[f"{name}: alone / bare scoring"] = (drawing + playing) / scoring
    said[f"{name}: 16 side by side / bare scoring"] = (drawing / SETTINGS + playing) / scoring
print(json.dumps(said))
"""

PASSES = """
import inspect, json, time
import numpy as np
import fedglb as fg
from fedglb.kernels.sums import add_derivatives

def least(call, repeats):
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best

link, n, said = fg.Logistic(), 1_000_000, {}
given = inspect.signature(add_derivatives).parameters
functions = (
    (link.compiled_functions,) if "functions" in given
    else (link.compiled_mean.address, link.compiled_variance.address)
)
for d in (10, 55):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y, theta = rng.integers(0, 2, n).astype(float), 0.1 * rng.standard_normal(d)
    stream = X.nbytes / least(X.sum, 7) / 1e9
    for hessian in (False, True):
        gradient, H = np.zeros(d), np.zeros((d, d))
        took = least(lambda: add_derivatives(X, y, theta, *functions, gradient, H, hessian), 5)
        name = f"d={d}, " + ("with Hessian" if hessian else "gradient")
        said[f"{name}, ns per sample"] = took / n * 1e9
        said[f"{name}, of the stream's bandwidth"] = (X.nbytes + y.nbytes) / took / 1e9 / stream
    said[f"d={d}, NumPy's sum, GB/s"] = stream
print(json.dumps(said))
"""

ALONE = """
import json, os, sys, time
if sys.argv[1] == "1":
    os.environ["NUMBA_NUM_THREADS"] = "1"
import fedglb as fg
env = fg.Synthetic(fg.Problem(10), 200, 25)
said = {}
for name, algorithm in {
    "fedglb_ucb D=10": fg.fedglb_ucb(10.0, fg.Newton(), exploration=0.1),
    "fedglb_mix D=10": fg.fedglb_mix(10.0),
    "fedglb_auto": fg.fedglb_auto(),
}.items():
    fg.simulate(algorithm, env, 20, 1)
    took = []
    for _ in range(3):
        start = time.perf_counter()
        fg.simulate(algorithm, env, 1000, 1)
        took.append(time.perf_counter() - start)
    said[f"{name}: alone, µs that pass, {sys.argv[1]} thread(s)"] = min(took) / 200_000 * 1e6
print(json.dumps(said))
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of older sources")
    parser.add_argument("--steps", default="500", help="T of the interactions")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    print("| | before | after | before / after |\n|---|---|---|---|")
    for program, argument in (
        (INTERACTION, given.steps), (PASSES, ""), (ALONE, "1"), (ALONE, "2"),
    ):  # fmt: skip
        started = time.perf_counter()
        print(rows(in_turns(program, given.before, argument, repeats=given.repeats)), flush=True)
        print(f"<!-- {time.perf_counter() - started:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
