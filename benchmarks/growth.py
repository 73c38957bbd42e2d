"""How regret and communication grow with T and with N when D is the theorem's, T/(N d log(NT)).

Run from the repository's root, after `fedglb reproduce synthetic --full`, whose choice of
parameters it takes: `.venv/bin/python -m benchmarks.growth results/synthetic-full FOLDER [T] [N]`.
What was run before is not run again.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fedglb as fg
from fedglb.studies.results.study import load_study

HORIZONS = (250, 500, 1000, 2000, 4000)
CLIENTS = (5, 10, 20, 50, 100, 200, 400)
SOLVERS = ("newton", "agd")
SEEDS = 5
#: How long the runs over N are, and who is beside FedGLB-UCB there.
T_OVER_N = 1000
BESIDE: tuple[dict[str, Any], ...] = (
    {"name": "fedglb-auto", "defaults": False},
    {"name": "one-ucb-glm"},
    {"name": "n-ucb-glm"},
)
COUNTED = ("regret", "transfers", "syncs")


def threshold(N: int, d: int, T: int) -> float:
    """The D of the theorem."""
    return T / (N * d * math.log(N * T))


def means(runs: pl.DataFrame) -> pl.DataFrame:
    """Means over seeds, by algorithm and solver."""
    grouped = runs.group_by("algorithm", "solver", maintain_order=True)
    return grouped.agg(pl.col(*COUNTED).mean())


def over_time(chosen: dict[str, Any], folder: Path) -> list[tuple[float, pl.DataFrame]]:
    N, d = chosen["environment"]["clients"], chosen["problem"]["dim"]
    found: list[tuple[float, pl.DataFrame]] = []
    for T in HORIZONS:
        table = {"name": "fedglb-ucb", "threshold": threshold(N, d, T), "solver": list(SOLVERS)}
        tables = {**chosen, "name": f"growth-{T}", "horizon": T, "algorithm": [table]}
        found.append((T, means(fg.sweep({**tables, "seeds": SEEDS}, folder / f"T{T}").runs)))
        print(f"T={T} D={table['threshold']:.4f}", found[-1][1].rows(), flush=True)
    return found


def over_clients(chosen: dict[str, Any], folder: Path) -> list[tuple[float, pl.DataFrame]]:
    d = chosen["problem"]["dim"]
    found: list[tuple[float, pl.DataFrame]] = []
    for N in CLIENTS:
        table = {"name": "fedglb-ucb", "threshold": threshold(N, d, T_OVER_N), "solver": "newton"}
        tables = {
            **chosen, "name": f"growth-clients-{N}", "horizon": T_OVER_N, "seeds": SEEDS,
            "environment": {**chosen["environment"], "clients": N},
            "algorithm": [table, *BESIDE],
        }  # fmt: skip
        found.append((N, means(fg.sweep(tables, folder / f"N{N}").runs)))
        print(f"N={N} D={table['threshold']:.4f}", found[-1][1].rows(), flush=True)
    return found


def exponents(name: str, found: list[tuple[float, pl.DataFrame]]) -> None:
    """Print the exponent of each number's growth, fitted to its logarithm."""
    for k, (algorithm, solver, *_) in enumerate(found[0][1].rows()):  # the same order everywhere
        for column in COUNTED:
            values = [float(frame[column][k]) for _, frame in found]
            if min(values) > 0.0:
                slope = np.polyfit(np.log([x for x, _ in found]), np.log(values), 1)[0]
                print(f"{algorithm} {solver or ''}: {column} grows like {name}^{slope:.2f}")


def main() -> None:
    study, folder, asked = load_study(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] or ["T", "N"]
    chosen: dict[str, Any] = json.loads(study.result.manifest["document"])
    if "T" in asked:
        exponents("T", over_time(chosen, folder))
    if "N" in asked:
        exponents("N", over_clients(chosen, folder))


if __name__ == "__main__":
    main()
