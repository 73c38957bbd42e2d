"""How regret and transfers grow with T and with N, at the D of each algorithm's theorem.

Run from the repository's root: `.venv/bin/python -m benchmarks.growth` (`--seeds 2` for a look). It
prints a table over T and one over N, with means over seeds and the standard error of the regret. An
exponent is the slope of log(mean) over log(T) or log(N).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import fedglb as fg

D = 10
HORIZONS, CLIENTS = (250, 500, 1000, 2000, 4000), (5, 10, 20, 50, 100, 200, 400)


def threshold(N: int, T: int) -> float:
    """Return the D of Li and Wang's theorem."""
    return T / (N * D * math.log(N * T))


ALGORITHMS: dict[str, Callable[[int, int], fg.Algorithm]] = {
    "FedGLB-Mix": lambda N, T: fg.fedglb_mix(),
    "FedGLB-UCB, Newton": lambda N, T: fg.fedglb_ucb(threshold(N, T), fg.Newton(), 0.01, 0.1),
    "FedGLB-UCB, AGD": lambda N, T: fg.fedglb_ucb(threshold(N, T), fg.AGD(), 0.01, 0.1),
    "DisLinUCB": lambda N, T: fg.dislinucb(threshold(N, T), exploration=0.1),
}


def play(job: tuple[str, int, int, int]) -> tuple[float, int, int, int]:
    """Return regret, transfers, updates and rounds of a run."""
    name, N, T, seed = job
    env = fg.Synthetic(fg.Problem(dim=D), clients=N, arms=25)
    run = fg.simulate(ALGORITHMS[name](N, T), env, T, seed=seed)
    return run.regret, run.transfers, run.syncs, run.rounds


def exponent(sizes: tuple[int, ...], means: list[float]) -> str:
    return f"{np.polyfit(np.log(sizes), np.log(means), 1)[0]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(1, parser.parse_args().seeds + 1)
    tables = {
        "T (N = 100)": {T: (100, T) for T in HORIZONS},
        "N (T = 1000)": {N: (N, 1000) for N in CLIENTS},
    }
    with ProcessPoolExecutor() as pool:
        for title, sizes in tables.items():
            cells = (f"{name}: regret | transfers | updates | rounds each" for name in ALGORITHMS)
            print(f"\n| {title} | {' | '.join(cells)} |\n|{'---|' * (4 * len(ALGORITHMS) + 1)}")
            seen: dict[str, list[np.ndarray]] = {name: [] for name in ALGORITHMS}
            for size, (N, T) in sizes.items():
                row = []
                for name, found in seen.items():
                    runs = list(pool.map(play, [(name, N, T, seed) for seed in seeds]))
                    print(f"{title} = {size}: {name}", file=sys.stderr)
                    found.append(np.mean(runs, axis=0))
                    error = np.std([run[0] for run in runs], ddof=1) / math.sqrt(len(runs))
                    regret, transfers, updates, rounds = found[-1]
                    row += [f"{regret:.0f} ± {error:.0f}", f"{transfers:,.0f}"]
                    row += [f"{updates:.0f}", f"{rounds / updates:.2f}"]
                print(f"| {size} | {' | '.join(row)} |", flush=True)
            row = []
            for found in seen.values():
                for k in range(3):
                    row.append(exponent(tuple(sizes), [means[k] for means in found]))
                row.append("")
            print(f"| exponent | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
