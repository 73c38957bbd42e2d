"""The reference engine beside the tests' plain NumPy version, and the exact MLE at scale.

Run from the repository's root: `.venv/bin/python -m benchmarks.reference_engine [--full]`.
Ratios are of times measured in this one run.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.simulation.reference import ReferenceEngine
from tests import plain


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def against_plain(clients: int, horizon: int) -> None:
    """Same recorded stream, same choices: microseconds per interaction of both."""
    problem = fg.Problem(10)
    synthetic = fg.Synthetic(problem, clients, 25)
    block = [np.concatenate(parts) for parts in _stream(synthetic, horizon)]
    arms, means, uniforms = block
    rewards = (uniforms[..., None] < means).astype(float)
    env = fg.Recorded(problem, arms, means, rewards=rewards)
    given = plain.Problem("logistic", problem.S, problem.R, problem.c_mu, 1.0, 0.01)
    cases: dict[str, tuple[fg.Algorithm, Callable[[], plain.Outcome]]] = {
        "FedGLB-UCB, D=10, Newton": (
            fg.fedglb_ucb(10.0, fg.Newton()),
            lambda: plain.fedglb_ucb(given, arms, rewards, threshold=10.0),
        ),
        "FedGLB-UCB3, B=10": (
            fg.fedglb_ucb_3(10),
            lambda: plain.fedglb_ucb_3(given, arms, rewards, updates=10, y_range=(0.0, 1.0)),
        ),
        "DisLinUCB, D=10": (
            fg.dislinucb(10.0),
            lambda: plain.dislinucb(given, arms, rewards, threshold=10.0),
        ),
        "N-UCB-GLM": (fg.n_ucb_glm(), lambda: plain.n_ucb_glm(given, arms, rewards)),
        "One-UCB-GLM": (fg.one_ucb_glm(), lambda: plain.one_ucb_glm(given, arms, rewards)),
    }
    print(f"N={clients} T={horizon} K=25 d=10, logistic; µs per interaction")
    print("| algorithm | reference engine | plain NumPy | ratio |")
    print("|---|---|---|---|")
    for name, (algorithm, other) in cases.items():
        run = partial(fg.simulate, algorithm, env, engine="reference")
        run(horizon=2 * max(1, horizon // 20))  # compile
        ours = seconds(run) / (clients * horizon)
        theirs = seconds(other) / (clients * horizon)
        print(f"| {name} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | {theirs / ours:.1f} |")


def exact_mle(clients: int, horizon: int) -> None:
    """One-UCB-GLM: an exact fit after every interaction, n = clients × horizon at the end."""
    env = fg.Synthetic(fg.Problem(10), clients, 25)
    engine = ReferenceEngine(fg.one_ucb_glm(), env, horizon, seed=1)
    took = seconds(engine.run)
    n = clients * horizon
    state = engine.clients[0].state
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"One-UCB-GLM, n={n:,}: {took:.1f} s, {took / n * 1e6:.1f} µs per interaction, ", end="")
    print(f"{state.passes} passes over the samples, peak memory {peak:.0f} MiB")  # type: ignore[attr-defined]


def _stream(env: fg.Synthetic, horizon: int) -> tuple[list[Any], list[Any], list[Any]]:
    blocks = list(env.blocks(horizon, seed=1))
    return [b.arms for b in blocks], [b.means for b in blocks], [b.uniforms for b in blocks]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="also n = 400,000 (minutes)")
    full = parser.parse_args().full
    against_plain(clients=10, horizon=100)
    exact_mle(200, 2000 if full else 200)
