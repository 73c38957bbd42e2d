"""How an interaction grows with d, the ball active and not, and what the Mushroom study takes.

Run from the repository's root, with a checkout of older sources to compare with:
`.venv/bin/python -m benchmarks.high_dimension --before FOLDER [SECTION ...]`. Times are CPU times
of one thread, the two in turns.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.beside import in_turns, rows

DIMENSIONS = (10, 25, 50, 100, 200)
CLOCK = """
import json, sys, time
import numpy as np
import fedglb as fg

def least(call, repeats=5):
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return best
"""

PROJECTION = (
    CLOCK
    + """
from fedglb.kernels import ball
from fedglb.kernels.ball import project
from fedglb.kernels.compile import kernel

@kernel
def project_all(A, inverse, S, points, theta, address):
    for k in range(points.shape[0]):
        theta[:] = points[k]
        project(A, inverse, S, theta, *address)

found = {}
for d in map(int, sys.argv[1:]):
    rng = np.random.default_rng(d)
    X = rng.standard_normal((5 * d, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    A = 0.4 * np.eye(d) + X.T @ X
    inverse = np.linalg.inv(A)
    inverse = 0.5 * (inverse + inverse.T)
    for factor in (1.01, 1.5, 5.0):
        points = rng.standard_normal((20, d))
        points *= factor / np.linalg.norm(points, axis=1, keepdims=True)
        address = (ball.projection(d),) if hasattr(ball, "projection") else ()  # older sources
        call = lambda: project_all(A, inverse, 1.0, points, np.empty(d), address)
        call()
        found[f"{d} | {factor}"] = least(call) / len(points) * 1e6
print(json.dumps(found))
"""
)

INTERACTION = (
    CLOCK
    + """
T, K, COPIES = 250, 16, 2
found = {}
for d in map(int, sys.argv[2:]):
    N = max(2, 400 // d)  # where an interaction is short, more of them
    problem = fg.Problem(d, radius=float(sys.argv[1]), curvature=0.25)
    env, algorithm = fg.Synthetic(problem, N, K), fg.n_ons_glm(ridge=0.1, exploration=0.1)
    fg.compare([algorithm], env, 2, 1)
    many = least(lambda: fg.compare([algorithm] * (1 + COPIES), env, T, 1), 3)
    alone = least(lambda: fg.compare([algorithm], env, T, 1), 3)
    found[str(d)] = (many - alone) / (COPIES * N * T) * 1e6  # drawing is in both
print(json.dumps(found))
"""
)

#: What the search of `fedglb reproduce mushroom --full` chose (docs/results.md), and its settings.
STUDY = (
    CLOCK
    + """
data = fg.clustered("mushroom", 32)
problem = fg.Problem(data.dim, radius=30.0, curvature=0.25)
env = fg.Classification(problem, 20, data, 16)
chosen = {"ridge": 0.1, "exploration": 0.01}
T, name = int(sys.argv[1]), sys.argv[2]
preset, setting = getattr(fg, name.split()[0].replace("-", "_")), name.split()[1:]
values = [float(v) if "." in v else int(v) for v in setting]
if name.startswith("fedglb-ucb") and not name.startswith("fedglb-ucb-3"):
    values.append(fg.Newton())
algorithm = preset(*values, **chosen)
fg.simulate(algorithm, env, 120, 2)
start = time.thread_time()
run = fg.simulate(algorithm, env, T, 1)
print(json.dumps({name: time.thread_time() - start}))
"""
)
SETTINGS = (
    *(f"fedglb-ucb {D}" for D in (0.1, 1.0, 10.0, 100.0)),
    *(f"fedglb-ucb-1 {B}" for B in (5, 20, 100)),
    *(f"fedglb-ucb-2 {B}" for B in (5, 20, 100)),
    *(f"fedglb-ucb-3 {B}" for B in (10, 100)),
    *(f"dislinucb {D}" for D in (0.1, 1.0, 10.0, 100.0)),
    "one-ucb-glm", "n-ucb-glm", "n-ons-glm",
)  # fmt: skip


def columns(before: Path | None) -> str:
    names = ["before", "after", "before / after"] if before else ["after"]
    return " | ".join(names) + " |\n|" + "---|" * (len(names) + 1)


def projection(before: Path | None) -> None:
    """A projection from 1.01, 1.5 and 5 times the ball's radius."""
    medians = in_turns(PROJECTION, before, *map(str, DIMENSIONS))
    print("µs a projection\n\n| d | ‖θ₀‖/S | " + columns(before) + "---|")
    print(rows(medians))


def interaction(before: Path | None) -> None:
    """N-ONS-GLM without drawing: balls of radius 0.3 and 1 are active in most steps, 30 in none."""
    for name, radius in (("active", 0.3), ("active", 1.0), ("not active", 30.0)):
        medians = in_turns(INTERACTION, before, str(radius), *map(str, DIMENSIONS))
        print(f"\nµs an interaction, the ball {name} (S = {radius:g})\n\n| d | " + columns(before))
        print(rows(medians))
        print("; ".join(f"{key}: {exponents(found)}" for key, found in medians.items()))


def exponents(found: Mapping[str, float]) -> str:
    """Return the exponents of growth from each d to the next."""
    d, took = np.log([float(key) for key in found]), np.log(list(found.values()))
    steps = np.diff(took) / np.diff(d)
    return "exponents " + ", ".join(f"{step:.2f}" for step in steps)


def study(before: Path | None, horizon: int = 2000) -> None:
    """One seed of every setting of the Mushroom study."""
    print(f"CPU seconds of one seed, T = {horizon}\n\n| | " + columns(before))
    totals: dict[str, dict[str, float]] = {}
    for setting in SETTINGS:
        medians = in_turns(STUDY, before, str(horizon), setting, repeats=1)
        print(rows(medians), flush=True)
        for key, found in medians.items():
            total = totals.setdefault(key, {"all 19 settings": 0.0})
            total["all 19 settings"] += found[setting]
    print(rows(totals))


SECTIONS: dict[str, Callable[[Path | None], None]] = {
    "projection": projection,
    "interaction": interaction,
    "study": study,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--before", type=Path, help="a checkout of older sources")
    given = parser.parse_args(arguments)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as in a sweep's workers
    for name in given.sections or SECTIONS:
        print(f"\n### {name}\n")
        SECTIONS[name](given.before)


if __name__ == "__main__":
    main()
