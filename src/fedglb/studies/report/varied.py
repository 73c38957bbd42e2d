"""The numbers that a sweep varies: one curve of regret against each, for all else being equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedglb.studies.report.summary import DIALS, Row

#: The fewest values that make a curve.
_FEWEST = 2


@dataclass(frozen=True)
class VariedCurve:
    """Rows that differ in one parameter only, with its values, in their order."""

    name: str
    algorithm: str
    points: tuple[tuple[float, Row], ...]


@dataclass(frozen=True)
class Varied:
    """A parameter that takes several values, and what regret does along it.

    Attributes
    ----------
    key, symbol
        The parameter's name, and what it is called in figures.
    curves
        One per algorithm and setting of all other parameters, each with two values or more.
    """

    key: str
    symbol: str
    curves: tuple[VariedCurve, ...]

    @property
    def low(self) -> float:
        """The least value."""
        return min(value for curve in self.curves for value, _ in curve.points)

    @property
    def high(self) -> float:
        """The largest value."""
        return max(value for curve in self.curves for value, _ in curve.points)

    @property
    def wide(self) -> bool:
        """Whether the values are best drawn in logarithms."""
        return self.low > 0 and self.high / self.low >= 8


def varied(rows: Sequence[Row], *, dials: bool) -> tuple[Varied, ...]:
    """Return the numbers that vary; D and B only with `dials`, as another figure has them."""
    keys = dict.fromkeys(
        key
        for row in rows
        for key, value in row.settings.items()
        if not isinstance(value, str) and (dials or key not in DIALS)
    )
    made = []
    for key in keys:
        groups: dict[tuple[str, str], list[tuple[float, Row]]] = {}
        for row in rows:
            value = row.settings.get(key)
            if value is not None and not isinstance(value, str) and math.isfinite(value):
                groups.setdefault((_name(row, key), row.algorithm), []).append((value, row))
        curves = tuple(
            VariedCurve(name, algorithm, tuple(sorted(points, key=lambda p: p[0])))
            for (name, algorithm), points in groups.items()
            if len({value for value, _ in points}) >= _FEWEST
        )
        if curves:
            made.append(Varied(key, _symbol(key), curves))
    return tuple(made)


def _symbol(key: str) -> str:
    return f"{DIALS[key]} ({key})" if key in DIALS else key


def _name(row: Row, key: str) -> str:
    """Return what a row is called apart from one parameter."""
    rest = row.title if DIALS.get(key) != row.dial or not row.dial else row.curve
    words = [word for word in rest.split(" ") if not word.startswith(f"{key}=")]
    return " ".join(words)
