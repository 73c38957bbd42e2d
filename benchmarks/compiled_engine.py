"""The compiled engine: beside bare scoring and the plain NumPy version, at scale, and how it grows.

Run from the repository's root: `.venv/bin/python -m benchmarks.compiled_engine [SECTION ...]`.
Ratios are of times measured in this one run, the compared pieces in turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE
from fedglb.kernels.scoring import pick, upper_bounds
from fedglb.kernels.sums import add_derivatives
from fedglb.simulation.compiled import CompiledEngine, block_arrays
from fedglb.typing import FloatArray
from tests import plain

SETTINGS = 16


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@kernel
def bare_scoring(arms: FloatArray, centre: FloatArray, A_inv: FloatArray, alpha: float) -> int:
    """Choose an arm for each client in each step, and do nothing else."""
    steps, clients, _, K = arms.shape
    scores, widths = np.empty(K), np.empty(K)
    total = 0
    for s in range(steps):
        for i in range(clients):
            upper_bounds(arms[s, i], centre[i], A_inv[i], alpha, scores, widths)
            total += pick(scores)
    return total


def interaction() -> None:
    """The paper's setting: a sweep of 16 settings side by side, bare scoring, plain NumPy."""
    N, T, K, d = 200, 2000, 25, 10
    env = fg.Synthetic(fg.Problem(d), N, K)
    algorithms = [
        fg.fedglb_ucb(10.0, fg.Newton(), exploration=0.1 * (1.0 + k / SETTINGS))
        for k in range(SETTINGS)
    ]
    _in_turn(env, algorithms, T)  # compile, and get memory from the system
    drawing, playing, scoring = min(_in_turn(env, algorithms, T) for _ in range(2))
    bare, alone = scoring, playing / SETTINGS
    compare, single = drawing / SETTINGS + alone, drawing + alone
    other = _plain(d, K)
    print(f"d={d} K={K} N={N} T={T}, FedGLB-UCB, Newton, D=10, logistic")
    print("| | µs per interaction | ratio to bare scoring |")
    print("|---|---|---|")
    for name, value in (
        ("bare scoring", bare),
        (f"{SETTINGS} settings side by side", compare),
        ("… without drawing arms and noise", alone),
        ("one setting alone", single),
        ("plain NumPy (N=10, T=100)", other),
    ):
        print(f"| {name} | {value * 1e6:.3f} | {value / bare:.2f} |")
    print(f"plain NumPy / compare: {other / compare:.0f}; / alone: {other / single:.0f}")


def _in_turn(
    env: fg.Synthetic, algorithms: list[fg.Algorithm], T: int
) -> tuple[float, float, float]:
    """Return seconds an interaction of drawing, of playing all settings, and of bare scoring.

    Block by block in turn, so that all of them meet the same moments of a shared machine.
    """
    engines = [CompiledEngine(algorithm, env, T, 1) for algorithm in algorithms]
    learners = engines[0].learners
    drawing = playing = scoring = 0.0
    start = time.perf_counter()
    for block in env.checked_blocks(T, seed=1):
        shared = block_arrays(block)
        drawn = time.perf_counter()
        for engine in engines:
            engine.play(shared)
        played = time.perf_counter()
        drawing += drawn - start
        playing += played - drawn
        centre = np.ascontiguousarray(learners.vectors[:, CENTRE])
        A_inv = np.ascontiguousarray(learners.matrices[:, INVERSE])
        bare_scoring(shared.arms[:1], centre, A_inv, 0.3)
        start = time.perf_counter()
        bare_scoring(shared.arms, centre, A_inv, 0.3)
        scoring += time.perf_counter() - start
        start = time.perf_counter()
    n = env.clients * T
    return drawing / n, playing / n, scoring / n


def _arms(rng: np.random.Generator, *shape: int) -> FloatArray:
    arms = rng.standard_normal(shape)
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    return arms


def _plain(d: int, K: int) -> float:
    problem = fg.Problem(d)
    env = fg.Synthetic(problem, 10, K)
    blocks = list(env.blocks(100, seed=1))
    arms, means = (np.concatenate([getattr(b, n) for b in blocks]) for n in ("arms", "means"))
    uniforms = np.concatenate([b.uniforms for b in blocks if b.uniforms is not None])
    rewards = (uniforms[..., None] < means).astype(float)
    given = plain.Problem("logistic", problem.S, problem.R, problem.c_mu, 1.0, 0.01)
    return seconds(lambda: plain.fedglb_ucb(given, arms, rewards, threshold=10.0)) / 1000


