"""A digest of values alone: no name of a class or a module plays a part."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl


def digest(value: object, *, floats: bool = True) -> str:
    """Digest arrays, frames, numbers and lists of them; to the bit, or without `floats`.

    Of a frame, names, types and order of the columns count, too. Without floats, it is left of an
    array or a column of floats that it is there, with its shape.
    """
    text = json.dumps(_plain(value, floats))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unordered(values: Iterable[Any]) -> list[str]:
    """Digest values whose names, and with them their order, may change."""
    return sorted(digest(value) for value in values)


def _plain(value: object, floats: bool) -> object:
    match value:
        case pl.DataFrame():
            return {
                name: [str(column.dtype), _numbers(column.to_list(), floats)]
                for name, column in zip(value.columns, value.get_columns(), strict=True)
            }
        case np.ndarray():
            return [
                value.dtype.str, list(value.shape), _numbers(value.reshape(-1).tolist(), floats)
            ]  # fmt: skip
        case list() | tuple():
            return [_plain(item, floats) for item in value]
        case _:
            return _numbers([value], floats)


def _numbers(values: list[Any], floats: bool) -> list[Any]:
    """Return floats as text that is exact, signs of zeros included, or with nothing of them."""
    return [
        (value.hex() if floats else "float") if isinstance(value, float) else value
        for value in values
    ]
