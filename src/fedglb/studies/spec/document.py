"""The file of a sweep: its tables and their keys. In Python tables may hold objects, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from fedglb.algorithms.own import is_own
from fedglb.environments import Delayed, Drifting, Environment, Heterogeneous, Partial
from fedglb.errors import InvalidInput, under
from fedglb.io.toml import convert
from fedglb.problem import Problem
from fedglb.problem_table import ProblemTable


class SyntheticTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[environment]`: the parameters of `fg.Synthetic`, and what is changed (`CHANGES`)."""

    clients: int
    arms: int
    heterogeneity: float | None = None
    drift: float | None = None
    delay: int | None = None
    participation: float | None = None


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
    delay: int | None = None
    participation: float | None = None


#: Keys of `[environment]` that change it: the class and its parameter, applied in this order.
#: `fedglb reproduce` takes a list of values for one of them.
CHANGES: dict[str, tuple[Callable[..., Environment], str]] = {
    "heterogeneity": (Heterogeneous, "spread"),
    "drift": (Drifting, "speed"),
    "participation": (Partial, "participation"),
    "delay": (Delayed, "steps"),
}

E = TypeVar("E", SyntheticTable, ClassificationTable)

#: Keys that only `fedglb reproduce` reads; a file for a sweep must not have them.
STUDY_KEYS = ("title", "measure", "search", "profile", "across", "panel")


class Document(msgspec.Struct, Generic[E], frozen=True, forbid_unknown_fields=True):
    """The whole file. What an `[[algorithm]]` may hold depends on the preset it names."""

    name: str
    horizon: int
    seeds: int | list[int]
    problem: ProblemTable
    environment: E
    algorithm: list[dict[str, Any]]
    defaults: dict[str, Any] = {}


class OwnDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file, where environment or problem are user-defined: objects, or functions."""

    name: str
    horizon: int
    seeds: int | list[int]
    environment: Any
    algorithm: list[dict[str, Any]]
    problem: Any = None
    defaults: dict[str, Any] = {}


AnyDocument: TypeAlias = Document[SyntheticTable] | Document[ClassificationTable] | OwnDocument


def parse(raw: Mapping[str, Any], source: str) -> AnyDocument:
    """Check keys and types; `source` is the file's name, for messages.

    Examples
    --------
    >>> parse({"name": "x", "sedes": 3}, "x.toml")
    Traceback (most recent call last):
    fedglb.errors.InvalidInput: x.toml: sedes = 3 is not allowed: give one of name, horizon, \
seeds, problem, environment, algorithm, defaults; did you mean seeds or defaults?
    """
    for key in STUDY_KEYS:
        if key in raw:
            allowed = f"no such key for a sweep: only `fedglb reproduce {source}` reads it"
            with under(source=source):
                raise InvalidInput(key, raw[key], allowed)
    environment = raw.get("environment")
    if _is_own(environment) or _is_own(raw.get("problem")):
        return convert(raw, OwnDocument, source)
    for key in CHANGES:
        if isinstance(environment, Mapping) and isinstance(environment.get(key), list):
            allowed = "one number for a sweep: only `fedglb reproduce` takes a list of them"
            with under("environment", source=source):
                raise InvalidInput(key, environment[key], allowed)
    if isinstance(environment, Mapping) and "dataset" in environment:
        return convert(raw, Document[ClassificationTable], source)
    return convert(raw, Document[SyntheticTable], source)


def _is_own(table: Any) -> bool:
    """Return whether this is an object, or names the function that makes it."""
    if isinstance(table, Mapping):
        return "name" in table
    return isinstance(table, Environment | Problem) or is_own(table)
