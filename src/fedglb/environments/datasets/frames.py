"""Columns of pandas and polars frames as arrays and lists, without loading either package."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.typing import BoolArray


def frame_columns(columns: Any) -> Any:
    """Return a frame's columns by name, and anything else as it is.

    Numbers and truth values become arrays of numbers, with NaN where a value is missing. Strings
    and categories, also categories of numbers, become lists of strings, with None.
    """
    pd, pl = sys.modules.get("pandas"), sys.modules.get("polars")
    if pl is not None and isinstance(columns, pl.LazyFrame):
        raise InvalidInput("columns", "a LazyFrame", "a frame with its values: frame.collect()")
    if pl is not None and isinstance(columns, pl.DataFrame):
        return {name: _of_polars(f"columns[{name!r}]", columns[name]) for name in columns.columns}
    if pd is not None and isinstance(columns, pd.DataFrame):
        if not columns.columns.is_unique:
            twice = columns.columns[columns.columns.duplicated()][0]
            raise InvalidInput("name of a column", twice, "each name once")
        return {name: _of_pandas(f"columns[{name!r}]", columns[name]) for name in columns.columns}
    if isinstance(columns, Mapping):  # its values may be series
        return {name: series_values(f"columns[{name!r}]", each) for name, each in columns.items()}
    return columns


def series_values(argument: str, values: Any, frame: Any = None) -> Any:
    """Return the values of a pandas or polars series, and anything else as it is.

    `frame` is the source of the other columns. A pandas series beside a pandas frame must have its
    index: rows would be mixed up silently.
    """
    pd, pl = sys.modules.get("pandas"), sys.modules.get("polars")
    if pl is not None and isinstance(values, pl.Series):
        return _of_polars(argument, values)
    if pd is not None and isinstance(values, pd.Series):
        if isinstance(frame, pd.DataFrame) and not values.index.equals(frame.index):
            allowed = f"the index of the frame (or {argument}.to_numpy(), if the order is the same)"
            raise InvalidInput(f"{argument}.index", f"{len(values)} other rows", allowed)
        return _of_pandas(argument, values)
    return values


def _of_polars(argument: str, series: Any) -> Any:
    import polars as pl

    if series.dtype.is_numeric() or series.dtype == pl.Boolean:
        return series.cast(pl.Float64).to_numpy()
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        return series.cast(pl.String).to_list()
    if series.dtype == pl.Null:
        return np.full(len(series), np.nan)
    if series.dtype == pl.Object:
        return series.to_list()
    raise InvalidInput(f"{argument}.dtype", str(series.dtype), _ALLOWED)


def _of_pandas(argument: str, series: Any) -> Any:
    import pandas as pd

    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return [None if lacks else str(v) for v, lacks in zip(series, series.isna(), strict=True)]
    if pd.api.types.is_bool_dtype(kind) or pd.api.types.is_numeric_dtype(kind):
        if pd.api.types.is_complex_dtype(kind):
            raise InvalidInput(f"{argument}.dtype", str(kind), _ALLOWED)
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if pd.api.types.is_string_dtype(kind) or pd.api.types.is_object_dtype(kind):
        return [None if lacks else v for v, lacks in zip(series, series.isna(), strict=True)]
    raise InvalidInput(f"{argument}.dtype", str(kind), _ALLOWED)


_ALLOWED = "numbers, truth values, strings or categories (convert dates to numbers, e.g. days)"


def is_missing(values: Any) -> BoolArray | None:
    """Return a mask of a column's missing values; None if it is not a column."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufUS":
        found: BoolArray = (
            values != values if values.dtype.kind == "f" else np.zeros(len(values), bool)
        )
        return found if values.ndim == 1 else None
    if not isinstance(values, list | tuple | np.ndarray) or np.ndim(values) != 1:
        return None
    return np.array([_lacks(value) for value in values], dtype=np.bool_)


def _lacks(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)
