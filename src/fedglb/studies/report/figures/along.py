"""Regret along an axis: charts of lines with error bars, and levels across them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.along import Crossing, Line, Panel, positions
from fedglb.studies.report.figures.style import (
    WIDE,
    Look,
    Medium,
    dressed,
    framed,
    handle,
    looks,
    styled,
)
from fedglb.studies.report.numerals import about, amount, setting
from fedglb.studies.report.summary import ENOUGH
from fedglb.studies.results.study import Study
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE = 8.0  # the axis of regret is logarithmic if values differ by this factor
_ACROSS = 3  # charts side by side
_TICKS = 10  # at most: fewer on a narrow page
_UNITS = {
    "heterogeneity": "heterogeneity (spread of the clients’ θ around the common one)",
    "group_spread": "group_spread (spread of the groups’ θ around the common one)",
    "outliers": "outliers (clients with an independent θ)",
    "drift": "drift (radians that θ turns per step)",
    "walk": "walk (radians of θ’s random step)",
    "jump": "jump (step in which θ becomes −θ)",
    "delay": "delay (steps until a reward is known)",
    "participation": "participation (probability that a client acts in a step)",
    "imbalance": "imbalance (samples of the first client over those of the last)",
    "stay": "stay (steps that a client acts, and then pauses)",
    "epsilon": "ε",
}


@dataclass(frozen=True)
class ChartLine:
    """A line of a chart: values on its axis, mean regrets, standard errors; a level has no x."""

    name: str
    look: Look
    x: Sequence[float]
    y: FloatArray
    error: FloatArray


@dataclass(frozen=True)
class Chart:
    """The lines of one pair of axes; marks are vertical lines: where, a text, the line's name.

    With `log`, values that span a decade or more are drawn by their logarithms.
    """

    title: str
    axis: str
    lines: tuple[ChartLine, ...]
    marks: tuple[tuple[float, str, str], ...] = ()
    log: bool = False

    @property
    def places(self) -> dict[float, float]:
        """Where each value of the axis is drawn."""
        values = sorted({x for line in self.lines for x in line.x})
        if self.in_decades:
            return {value: math.log10(value) for value in values}
        return dict(zip(values, positions(values), strict=True)) if values else {}

    @property
    def in_decades(self) -> bool:
        """Whether the axis is logarithmic."""
        values = [x for line in self.lines for x in line.x]
        return self.log and bool(values) and min(values) > 0 and max(values) >= 10 * min(values)


def draw(
    study: Study,
    found: Sequence[Panel],
    crossed: Sequence[Sequence[Crossing]],
    medium: Medium = WIDE,
) -> Figure:
    """Draw a study with an axis: a chart for each panel."""
    shown = looks([(line.name, line.algorithm) for panel in found for line in panel.lines])
    names = {line.name: _legend(line) for panel in found for line in panel.lines}
    charts = [
        Chart(
            panel.title, _UNITS.get(study.axis, study.axis),
            tuple(
                ChartLine(
                    names[line.name], shown[line.name], [v for v in line.values if v is not None],
                    line.means, line.errors,
                )
                for line in panel.lines
            ),
            tuple(
                (c.at, f"{c.name} {'stops paying' if c.stops else 'begins to pay'}: {about(c.at)}",
                 names[c.name])
                for c in own
            ),
        )
        for panel, own in zip(found, crossed, strict=True)
    ]  # fmt: skip
    return draw_charts(charts, study.title, medium)


def _legend(line: Line) -> str:
    best = f", best of {line.settings} settings" if line.settings > 1 else ""
    name = f"{line.name}{best}"
    return f"no communication ({name})" if line.alone and line.level else name


def caption(study: Study, found: Sequence[Panel], *, crossed: bool) -> str:
    """Return the caption."""
    seeds = found[0].lines[0].regrets.shape[1]
    bars = "; bars and bands are ± 1 standard error" if seeds > 1 else ""
    text = (
        f"Mean regret over {seeds} seeds{bars}. Of an algorithm with several settings, the one "
        f"with the least mean regret at each {study.axis} is shown, chosen in hindsight."
    )
    if any(line.level for panel in found for line in panel.lines):
        text += (
            f" Horizontal: algorithms without {study.axis}; of those that never communicate, the "
            "best."
        )
    if crossed:
        text += (
            " Dotted: where an algorithm that communicates and the best one that does not have "
            "equal regret, interpolated."
        )
        text += "" if seeds >= ENOUGH else f" With fewer than {ENOUGH} seeds it has no interval."
    return text


def draw_charts(charts: Sequence[Chart], title: str, medium: Medium = WIDE) -> Figure:
    """Draw charts side by side, with one legend."""
    lines = {line.name: line for chart in charts for line in chart.lines}
    drawn = {name: line.look.on(medium) for name, line in lines.items()}
    with styled(medium):
        handles = [
            handle(own if len(lines[name].x) else Look(own.colour, "", own.line), name)
            for name, own in drawn.items()
        ]
        for chart in charts:
            for _, text, name in chart.marks:
                label = f"{chart.title}: {text}" if chart.title else text
                handles.append(handle(Look(drawn[name].colour, "", (0, (2, 2))), label, 1.0))
        across = 1 if medium.narrow else min(len(charts), _ACROSS)
        down = -(-len(charts) // across)
        one = 2.9 if medium.narrow else 4.2 if across == 1 else 3.5
        figure = framed(medium, title, handles, down * one)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, chart in zip(grid, charts, strict=False):
            _chart(axes, chart, drawn, medium)
        for axes in grid[len(charts) :]:
            axes.remove()
    return figure


def _chart(axes: Axes, chart: Chart, looks: dict[str, Look], medium: Medium) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    places = chart.places
    for line in chart.lines:
        own, error = looks[line.name], np.nan_to_num(line.error)
        low = np.minimum(error, 0.9 * np.abs(line.y))  # a logarithmic axis ends above zero
        if not len(line.x):
            mean = float(line.y[0])
            axes.axhline(mean, color=own.colour, linestyle=own.line, linewidth=1.2, zorder=1.8)
            band = (mean - float(low[0]), mean + float(error[0]))
            axes.axhspan(*band, color=own.colour, alpha=0.16, linewidth=0, zorder=0.8)
            continue
        axes.errorbar(
            [places[x] for x in line.x], line.y, np.vstack([low, error]) if error.any() else None,
            color=own.colour, linestyle=own.line, linewidth=1.4, marker=own.marker,
            markersize=5.5, markerfacecolor=own.face, elinewidth=0.9, capsize=2.0,
        )  # fmt: skip
    for x, _, name in chart.marks:
        place = float(np.interp(x, list(places), list(places.values())))
        axes.axvline(place, color=looks[name].colour, linewidth=1.0, linestyle=(0, (2, 2)))
    means = np.concatenate([line.y for line in chart.lines])
    if means.min() > 0.0 and means.max() / means.min() > _WIDE:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        steps = [m * 10.0**p for p in range(-3, 12) for m in (1, 2, 5)]
        axes.yaxis.set_major_locator(FixedLocator(steps))
        axes.set_ylim(0.8 * means.min(), 1.3 * means.max())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    every = -(-len(places) // (_TICKS // 2 if medium.narrow else _TICKS))
    ticks = list(places.items())[::every]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator([place for _, place in ticks]))
    axes.set_xticklabels([setting(value) for value, _ in ticks])
    even = any(value != place for value, place in places.items()) and not medium.narrow
    scale = ", log scale" if chart.in_decades else "; evenly spaced" if even else ""
    axes.set_xlabel(chart.axis + scale, parse_math=False)
    log = ", log scale" if axes.get_yscale() == "log" else ""
    axes.set_ylabel(f"regret, mean over seeds{log}", fontsize=8.5)
    if chart.title:
        axes.set_title(chart.title, fontsize=9.0, loc="left", parse_math=False)
    dressed(axes)
