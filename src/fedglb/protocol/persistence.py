"""Turn the state of clients, coordinators and updates into plain arrays, and exactly back."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = dict[str, NDArray[Any]]
T = TypeVar("T")


def to_arrays(value: object, prefix: str = "") -> Arrays:
    """Flatten a dataclass of arrays, numbers, None and dataclasses; names are dotted."""
    out: Arrays = {}
    for f in dataclasses.fields(value):  # type: ignore[arg-type]
        item, name = getattr(value, f.name), prefix + f.name
        if dataclasses.is_dataclass(item):
            out |= to_arrays(item, name + ".")
        elif item is not None:
            out[name] = np.array(item)
    return out


def from_arrays(kind: type[T], arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> T:
    """Rebuild the dataclass `kind` that `to_arrays` flattened."""
    hints = typing.get_type_hints(kind)
    values: dict[str, Any] = {}
    for f in dataclasses.fields(kind):  # type: ignore[arg-type]
        name, hint = prefix + f.name, hints[f.name]
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            kinds = [a for a in typing.get_args(hint) if a is not type(None)]
            hint = kinds[0] if len(kinds) == 1 else "number or name"
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            present = any(key.startswith(name + ".") for key in arrays)
            values[f.name] = from_arrays(hint, arrays, name + ".") if present else None
        elif name not in arrays:
            values[f.name] = None
        elif hint in (int, float, bool, str):
            values[f.name] = hint(arrays[name][()])
        elif hint == "number or name":
            values[f.name] = arrays[name].item()
        else:
            values[f.name] = np.array(arrays[name])
    return kind(**values)


def nested(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    """Return the arrays below `name.`, without that prefix."""
    return {k[len(name) + 1 :]: v for k, v in arrays.items() if k.startswith(name + ".")}


def prefixed(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    """Return the arrays with `name.` before each key."""
    return {f"{name}.{k}": v for k, v in arrays.items()}


def stack(parts: Mapping[Any, Any]) -> Arrays:
    """Turn a dictionary of dataclasses of one kind into arrays, with one row per key.

    If only some of them have an optional field, another array lists the rows that have it. If a
    field's lengths differ, its arrays are one behind the other, and another array has the lengths.
    """
    if not parts:
        return {}
    rows = [to_arrays(part) for part in parts.values()]
    out: Arrays = {"keys": np.array(list(parts))}
    for name in dict.fromkeys(name for row in rows for name in row):
        having = [k for k, row in enumerate(rows) if name in row]
        values = [rows[k][name] for k in having]
        if len({value.shape for value in values}) == 1:
            out[name] = np.stack(values)
        else:
            out[name] = np.concatenate(values)
            out[_LENGTHS + name] = np.array([value.size for value in values])
        if len(having) < len(rows):
            out[_ROWS + name] = np.array(having)
    return out


def unstack(kind: type[T], arrays: Mapping[str, NDArray[Any]]) -> dict[Any, T]:
    """Rebuild the dictionary of `stack`."""
    if not arrays:
        return {}
    keys = arrays["keys"].tolist()
    rows: list[Arrays] = [{} for _ in keys]
    for name, values in arrays.items():
        if name != "keys" and not name.startswith((_ROWS, _LENGTHS)):
            having = arrays.get(_ROWS + name, np.arange(len(keys)))
            each: Iterable[NDArray[Any]] = values
            if _LENGTHS + name in arrays:
                each = np.split(values, np.cumsum(arrays[_LENGTHS + name])[:-1])
            for k, value in zip(having.tolist(), each, strict=True):
                rows[k][name] = value
    return {key: from_arrays(kind, row) for key, row in zip(keys, rows, strict=True)}


_ROWS, _LENGTHS = "rows of ", "lengths of "
