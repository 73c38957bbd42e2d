"""From a file to a report, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fedglb.errors import InvalidInput, relocated, under
from fedglb.io.atomic import atomic_write, exclusive_lock
from fedglb.simulation.compiled import is_compiled
from fedglb.studies.report import Report, write_report
from fedglb.studies.results.parts import to_bytes
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
from fedglb.studies.run.fixed_models import fixed_models
from fedglb.studies.run.progress import SweepStatus
from fedglb.studies.run.race import Entrant, Raced, race
from fedglb.studies.run.search import (
    candidates,
    choose,
    choose_for_each,
    in_search,
    searches,
    with_choice,
)
from fedglb.studies.run.sweep import run_sweep
from fedglb.studies.spec.experiment import Experiment, read_experiment
from fedglb.studies.spec.plan import FOR_EACH, Plan, check_axis, read_plan

#: Called with what is being done and, while a sweep runs, with how far it is.
Stage: TypeAlias = Callable[[str, SweepStatus | None], None]


def reproduce(
    source: str | Path | Mapping[str, Any] | Experiment,
    profile: str | None = None,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Stage | None = None,
) -> Report:
    """Choose the parameters, run the sweeps, measure the fixed models, and write the report.

    Work that was finished before, for the same file and version of the package, is not repeated;
    work that was stopped resumes.

    Parameters
    ----------
    source
        The name of an experiment that comes with the package ("synthetic", "covertype",
        "magic", "mushroom", "solvers"; "heterogeneity", "drift", "delay", "participation";
        "privacy"), a TOML file, its tables (which may hold objects), or an `Experiment` of
        objects.
    profile
        "quick", "full", or another of the file's; None: "quick" where the file has it.
    folder
        Where results and report are kept; None: results/NAME-PROFILE.
    jobs
        Worker processes; None: one per core.
    progress
        Called with what is being done.

    Examples
    --------
    >>> import tempfile
    >>> tables = {
    ...     "name": "example", "horizon": 20, "seeds": 2,
    ...     "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
    ...     "algorithm": [{"name": "fedglb-ucb", "threshold": [0.1, 1.0]}, {"name": "n-ons-glm"}],
    ...     "search": {"seeds": [101], "exploration": [0.1, 1.0],
    ...                "algorithm": [{"name": "fedglb-ucb", "threshold": 1.0}]},
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = reproduce(tables, "full", folder, jobs=1)
    >>> report.page.name
    'report.html'
    """
    plan = read_plan(source, profile)
    work = _Work(plan, Path(), jobs, progress or (lambda text, status: None))
    experiments = work.validated()
    work.place = Path("results") / f"{plan.name}-{plan.profile}" if folder is None else Path(folder)
    try:
        work.place.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput("folder", str(work.place), "a folder: this is a file") from None
    with exclusive_lock(work.place):
        return work.completed(experiments)


class _Work:
    """A plan, and where, with how many workers and in whose sight it is carried out."""

    def __init__(self, plan: Plan, place: Path, jobs: int | None, tell: Stage) -> None:
        self.plan, self.place, self.jobs, self.tell = plan, place, jobs, tell

    def validated(self) -> list[Experiment]:
        """Read every sweep: a mistake in the last one is refused before the first is run.

        With a search, the sweeps are known only after it: then this reads what it tries.
        """
        plan = self.plan
        if plan.search is None:
            experiments = [self._read(cell.tables) for cell in plan.cells]
            check_axis(plan, experiments)
            return experiments
        every = candidates(plan.search)
        self._read(with_choice(plan.tables, every[0]))
        sweeps = searches(plan, every, plan.search.seeds)
        each = len(every) // len(sweeps)
        for tables in sweeps:
            with relocated(lambda path: in_search(path, each)):
                read = self._read(tables)
            for i, made in enumerate(read.configurations):
                if not is_compiled(made.algorithm):
                    where = ("search", "algorithm", i // each, "name")
                    allowed = "an algorithm of kernels only: the search stops runs on their way"
                    with under(source=plan.source):
                        raise InvalidInput(where, made.preset, allowed)
        return []

    def completed(self, experiments: Sequence[Experiment]) -> Report:
        """Run what is missing, and write the report."""
        plan = self.plan
        how: dict[str, Any] | None = None
        groups = [[experiment] for experiment in experiments]
        if plan.search is not None:
            if plan.search.choose == FOR_EACH:
                every, how = choose_for_each(plan, self._run_tables, self._race)
            else:
                tables, how = choose(plan, self._run_tables, self._race)
                every = [tables]
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
        atomic_write(self.place / STUDY, about.to_json())  # last: it names only what is there
        self.tell("report", None)
        return write_report(about.study(cells, baselines), self.place)

    def _read(self, tables: dict[str, Any]) -> Experiment:
        """Read a sweep's tables; an error names the file they come from."""
        with under(source=self.plan.source):
            return read_experiment(tables, progress=lambda text: self.tell(text, None))

    def _run(self, experiment: Experiment, text: str) -> SweepResult:
        self.tell(text, None)
        home = self.place / SWEEPS / _short_identity(experiment)
        return run_sweep(experiment, home, self.jobs, None, lambda status: self.tell(text, status))

    def _run_tables(self, tables: dict[str, Any], text: str) -> SweepResult:
        return self._run(self._read(tables), text)

    def _race(
        self,
        sweeps: Sequence[dict[str, Any]],
        before: Sequence[Sequence[Sequence[float]]],
        limit: float,
    ) -> list[Raced]:
        self.tell(f"search, {len(sweeps)} candidates, each as long as it can win", None)

        def ended(count: int) -> None:
            if count * 10 // len(sweeps) > (count - 1) * 10 // len(sweeps):  # ten lines, not all
                self.tell(f"search, {count} of {len(sweeps)} have ended", None)

        entrants = [
            Entrant(self._read(tables), tuple(map(tuple, known)), limit)
            for tables, known in zip(sweeps, before, strict=True)
        ]
        return race(entrants, self.place / RACES, self.jobs, ended)


def _short_identity(experiment: Experiment) -> str:
    """Return the name of a sweep's folder: a changed experiment gets another one."""
    return experiment.identity[:12]
