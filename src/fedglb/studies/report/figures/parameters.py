"""Regret against each parameter that is varied, one curve per algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.figures.along import Chart, ChartLine, draw_charts
from fedglb.studies.report.figures.style import WIDE, Medium, algorithm_looks
from fedglb.studies.report.numerals import setting
from fedglb.studies.report.summary import DIALS, Row
from fedglb.studies.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Varied:
    """A parameter with several values.

    `curves` has, for each algorithm, its values with the row of the least mean regret at each:
    numbers in increasing order, texts in the order of the experiment.
    """

    title: str
    symbol: str
    curves: dict[str, list[tuple[float | str, Row]]]
    settings: int  # the largest number of rows to choose from

    def lines(self, study: Study) -> tuple[ChartLine, ...]:
        """Return the curves to draw."""
        looks = algorithm_looks(study)
        made = []
        for algorithm, points in self.curves.items():
            regrets = np.array([row.regret for _, row in points])
            errors = np.array([row.error or 0.0 for _, row in points])
            values, best = [value for value, _ in points], int(regrets.argmin())
            name = points[0][1].name
            made.append(ChartLine(name, looks[algorithm], values, regrets, errors, best))
        return tuple(made)


def varied(rows: Sequence[Row], title: str = "", *, without: str = "") -> tuple[Varied, ...]:
    """Return the parameters that are varied within an algorithm, but for one."""
    made = []
    for key in dict.fromkeys(key for row in rows for key in row.settings if key != without):
        texts = any(isinstance(row.settings.get(key), str) for row in rows)
        curves, most = {}, 1
        for algorithm in dict.fromkeys(row.algorithm for row in rows):
            groups = _by_value([row for row in rows if row.algorithm == algorithm], key, texts)
            if len(groups) > 1:
                best = {value: min(own, key=lambda r: r.regret) for value, own in groups.items()}
                curves[algorithm] = list(best.items())
                most = max(most, *map(len, groups.values()))
        if curves:
            symbol = f"{DIALS[key]} ({key})" if key in DIALS else key
            made.append(Varied(title, symbol, curves, most))
    return tuple(made)


def _by_value(rows: Sequence[Row], key: str, texts: bool) -> dict[float | str, list[Row]]:
    """Return an algorithm's rows by the value of a parameter; where texts are, "none" is one."""
    groups: dict[float | str, list[Row]] = {}
    for row in rows:
        value = row.settings.get(key, "none" if texts else None)
        if value is not None:
            text = texts and not isinstance(value, str)
            groups.setdefault(setting(float(value)) if text else value, []).append(row)
    return groups if texts else dict(sorted(groups.items()))


def draw(study: Study, found: Sequence[Varied], medium: Medium = WIDE) -> Figure:
    """Draw one chart for each parameter."""
    charts = [Chart(each.title, each.symbol, each.lines(study), log=True) for each in found]
    return draw_charts(charts, "", medium)


def caption(found: Sequence[Varied]) -> str:
    """Return the caption."""
    rows = [row for each in found for points in each.curves.values() for _, row in points]
    bars = ", bars are ± 1 standard error" if any(r.error is not None for r in rows) else ""
    names = ", ".join(dict.fromkeys(each.symbol for each in found))
    chosen = (
        ": at each value the setting of all others with the least mean regret, chosen in hindsight"
        if any(each.settings > 1 for each in found)
        else ", all else being equal"
    )
    return f"Mean regret over the seeds{bars}, against {names}{chosen}. Rings: each curve’s least."
