"""The file of a sweep: its tables, and messages that name file, key and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from fedglb.errors import InvalidInput
from fedglb.io.toml import explain, reject_unknown_keys


class ProblemTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[problem]`: the parameters of `fg.Problem`; a dataset brings its own `dim`."""

    dim: int | None = None
    link: str = "logistic"
    radius: float = 1.0
    noise: float | None = None
    curvature: float | None = None


class SyntheticTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[environment]`: the parameters of `fg.Synthetic`."""

    clients: int
    arms: int


class ClassificationTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[environment]` with a `dataset`: those of `fg.clustered` and `fg.Classification`."""

    dataset: str
    clients: int
    clusters: int = 32
    offered: int | None = None
    mode: str = "centroid"
    scale: str = "largest"
    constant: bool = True


E = TypeVar("E", SyntheticTable, ClassificationTable)

#: What a file for `fedglb reproduce` has besides: a sweep knows nothing of it.
STUDY_KEYS = ("title", "measure", "search", "profile")


class Document(msgspec.Struct, Generic[E], frozen=True, forbid_unknown_fields=True):
    """The whole file. What an `[[algorithm]]` may hold depends on the preset it names."""

    name: str
    horizon: int
    seeds: int | list[int]
    problem: ProblemTable
    environment: E
    algorithm: list[dict[str, Any]]
    defaults: dict[str, Any] = {}


def parse(
    raw: Mapping[str, Any], source: str
) -> Document[SyntheticTable] | Document[ClassificationTable]:
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
            allowed = f"no such key to a sweep: `fedglb reproduce {source}` is what reads it"
            raise InvalidInput(f"{source}: {key}", raw[key], allowed)
    reject_unknown_keys(raw, Document, source, "")
    environment = raw.get("environment")
    real = isinstance(environment, Mapping) and "dataset" in environment
    tables: dict[str, type[msgspec.Struct]] = {
        "problem": ProblemTable,
        "environment": SyntheticTable,
    }
    if real:
        tables["environment"] = ClassificationTable
    for key, table in tables.items():
        if isinstance(raw.get(key), Mapping):
            reject_unknown_keys(raw[key], table, source, f"{key}.")
    try:
        if real:
            return msgspec.convert(raw, Document[ClassificationTable])
        return msgspec.convert(raw, Document[SyntheticTable])
    except msgspec.ValidationError as error:
        raise explain(str(error), raw, source) from None
