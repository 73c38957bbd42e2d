"""Record full searches: `python -m tests.reproduce.record_searches FOLDER`.

All candidates are run to the end. Each file has the regret of every run at evenly spaced steps:
what a search that stops candidates would have seen. `test_race.py` replays them. A name and a
profile after the folder choose one study of those below.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import fedglb as fg
from fedglb.reproduce.plan import read_plan
from fedglb.reproduce.search import candidates, searches

#: How many steps of each run are kept.
POINTS = 50
#: Mushroom's 118 features take long: the first steps only.
STUDIES = (
    ("synthetic", "full", None),
    ("magic", "full", None),
    ("covertype", "full", 500),
    ("mushroom", "full", 100),
    ("synthetic", "quick", None),
    ("magic", "quick", None),
    ("covertype", "quick", None),
    ("mushroom", "quick", None),
)
_AT_ONCE = 32


def record(name: str, profile: str, horizon: int | None) -> np.ndarray:
    """Return regrets, shape (candidates, algorithms, seeds, points)."""
    plan = read_plan(name, profile)
    assert plan.search is not None
    rows = []
    for tables in searches(plan, candidates(plan.search), plan.search.seeds):
        experiment = fg.read_experiment(tables)
        steps = horizon or experiment.horizon
        kept = np.rint(np.linspace(0, steps, POINTS + 1)[1:]).astype(int) - 1
        every = [c.algorithm for c in experiment.configurations]
        of_seeds = []
        for seed in experiment.seeds:
            runs = [
                run.trace["regret"].to_numpy()[kept]
                for first in range(0, len(every), _AT_ONCE)
                for run in fg.lockstep(
                    every[first : first + _AT_ONCE], experiment.env, steps, seed
                )
            ]  # fmt: skip
            of_seeds.append(runs)
        made = np.array(of_seeds)  # seeds, algorithms × candidates, points
        algorithms = len(plan.search.algorithm)
        made = made.reshape(len(experiment.seeds), algorithms, -1, POINTS)
        rows.append(made.transpose(2, 1, 0, 3))
    return np.concatenate(rows)


def main() -> None:
    folder, *chosen = sys.argv[1:]
    for name, profile, horizon in STUDIES:
        if not chosen or chosen == [name, profile]:
            regrets = record(name, profile, horizon).astype(np.float32)
            np.savez_compressed(Path(folder) / f"{name}-{profile}.npz", regrets=regrets)
            print(name, profile, regrets.shape, flush=True)


if __name__ == "__main__":
    main()
