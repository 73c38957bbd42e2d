"""The environment of an experiment: `[environment]`, one of the package's or user-defined."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import msgspec

from fedglb.algorithms.own import call, check_options, find, is_own, takes
from fedglb.environments import (
    Classification,
    Delayed,
    Drifting,
    Environment,
    Grouped,
    Heterogeneous,
    Jump,
    Network,
    Networked,
    Outliers,
    Partial,
    Synthetic,
    clustered,
)
from fedglb.environments.datasets import DATASETS, Progress
from fedglb.environments.partial import stretches, unequal
from fedglb.errors import InvalidInput, Place, instance, integer, one_of, relocated, under
from fedglb.io.toml import convert
from fedglb.links import LINKS, Link
from fedglb.problem import Problem
from fedglb.problem_table import ProblemTable

_PROBLEM, _EXAMPLE = "fg.Problem(dim=10)", "fg.Synthetic(problem, clients=200, arms=25)"


class SyntheticTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[environment]`: the parameters of `fg.Synthetic`, and its changes (`CHANGES`)."""

    clients: int
    arms: int
    heterogeneity: float | None = None
    directions: int | None = None
    group_spread: float | None = None
    groups: int | None = None
    outliers: int | None = None
    drift: float | None = None
    walk: float | None = None
    jump: int | None = None
    delay: int | None = None
    participation: float | None = None
    imbalance: float | None = None
    stay: int | None = None
    network: dict[str, Any] | None = None


class ClassificationTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[environment]` with a `dataset`: parameters of `fg.clustered` and `fg.Classification`."""

    dataset: str
    clients: int
    clusters: int = 32
    offered: int | None = None
    mode: str = "centroid"
    scale: str = "largest"
    constant: bool = True
    columns: str = "all"
    axes: str = "features"
    clients_by: str | None = None
    client_groups: int = 4
    delay: int | None = None
    participation: float | None = None
    imbalance: float | None = None
    stay: int | None = None
    network: dict[str, Any] | None = None


#: Keys of `[environment]` that change it: the class and its parameter, applied in this order.
#: `fedglb reproduce` takes a list of values for one of them.
CHANGES: dict[str, tuple[Callable[..., Environment], str]] = {
    "heterogeneity": (Heterogeneous, "spread"),
    "group_spread": (Grouped, "spread"),
    "outliers": (Outliers, "count"),
    "drift": (Drifting, "speed"),
    "walk": (partial(Drifting, kind="walk"), "speed"),
    "jump": (Jump, "at"),
    "participation": (Partial, "participation"),
    "imbalance": (unequal, "ratio"),
    "stay": (stretches, "length"),
    "delay": (Delayed, "steps"),
}
#: Further parameters of a change, and its key; they have their names in the class.
_DETAILS = {"directions": "heterogeneity", "groups": "group_spread"}


def environment(table: Any, problem: Any, progress: Progress | None) -> Environment:
    """Build the environment of `[environment]` and `[problem]`: tables, objects, or functions.

    Missing data is downloaded.
    """
    if isinstance(table, Environment):
        if problem is not None:
            raise InvalidInput("problem", problem, "no such key: the environment has its problem")
        return _checked(table)
    said = {"name": table} if is_own(table) else table
    if isinstance(said, Mapping) and "name" in said:
        return _checked(_from_function(dict(said), problem))
    real = isinstance(table, Mapping) and "dataset" in table
    with under("environment"):
        for key in CHANGES if isinstance(table, Mapping) else ():
            if isinstance(table.get(key), list):
                allowed = "one number in a sweep: only `fedglb reproduce` takes a list"
                raise InvalidInput(key, table[key], allowed)
        known: Any = convert(table, ClassificationTable if real else SyntheticTable, "environment")
    return _ours(known, _problem(problem), progress)


def _from_function(table: dict[str, Any], problem: Any) -> Environment:
    name = table.pop("name")
    with under("environment"):
        if not is_own(name):
            raise InvalidInput("name", name, 'a function, as "package.module:function"')
        known = takes(find("name", name))
    makes_it = problem is None and known.get("problem", inspect.Parameter.empty) is None
    if "problem" in known and not makes_it:
        made = _problem(problem)
        table["problem"] = made if isinstance(made, Problem) else _built(made)
    elif problem is not None:
        allowed = f"no such key: {name} has no parameter `problem`"
        raise InvalidInput("problem", problem, allowed)
    with under("environment"):
        return call(("name",), name, table, Environment, _EXAMPLE)  # type: ignore[type-abstract]


def _problem(given: Any) -> Problem | ProblemTable:
    """Return the problem, or its table."""
    if isinstance(given, Problem):
        return given
    said = {"name": given} if isinstance(given, str) else given
    if isinstance(said, Mapping) and "name" in said:
        with under("problem"):
            rest = {key: value for key, value in said.items() if key != "name"}
            if not is_own(said["name"]):
                allowed = 'a function, as "package.module:function"'
                raise InvalidInput("name", said["name"], allowed)
            return call(("name",), said["name"], rest, Problem, _PROBLEM)
    with under("problem"):
        return convert({} if given is None else given, ProblemTable, "problem")


def _link(table: ProblemTable) -> Link | None:
    """Return a user-defined link, or None."""
    if not is_own(table.link):
        one_of(("problem", "link"), table.link, LINKS)  # before anything is fetched
        return None
    return call(("problem", "link"), table.link, {}, Link, "fg.Logistic()")  # type: ignore[type-abstract]


def _built(table: ProblemTable, dim: int | None = None) -> Problem:
    link = _link(table)
    with under("problem"):
        return table.build(dim, link)


def _ours(
    table: SyntheticTable | ClassificationTable,
    problem: Problem | ProblemTable,
    progress: Progress | None,
) -> Environment:
    if isinstance(problem, ProblemTable):
        _link(problem)
    if isinstance(table, SyntheticTable):
        made = problem if isinstance(problem, Problem) else _built(problem)
        with under("environment"):
            return _changed(Synthetic(made, table.clients, table.arms), table)
    with under("environment"):
        one_of("dataset", table.dataset, DATASETS)
        data = clustered(
            table.dataset, table.clusters, mode=cast("Any", table.mode), constant=table.constant,
            scale=cast("Any", table.scale), progress=progress,
            columns=cast("Any", table.columns), axes=cast("Any", table.axes),
            clients_by=table.clients_by, client_groups=table.client_groups,
        )  # fmt: skip
    if problem.dim not in (None, data.dim):
        allowed = f"{data.dim}, the features of {table.dataset}, or no such key"
        raise InvalidInput(("problem", "dim"), problem.dim, allowed)
    made = problem if isinstance(problem, Problem) else _built(problem, data.dim)
    with under("environment"):
        return _changed(Classification(made, table.clients, data, table.offered), table)


def _changed(env: Environment, table: SyntheticTable | ClassificationTable) -> Environment:
    """Return the environment with the table's changes."""
    given = {key: value for key, value in msgspec.to_builtins(table).items() if value is not None}
    for detail, key in _DETAILS.items():
        if detail in given and key not in given:
            raise InvalidInput(detail, given[detail], f"no such key without {key}")
    for key, (kind, parameter) in CHANGES.items():
        if key in given:
            own = {
                name: given[name] for name in _DETAILS if _DETAILS[name] == key and name in given
            }
            with relocated(partial(_key_of, parameter, key)):
                env = kind(env, **{parameter: given[key]}, **own)
    if table.network is None:
        return env
    with under("network"):
        check_options("fg.Network", table.network, takes(Network))
        away = table.network.get("away")
        if isinstance(away, Mapping):  # keys of TOML are text
            by_number = {int(i) if str(i).isdecimal() else i: pair for i, pair in away.items()}
            return Networked(env, Network(**{**table.network, "away": by_number}))
        return Networked(env, Network(**table.network))


def _key_of(parameter: str, key: str, path: Place) -> Place:
    return (key, *path[1:]) if path[0] == parameter else path


def _checked(env: Environment) -> Environment:
    """Return a user-defined environment; raise unless it has all attributes of an environment."""
    with under("environment"):
        instance("problem", getattr(env, "problem", None), Problem, _PROBLEM)
        for name in ("clients", "arms"):
            integer(name, getattr(env, name, None))
        facts = env.facts()
        try:
            json.dumps(facts)
        except (TypeError, ValueError) as error:
            raise InvalidInput("facts", facts, f"JSON values ({error})") from None
    return env
