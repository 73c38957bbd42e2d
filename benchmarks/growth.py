"""How regret and communication grow with T when D is the theorem's, T/(N d log(NT)).

Run from the repository's root, after `fedglb reproduce synthetic --full`, whose choice of
parameters it takes: `.venv/bin/python -m benchmarks.growth results/synthetic-full FOLDER`.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.reproduce import load_study

HORIZONS = (250, 500, 1000, 2000, 4000)
SOLVERS = ("newton", "agd")
SEEDS = 5


def main() -> None:
    study, folder = load_study(sys.argv[1]), Path(sys.argv[2])
    chosen: dict[str, Any] = json.loads(study.result.manifest["document"])
    N, d = chosen["environment"]["clients"], chosen["problem"]["dim"]
    rows: dict[str, list[tuple[float, float, float, float]]] = {s: [] for s in SOLVERS}
    for T in HORIZONS:
        D = T / (N * d * math.log(N * T))
        tables = {
            **chosen, "name": f"growth-{T}", "horizon": T, "seeds": SEEDS,
            "algorithm": [{"name": "fedglb-ucb", "threshold": D, "solver": list(SOLVERS)}],
        }  # fmt: skip
        runs = fg.sweep(tables, folder / f"T{T}").runs
        for solver in SOLVERS:
            own = runs.filter(runs["solver"] == solver)
            means = [float(own[name].mean()) for name in ("regret", "transfers", "syncs")]  # type: ignore[arg-type]
            rows[solver].append((D, *means))
            print(f"{solver:7} T={T:5} D={D:.4f} regret {means[0]:8.1f} ", end="")
            print(f"transfers {means[1]:11,.0f} updates {means[2]:6.1f}", flush=True)
    for solver, found in rows.items():
        for k, name in enumerate(("regret", "transfers", "updates"), start=1):
            slope = np.polyfit(np.log(HORIZONS), np.log([row[k] for row in found]), 1)[0]
            print(f"{solver:7} {name:9} grows like T^{slope:.2f}")


if __name__ == "__main__":
    main()
