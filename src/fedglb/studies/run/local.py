"""Tasks on the cores of this machine, through joblib."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from typing import Any

from fedglb.kernels.cache import say_if_not_kept
from fedglb.studies.run.progress import Watch
from fedglb.studies.run.task import Outcome, Sources, Task, run_task, work
from fedglb.studies.spec.experiment import Experiment


class WorkerDied(Exception):
    """A worker process ended without a result: killed, out of memory, crashed."""


def run_locally(
    experiment: Experiment, tasks: Sequence[Task], jobs: int, watch: Watch
) -> Generator[Outcome, None, None]:
    """Yield outcomes as they arrive. One worker process per job; with one job, this process."""
    if jobs == 1:
        for task in tasks:
            yield run_task(experiment, task, watch.report_file(task))
        return
    sources, parent = Sources.of(experiment), os.getpid()
    yield from run_calls(
        ((work, (sources, task, watch.report_file(task), parent)) for task in tasks), jobs
    )


def run_calls(
    calls: Iterable[tuple[Callable[..., Any], tuple[Any, ...]]], jobs: int
) -> Generator[Any, None, None]:
    """Yield the results of (function, arguments) in worker processes as they arrive."""
    import joblib
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    say_if_not_kept()  # once here, and not in every worker
    # One task per message, sent when a worker is free: no task waits behind a long one.
    pool = joblib.Parallel(
        n_jobs=jobs, backend="loky", return_as="generator_unordered", batch_size=1,
        pre_dispatch="n_jobs",
    )  # fmt: skip
    # Closing the pool abandons running tasks on purpose. joblib warns of that from another thread,
    # possibly after `close` has returned, so a filter around `close` would be gone too early.
    warnings.filterwarnings("ignore", r"\d+ tasks which", UserWarning, "joblib")
    # joblib replaces a worker that has 300 MB more than after its first task. That is not worth a
    # warning: large arrays fragment the memory.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning, "joblib")
    try:
        # Inside `try`: a worker may die of the first task before the second one is sent.
        sent = (joblib.delayed(function)(*arguments) for function, arguments in calls)
        with closing(pool(sent)) as outcomes:  # closing ends the workers, after Ctrl-C too
            yield from outcomes
    except TerminatedWorkerError as error:
        raise WorkerDied(str(error)) from None