def passes() -> None:
    """A pass over the samples of a global update beside the machine's memory bandwidth."""
    print("one pass over 2,000,000 samples, logistic; beside a NumPy sum over the same memory")
    print("| d | sum, GB/s | gradient, ns per sample (GB/s) | with Hessian, ns per sample (GB/s) |")
    print("|---|---|---|---|")
    link, n = fg.Logistic(), 2_000_000
    for d in (10, 55):
        rng = np.random.default_rng(0)
        X, y = _arms(rng, n, d), rng.integers(0, 2, n).astype(float)
        theta = 0.1 * rng.standard_normal(d)
        memory = X.nbytes / min(seconds(X.sum) for _ in range(5)) / 1e9
        cells = []
        for hessian in (False, True):
            took = min(seconds(_pass(X, y, theta, link, with_hessian=hessian)) for _ in range(3))
            cells.append(f"{took / n * 1e9:.1f} ({(X.nbytes + y.nbytes) / took / 1e9:.1f})")
        print(f"| {d} | {memory:.1f} | {cells[0]} | {cells[1]} |")


def _pass(
    X: FloatArray, y: FloatArray, theta: FloatArray, link: fg.Link, *, with_hessian: bool
) -> Callable[[], None]:
    d = theta.size
    functions = link.compiled_functions
    return lambda: add_derivatives(
        X, y, theta, functions, np.zeros(d), np.zeros((d, d)), with_hessian
    )


CASES = {
    "d=55 K=32 N=20 T=2000": (55, 32, 20, 2000),
    "d=10 K=25 N=10,000 T=200": (10, 25, 10_000, 200),
    "d=10 K=25 N=100,000 T=100": (10, 25, 100_000, 100),
}


def large() -> None:
    """A CoverType-sized problem and very many clients, each in a process of its own."""
    print("FedGLB-UCB, Newton, D=10, one setting alone, drawing included")
    print("| | interactions/s | seconds | global updates | peak memory, MiB |")
    print("|---|---|---|---|---|")
    for name in CASES:
        command = [sys.executable, "-m", "benchmarks.compiled_engine", "--case", name]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")


def case(name: str) -> None:
    d, K, N, T = CASES[name]
    env = fg.Synthetic(fg.Problem(d), N, K)
    algorithm = fg.fedglb_ucb(10.0, fg.Newton(), exploration=0.1)
    fg.simulate(algorithm, env, 2, 1)  # compile
    syncs = []
    took = seconds(lambda: syncs.append(fg.simulate(algorithm, env, T, 1).syncs))
    print(f"| {name} | {N * T / took:,.0f} | {took:.1f} | {syncs[0]} | {_peak():,.0f} |")


def _peak() -> float:
    """Return this process's peak memory in MiB (Linux; `ru_maxrss` counts its parent's too)."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def growth() -> None:
    """Time as one factor grows, the others fixed; the exponent of a straight line in logarithms."""
    base = {"N": 50, "T": 400, "d": 10, "K": 25}
    factors = {
        "N": [25, 50, 100, 200, 400],
        "T": [200, 400, 800, 1600, 3200],
        "d": [5, 10, 20, 40, 80],
        "K": [10, 20, 40, 80, 160],
    }
    print(f"FedGLB-UCB, Newton, D=10; where not varied {base}; seconds, drawing included")
    print("| factor | values | seconds | exponent |")
    print("|---|---|---|---|")
    _time(base)  # compile
    for name, values in factors.items():
        took = [min(_time({**base, name: value}) for _ in range(3)) for value in values]
        exponent = np.polyfit(np.log(values), np.log(took), 1)[0]
        shown = ", ".join(f"{t:.3f}" for t in took)
        print(f"| {name} | {', '.join(map(str, values))} | {shown} | {exponent:.2f} |")


def _time(size: dict[str, int]) -> float:
    env = fg.Synthetic(fg.Problem(size["d"]), size["N"], size["K"])
    algorithm = fg.fedglb_ucb(10.0, fg.Newton(), exploration=0.1)
    return seconds(lambda: fg.simulate(algorithm, env, size["T"], 1))


def one_ucb_glm() -> None:
    """The exact fit after each of 400,000 interactions."""
    env = fg.Synthetic(fg.Problem(10), 200, 25)
    fg.simulate(fg.one_ucb_glm(), env, 2)
    took = seconds(lambda: fg.simulate(fg.one_ucb_glm(exploration=0.1), env, 2000, 1))
    print(f"One-UCB-GLM, N=200, T=2000: {took:.1f} s, {took / 400_000 * 1e6:.1f} µs an interaction")


SECTIONS: dict[str, Callable[[], None]] = {
    "interaction": interaction,
    "passes": passes,
    "large": large,
    "growth": growth,
    "one-ucb-glm": one_ucb_glm,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.case:
        case(given.case)
        return
    for name in given.sections or SECTIONS:
        print(f"\n### {name}\n")
        SECTIONS[name]()


if __name__ == "__main__":
    main()
