"""The waiting time before anything runs: imports, compilation, loading compiled code.

`python -m benchmarks first_minute`. Every number is the CPU time (user and system, children
included) of one fresh process, which starts on an empty folder of compiled kernels where the name
says "first", and on a filled one where it says "again". "two workers" is the sum of two processes
that start at once on an empty folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

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
_SPENT = "\nimport os\nprint(sum(os.times()[:4]))"
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


def seconds(program: str, folder: str) -> float:
    """Return the CPU seconds of a program, with a folder of compiled kernels."""
    done = subprocess.run(
        [sys.executable, "-c", program + _SPENT], check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return float(done.stdout.splitlines()[-1])


def measure() -> dict[str, float]:
    """Return the CPU seconds by name."""
    found = {}
    with tempfile.TemporaryDirectory() as filled:
        for name, program, empty in _PROGRAMS:
            if not empty:
                seconds(program, filled)
            with tempfile.TemporaryDirectory() as fresh:
                found[f"{name}, CPU s"] = seconds(program, fresh if empty else filled)
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
