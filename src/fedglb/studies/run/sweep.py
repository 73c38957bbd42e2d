"""Run a sweep: hand out tasks, store each result at once, go on when a task or a worker fails."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedglb.errors import InvalidInput, integer
from fedglb.provenance import cores
from fedglb.studies.results.store import Store, SweepResult, opened
from fedglb.studies.run.cluster import (
    ClusterLost,
    check_parts,
    connected,
    run_on_cluster,
    threads,
)
from fedglb.studies.run.local import WorkerDied, run_locally
from fedglb.studies.run.progress import OnStatus, Watch, status_bar
from fedglb.studies.run.schedule import TaskSchedule
from fedglb.studies.spec.description import described
from fedglb.studies.spec.experiment import Experiment, read_experiment


class SweepFailed(Exception):
    """A sweep could not be completed; finished runs are kept, and a rerun resumes.

    The message names the failed runs with their errors, or the loss of the cluster.

    Examples
    --------
    >>> import fedglb as fg
    >>> folder = getfixture("tmp_path") / "results"
    >>> tables = {
    ...     "name": "example", "horizon": 20, "seeds": 2,
    ...     "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
    ...     "algorithm": [{"name": "n-ons-glm"}],
    ... }
    >>> try:
    ...     result = fg.sweep(tables, folder, jobs=1)
    ... except fg.SweepFailed as error:  # the same call, made again, goes on from here
    ...     print(error)
    ...     result = fg.load_sweep(folder, partial=True)
    >>> result.runs.height
    2
    """


def sweep(
    experiment: Experiment | str | Path | Mapping[str, Any],
    folder: str | Path,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: OnStatus | bool | None = None,
) -> SweepResult:
    """Run every configuration with every seed and return the result.

    A folder that has some of these runs keeps them, and only the others are run. It may have been
    made with other seeds, algorithms or labels, or an earlier version of your own parts, but with
    the same environment, horizon, data and version of the package.

    Parameters
    ----------
    experiment
        A TOML file, its tables as a dictionary (which may hold objects), or an `Experiment`, made
        by `read_experiment` or `Experiment.of`.
    folder
        The folder of the results.
    jobs
        Worker processes; None: one per core.
    cluster
        The address of a Dask scheduler, to run there instead.
    progress
        Called now and then with a `SweepStatus`. True: draw a bar, in a notebook or on a
        terminal.

    Returns
    -------
    SweepResult
        One row per run and one per recorded step, in the order of the experiment, whatever the
        order in which runs end.

    Raises
    ------
    InvalidInput
        If the experiment is invalid, the folder is in use, has anything but a sweep or one with
        another environment, horizon, data or version, or workers of the cluster cannot import a
        part of the experiment.
    DataUnavailable
        If a data set of the experiment was not found.
    SweepFailed
        If a run failed, worker processes died again and again, or the cluster was lost.

    Examples
    --------
    >>> import fedglb as fg
    >>> tables = {
    ...     "name": "example", "horizon": 20, "seeds": 2,
    ...     "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
    ...     "algorithm": [{"name": "fedglb-ucb", "threshold": [0.1, 1.0]}, {"name": "n-ons-glm"}],
    ... }
    >>> result = fg.sweep(tables, getfixture("tmp_path") / "results", jobs=1)
    >>> result.runs.height, result.traces.height
    (6, 120)
    """
    if isinstance(experiment, Experiment):
        made = _unchanged(experiment)
    else:
        made = read_experiment(experiment)
    return run_sweep(made, folder, jobs, cluster, progress)


def run_sweep(
    made: Experiment,
    folder: str | Path,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: OnStatus | bool | None = None,
) -> SweepResult:
    """Run an experiment that was just read; parameters as in `sweep`."""
    count = cores() if jobs is None else integer("jobs", jobs)
    how = {"jobs": count if cluster is None else None, "cluster": cluster}
    with ExitStack() as stack:
        client = None if cluster is None else stack.enter_context(connected(cluster))
        if cluster is not None:
            check_parts(client, cluster, made)
        store = stack.enter_context(opened(Path(folder), made, how))
        if store.complete is not None:
            return store.complete
        try:
            with status_bar(progress, made.name) as tell:
                _complete(store, count, client, tell)
        except BaseException as error:
            with suppress(OSError):
                store.note_time()
            if isinstance(error, ClusterLost):
                raise SweepFailed(str(error)) from None
            raise
        return store.finish()


def _unchanged(experiment: Experiment) -> Experiment:
    """Raise if an experiment differs from its tables, because workers read only the tables."""
    meant = read_experiment(experiment.tables)
    for key in (field.name for field in fields(Experiment) if field.compare):
        # by description: a user-defined class may have no `__eq__`
        if described(getattr(experiment, key), set()) != described(getattr(meant, key), set()):
            allowed = "an unchanged result of read_experiment: change its tables and read them"
            raise InvalidInput(f"experiment.{key}", getattr(experiment, key), allowed)
    return meant


def _complete(store: Store, jobs: int, client: Any, progress: OnStatus | None) -> None:
    """Run the missing runs."""
    experiment = store.experiment
    kept = store.kept()
    schedule = TaskSchedule(experiment, kept.select("configuration", "seed").iter_rows())
    watch = Watch(experiment, kept, progress)
    failures: list[str] = []
    if not schedule:
        watch.emit()
    with watch.watching():
        while schedule:
            tasks = schedule.tasks(jobs if client is None else threads(client))
            if client is None:
                running = run_locally(experiment, tasks, jobs, watch)
            else:
                running = run_on_cluster(client, experiment, tasks)
            try:
                with closing(running) as outcomes:
                    for outcome in outcomes:
                        failures += outcome.failures
                        schedule.finished(outcome.task)
                        if outcome.part is not None:
                            watch.finished(outcome.task, store.add(outcome.part))
            except WorkerDied:
                schedule.died(tasks, watch.running())
                watch.forget()
                if reason := schedule.why_hopeless():
                    failures.insert(0, reason)
                    break
    if failures:
        more = f"; and {len(failures) - 3} more" if failures[3:] else ""
        raise SweepFailed("; ".join(failures[:3]) + more)
