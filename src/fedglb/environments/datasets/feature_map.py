"""Maps from raw columns to arms, as data that all machines of a federation can share."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from fedglb.environments.datasets.table import Column, Table, read_columns
from fedglb.errors import InvalidInput, array, instance, number, one_of
from fedglb.typing import FloatArray

#: Arms are divided by the largest norm of all, or each by its own.
Scale: TypeAlias = Literal["largest", "each"]

_ROWS = 1024  # per pass of computing norms


@dataclass(frozen=True)
class Standardised:
    """A numeric column: one feature, (x − mean)/sd, or 0 if the column was constant (sd = 0)."""

    name: str
    mean: float
    sd: float

    def __post_init__(self) -> None:
        sd = number(f"sd of {self.name!r}", self.sd, at_least=0.0)
        mean = number(f"mean of {self.name!r}", self.mean)
        # Equal maps must have equal digests, so two differences without effect are removed: the
        # mean of a constant column, and the sign of a zero.
        object.__setattr__(self, "mean", mean + 0.0 if sd > 0.0 else 0.0)
        object.__setattr__(self, "sd", sd + 0.0)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its features."""
        return (self.name,)

    def encode(self, values: Column) -> FloatArray:
        """Return the features of all rows, shape (n, 1)."""
        if values.dtype.kind != "f":
            raise InvalidInput(f"columns[{self.name!r}][0]", str(values[0]), "a number")
        if self.sd == 0.0:
            return np.zeros((len(values), 1))
        with np.errstate(over="ignore"):
            out: FloatArray = ((values - self.mean) / self.sd)[:, None]
        if not np.isfinite(out).all():
            row = int(np.argmin(np.isfinite(out[:, 0])))
            allowed = f"a number closer to {self.mean:g} ± {self.sd:g}"
            raise InvalidInput(f"columns[{self.name!r}][{row}]", float(values[row]), allowed)
        return out


