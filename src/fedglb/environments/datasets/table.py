"""A table: named columns of numbers or strings, and a label of 0 or 1 for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedglb.environments.datasets.fetch import Progress, locate
from fedglb.environments.datasets.frames import frame_columns, is_missing, series_values
from fedglb.environments.datasets.registry import DATASETS, Dataset
from fedglb.errors import InvalidInput, array, instance, one_of
from fedglb.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Column = NDArray[Any]  # of float64, or of strings
#: The handling of rows with missing values.
Missing: TypeAlias = Literal["refuse", "drop"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Table:
    """Labelled rows of raw data, as arrays that cannot be written to.

    Parameters
    ----------
    columns
        The values of each column by its name, one value per row: numbers, or strings for a
        categorical column. A dict, a pandas frame or a polars frame, whose categorical columns
        become strings. The labels are not among them, unless `labels` is a name.
    labels
        0 or 1 for each row, shape (n,), or the name of the column that has them.
    name
        The name of the data in results.
    sha256
        Hash of the file that the rows were read from; None for your own data.
    missing
        "refuse": raise for missing values (null, None, NaN), naming their columns; "drop": leave
        out the rows with missing values, and count them. A text such as "?" is a value.

    Attributes
    ----------
    left_out
        Number of rows left out because of missing values.

    Raises
    ------
    InvalidInput
        If columns differ in length, mix numbers and strings, or have missing values (unless
        dropped), or a label is not 0 or 1.

    Examples
    --------
    >>> import fedglb as fg
    >>> height, colour = [1.0, 2.5, 3.0], ["red", "blue", "red"]
    >>> fg.Table({"height": height, "colour": colour}, labels=[0, 1, 1], name="flowers")
    Table('flowers', 3 rows, 2 columns)

    A frame, with one row that lacks a value:

    >>> import polars as pl
    >>> frame = pl.DataFrame({"height": [1.0, None, 3.0], "bought": [0, 1, 1]})
    >>> fg.Table(frame, labels="bought", missing="drop")
    Table('own', 2 rows, 1 columns; 1 row with missing values left out)
    """

    columns: Mapping[str, Column]
    labels: FloatArray
    name: str
    sha256: str | None
    left_out: int

    def __init__(
        self,
        columns: Mapping[str, ArrayLike] | pd.DataFrame | pl.DataFrame,
        labels: ArrayLike | pd.Series[Any] | pl.Series | str,
        name: str = "own",
        sha256: str | None = None,
        *,
        missing: Missing = "refuse",
    ) -> None:
        instance("name", name, str, "'flowers'")
        one_of("missing", missing, get_args(Missing))
        left_out, plain = 0, isinstance(columns, Mapping)
        columns, labels = _apart(columns, labels)
        if missing == "drop" or not plain:  # in lists, the first one is refused by its row
            columns, labels, left_out = _without_missing(columns, labels, missing)
        given = array("labels", labels, (None,)).copy()
        wrong = (given != 0.0) & (given != 1.0)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidInput(f"labels[{row}]", float(given[row]), "0 or 1")
        read = read_columns(columns)
        for key, values in read.items():
            if len(values) != len(given):
                allowed = f"{len(given)} rows, the number of labels"
                raise InvalidInput(f"len(columns[{key!r}])", len(values), allowed)
        for own in (given, *read.values()):
            own.setflags(write=False)
        object.__setattr__(self, "columns", read)
        object.__setattr__(self, "labels", given)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "sha256", sha256)
        object.__setattr__(self, "left_out", left_out)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    def __repr__(self) -> str:
        said = f"{self.rows:,} rows, {len(self.columns)} columns"
        if self.left_out:
            rows = "row" if self.left_out == 1 else "rows"
            said += f"; {self.left_out:,} {rows} with missing values left out"
        return f"Table({self.name!r}, {said})"


def _apart(columns: Any, labels: Any) -> tuple[Any, Any]:
    """Return columns and labels, separately, as NumPy arrays or Python objects."""
    given = columns
    columns = frame_columns(given)
    if not isinstance(labels, str):
        return columns, series_values("labels", labels, given)
    if not isinstance(columns, Mapping) or labels not in columns:
        known = ", ".join(map(str, columns)) if isinstance(columns, Mapping) else "none"
        raise InvalidInput("labels", labels, f"0 or 1 per row, or the name of a column: {known}")
    return {name: each for name, each in columns.items() if name != labels}, columns[labels]


def _without_missing(columns: Any, labels: Any, missing: Missing) -> tuple[Any, Any, int]:
    """Return the complete rows and the number left out; or raise."""
    if not isinstance(columns, Mapping):
        return columns, labels, 0  # refused later, by their type
    lacking: dict[str, BoolArray] = {}
    for name, values in (*columns.items(), (None, labels)):
        found = is_missing(values)
        if found is not None and found.any():
            lacking["labels" if name is None else f"columns[{name!r}]"] = found
    lengths = {len(found) for found in lacking.values()}
    if not lacking or len(lengths) > 1:
        return columns, labels, 0  # different lengths are refused later
    bad = np.logical_or.reduce(list(lacking.values()))
    count = int(bad.sum())
    if missing == "refuse":
        value = ", ".join(f"{int(found.sum())} in {name}" for name, found in lacking.items())
        allowed = f"all values, or missing='drop' to leave out {count} of {len(bad)} rows"
        raise InvalidInput("missing values", value, allowed)
    if bad.all():
        raise InvalidInput("rows", 0, "rows without missing values")
    kept = np.flatnonzero(~bad)
    whole: dict[Any, Any] = {}
    for name, values in columns.items():
        whole[name] = _rows(values, kept, len(bad))
    return whole, _rows(labels, kept, len(bad)), count


def _rows(values: Any, kept: NDArray[np.int64], rows: int) -> Any:
    """Return some rows of a column of the right length; else all of it, refused later."""
    if len(values) != rows:
        return values
    return values[kept] if isinstance(values, np.ndarray) else [values[i] for i in kept]


def read_columns(columns: Any) -> dict[str, Column]:
    """Return a copy of the columns as arrays; raise `InvalidInput` if they are not columns."""
    columns = frame_columns(columns)
    if not isinstance(columns, Mapping) or not columns:
        allowed = "a dict of columns by name, e.g. {'height': [1.0, 2.5]}, or a frame"
        raise InvalidInput("columns", columns, allowed)
    out: dict[str, Column] = {}
    for name, values in columns.items():
        if not isinstance(name, str) or not name:
            raise InvalidInput("name of a column", name, "a non-empty text")
        out[name] = _column(f"columns[{name!r}]", values)
    first = next(iter(out))
    for name, column in out.items():
        if len(column) != len(out[first]):
            allowed = f"{len(out[first])} rows, as in columns[{first!r}]"
            raise InvalidInput(f"len(columns[{name!r}])", len(column), allowed)
    return out


def _column(argument: str, values: ArrayLike) -> Column:
    allowed = "one dimension of numbers, or of strings"
    try:
        given = np.array(values)
    except (TypeError, ValueError):  # rows of different lengths
        raise InvalidInput(argument, values, allowed) from None
    if given.ndim != 1 or len(given) == 0:
        raise InvalidInput(f"{argument}.shape", given.shape, allowed)
    if given.dtype.kind in "biuf":
        return array(argument, given, (None,)).copy()
    if isinstance(values, np.ndarray) and given.dtype.kind == "U":
        return given
    # Check again as objects: NumPy turns numbers among strings into strings.
    given = np.array(values, dtype=object)
    kind, text = (str, "strings") if isinstance(given[0], str) else (int | float, "numbers")
    for row, value in enumerate(given):
        if not isinstance(value, kind):
            raise InvalidInput(f"{argument}[{row}]", value, f"{text} only, as in row 0")
    return given.astype(np.str_) if kind is str else array(argument, given, (None,)).copy()


def load(name: str, progress: Progress | None = None) -> Table:
    """Return a data set of the paper's experiments, downloaded if missing.

    * CoverType: 10 numeric and 2 categorical columns (the latter from the 44 indicator columns
      of the file); label 1 is class 1, Spruce/Fir.
    * MagicTelescope: 10 numeric columns; label 1 is g, gamma.
    * Mushroom: 22 categorical columns, where "?", a missing value, is a level; label 1 is e,
      edible.

    Parameters
    ----------
    name
        "covertype", "magic" or "mushroom".
    progress
        Called with a line of text before long work, and when a file is refused.

    Returns
    -------
    Table
        All rows of the file, in its order.

    Raises
    ------
    InvalidInput
        If the name is unknown.
    DataUnavailable
        If the data set is not on this machine and cannot be downloaded.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.load_table("magic")  # doctest: +SKIP
    Table('magic', 19,020 rows, 10 columns)
    >>> fg.load_table("majic")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    fedglb.errors.InvalidInput: name = 'majic': expected ...; did you mean magic?
    """
    _, content = locate(name, progress)
    return read(DATASETS[name], content)


def read(dataset: Dataset, content: bytes) -> Table:
    """Return the table in a raw file."""
    import polars as pl

    indicators = {column for group in dataset.groups for column in group.columns}
    kinds: dict[str, Any] = dict.fromkeys(
        dataset.columns, pl.Float64 if dataset.numeric else pl.String
    )
    kinds |= dict.fromkeys(indicators, pl.UInt8) | {"label": pl.String}
    frame = pl.read_csv(content, has_header=False, schema=kinds)
    columns: dict[str, Any] = {
        name: frame[name].to_numpy()
        for name in dataset.columns
        if name not in indicators and name != "label"
    }
    for group in dataset.groups:
        flags = frame.select(group.columns).to_numpy()
        odd = (flags > 1).any(axis=1) | (flags.sum(axis=1) != 1)
        if odd.any():
            row = int(np.argmax(odd))
            given, allowed = flags[row].tolist(), "exactly one 1, the others 0"
            raise InvalidInput(f"{group.name} of row {row} of {dataset.file}", given, allowed)
        columns[group.name] = np.array(group.levels)[flags.argmax(axis=1)]
    labels = (frame["label"] == dataset.positive).to_numpy().astype(np.float64)
    return Table(columns, labels, dataset.name, dataset.sha256)
