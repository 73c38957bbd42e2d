"""Regret against each number that a sweep varies, one curve per setting of all else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.figures.along import Chart, ChartLine, draw_charts
from fedglb.studies.report.figures.style import WIDE, Medium, looks
from fedglb.studies.report.summary import DIALS, Row, StudyNumbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST = 12  # curves in all charts
_FEWEST = 2  # values that make a curve


@dataclass(frozen=True)
class Varied:
    """A parameter with several values.

    `curves` has, for each algorithm and setting of all other parameters, the values in increasing
    order with their rows.
    """

    symbol: str
    curves: dict[str, list[tuple[float, Row]]]


def varied(rows: Sequence[Row], *, dials: bool) -> tuple[Varied, ...]:
    """Return the numbers that vary; D and B only with `dials`: another figure has them."""
    keys = dict.fromkeys(
        key
        for row in rows
        for key, value in row.settings.items()
        if not isinstance(value, str) and (dials or key not in DIALS)
    )
    made = []
    for key in keys:
        groups: dict[str, list[tuple[float, Row]]] = {}
        for row in rows:
            value = row.settings.get(key)
            if value is not None and not isinstance(value, str) and math.isfinite(value):
                groups.setdefault(_name(row, key), []).append((value, row))
        curves = {
            name: sorted(points, key=lambda p: p[0])
            for name, points in groups.items()
            if len({value for value, _ in points}) >= _FEWEST
        }
        if curves:
            made.append(Varied(f"{DIALS[key]} ({key})" if key in DIALS else key, curves))
    return tuple(made)


def _name(row: Row, key: str) -> str:
    """Return a row's name without one parameter."""
    rest = row.curve if row.dial == DIALS.get(key, key) else row.title
    return " ".join(word for word in rest.split(" ") if not word.startswith(f"{key}="))


def draw(found: tuple[Varied, ...], numbers: StudyNumbers, medium: Medium = WIDE) -> Figure:
    """Draw one chart per parameter; of many curves only those with the least regret."""
    least: dict[str, float] = {}
    algorithm: dict[str, str] = {}
    for name, points in (item for each in found for item in each.curves.items()):
        best = min(row.regret for _, row in points)
        least[name] = min(best, least.get(name, best))
        algorithm[name] = points[0][1].algorithm
    kept = set(sorted(least, key=lambda name: least[name])[:_MOST])
    named = [(name, algorithm[name]) for name in least if name in kept]
    drawn = looks(named, numbers.algorithms)
    charts = []
    for each in found:
        lines = tuple(
            ChartLine(
                name, drawn[name], [value for value, _ in points],
                np.array([row.regret for _, row in points]),
                np.array([row.error or 0.0 for _, row in points]),
            )
            for name, points in each.curves.items()
            if name in drawn
        )  # fmt: skip
        if lines:
            charts.append(Chart("", each.symbol, lines, log=True))
    return draw_charts(charts, "", medium)


def caption(found: tuple[Varied, ...], numbers: StudyNumbers) -> str:
    """Return the caption."""
    bars = "" if numbers.few_seeds else ", bars are ± 1 standard error"
    names = ", ".join(each.symbol for each in found)
    every = len({name for each in found for name in each.curves})
    few = f"; the {_MOST} of {every} curves with the least regret" if every > _MOST else ""
    return f"Mean regret over the seeds{bars}, against {names}, all else being equal{few}."
