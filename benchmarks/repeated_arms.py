"""What a run takes where the same arms are on offer in every step, with few and many updates.

Run from the repository's root, with a checkout of older sources to compare with:
`.venv/bin/python -m benchmarks.repeated_arms --before FOLDER`. Times are CPU times of one thread,
the two in turns. 32 clusters of a table that is made up are the arms (N = 20, T = 2000), as in the
studies of real data; in member mode, where an arm is drawn anew each time, few samples repeat.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.beside import in_turns, rows

RUNS = """
import json, sys, time
import numpy as np
import fedglb as fg

d, mode, N, T = int(sys.argv[1]), sys.argv[2], 20, 2000
rng = np.random.default_rng(1)
features = rng.standard_normal((20_000, d - 1))
slope = rng.standard_normal(d - 1) / np.sqrt(d)
labels = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-2.0 * features @ slope))).astype(float)
table = fg.Table({f"x{j}": column for j, column in enumerate(features.T)}, labels, name="made up")
data = fg.clustered(table, 32, mode)
env = fg.Classification(fg.Problem(d, radius=30.0, curvature=0.1), N, data)
tuned = {"ridge": 0.01, "exploration": 0.1}
presets = {
    "FedGLB-UCB, D = 0.1": fg.fedglb_ucb(0.1, fg.Newton(), **tuned),
    "FedGLB-UCB, D = 10": fg.fedglb_ucb(10.0, fg.Newton(), **tuned),
    "FedGLB-UCB1, B = 20": fg.fedglb_ucb_1(20, fg.Newton(), **tuned),
    "FedGLB-UCB1, B = 2000": fg.fedglb_ucb_1(2000, fg.Newton(), **tuned),
    "FedGLB-UCB2, B = 20, AGD": fg.fedglb_ucb_2(20, fg.AGD(), **tuned),
    "FedGLB-UCB3, B = 2000": fg.fedglb_ucb_3(2000, **tuned),
    "FedGLB-Auto": fg.fedglb_auto(),
    "N-ONS-GLM": fg.n_ons_glm(**tuned),
}
found = {}
for name, algorithm in presets.items():
    fg.simulate(algorithm, env, T if "2000" in name else 100, 2)
    start = time.thread_time()
    fg.simulate(algorithm, env, T, 1)
    found[name] = time.thread_time() - start
print(json.dumps(found))
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of older sources")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as in a sweep's workers
    names = ["before", "after", "before / after"] if given.before else ["after"]
    for d, mode in ((11, "centroid"), (31, "centroid"), (11, "member")):
        medians = in_turns(RUNS, given.before, str(d), mode, repeats=given.repeats)
        print(f"\nCPU seconds of a run, d = {d}, {mode} mode\n")
        print("| | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
        print(rows(medians), flush=True)


if __name__ == "__main__":
    main()
