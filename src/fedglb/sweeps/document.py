"""The file of a sweep: its tables, and messages that name file, key and what is allowed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from fedglb.errors import InvalidInput, one_of

_KINDS = {
    "int": "a whole number", "float": "a number", "str": "text in quotes", "bool": "true or false",
    "array": "a list", "object": "a table", "null": "nothing",
}  # fmt: skip


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


def read_file(path: Path) -> dict[str, Any]:
    """Read a TOML file, or raise `InvalidInput` with its name and the line at fault."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(
            "FILE", str(path), f"a TOML file; this one breaks off: {error}"
        ) from None
    except UnicodeDecodeError:
        raise InvalidInput("FILE", str(path), "a TOML file, which is text in UTF-8") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidInput("FILE", str(path), f"a TOML file that can be read: {reason}") from None


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
    known_keys(raw, Document, source, "")
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
            known_keys(raw[key], table, source, f"{key}.")
    try:
        if real:
            return msgspec.convert(raw, Document[ClassificationTable])
        return msgspec.convert(raw, Document[SyntheticTable])
    except msgspec.ValidationError as error:
        raise explain(str(error), raw, source) from None


def known_keys(
    table: Mapping[str, Any], kind: type[msgspec.Struct], source: str, prefix: str
) -> None:
    """Refuse a key that the table does not have, with the nearest ones."""
    for key, value in table.items():
        try:
            one_of("", key, kind.__struct_fields__)
        except InvalidInput as error:
            raise InvalidInput(f"{source}: {prefix}{key}", value, error.allowed) from None


def explain(message: str, raw: Mapping[str, Any], source: str) -> InvalidInput:
    """Turn msgspec's "Expected `int`, got `str` - at `$.horizon`" into the package's words."""
    text, _, where = message.partition(" - at ")
    path = where.strip("`").removeprefix("$").removeprefix(".")
    missing = re.search(r"missing required field `(\w+)`", text)
    if missing:
        path = f"{path}.{missing[1]}".lstrip(".")
        return InvalidInput(f"{source}: {path}", None, f"this key: it is missing from {source}")
    expected = re.search(r"Expected `([^`]+)`", text)
    options = expected[1].split(" | ") if expected else []
    words = [_KINDS[kind] for kind in options if kind != "null" and kind in _KINDS]
    return InvalidInput(f"{source}: {path}", _at(raw, path), " or ".join(words) or text)


def _at(raw: Any, path: str) -> Any:
    """Return what stands at a path such as ``algorithm[0].name``."""
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            raw = raw[int(index)] if index else raw[key]
        except (KeyError, IndexError, TypeError):
            return None
    return raw
