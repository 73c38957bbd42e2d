"""The file of a study: a sweep's, plus a title, profiles, a search, an axis and panels."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from fedglb.algorithms import ALGORITHMS, Algorithm
from fedglb.algorithms.own import find as find_own
from fedglb.algorithms.own import is_own
from fedglb.environments import Environment
from fedglb.environments.datasets import Progress
from fedglb.errors import InvalidInput, Place, integer, names_near, number, one_of, under
from fedglb.io.toml import convert, read_file
from fedglb.problem import Problem
from fedglb.studies.spec.environment import CHANGES
from fedglb.studies.spec.experiment import STUDY_KEYS, Experiment, read_experiment, seeds_of
from fedglb.studies.spec.grid import as_tables, choices

#: The experiments of the package.
EXPERIMENTS = (
    "synthetic", "covertype", "magic", "mushroom", "solvers", "heterogeneity", "groups", "outliers",
    "drift", "jump", "delay", "participation", "privacy",
)  # fmt: skip
QUICK, FULL = "quick", "full"
#: The two ways to count communication, and the labels of their axes.
Measure: TypeAlias = Literal["transfers", "scalars", "bits"]
MEASURES = {
    "transfers": "communication: transfers (messages that carry numbers)",
    "scalars": "communication: scalars (numbers transferred)",
    "bits": "communication: bits (of the numbers transferred)",
}
#: A search chooses one setting for all algorithms, or one for each.
JOINTLY, FOR_EACH = "jointly", "for each"
#: Types allowed in place of a table.
_TABLES = {"problem": Mapping | Problem | str, "environment": Mapping | Environment | str}
INFIMUM = "infimum"  # as a value of c_μ: the link's infimum on the ball


class SearchTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[search]`: candidates, seeds and algorithms."""

    seeds: list[int]
    algorithm: list[dict[str, Any]]
    choose: str = JOINTLY
    horizon: int | None = None
    radius: list[float] = []
    curvature: list[float | str] = []
    ridge: list[float] = []
    exploration: list[float] = []
    alpha: list[float] = []


class AcrossTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[across]`: the parameter on the axis, and the reference algorithm of ratios."""

    parameter: str
    against: str


class StudyTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys that a study's file has in addition to a sweep's."""

    title: str | None = None
    measure: str | None = None
    search: SearchTable | None = None
    across: AcrossTable | None = None
    panel: list[dict[str, Any]] = []


@dataclass(frozen=True)
class PlannedCell:
    """One sweep of a study: a panel at one value of the axis."""

    panel: str  # the panel's title; "" in a study without panels
    value: float | None  # of the varied key of `[environment]`; None without such a key
    tables: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Plan:
    """The plan of `reproduce`; made by `read_plan`."""

    name: str
    title: str
    profile: str
    measure: Measure  # the unit of communication
    tables: dict[str, Any]  # without the search's choice
    cells: tuple[PlannedCell, ...]  # panels × values of the axis; without an axis there is one
    search: SearchTable | None
    source: str  # the file, for messages
    axis: str = ""  # a key of `[environment]`, or a parameter of algorithms; "" for none
    against: str = ""  # the reference algorithm of ratios; "" for none
    full: dict[str, Any] = field(default_factory=dict)  # of a quick study: size, command

    def read(self, tables: Mapping[str, Any], progress: Progress) -> Experiment:
        """Read a sweep's tables; errors name their file."""
        with under(source=self.source):
            return read_experiment(tables, progress=progress)


def find(name: str | Path) -> Path:
    """Return the file of a named experiment, or the named file."""
    text = str(name)
    if text.endswith(".toml"):
        return Path(text)
    if text not in EXPERIMENTS:
        raise InvalidInput("NAME", text, f"a TOML file, or {names_near(text, EXPERIMENTS)}")
    inside = Path(str(resources.files("fedglb"))) / "experiments"  # of an installed package
    folder = inside if inside.is_dir() else Path(__file__).parents[4] / "experiments"
    return folder / f"{text}.toml"


def read_plan(
    source: str | Path | Mapping[str, Any] | Experiment, profile: str | None = None
) -> Plan:
    """Read a study: an experiment of the package, a TOML file, its tables, or an experiment.

    A profile is a table `[profile.NAME]` of values that replace the file's; "full" is the file
    unchanged. None: "quick" if the file has it, else "full".
    """
    given = source.tables if isinstance(source, Experiment) else source
    if isinstance(given, Mapping):
        where, raw, command = "experiment", dict(given), 'reproduce(…, "full")'
    else:
        path = find(given)
        where, raw, command = str(path), read_file(path), f"fedglb reproduce {given} --full"
    with under(source=where):
        profiles = _profiles(raw)
    chosen = (QUICK if QUICK in profiles else FULL) if profile is None else profile
    one_of("profile", chosen, sorted({FULL, *profiles}))
    rest = {key: value for key, value in raw.items() if key != "profile"}
    raw = merged(rest, profiles.get(chosen, {}))
    own = {key: raw[key] for key in STUDY_KEYS if key in raw}
    study = convert(own, StudyTables, where)
    tables = {key: value for key, value in raw.items() if key not in STUDY_KEYS}
    name = str(tables.get("name", "experiment"))
    with under(source=where):
        for key in ("problem", "environment", "defaults"):
            if not isinstance(tables.get(key, {}), _TABLES.get(key, Mapping)):
                raise InvalidInput(key, tables[key], "a table")
        environment = tables.get("environment", {})
        real = isinstance(environment, Mapping) and "dataset" in environment
        measure: Any = study.measure or ("scalars" if real else "transfers")
        one_of("measure", measure, MEASURES)
        axis, cells = _cells(study, tables)
        if study.search is not None:
            _check(study.search, tables)
        full = {"command": command, **_size(rest)} if chosen == QUICK else {}
    return Plan(
        name, study.title or name, chosen, measure, tables, cells, study.search, where, axis,
        "" if study.across is None else study.across.against, full,
    )  # fmt: skip


def _cells(study: StudyTables, tables: dict[str, Any]) -> tuple[str, tuple[PlannedCell, ...]]:
    """Return the axis, "" for none, and the sweeps: panels × values."""
    environment = tables.get("environment", {})
    lists = [
        key
        for key in CHANGES
        if isinstance(environment, Mapping) and isinstance(environment.get(key), list)
    ]
    axes = [*([study.across.parameter] if study.across else []), *lists]
    if len(axes) > 1:
        allowed = f"one number: {axes[0]} is on the axis already, and a study has one axis"
        raise InvalidInput(("environment", axes[1]), environment[axes[1]], allowed)
    if not axes:
        if study.panel:
            allowed = "no panels without an axis: add [across], or a list in [environment]"
            raise InvalidInput("panel", f"{len(study.panel)} tables", allowed)
        return "", (PlannedCell("", None, tables),)
    if study.search is not None:
        allowed = f"no search beside the axis {axes[0]}: list the settings, and the best is shown"
        raise InvalidInput("search", "a table", allowed)
    panels: dict[str, dict[str, Any]] = {} if study.panel else {"": tables}
    for i, panel in enumerate(study.panel):
        title = panel.get("title")
        if not isinstance(title, str) or not title.strip() or title in panels:
            raise InvalidInput(("panel", i, "title"), title, "a different text for each panel")
        changes = {key: value for key, value in panel.items() if key != "title"}
        panels[title] = merged(tables, changes)
    cells: list[PlannedCell] = []
    for title, each in panels.items():
        if not lists:
            cells.append(PlannedCell(title, None, each))
            continue
        for value in _values(lists[0], each):
            changed = merged(each, {"environment": {lists[0]: value}})
            cells.append(PlannedCell(title, float(value), changed))
    return axes[0], tuple(cells)


def _values(key: str, tables: Mapping[str, Any]) -> Sequence[float]:
    """Return the values of a key of `[environment]`; raise unless they are increasing numbers."""
    values = tables["environment"][key]
    place: Place = ("environment", key)
    if not isinstance(values, list):
        raise InvalidInput(place, values, "a list, because this key is on the axis")
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput((*place, i), value, "a number")
    if len(values) < 2 or any(a >= b for a, b in pairwise(values)):
        raise InvalidInput(place, values, "at least two values, in increasing order")
    return values


def check_axis(plan: Plan, experiments: Sequence[Experiment]) -> None:
    """Raise if no algorithm has two values of the parameter, or `against` is unknown."""
    if not plan.against:
        return
    key = plan.axis
    with under("across", source=plan.source):
        for experiment in experiments:
            made = experiment.configurations
            families = {each.preset: set[object]() for each in made}
            for each in made:
                families[each.preset].add(each.parameters.get(key))
            if not any(len(found - {None}) > 1 for found in families.values()):
                numbers = {
                    k for m in made for k, v in m.parameters.items() if isinstance(v, int | float)
                }
                known = names_near(key, sorted(numbers))
                allowed = f"a parameter with two values in an algorithm of the file: {known}"
                raise InvalidInput("parameter", key, allowed)
            fixed = [name for name, found in families.items() if found == {None}]
            if plan.against not in fixed:
                allowed = f"an algorithm without {key}: {names_near(plan.against, fixed)}"
                raise InvalidInput("against", plan.against, allowed)


def _size(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the size of the sweep of these tables."""
    seeds = tables.get("seeds")
    count = seeds if isinstance(seeds, int) else len(seeds or [])
    given = as_tables(tables.get("algorithm", []))
    grid = choices(given, tables.get("defaults", {}), count, sys.maxsize)
    environment = tables.get("environment", {})
    clients = environment.get("clients") if isinstance(environment, Mapping) else None
    return {
        "seeds": count, "horizon": tables.get("horizon"),
        "clients": getattr(environment, "clients", clients), "configurations": len(grid),
    }  # fmt: skip


def _profiles(raw: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the changes of each profile."""
    profiles: Any = raw.get("profile", {})
    whole = isinstance(profiles, Mapping) and all(isinstance(v, Mapping) for v in profiles.values())
    if not whole or any("profile" in changes for changes in profiles.values()):
        raise InvalidInput("profile", profiles, "tables of changes, such as [profile.quick]")
    return dict(profiles)


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the old tables with the new values; tables in tables are merged, lists replaced."""
    out = dict(old)
    for key, value in new.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merged(out[key], value) if both else value
    return out


def _check(search: SearchTable, tables: Mapping[str, Any]) -> None:
    """Raise for a search with invalid values, or with seeds that the result reports."""
    with under("search"):
        one_of("choose", search.choose, (JOINTLY, FOR_EACH))
        for name in ("radius", "ridge"):
            for i, value in enumerate(getattr(search, name)):
                number((name, i), value, above=0.0)
        for name in ("exploration", "alpha"):
            for i, value in enumerate(getattr(search, name)):
                number((name, i), value, at_least=0.0)
        for i, value in enumerate(search.curvature):
            if value != INFIMUM:
                number(("curvature", i), value, above=0.0, allowed='a number > 0, or "infimum"')
        if search.horizon is not None:
            integer("horizon", search.horizon)
        if not search.algorithm:
            raise InvalidInput("algorithm", [], "at least one [[search.algorithm]]")
        if not (search.exploration or search.alpha):
            raise InvalidInput("exploration", [], "values to try, here or for alpha")
        seeds_of(search.seeds)
    _only_searched(search, tables)
    if search.choose == FOR_EACH:
        _each_is_searched(search, tables)
    given = tables.get("seeds")
    reported = set(range(1, given + 1)) if isinstance(given, int) else set()
    if isinstance(given, list):
        reported = {seed for seed in given if isinstance(seed, int)}
    shared = sorted(set(search.seeds) & reported)
    if shared:
        allowed = f"other seeds than the result's, which include {shared[0]}"
        raise InvalidInput(("search", "seeds"), search.seeds, allowed)


def left_alone(table: Mapping[str, Any]) -> bool:
    """Return whether a search leaves an algorithm unchanged: an object, or without defaults."""
    return isinstance(table.get("name"), Algorithm) or not table.get("defaults", True)


def _each_is_searched(search: SearchTable, tables: Mapping[str, Any]) -> None:
    """Raise for an algorithm without a search, and for two searches of one algorithm."""
    names = [table.get("name") for table in search.algorithm]
    for i, name in enumerate(names):
        place = ("search", "algorithm", i, "name")
        if name in names[:i]:
            raise InvalidInput(place, name, f'each algorithm once, with choose = "{FOR_EACH}"')
        if isinstance(name, str) and is_own(name):
            find_own(place, name)
        else:
            one_of(place, name, ALGORITHMS)
    for i, table in enumerate(as_tables(tables.get("algorithm", []))):
        if not left_alone(table) and table.get("name") not in names:
            allowed = "an algorithm of the search, or defaults = false in its table"
            raise InvalidInput(("algorithm", i, "name"), table.get("name"), allowed)


def _only_searched(search: SearchTable, tables: Mapping[str, Any]) -> None:
    """Raise for a fixed value of a parameter that the search chooses."""
    of_problem = [name for name in ("radius", "curvature") if getattr(search, name)]
    of_algorithm = ["exploration"]
    of_algorithm += ["confidence"] if search.alpha else []
    of_algorithm += ["ridge"] if search.ridge else []
    for key in ("environment", "problem"):
        if of_problem and isinstance(tables.get(key), Environment | Problem):
            allowed = f"a table, or a function of `problem`: [search] chooses {of_problem[0]}"
            raise InvalidInput(key, tables[key], allowed)
    places: list[tuple[Place, Any, list[str]]] = [
        (("problem",), tables.get("problem"), of_problem),
        (("defaults",), tables.get("defaults"), of_algorithm),
    ]
    algorithms = as_tables(tables.get("algorithm"))
    for i, table in enumerate(algorithms if isinstance(algorithms, list) else []):
        if isinstance(table, Mapping) and not left_alone(table):
            places.append((("algorithm", i), table, of_algorithm))
    for i, table in enumerate(search.algorithm):
        place: Place = ("search", "algorithm", i)
        if isinstance(table.get("name"), Algorithm):
            allowed = "the name of a preset or a function: [search] sets its parameters"
            raise InvalidInput((*place, "name"), table["name"], allowed)
        for name, value in table.items():
            if isinstance(value, list):
                allowed = "one value: a [[search.algorithm]] is one algorithm"
                raise InvalidInput((*place, name), value, allowed)
        places.append((place, table, of_algorithm))
    for place, table, chosen in places:
        for name in chosen:
            if isinstance(table, Mapping) and name in table:
                allowed = "no such key: [search] chooses it, for all algorithms"
                raise InvalidInput((*place, name), table[name], allowed)
