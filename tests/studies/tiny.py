"""A sweep of a moment, and processes that run it."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOML = """\
name = "tiny"
horizon = {horizon}
seeds = {seeds}
[problem]
dim = 3
[environment]
clients = 2
arms = 4
[defaults]
exploration = 0.1
solver = "newton"
[[algorithm]]
name = "fedglb-ucb"
threshold = [0.1, 1.0]
[[algorithm]]
name = "n-ons-glm"
"""


TABLES: dict[str, Any] = tomllib.loads(TOML.format(horizon=12, seeds=4))


def tables(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(TABLES), **changes}


def toml(folder: Path, horizon: int = 12, seeds: int = 4) -> str:
    path = folder / "tiny.toml"
    path.write_text(TOML.format(horizon=horizon, seeds=seeds))
    return str(path)


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **environment}, start_new_session=True,
    )  # fmt: skip


def fedglb(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    process = start("-m", "fedglb.cli", *arguments, **environment)
    out, err = process.communicate(timeout=600)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def start_sweep(
    experiment: str, folder: Path, *options: str, **environment: str
) -> subprocess.Popen[str]:
    """Start a sweep, and wait until two of its tasks are finished."""
    arguments = ("-m", "fedglb.cli", "sweep", experiment, "--out", str(folder), *options)
    process = start(*arguments, **environment)
    until(lambda: len(parts(folder)) >= 2, process)
    return process


def parts(folder: Path) -> list[Path]:
    return [p for p in (folder / "parts").glob("*.parquet") if not p.name.startswith(".")]


def until(condition: Callable[[], object], process: subprocess.Popen[str] | None = None) -> None:
    """Wait until something holds; fail if the process ends before."""
    for _ in range(150_000):  # ten minutes
        if condition():
            return
        if process is not None and process.poll() is not None:
            raise AssertionError(process.communicate())
        time.sleep(0.004)
    raise AssertionError("waited in vain")


def bytes_of(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "runs.parquet").read_bytes(), (folder / "traces.parquet").read_bytes()


def patched(folder: Path, code: str) -> dict[str, str]:
    """Return an environment in which every Python process runs `code` at its start."""
    (folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}


_HELD = """
import os, sys, time
if any("loky" in argument or argument == "worker" for argument in sys.orig_argv):
    import fedglb.studies.run.task as task
    real = task.compare
    def compare(algorithms, env, horizon, seed, **options):
        while seed > 4 and not os.path.exists(os.environ["GO"]):
            time.sleep(0.01)
        return real(algorithms, env, horizon, seed, **options)
    task.compare = compare
"""


def held(folder: Path) -> dict[str, str]:
    """Return an environment in which workers, local or Dask's, run seeds 1 to 4 and then wait.

    However slow the test, a sweep is not over before it; `release` lets the workers go on.
    """
    return {**patched(folder, _HELD), "GO": str(folder / "go")}


def release(folder: Path) -> None:
    (folder / "go").touch()
