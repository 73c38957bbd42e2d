"""Tasks on the cores of this machine, through joblib."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Sequence
from contextlib import closing

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

from fedglb.sweeps.execution.progress import Watch
from fedglb.sweeps.execution.task import Outcome, Sources, Task, work
from fedglb.sweeps.spec.experiment import Experiment


class WorkerDied(Exception):
    """A worker process ended without a result: killed, out of memory, crashed."""


def run_locally(
    experiment: Experiment, tasks: Sequence[Task], jobs: int, watch: Watch
) -> Generator[Outcome, None, None]:
    """Yield outcomes as they come; one process a job, or this very one if there is one job."""
    sources = Sources.of(experiment)
    if jobs == 1:
        for task in tasks:
            yield work(sources, task, watch.report_file(task), None)
        return
    calls = (
        joblib.delayed(work)(sources, task, watch.report_file(task), os.getpid()) for task in tasks
    )
    # One task a message, handed over when a worker is free: nothing waits behind a long one.
    pool = joblib.Parallel(
        n_jobs=jobs, backend="loky", return_as="generator_unordered", batch_size=1,
        pre_dispatch="n_jobs",
    )  # fmt: skip
    # That running tasks are given up is the point. joblib warns in a thread of its own, at a
    # time of its own: a filter for the while of `close` would be gone by then.
    warnings.filterwarnings("ignore", r"\d+ tasks which", UserWarning, "joblib")
    # A worker that holds 300 MB more than after its first task is replaced by a fresh one, which
    # is nothing to warn of: large arrays leave gaps behind.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning, "joblib")
    try:
        # Not outside of `try`: a worker may die of the first task before the second is handed over.
        with closing(pool(calls)) as outcomes:  # closing ends the workers, after Ctrl-C too
            yield from outcomes
    except TerminatedWorkerError as error:
        raise WorkerDied(str(error)) from None
