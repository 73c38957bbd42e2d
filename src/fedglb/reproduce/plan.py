"""The file of a study: a sweep's, with a title, profiles, and a search for its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput, integer, number, one_of
from fedglb.io.toml import explain, read_file, reject_unknown_keys
from fedglb.report import MEASURES
from fedglb.sweeps.spec.document import STUDY_KEYS

#: The experiments that come with the package: the paper's figures, and what goes with them.
EXPERIMENTS = ("synthetic", "covertype", "magic", "mushroom", "solvers")
QUICK, FULL = "quick", "full"
INFIMUM = "infimum"  # as c_μ: the link's own on the ball


class SearchTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[search]`: what is tried, on which seeds, by which algorithms."""

    seeds: list[int]
    algorithm: list[dict[str, Any]]
    horizon: int | None = None
    radius: list[float] = []
    curvature: list[float | str] = []
    ridge: list[float] = []
    exploration: list[float] = []
    alpha: list[float] = []


class StudyTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a study's file has besides a sweep's."""

    title: str | None = None
    measure: str | None = None
    search: SearchTable | None = None


@dataclass(frozen=True)
class Plan:
    """What `reproduce` does; made by `read_plan`.

    Attributes
    ----------
    name, title, profile
        What it is called, in a word and in a line, and which profile of the file this is.
    measure
        What communication is counted in: "transfers" or "scalars".
    tables
        The sweep's tables, before the search has filled in what it chooses.
    search
        What is tried to choose the parameters; None: they are given.
    source
        The file, for messages.
    """

    name: str
    title: str
    profile: str
    measure: str
    tables: dict[str, Any]
    search: SearchTable | None
    source: str


def find(name: str | Path) -> Path:
    """Return the file of a named experiment, or the file that was named.

    Examples
    --------
    >>> find("synthetic").name
    'synthetic.toml'
    """
    text = str(name)
    if text.endswith(".toml"):
        return Path(text)
    try:
        one_of("NAME", text, EXPERIMENTS)
    except InvalidInput as error:
        raise InvalidInput("NAME", text, f"a TOML file, or {error.allowed}") from None
    inside = Path(str(resources.files("fedglb"))) / "experiments"  # of an installed package
    folder = inside if inside.is_dir() else Path(__file__).parents[3] / "experiments"
    return folder / f"{text}.toml"


def read_plan(source: str | Path | Mapping[str, Any], profile: str | None = None) -> Plan:
    """Read a study's file.

    Parameters
    ----------
    source
        The name of an experiment that comes with the package, a TOML file, or its tables.
    profile
        Which of the file's profiles: a table `[profile.NAME]` of what to change in the file.
        "full" is the file as it stands; None: "quick", if the file has that, else "full".

    Examples
    --------
    >>> plan = read_plan("synthetic")
    >>> plan.profile, plan.measure, plan.tables["horizon"]
    ('quick', 'transfers', 500)
    >>> read_plan("synthetic", "full").tables["horizon"]
    2000
    """
    if isinstance(source, Mapping):
        where, raw = "experiment", dict(source)
    else:
        path = find(source)
        where, raw = str(path), read_file(path)
    raw, chosen = _profiled(raw, profile, where)
    study = _study(raw, where)
    tables = {key: value for key, value in raw.items() if key not in STUDY_KEYS}
    for key in ("problem", "environment", "defaults"):
        if not isinstance(tables.get(key, {}), Mapping):
            raise InvalidInput(f"{where}: {key}", tables[key], "a table")
    name = str(tables.get("name", "experiment"))
    real = "dataset" in tables.get("environment", {})
    measure = study.measure or ("scalars" if real else "transfers")
    one_of(f"{where}: measure", measure, MEASURES)
    if study.search is not None:
        _check(study.search, tables, where)
    return Plan(name, study.title or name, chosen, measure, tables, study.search, where)


def _profiled(raw: dict[str, Any], profile: str | None, where: str) -> tuple[dict[str, Any], str]:
    """Return the tables with the profile's changes in them, and which it is."""
    profiles = raw.get("profile", {})
    whole = isinstance(profiles, Mapping) and all(isinstance(v, Mapping) for v in profiles.values())
    if not whole or any("profile" in changes for changes in profiles.values()):
        raise InvalidInput(f"{where}: profile", profiles, "tables of changes, as [profile.quick]")
    rest = {key: value for key, value in raw.items() if key != "profile"}
    chosen = (QUICK if QUICK in profiles else FULL) if profile is None else profile
    one_of("profile", chosen, sorted({FULL, *profiles}))
    return merged(rest, profiles.get(chosen, {})), chosen


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the old tables with the new values; tables in tables are merged, lists replaced.

    Examples
    --------
    >>> merged({"a": {"b": 1, "c": [1, 2]}, "d": 4}, {"a": {"c": [3]}})
    {'a': {'b': 1, 'c': [3]}, 'd': 4}
    """
    out = dict(old)
    for key, value in new.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = merged(out[key], value) if both else value
    return out


def _study(raw: Mapping[str, Any], where: str) -> StudyTables:
    own = {key: raw[key] for key in STUDY_KEYS if key in raw}
    if isinstance(own.get("search"), Mapping):
        reject_unknown_keys(own["search"], SearchTable, where, "search.")
    try:
        return msgspec.convert(own, StudyTables)
    except msgspec.ValidationError as error:
        raise explain(str(error), own, where) from None


def _check(search: SearchTable, tables: Mapping[str, Any], where: str) -> None:
    """Refuse a search that is not one, or that looks at the seeds of the result."""
    key = f"{where}: search"
    for name in ("radius", "ridge"):
        for i, value in enumerate(getattr(search, name)):
            number(f"{key}.{name}[{i}]", value, above=0.0)
    for name in ("exploration", "alpha"):
        for i, value in enumerate(getattr(search, name)):
            number(f"{key}.{name}[{i}]", value, at_least=0.0)
    for i, value in enumerate(search.curvature):
        if value != INFIMUM:
            number(f"{key}.curvature[{i}]", value, above=0.0, allowed='a number > 0, or "infimum"')
    if search.horizon is not None:
        integer(f"{key}.horizon", search.horizon)
    if not search.algorithm:
        raise InvalidInput(f"{key}.algorithm", [], "at least one [[search.algorithm]]")
    if not (search.exploration or search.alpha):
        raise InvalidInput(f"{key}.exploration", [], "values to try, or of alpha")
    if not search.seeds:
        raise InvalidInput(f"{key}.seeds", [], "at least one seed")
    _only_searched(search, tables, where)
    given = tables.get("seeds")
    reported = set(range(1, given + 1)) if isinstance(given, int) else set()
    if isinstance(given, list):
        reported = {seed for seed in given if isinstance(seed, int)}
    shared = sorted(set(search.seeds) & reported)
    if shared:
        allowed = f"seeds that the result does not report: {shared[0]} is one of those"
        raise InvalidInput(f"{key}.seeds", search.seeds, allowed)


def _only_searched(search: SearchTable, tables: Mapping[str, Any], where: str) -> None:
    """Refuse a value of what is searched: it would stand in the way of the choice."""
    for name in ("radius", "curvature"):
        if getattr(search, name) and name in tables.get("problem", {}):
            raise _searched(f"{where}: problem.{name}", tables["problem"][name])
    own = ["exploration", "confidence", *(["ridge"] if search.ridge else [])]
    algorithms = tables.get("algorithm")
    places = {"defaults": tables.get("defaults", {})}
    for i, table in enumerate(algorithms if isinstance(algorithms, list) else []):
        places[f"algorithm[{i}]"] = table if isinstance(table, Mapping) else {}
    for i, table in enumerate(search.algorithm):
        places[f"search.algorithm[{i}]"] = table
        for name, value in table.items():
            if isinstance(value, list):
                allowed = "one value: a [[search.algorithm]] is one algorithm"
                raise InvalidInput(f"{where}: search.algorithm[{i}].{name}", value, allowed)
    for place, table in places.items():
        for name in own:
            if name in table:
                raise _searched(f"{where}: {place}.{name}", table[name])


def _searched(argument: str, value: object) -> InvalidInput:
    return InvalidInput(argument, value, "no such key: [search] chooses it, for all algorithms")
