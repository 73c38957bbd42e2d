"""Tasks: sending an experiment to a worker, and running some configurations on one seed."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import cloudpickle

from fedglb.errors import InvalidInput
from fedglb.kernels.compile import Kernel
from fedglb.provenance import code_digest, data_digest
from fedglb.simulation import Run, compare
from fedglb.studies.results.tables import part, to_bytes
from fedglb.studies.spec.experiment import Experiment, read_experiment
from fedglb.studies.spec.own_code import digests, forget_edited, importable, name_of

#: The most configurations per task. They share the drawing of arms and noise; more save little.
LARGEST = 16
_REPORT_EVERY = 0.2  # seconds


@dataclass(frozen=True)
class Task:
    """Configurations (by their index) and the seed they are run with."""

    seed: int
    configurations: tuple[int, ...]

    def describe(self, experiment: Experiment) -> str:
        """Return the labels and the seed."""
        labels = [experiment.configurations[i].label for i in self.configurations]
        shown = ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if labels[3:] else "")
        return f"{shown} with seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """The result of a task: a part (a Parquet file), and a message per failed configuration."""

    task: Task
    part: bytes | None
    failures: tuple[str, ...] = ()


def deal(pending: Sequence[tuple[int, int]], jobs: int) -> list[Task]:
    """Deal the pending (configuration, seed) pairs into tasks.

    A task has at most 16 runs, all of one seed; fewer if workers would be idle, also at the end: up
    to a third more tasks, if each worker then gets equally many. Runs are dealt in turn, so that
    neighbours in a grid, which take about equally long, are spread evenly.
    """
    of_seed: dict[int, list[int]] = {}
    for configuration, seed in pending:
        of_seed.setdefault(seed, []).append(configuration)
    tasks = []
    for seed, indices in of_seed.items():
        wanted = max(-(-len(indices) // LARGEST), -(-2 * jobs // len(of_seed)))
        even = (n for n in range(wanted, wanted + wanted // 3 + 1) if n * len(of_seed) % jobs == 0)
        count = min(next(even, wanted), len(indices))
        tasks += [Task(seed, tuple(indices[i::count])) for i in range(count)]
    return tasks


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Collects the names of objects sent as code."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.as_code: list[str] = []

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Kernel) and importable(value):
            # by its name, as a function is: see `object.__reduce__`
            return vars(value)["__qualname__"]
        if isinstance(value, FunctionType | type) and not importable(value):
            self.as_code.append(name_of(value))
        return super().reducer_override(value)


def packed(tables: Mapping[str, Any]) -> tuple[bytes, list[str]]:
    """Return tables as bytes, and the names of the objects in them that are sent as code.

    Importable objects are sent by name, and the worker's sources count. Other classes and functions
    (of a script, a notebook, inside a function) are sent as code. That is right for processes that
    the sweep itself has started; a cluster's workers get no code.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump(dict(tables))
    except Exception as error:
        allowed = f"objects that can be pickled ({type(error).__name__}: {error})"
        raise InvalidInput("experiment", str(tables.get("name")), allowed) from error
    names = list(dict.fromkeys(pickler.as_code))
    # a class brings its methods along: it is enough to name the class
    outer = [n for n in names if not any(n.startswith(f"{other}.") for other in names)]
    return buffer.getvalue(), outer


@dataclass(frozen=True)
class Sources:
    """The sources that a worker must share with the process that collects the results."""

    content: bytes  # the tables, packed
    code: str  # digests: of the package and its numerics, of the data, of user-defined code
    data: str
    own: Mapping[str, str]
    path: tuple[str, ...] = ()  # where Python looks for modules, for processes of this machine

    @classmethod
    def of(cls, experiment: Experiment) -> Sources:
        """Return this process's sources."""
        content, _ = packed(experiment.tables)
        facts = data_digest(experiment.env.facts())
        path = tuple(os.path.abspath(place) for place in sys.path)  # "" is the current folder
        return cls(content, code_digest(), facts, experiment.own, path)


@functools.lru_cache(maxsize=4)
def _experiment(content: bytes, own: tuple[tuple[str, str], ...]) -> Experiment:
    """Return the experiment of these tables; after an edit of user-defined code `own` differs."""
    return read_experiment(pickle.loads(content), progress=lambda text: None)


def experiment_here(sources: Sources, parent: int | None) -> Experiment | str:
    """Return the experiment in this process, or why it would differ."""
    if parent is not None:
        sys.path += [place for place in sources.path if place not in sys.path]
        importlib.invalidate_caches()
    if sources.code != code_digest():
        return "this worker has another version of fedglb, NumPy, SciPy or numba than the sweep's"
    if reason := lacking(sources.own):
        return f"this worker {reason}, which the sweep needs"
    experiment = _experiment(sources.content, tuple(sources.own.items()))
    if sources.data != data_digest(experiment.env.facts()):
        return "this worker has other data, or clusters them differently, than the sweep"
    for name, digest in sources.own.items():
        if experiment.own.get(name) != digest:
            return f"{name} returns another value in this worker than in the sweep"
    return experiment


def lacking(own: Mapping[str, str]) -> str | None:
    """Return a module or package that this process lacks or has in another version."""
    modules = {name: digest for name, digest in own.items() if ":" not in name}
    forget_edited(modules)
    found = digests(modules)
    for name, digest in modules.items():
        if name not in found:
            return f"cannot import {name}"
        if found[name] != digest:
            return f"has another version of {name}"
    return None


def work(sources: Sources, task: Task, report: Path | None, parent: int | None) -> Outcome:
    """Run a task in a worker, which ends with the process `parent`, if there is one.

    Writes the number of finished steps to the file `report`, for the progress view.
    """
    experiment = experiment_here(sources, parent)
    if isinstance(experiment, str):
        return Outcome(task, None, (experiment,))
    if parent is not None:
        leave_with(parent)
    return run_task(experiment, task, report)


def run_task(experiment: Experiment, task: Task, report: Path | None) -> Outcome:
    """Run a task of an experiment that this process has; `report` as in `work`."""
    progress = _reporter(report)
    progress(0)
    begin = time.perf_counter()
    done: tuple[int, ...] = task.configurations
    failures: list[str] = []
    try:
        runs = _compare(experiment, task, progress)
    except Exception:  # run them one by one, to lose only failing ones
        done, runs = (), []
        for index in task.configurations:
            alone = Task(task.seed, (index,))
            try:
                runs += _compare(experiment, alone, progress)
                done += (index,)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                failures.append(f"{alone.describe(experiment)}: {what}")
    seconds = time.perf_counter() - begin
    content = to_bytes(part(done, task.seed, runs, seconds)) if done else None
    return Outcome(task, content, tuple(failures))


def _compare(experiment: Experiment, task: Task, progress: Callable[[int], None]) -> list[Run]:
    algorithms = [experiment.configurations[i].algorithm for i in task.configurations]
    env, horizon, seed = experiment.env, experiment.horizon, task.seed
    return compare(algorithms, env, horizon, seed, progress=progress)


@functools.cache  # once per worker
def leave_with(parent: int) -> None:
    """End this process soon after its parent, busy or idle, and not before it.

    A terminal sends Ctrl-C to workers too; they ignore it, because the parent acts on it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def _reporter(report: Path | None) -> Callable[[int], None]:
    """Return a function to call with the number of steps done."""
    last = -_REPORT_EVERY

    def progress(steps: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _REPORT_EVERY:
            return
        last = now
        if report is not None:
            with contextlib.suppress(OSError):  # only the progress view needs it
                report.write_text(str(steps))

    return progress
