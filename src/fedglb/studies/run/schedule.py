"""The remaining runs, and which of them may run side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from fedglb.studies.run.task import Task, deal
from fedglb.studies.spec.experiment import Experiment

#: A sweep gives up after this many deaths of workers with no task finished in between.
MOST_DEATHS = 3


class _Company(Enum):
    """Runs that may run beside a run."""

    ANY = "others of its seed in one task"
    OTHER_TASKS = "other tasks, but no other run in its own"
    ALONE = "nothing"
    ALONE_LAST = "nothing, and last: its worker died although nothing else was running"


class TaskSchedule:
    """The remaining runs, and what may run beside each of them.

    A worker that dies takes all workers of its pool with it, and any running task may be the
    cause. So tasks of several runs are split into tasks of one run, and tasks that had one run are
    repeated with nothing beside them: if a worker dies then, the cause is known and nothing else
    is lost.
    """

    def __init__(self, experiment: Experiment, done: Iterable[tuple[int, int]]) -> None:
        finished = set(done)
        self._left = {
            (i, seed): _Company.ANY
            for seed in experiment.seeds
            for i in range(len(experiment.configurations))
            if (i, seed) not in finished
        }
        self._experiment = experiment
        self._deaths = 0

    def __bool__(self) -> bool:
        return bool(self._left)

    def tasks(self, workers: int) -> list[Task]:
        """Return the tasks to run next."""
        if alone := self._with(_Company.ALONE):
            return _singly(alone[:1])
        together, apart = self._with(_Company.ANY), self._with(_Company.OTHER_TASKS)
        if together or apart:
            return deal(together, workers) + _singly(apart)
        return _singly(self._with(_Company.ALONE_LAST)[:1])

    def finished(self, task: Task) -> None:
        """Record a task that has ended, with or without failures."""
        self._deaths = 0
        for run in _runs(task):
            self._left.pop(run, None)

    def died(self, tasks: Sequence[Task], running: Sequence[Task]) -> None:
        """Record the death of a worker; `running` are the tasks that were running.

        A death with several running tasks is not counted: after each, fewer may run side by side,
        so there cannot be many.
        """
        first = _runs(tasks[0])[0]
        if self._left.get(first) in (_Company.ALONE, _Company.ALONE_LAST):
            del self._left[first]
            self._left[first] = _Company.ALONE_LAST
            self._deaths += 1
            return
        suspects = [task for task in running if set(_runs(task)) <= self._left.keys()]
        for task in suspects:
            company = _Company.OTHER_TASKS if len(task.configurations) > 1 else _Company.ALONE
            self._left |= dict.fromkeys(_runs(task), company)
        if not suspects:
            self._deaths += 1

    def why_hopeless(self) -> str | None:
        """Return why the sweep should give up, or None."""
        if self._deaths < MOST_DEATHS or self._with(_Company.ALONE):
            return None
        died = f"a worker process died {self._deaths} times in a row (killed, or out of memory)"
        deadly = _singly(self._with(_Company.ALONE_LAST))
        if not deadly:
            return f"{died} before it began a task"
        what = "; ".join(task.describe(self._experiment) for task in deadly[:3])
        more = f"; and {len(deadly) - 3} more" if deadly[3:] else ""
        return f"{died}; it dies even when nothing else is running: {what}{more}"

    def _with(self, company: _Company) -> list[tuple[int, int]]:
        return [run for run, allowed in self._left.items() if allowed is company]


def _runs(task: Task) -> list[tuple[int, int]]:
    return [(i, task.seed) for i in task.configurations]


def _singly(runs: Sequence[tuple[int, int]]) -> list[Task]:
    return [Task(seed, (i,)) for i, seed in runs]
