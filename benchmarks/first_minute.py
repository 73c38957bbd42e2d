"""What a user waits for before anything runs: imports, compilation, loading what is compiled.

    python -m benchmarks.first_minute --before FOLDER

Every number is the CPU time (user and system, children included) of one fresh process, which
starts on an empty folder of compiled kernels where it says "first", and on a filled one where it
says "again". "two workers" is the sum of two processes that start at once on an empty folder.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from benchmarks.beside import HERE, rows, run

_IMPORT = "import fedglb"
_NAMES = "from fedglb import *"
_HELP = """
import contextlib, io
from fedglb.cli import app
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    app(["--help"])
"""
_CHOOSE = """
import tempfile
import numpy as np
import fedglb as fg
with tempfile.TemporaryDirectory() as folder:
    agent = fg.Agent.open(folder + "/agent.db", fg.Problem(dim=10))
    agent.choose(np.eye(10)[:5])
    agent.close()
"""
_SIMULATE = """
import fedglb as fg
fg.simulate(fg.{}, fg.Synthetic(fg.Problem(10), 20, 25), 20)
"""
_UCB = _SIMULATE.format("fedglb_ucb(10.0, fg.Newton())")
_WORKERS = f"""
import subprocess, sys
workers = [subprocess.Popen([sys.executable, "-c", {_UCB!r}]) for _ in range(2)]
assert [worker.wait() for worker in workers] == [0, 0]
"""
_SPENT = """
import json, os
print(json.dumps({"seconds": sum(os.times()[:4])}))
"""
#: Name of a number, program, whether the folder of compiled kernels is empty.
_PROGRAMS = (
    ("python", "", False),
    ("import", _IMPORT, False),
    ("all public names", _NAMES, False),
    ("fedglb --help", _HELP, False),
    ("first choose", _CHOOSE, True),
    ("choose again", _CHOOSE, False),
    ("first fedglb_ucb", _UCB, True),
    ("fedglb_ucb again", _UCB, False),
    ("first fedglb_mix", _SIMULATE.format("fedglb_mix(1.0)"), True),
    ("first fedglb_auto", _SIMULATE.format("fedglb_auto()"), True),
    ("two workers", _WORKERS, True),
)


def seconds(program: str, root: Path, folder: str) -> float:
    """Return the CPU seconds of a program on a checkout, with a folder of compiled kernels."""
    return run(program + _SPENT, root, NUMBA_CACHE_DIR=folder, OMP_NUM_THREADS="1")["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of older sources")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="measure only what has this in its name")
    asked = parser.parse_args()
    roots = {"after": HERE}
    if asked.before is not None:
        roots = {"before": asked.before.resolve(), "after": HERE}
    medians: dict[str, dict[str, float]] = {name: {} for name in roots}
    with tempfile.TemporaryDirectory() as filled:
        for key, program, empty in _PROGRAMS:
            if asked.only not in key:
                continue
            spent: dict[str, list[float]] = {name: [] for name in roots}
            if not empty:
                for root in roots.values():
                    seconds(program, root, filled)
            for _ in range(asked.repeats):
                for name, root in roots.items():
                    with tempfile.TemporaryDirectory() as fresh:
                        spent[name].append(seconds(program, root, fresh if empty else filled))
            for name in roots:
                medians[name][key] = statistics.median(spent[name])
    print("| CPU seconds | before | after | ratio |\n|---|---|---|---|")
    print(rows(medians, ".2f"))


if __name__ == "__main__":
    main()
