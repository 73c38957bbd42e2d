"""Record full searches: `python -m tests.studies.run.record_searches FOLDER`.

All candidates are run to the end. Each file has the regret of every run at evenly spaced steps:
what a search that stops candidates would have seen. `test_race.py` replays them. Names after the
folder choose among the studies below.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import fedglb as fg
from fedglb.studies.run.search import candidates, searches
from fedglb.studies.spec.plan import read_plan

#: How many steps of each run are kept.
POINTS = 50
#: What takes long is made smaller: horizon and clients, None: the study's own.
STUDIES: dict[str, tuple[int | None, int | None]] = {
    "synthetic": (500, 50),
    "magic": (100, 10),
    "covertype": (100, None),
    "mushroom": (60, 2),
}
_AT_ONCE = 32


def record(name: str, horizon: int | None, clients: int | None) -> np.ndarray:
    """Return regrets, shape (candidates, algorithms, seeds, points)."""
    plan = read_plan(name, "full")
    assert plan.search is not None
    if clients is not None:
        plan.tables["environment"]["clients"] = clients
    rows = []
    for tables in searches(plan, candidates(plan.search), plan.search.seeds):
        experiment = fg.read_experiment(tables)
        steps = horizon or experiment.horizon
        kept = np.rint(np.linspace(0, steps, POINTS + 1)[1:]).astype(int) - 1
        every = [c.algorithm for c in experiment.configurations]
        of_seeds = [
            [
                run.trace["regret"].to_numpy()[kept]
                for first in range(0, len(every), _AT_ONCE)
                for run in fg.compare(every[first : first + _AT_ONCE], experiment.env, steps, seed)
            ]
            for seed in experiment.seeds
        ]
        shape = (len(experiment.seeds), len(plan.search.algorithm), -1, POINTS)
        rows.append(np.array(of_seeds).reshape(shape).transpose(2, 1, 0, 3))
    return np.concatenate(rows)


def main() -> None:
    folder, *chosen = sys.argv[1:]
    for name in chosen or STUDIES:
        regrets = record(name, *STUDIES[name]).astype(np.float32)
        np.savez_compressed(Path(folder) / f"{name}.npz", regrets=regrets)
        print(name, regrets.shape, flush=True)


if __name__ == "__main__":
    main()
