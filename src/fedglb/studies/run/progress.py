"""The progress of a sweep, as plain data."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import polars as pl

from fedglb.simulation.bar import bar
from fedglb.studies.run.task import Task
from fedglb.studies.spec.experiment import Experiment

_LOOK_EVERY = 0.5  # seconds


@dataclass(frozen=True)
class Finished:
    """The totals of a finished run."""

    label: str
    seed: int
    regret: float
    transfers: int
    scalars: int


@dataclass(frozen=True)
class SweepStatus:
    """The progress of a sweep."""

    runs: int  # in all
    finished: tuple[Finished, ...]  # of this session and of earlier ones
    interactions: int  # of this session, those of running tasks included
    left: int  # interactions still to do
    seconds: float  # of this session
    kept: int = 0  # of the finished ones: those of earlier sessions


#: Called now and then, possibly from another thread, but never concurrently.
OnStatus: TypeAlias = Callable[[SweepStatus], None]


@contextlib.contextmanager
def status_bar(progress: OnStatus | bool | None, title: str) -> Iterator[OnStatus | None]:
    """Yield the function to call with a status: `progress`, a bar for True, or None."""
    if progress is not True:
        yield None if progress is False else progress
        return
    with bar(title) as draw:

        def tell(status: SweepStatus) -> None:
            draw(status.interactions, status.interactions + status.left, counted(status))

        yield tell


def counted(status: SweepStatus) -> str:
    """Return the number of finished runs, and how many of them are from earlier sessions."""
    kept = f" ({status.kept} kept)" if status.kept else ""
    return f"{len(status.finished)}/{status.runs} runs{kept}"


class Watch:
    """Counts finished tasks, and reads workers' reports about running ones."""

    def __init__(self, experiment: Experiment, before: pl.DataFrame, tell: OnStatus | None) -> None:
        self._experiment, self._tell = experiment, tell
        self._finished: list[Finished] = []
        self._tasks: dict[Path, Task] = {}
        self._begin = time.monotonic()
        # Three threads use this: joblib's adds tasks, the main one finishes them, a third reads.
        self._lock, self._telling = threading.Lock(), threading.Lock()
        self._error: BaseException | None = None
        self._add(before)
        self._before = len(self._finished)
        self.folder = Path()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Make a folder for the workers' reports, and read them now and then.

        An error in the callback is raised again when the next task finishes, or here.
        """
        over = threading.Event()

        def look() -> None:
            try:
                while not over.wait(_LOOK_EVERY):
                    self.emit()
            except BaseException as error:
                self._error = error

        with tempfile.TemporaryDirectory(prefix="fedglb-sweep-", ignore_cleanup_errors=True) as tmp:
            self.folder = Path(tmp)
            thread = threading.Thread(target=look, daemon=True)
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()
            self._raise_error()

    def report_file(self, task: Task) -> Path:
        """Return the file for a worker's count of finished steps."""
        path = self.folder / f"{task.seed}-{task.configurations[0]}"
        with self._lock:
            self._tasks[path] = task
        return path

    def running(self) -> list[Task]:
        """Return the running tasks."""
        with self._lock:
            return [task for path, task in self._tasks.items() if path.exists()]

    def forget(self) -> None:
        """Forget all unfinished tasks: their workers are gone."""
        with self._lock:
            for path in self._tasks:
                path.unlink(missing_ok=True)
            self._tasks = {}

    def finished(self, task: Task, part: pl.DataFrame) -> None:
        """Record a finished task, and call back."""
        with self._lock:
            for path in [path for path, other in self._tasks.items() if other == task]:
                path.unlink(missing_ok=True)
                del self._tasks[path]
            self._add(part)
        self._raise_error()
        self.emit()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _add(self, part: pl.DataFrame) -> None:
        columns = ("configuration", "seed", "regret", "transfers", "scalars")
        for index, *totals in part.select(columns).iter_rows():
            label = self._experiment.configurations[index].label
            self._finished.append(Finished(label, *totals))

    def emit(self) -> None:
        """Call back with the progress of the sweep."""
        if self._tell is None:
            return
        with self._telling:
            one, runs = self._experiment.interactions, self._experiment.runs
            with self._lock:
                finished = tuple(self._finished)
                partly = sum(self._steps(path, task) for path, task in self._tasks.items())
            interactions = (len(finished) - self._before) * one + partly
            left = max((runs - len(finished)) * one - partly, 0)
            seconds = time.monotonic() - self._begin
            self._tell(SweepStatus(runs, finished, interactions, left, seconds, self._before))

    def _steps(self, path: Path, task: Task) -> int:
        try:
            steps = int(path.read_text() or 0)
        except (OSError, ValueError):
            return 0
        return steps * self._experiment.env.clients * len(task.configurations)
