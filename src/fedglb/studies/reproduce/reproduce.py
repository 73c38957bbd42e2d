"""From a file to a report, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fedglb.errors import InvalidInput, relocated, under
from fedglb.io.atomic import atomic_write
from fedglb.io.lock import exclusive_lock
from fedglb.simulation.compiled import is_compiled
from fedglb.studies import Experiment, SweepResult, SweepStatus, read_experiment, sweep
from fedglb.studies.report import Report, write_report
from fedglb.studies.report.across_report import write_across
from fedglb.studies.report.panels_report import write_panels
from fedglb.studies.report.study import QUICK
from fedglb.studies.reproduce.across import each_value, run_across, varied
from fedglb.studies.reproduce.panels import check_panels, each_panel, run_panels
from fedglb.studies.reproduce.plan import FOR_EACH, Plan, full_size, read_plan
from fedglb.studies.reproduce.race import Entrant, Raced, race
from fedglb.studies.reproduce.search import (
    candidates,
    choose,
    choose_for_each,
    in_search,
    searches,
    with_choice,
)
from fedglb.studies.reproduce.study import (
    FIXED,
    RACES,
    STUDY,
    SWEEPS,
    StudyFile,
    load_study,
    read_fixed,
)
from fedglb.studies.results.parts import to_bytes
from fedglb.studies.run.fixed_models import fixed_models

#: Called with what is being done and, while a sweep runs, with how far it is.
Stage: TypeAlias = Callable[[str, SweepStatus | None], None]


def reproduce(
    source: str | Path | Mapping[str, Any] | Experiment,
    profile: str | None = None,
    folder: str | Path | None = None,
    jobs: int | None = None,
    progress: Stage | None = None,
) -> Report:
    """Choose the parameters, run the sweep, measure the fixed models, and write the report.

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
    tell: Stage = progress or (lambda text, status: None)
    _validate(plan, tell)
    place = Path("results") / f"{plan.name}-{plan.profile}" if folder is None else Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput("folder", str(place), "a folder: this is a file") from None
    with exclusive_lock(place):
        return _complete(
            plan, place, jobs, tell, full_size(source) if plan.profile == QUICK else {}
        )


def _validate(plan: Plan, tell: Stage) -> None:
    """Read every sweep first: a mistake in the last one is refused before the first is run."""
    if panels := each_panel(plan):
        check_panels(plan, [_read(plan, tables, tell) for tables in panels.values()])
        return
    if key := varied(plan.tables):
        for value in each_value(plan, key).values():
            _read(plan, value, tell)
        return
    if plan.search is None:
        _read(plan, plan.tables, tell)
        return
    every = candidates(plan.search)
    _read(plan, with_choice(plan.tables, every[0]), tell)
    sweeps = searches(plan, every, plan.search.seeds)
    each = len(every) // len(sweeps)
    for tables in sweeps:
        with relocated(lambda path: in_search(path, each)):
            read = _read(plan, tables, tell)
        for i, made in enumerate(read.configurations):
            if not is_compiled(made.algorithm):
                where = ("search", "algorithm", i // each, "name")
                allowed = "an algorithm whose parts are kernels: the search stops runs on their way"
                with under(source=plan.source):
                    raise InvalidInput(where, made.preset, allowed)


def _complete(
    plan: Plan, place: Path, jobs: int | None, tell: Stage, full: dict[str, Any]
) -> Report:
    """Run what is missing, and write the report; `full` is the size of the full study."""

    def run(experiment: Experiment, text: str) -> SweepResult:
        tell(text, None)
        home = place / SWEEPS / _short_identity(experiment)
        return sweep(experiment, home, jobs, None, lambda status: tell(text, status))

    def run_tables(tables: dict[str, Any], text: str) -> SweepResult:
        return run(_read(plan, tables, tell), text)

    def run_race(
        sweeps: Sequence[dict[str, Any]],
        before: Sequence[Sequence[Sequence[float]]],
        limit: float,
    ) -> list[Raced]:
        tell(f"search, {len(sweeps)} candidates, each as long as it can win", None)

        def ended(count: int) -> None:
            if count * 10 // len(sweeps) > (count - 1) * 10 // len(sweeps):  # ten lines, not all
                tell(f"search, {count} of {len(sweeps)} have ended", None)

        entrants = [
            Entrant(_read(plan, tables, tell), tuple(map(tuple, known)), limit)
            for tables, known in zip(sweeps, before, strict=True)
        ]
        return race(entrants, place / RACES, jobs, ended)

    def run_value(tables: dict[str, Any], text: str) -> Path:
        experiment = _read(plan, tables, tell)
        run(experiment, text)
        return place / SWEEPS / _short_identity(experiment)

    if each_panel(plan):
        made = run_panels(plan, place, run_value)
        tell("report", None)
        return write_panels(made, place)
    if key := varied(plan.tables):
        study = run_across(plan, key, place, run_value)
        tell("report", None)
        return write_across(study, place)
    how: dict[str, Any] | None = None
    if plan.search is None:
        every = [plan.tables]
    elif plan.search.choose == FOR_EACH:
        every, how = choose_for_each(plan, run_tables, run_race)
    else:
        tables, how = choose(plan, run_tables, run_race)
        every = [tables]
    experiments = [_read(plan, tables, tell) for tables in every]
    for i, each in enumerate(experiments):
        run(each, "sweep" if len(experiments) == 1 else f"sweep {i + 1} of {len(experiments)}")
    experiment = experiments[0]
    fixed = place / FIXED / f"{_short_identity(experiment)}.parquet"
    if read_fixed(fixed) is None:
        tell("fixed models", None)
        found = fixed_models(experiment.env, experiment.horizon, experiment.seeds, jobs)
        fixed.parent.mkdir(exist_ok=True)
        atomic_write(fixed, to_bytes(found))
    about = StudyFile(
        plan.name, plan.title, plan.profile, plan.measure,
        [f"{SWEEPS}/{_short_identity(each)}" for each in experiments],
        f"{FIXED}/{fixed.name}", how, full,
    )  # fmt: skip
    atomic_write(place / STUDY, about.to_json())  # last: it names only what is there
    tell("report", None)
    return write_report(load_study(place), place)


def _read(plan: Plan, tables: dict[str, Any], tell: Stage) -> Experiment:
    """Read a sweep's tables; an error names the file they come from."""
    with under(source=plan.source):
        return read_experiment(tables, progress=lambda text: tell(text, None))


def _short_identity(experiment: Experiment) -> str:
    """Return the name of a sweep's folder: a changed experiment gets another one."""
    return experiment.identity[:12]
