"""How the studies make arms of a table: numbers standardised, categories one-hot, then scaled.

Its results are facts of every study, so it stays as it is to the bit. An application's records, and
a researcher's table, become arms by a schema (`fedglb.features`).
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from fedglb.environments.datasets.table import Column, Table
from fedglb.errors import number
from fedglb.typing import FloatArray

#: Arms are divided by the largest norm of all, or each by its own.
Scale: TypeAlias = Literal["largest", "each"]

_ROWS = 1024  # per pass of computing norms


@dataclass(frozen=True)
class Standardised:
    """A numeric column: one feature, (x − mean)/sd, or 0 if the column is constant (sd = 0)."""

    name: str
    mean: float
    sd: float

    def encode(self, values: Column) -> FloatArray:
        """Return the features of all rows, shape (n, 1)."""
        if self.sd == 0.0:
            return np.zeros((len(values), 1))
        out: FloatArray = ((values - self.mean) / self.sd)[:, None]
        return out


@dataclass(frozen=True)
class OneHot:
    """A categorical column: one feature per sorted level, 1 where the row has it and else 0."""

    name: str
    levels: tuple[str, ...]

    def encode(self, values: Column) -> FloatArray:
        """Return the features of all rows, shape (n, number of levels)."""
        out = np.zeros((len(values), len(self.levels)))
        out[np.arange(len(values)), np.searchsorted(np.array(self.levels), values)] = 1.0
        return out


@dataclass(frozen=True)
class Conversion:
    """The conversion of one table's rows to arms of norm ≤ 1.

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

    Examples
    --------
    >>> import fedglb as fg
    >>> table = fg.Table({"x": [1.0, 3.0], "c": ["b", "a"]}, labels=[0, 1])
    >>> fitted = Conversion.fit(table, constant=True)
    >>> encoded = fitted.encode(table)
    >>> encoded.tolist()
    [[-1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    >>> fitted.scaled(encoded, "largest").place(encoded).round(2).tolist()
    [[-0.58, 0.0, 0.58, 0.58], [0.58, 0.58, 0.0, 0.58]]
    """

    columns: tuple[Standardised | OneHot, ...]
    constant: bool
    scale: Scale | None = None
    largest: float | None = None

    @classmethod
    def fit(cls, table: Table, constant: bool) -> Conversion:
        """Return the conversion of a table's columns, without a scale yet.

        The labels are not used. Sums are exact (`math.fsum`), so that every machine gets the
        same bits.
        """
        return cls(tuple(_fit(name, x) for name, x in table.columns.items()), constant)

    def encode(self, table: Table) -> FloatArray:
        """Return the features of the table's rows before scaling, without the constant one."""
        return np.hstack([column.encode(table.columns[column.name]) for column in self.columns])

    def scaled(self, encoded: FloatArray, scale: Scale) -> Conversion:
        """Return the conversion with its scale; of "largest", the longest row gets norm 1."""
        if scale == "each":
            return replace(self, scale=scale)
        largest = float(_norms(self._with_constant(encoded)).max())
        return replace(self, scale=scale, largest=largest or 1.0)

    def place(self, encoded: FloatArray) -> FloatArray:
        """Return the arms of encoded rows, with the constant feature and scaled."""
        arms = self._with_constant(encoded)
        norms = _norms(arms)
        if self.largest is not None:
            norms = np.maximum(norms, self.largest)
        norms[norms == 0.0] = 1.0
        arms /= norms[:, None]
        return arms

    def _with_constant(self, rows: FloatArray) -> FloatArray:
        arms = np.ones((len(rows), rows.shape[1] + self.constant))
        arms[:, : rows.shape[1]] = rows
        return arms

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `plain()` as JSON: equal for equal conversions."""
        text = json.dumps(self.plain(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def plain(self) -> dict[str, Any]:
        """Return the conversion as JSON values."""
        columns = [
            {"name": c.name, "levels": list(c.levels)}
            if isinstance(c, OneHot)
            else {"name": c.name, "mean": c.mean, "sd": c.sd}
            for c in self.columns
        ]
        out = {"columns": columns, "constant": self.constant, "scale": self.scale}
        return {**out, "largest": self.largest}


def _fit(name: str, values: Column) -> Standardised | OneHot:
    if values.dtype.kind == "U":
        return OneHot(name, tuple(np.unique(values).tolist()))
    n = len(values)
    if values.min() == values.max():  # by rounding, its computed spread may not be 0
        return Standardised(name, 0.0, 0.0)
    mean = math.fsum(values.tolist()) / n
    with np.errstate(over="ignore"):
        spread = math.fsum(((values - mean) ** 2).tolist()) / n
    sd = number(f"sd of {name!r}", math.sqrt(spread))
    return Standardised(name, mean + 0.0 if sd > 0.0 else 0.0, sd)  # no −0: equal, equal digests


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
