"""From a file to a report, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fedglb.environments.base import all_rewards
from fedglb.errors import InvalidInput, relocated, under
from fedglb.io.atomic import atomic_write, exclusive_lock
from fedglb.simulation.compiled import runs_compiled
from fedglb.studies.report import Report, write_report
from fedglb.studies.results.store import SweepResult
from fedglb.studies.results.study import (
    FIXED,
    RACES,
    STUDY,
    SWEEPS,
    Cell,
    CellFile,
    StudyFile,
    joined,
    read_fixed,
)
from fedglb.studies.results.tables import to_bytes
from fedglb.studies.run.fixed_models import fixed_models
from fedglb.studies.run.progress import SweepStatus
from fedglb.studies.run.race import Entrant, Raced, race
from fedglb.studies.run.search import (
    Candidate,
    Sweep,
    candidates,
    choose,
    in_search,
    searches,
    separate,
    with_choice,
)
from fedglb.studies.run.sweep import run_sweep
from fedglb.studies.spec.experiment import Experiment
from fedglb.studies.spec.plan import Plan, check_axis, read_plan

#: Called with the current stage and, while a sweep runs, its progress.
Stage: TypeAlias = Callable[[str, SweepStatus | None], None]


def reproduce(
    source: str | Path | Mapping[str, Any] | Experiment,
    profile: str | None = None,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Stage | None = None,
) -> Report:
    """Choose the parameters, run the sweeps, measure the fixed models, and write the report.

    Finished work for the same file and version of the package is not repeated; interrupted work
    resumes.
    """
    plan = read_plan(source, profile)
    work = _Work(plan, jobs, progress or (lambda text, status: None))
    groups = work.validated()
    work.place = Path("results") / f"{plan.name}-{plan.profile}" if folder is None else Path(folder)
    try:
        work.place.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput("folder", str(work.place), "a folder, not a file") from None
    with exclusive_lock(work.place):
        return work.completed(groups)


class _Work:
    """Carries out a plan in a folder, with worker processes and progress for the user."""

    def __init__(self, plan: Plan, jobs: int | None, tell: Stage) -> None:
        self.plan, self.jobs, self.tell = plan, jobs, tell
        self.place = Path()

    def validated(self) -> list[list[Experiment]]:
        """Read every sweep, so that a mistake in the last one raises before the first runs.

        With a search, the sweeps are known only after it. Then this reads the search's first
        sweeps.
        """
        plan = self.plan
        if plan.search is None:
            experiments = [self._read(cell.tables) for cell in plan.cells]
            check_axis(plan, experiments)
            return [[experiment] for experiment in experiments]
        every = candidates(plan.search)
        self._read(with_choice(plan.tables, every[0]))
        return [self._begun(part, every, i) for i, part in enumerate(separate(plan))]

    def _begun(self, plan: Plan, every: Sequence[Candidate], first: int) -> list[Experiment]:
        """Read a search's sweeps on its first seed; `first` as in `in_search`."""
        assert plan.search is not None
        sweeps = searches(plan, every, plan.search.seeds[:1])
        each = len(every) // len(sweeps)
        made = []
        for tables in sweeps:
            with relocated(lambda path: in_search(path, each, first)):
                made.append(self._read(tables))
            for i, one in enumerate(made[-1].configurations):
                if not runs_compiled(one.algorithm, made[-1].env):
                    where = ("search", "algorithm", first + i // each, "name")
                    allowed = "compiled parts only, and no network: the search stops runs early"
                    with under(source=plan.source):
                        raise InvalidInput(where, one.preset, allowed)
        return made

    def completed(self, groups: list[list[Experiment]]) -> Report:
        """Run missing sweeps and write the report; `groups` is the result of `validated`."""
        plan = self.plan
        how: dict[str, Any] | None = None
        if plan.search is not None:
            every, how = choose(plan, groups, self._run, self._race)
            groups = [[self._read(tables) for tables in every]]
        cells: list[Cell] = []
        written: list[CellFile] = []
        for i, (planned, group) in enumerate(zip(plan.cells, groups, strict=True)):
            value = "" if planned.value is None else f"{plan.axis} {planned.value:g}"
            where = ", ".join(filter(None, [planned.panel, value]))
            of = f" {i + 1} of {len(groups)}: {where}" if where else ""
            results = []
            for k, experiment in enumerate(group):
                nth = f" {k + 1} of {len(group)}" if len(group) > 1 else ""
                results.append(self._run(experiment, f"sweep{of}{nth}"))
            homes = [f"{SWEEPS}/{_short_identity(experiment)}" for experiment in group]
            cells.append(Cell(planned.panel, planned.value, joined(results)))
            written.append(CellFile(planned.panel, planned.value, homes))
        fixed = baselines = None
        if not plan.axis:
            first = groups[0][0]
            fixed = f"{FIXED}/{_short_identity(first)}.parquet"
            baselines = read_fixed(self.place / fixed)
            if baselines is None:
                self.tell("fixed models", None)
                baselines = fixed_models(first.env, first.horizon, first.seeds, self.jobs)
                (self.place / FIXED).mkdir(exist_ok=True)
                atomic_write(self.place / fixed, to_bytes(baselines))
        about = StudyFile(
            plan.name, plan.title, plan.profile, plan.measure, plan.axis, plan.against, written,
            fixed, how, plan.full,
        )  # fmt: skip
        atomic_write(self.place / STUDY, about.to_json())  # last: it names only existing files
        self.tell("report", None)
        return write_report(about.study(cells, baselines), self.place)

    def _read(self, tables: dict[str, Any]) -> Experiment:
        experiment = self.plan.read(tables, lambda text: self.tell(text, None))
        with under("environment", source=self.plan.source):
            all_rewards(experiment.env, "searches and fixed models (fg.sweep takes any)")
        return experiment

    def _run(self, sweep: Sweep, text: str) -> SweepResult:
        self.tell(text, None)
        experiment = sweep if isinstance(sweep, Experiment) else self._read(sweep)
        home = self.place / SWEEPS / _short_identity(experiment)
        return run_sweep(experiment, home, self.jobs, None, lambda status: self.tell(text, status))

    def _race(
        self,
        sweeps: Sequence[dict[str, Any]],
        before: Sequence[Sequence[Sequence[float]]],
        limit: float,
    ) -> list[Raced]:
        self.tell(f"search, {len(sweeps)} candidates, each as long as it can win", None)

        def ended(count: int) -> None:
            if count * 10 // len(sweeps) > (count - 1) * 10 // len(sweeps):  # ten lines in all
                self.tell(f"search, {count} of {len(sweeps)} have ended", None)

        entrants = [
            Entrant(self._read(tables), tuple(map(tuple, known)), limit)
            for tables, known in zip(sweeps, before, strict=True)
        ]
        return race(entrants, self.place / RACES, self.jobs, ended)


def _short_identity(experiment: Experiment) -> str:
    """Return the name of a sweep's folder: a changed experiment gets another one."""
    return experiment.identity[:12]