@dataclass(frozen=True)
class OneHot:
    """A categorical column: one feature per sorted level, 1 where the row has it and else 0."""

    name: str
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        levels: Any = self.levels
        levels = tuple(levels) if isinstance(levels, list) else levels
        texts = isinstance(levels, tuple) and all(isinstance(x, str) for x in levels)
        # NumPy drops a NUL at the end of a string: two levels could become one.
        if (
            not texts
            or not levels
            or list(levels) != sorted(set(levels))
            or "\0" in "".join(levels)
        ):
            allowed = "a tuple of different strings, sorted, without NUL characters"
            raise InvalidInput(f"levels of {self.name!r}", levels, allowed)
        object.__setattr__(self, "levels", levels)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its features."""
        return tuple(f"{self.name}={level}" for level in self.levels)

    def encode(self, values: Column) -> FloatArray:
        """Return the features of all rows, shape (n, number of levels)."""
        known = np.array(self.levels)
        strings = values.dtype.kind == "U"
        codes = np.searchsorted(known, values) if strings else np.zeros(len(values), np.int64)
        codes = np.minimum(codes, len(known) - 1)
        wrong = known[codes] != values if strings else np.ones(len(values), np.bool_)
        if wrong.any():
            row = int(np.argmax(wrong))
            allowed = f"a level of the fitted map: {', '.join(self.levels)}"
            raise InvalidInput(f"columns[{self.name!r}][{row}]", values[row].item(), allowed)
        out = np.zeros((len(values), len(known)))
        out[np.arange(len(values)), codes] = 1.0
        return out


@dataclass(frozen=True)
class FeatureMap:
    """A map from raw columns to arms of norm ≤ 1.

    Numeric columns are standardised and categorical ones one-hot encoded; a constant feature is
    added; then the rows are scaled. Make a map with `FeatureMap.fit`, set its scale with
    `scaled`, and call it with raw columns.

    Parameters
    ----------
    columns
        The encoding of each column.
    constant
        Whether a feature that is always 1 before scaling (an intercept) comes last.
    scale
        "largest": all arms are divided by `largest`, or by their own norm where that is larger;
        "each": every arm is divided by its own norm; None: not decided yet.
    largest
        With scale="largest", the norm that becomes 1; else None.

    Raises
    ------
    InvalidInput
        If columns have the same name, or scale and largest do not fit together.

    Examples
    --------
    >>> import fedglb as fg
    >>> table = fg.Table({"x": [1.0, 3.0], "c": ["b", "a"]}, labels=[0, 1])
    >>> fitted = fg.FeatureMap.fit(table)
    >>> encoded = fitted.encode(table.columns)
    >>> encoded.tolist()
    [[-1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    >>> final = fitted.scaled(encoded, "largest")
    >>> final.names, final({"x": [2.0], "c": ["a"]}).round(2).tolist()
    (('x', 'c=a', 'c=b', 'constant'), [[0.0, 0.58, 0.0, 0.58]])
    >>> fg.FeatureMap.from_json(final.to_json()) == final
    True
    """

    columns: tuple[Standardised | OneHot, ...]
    constant: bool = True
    scale: Scale | None = None
    largest: float | None = None

    def __post_init__(self) -> None:
        columns: Any = self.columns
        if not isinstance(columns, tuple) or not all(
            isinstance(c, Standardised | OneHot) and isinstance(c.name, str) for c in columns
        ):
            raise InvalidInput("columns", columns, "a tuple of columns, as made by FeatureMap.fit")
        names = [column.name for column in columns]
        if not names or len(set(names)) < len(names):
            raise InvalidInput("columns", names, "columns with different names")
        instance("constant", self.constant, bool, "True")
        if self.scale is not None:
            one_of("scale", self.scale, get_args(Scale))
        if self.scale == "largest":
            object.__setattr__(self, "largest", number("largest", self.largest, above=0.0))
        elif self.largest is not None:
            raise InvalidInput("largest", self.largest, 'None, or scale="largest"')

    @classmethod
    def fit(cls, table: Table, constant: bool = True) -> FeatureMap:
        """Return a map for a table's columns, without a scale yet.

        The labels are not used. Sums are exact (`math.fsum`), so that every machine gets the
        same bits.

        Parameters
        ----------
        table
            The raw rows.
        constant
            Whether arms have a constant feature (an intercept).

        Returns
        -------
        FeatureMap
            A map that can `encode`; `scaled` gives it a scale.
        """
        instance("table", table, Table, "fg.load_table('magic')")
        return cls(tuple(_fit(name, x) for name, x in table.columns.items()), constant)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of an arm's features, d of them."""
        features = tuple(name for column in self.columns for name in column.features)
        return (*features, "constant") if self.constant else features

    @property
    def dim(self) -> int:
        """Number d of features of an arm."""
        return self._encoded + self.constant

    @property
    def _encoded(self) -> int:
        return sum(len(column.features) for column in self.columns)

    def encode(self, columns: Mapping[str, ArrayLike]) -> FloatArray:
        """Return the features of raw rows before scaling, without the constant one.

        Parameters
        ----------
        columns
            The values of each column by its name, one value per row.

        Returns
        -------
        array
            Shape (n, d), or (n, d − 1) with a constant feature.

        Raises
        ------
        InvalidInput
            If the columns differ from the map's, or a value cannot be encoded.
        """
        given, wanted = read_columns(columns), [column.name for column in self.columns]
        if set(given) != set(wanted):
            missing = [name for name in wanted if name not in given]
            extra = [name for name in given if name not in wanted]
            value = f"missing {missing}, extra {extra}"
            raise InvalidInput("columns", value, f"exactly {', '.join(wanted)}")
        return np.hstack([column.encode(given[column.name]) for column in self.columns])

    def place(self, encoded: ArrayLike) -> FloatArray:
        """Return the arms of encoded rows, with the constant feature and scaled.

        Parameters
        ----------
        encoded
            The result of `encode`.

        Returns
        -------
        array
            Arms of norm ≤ 1, shape (n, d).

        Raises
        ------
        InvalidInput
            If the map has no scale yet.
        """
        if self.scale is None:
            raise InvalidInput("scale", None, 'a map with a scale: map.scaled(encoded, "largest")')
        arms = self._with_constant(encoded)
        norms = _norms(arms)
        if self.largest is not None:
            norms = np.maximum(norms, self.largest)
        norms[norms == 0.0] = 1.0
        arms /= norms[:, None]
        return arms

    def __call__(self, columns: Mapping[str, ArrayLike]) -> FloatArray:
        """Return the arms of raw rows, shape (n, d)."""
        return self.place(self.encode(columns))

    def scaled(self, encoded: ArrayLike, scale: Scale = "largest") -> FeatureMap:
        """Return the map with its scale set.

        Parameters
        ----------
        encoded
            The result of `encode`; with scale="largest" its longest row gets norm 1.
        scale
            "largest" or "each".

        Returns
        -------
        FeatureMap
            A map that can be called.
        """
        if one_of("scale", scale, get_args(Scale)) == "each":
            return replace(self, scale="each", largest=None)
        largest = float(_norms(self._with_constant(encoded)).max())
        return replace(self, scale="largest", largest=largest or 1.0)

    def _with_constant(self, encoded: ArrayLike) -> FloatArray:
        rows = array("encoded", encoded, (None, self._encoded))
        arms = np.empty((len(rows), self.dim))
        arms[:, : rows.shape[1]] = rows
        arms[:, rows.shape[1] :] = 1.0
        return arms

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `to_json()`: equal for equal maps."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Return the map as JSON: floats are exact, and equal maps give equal text."""
        return json.dumps(self.plain(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def plain(self) -> dict[str, Any]:
        """Return the map as JSON values."""
        columns = [
            {"name": c.name, "levels": list(c.levels)}
            if isinstance(c, OneHot)
            else {"name": c.name, "mean": c.mean, "sd": c.sd}
            for c in self.columns
        ]
        out = {"columns": columns, "constant": self.constant, "scale": self.scale}
        return {**out, "largest": self.largest}

    @classmethod
    def from_json(cls, text: str) -> FeatureMap:
        """Return the map from the JSON of `to_json`.

        Parameters
        ----------
        text
            The JSON.

        Returns
        -------
        FeatureMap
            An equal map.

        Raises
        ------
        InvalidInput
            If the text is not a map.
        """
        try:
            given = json.loads(text)
            columns = tuple(
                (OneHot if "levels" in c else Standardised)(**c) for c in given.pop("columns")
            )
            return cls(columns, **given)
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            value = text if len(str(text)) <= 80 else str(text)[:80] + " …"
            allowed = f"the JSON of FeatureMap.to_json() ({error})"
            raise InvalidInput("text", value, allowed) from None


def _fit(name: str, values: Column) -> Standardised | OneHot:
    if values.dtype.kind == "U":
        return OneHot(name, tuple(np.unique(values).tolist()))
    n = len(values)
    if values.min() == values.max():  # by rounding, its computed spread may not be 0
        return Standardised(name, 0.0, 0.0)
    mean = math.fsum(values.tolist()) / n
    spread = math.fsum(((values - mean) ** 2).tolist()) / n
    return Standardised(name, mean, math.sqrt(spread))


def _norms(rows: FloatArray) -> FloatArray:
    """Return the norm of each row, summed feature by feature: the same bits on every machine.

    Features are divided by the largest one first, because squares could overflow. Only some rows
    are done at a time, to stay in the processor's cache.
    """
    out = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        top = np.abs(part).max(axis=1)
        divisor = np.where(top > 0.0, top, 1.0)
        total = np.zeros(len(part))
        for feature in part.T:
            total += (feature / divisor) ** 2
        out[start : start + _ROWS] = top * np.sqrt(total)
    return out
