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
    algorithm_looks,
    framed,
    handle,
    inches,
    styled,
    wrapped,
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
_BESIDE = 0.8  # inches beside axes: the numbers of the other axis and its name
_GAP = 0.08  # inches between numbers below an axis, at least
_UPRIGHT = 1.3  # inches: the length of a category's name where it stands upright
_RING = 10.0  # the size of the ring around a best value
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
    """A line of a chart: values on its axis, mean regrets, standard errors; a level has no x.

    `best`, if there, is the index of the value with a ring around it.
    """

    name: str
    look: Look
    x: Sequence[float | str]
    y: FloatArray
    error: FloatArray
    best: int | None = None


@dataclass(frozen=True)
class Chart:
    """The lines of one pair of axes; marks are vertical lines: where, a text, the line's name.

    Texts are categories. With `log`, values that span a decade or more are drawn by their
    logarithms.
    """

    title: str
    axis: str
    lines: tuple[ChartLine, ...]
    marks: tuple[tuple[float, str, str], ...] = ()
    log: bool = False

    @property
    def places(self) -> dict[float | str, float]:
        """Where each value of the axis is drawn; infinity is a step beyond the others."""
        if self.categories:
            return {value: float(i) for i, value in enumerate(self.categories)}
        finite = self._finite
        at = [math.log10(v) for v in finite] if self.in_decades else positions(finite)
        if any(math.inf in line.x for line in self.lines):
            at.append(at[-1] + (at[-1] - at[0]) / max(len(at) - 1, 1) if at else 0.0)
        return dict(zip([*finite, math.inf], at, strict=False))

    @property
    def categories(self) -> list[str]:
        """The texts on the axis, in their order."""
        every = (x for line in self.lines for x in line.x if isinstance(x, str))
        return list(dict.fromkeys(every))

    @property
    def in_decades(self) -> bool:
        """Whether the axis is logarithmic."""
        values = [] if self.categories else self._finite
        return self.log and bool(values) and values[0] > 0 and values[-1] >= 10 * values[0]

    @property
    def _finite(self) -> list[float]:
        numbers = (x for line in self.lines for x in line.x if not isinstance(x, str))
        return sorted({x for x in numbers if math.isfinite(x)})


def draw(
    study: Study,
    found: Sequence[Panel],
    crossed: Sequence[Sequence[Crossing]],
    medium: Medium = WIDE,
) -> Figure:
    """Draw a study with an axis: a chart for each panel."""
    shown = algorithm_looks(study)
    names = {line.name: _legend(line) for panel in found for line in panel.lines}
    charts = [
        Chart(
            panel.title, _UNITS.get(study.axis, study.axis),
            tuple(
                ChartLine(
                    names[line.name], shown[line.algorithm],
                    [v for v in line.values if v is not None], line.means, line.errors,
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
        if any(line.best is not None for chart in charts for line in chart.lines):
            ring = Look(medium.soft, "o", "", "none")
            handles.append(handle(ring, "least regret of the curve", size=_RING))
        count = len(charts)
        across = 1 if medium.narrow else 2 if count == 4 else min(count, _ACROSS)
        down = -(-count // across)
        one = 2.9 if medium.narrow else 4.2 if across == 1 else 3.5
        figure = framed(medium, title, handles, down * one)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, chart in zip(grid, charts, strict=False):
            _chart(axes, chart, drawn, medium.width / across - _BESIDE)
        for axes in grid[count:]:
            axes.remove()
    return figure


def _chart(axes: Axes, chart: Chart, looks: dict[str, Look], width: float) -> None:
    """Draw a chart into axes of about this width in inches."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    places = chart.places
    for i, line in enumerate(chart.lines):
        own, error = looks[line.name], np.nan_to_num(line.error)
        low = np.minimum(error, 0.9 * np.abs(line.y))  # a logarithmic axis ends above zero
        if not len(line.x):
            mean = float(line.y[0])
            axes.axhline(mean, color=own.colour, linestyle=own.line, linewidth=1.2, zorder=1.8)
            band = (mean - float(low[0]), mean + float(error[0]))
            axes.axhspan(*band, color=own.colour, alpha=0.16, linewidth=0, zorder=0.8)
            continue
        # Categories have no order, and so no line; their dots stand side by side.
        aside = (i - (len(chart.lines) - 1) / 2) * min(0.12, 0.6 / len(chart.lines))
        x = [places[value] + (aside if chart.categories else 0.0) for value in line.x]
        axes.errorbar(
            x, line.y, np.vstack([low, error]) if error.any() else None, color=own.colour,
            linestyle="" if chart.categories else own.line, marker=own.marker,
            markerfacecolor=own.face, elinewidth=0.9, capsize=2.0,
        )  # fmt: skip
        if line.best is not None:
            axes.plot(
                x[line.best], line.y[line.best], marker="o", markersize=_RING, color=own.colour,
                markerfacecolor="none", markeredgewidth=0.9, zorder=4.0, clip_on=False,
            )  # fmt: skip
    for at, _, name in chart.marks:
        place = float(np.interp(at, [float(x) for x in places], list(places.values())))
        axes.axvline(place, color=looks[name].colour, linewidth=1.0, linestyle=(0, (2, 2)))
    means = np.concatenate([line.y for line in chart.lines])
    if means.min() > 0.0 and means.max() / means.min() > _WIDE:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        steps = [m * 10.0**p for p in range(-3, 12) for m in (1, 2, 5)]
        axes.yaxis.set_major_locator(FixedLocator(steps))
        axes.set_ylim(0.8 * means.min(), 1.3 * means.max())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    axes.margins(y=0.1)
    _ticks(axes, chart, width)
    even = any(value != place for value, place in places.items())
    numbers = "; evenly spaced" if even and not chart.categories else ""
    scale = ", log scale" if chart.in_decades else numbers
    axes.set_xlabel(wrapped(chart.axis + scale, width, "medium"), parse_math=False)
    log = ", log scale" if axes.get_yscale() == "log" else ""
    axes.set_ylabel(f"mean regret{log}")
    if chart.title:
        axes.set_title(wrapped(chart.title, width), fontsize="small", parse_math=False)


def _ticks(axes: Axes, chart: Chart, width: float) -> None:
    """Write the values below the axis: all categories, and the numbers that have room."""
    from matplotlib.ticker import FixedLocator, NullLocator

    places = chart.places
    ends = list(places.values())
    if chart.categories:
        slot = width / len(places)
        names = {place: wrapped(str(value), 0.92 * slot) for value, place in places.items()}
        upright = max(map(inches, names.values())) > slot
        if upright:
            names = {place: wrapped(str(value), _UPRIGHT) for value, place in places.items()}
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.tick_params("x", labelrotation=90.0 if upright else 0.0)
    else:
        names, free = {}, -math.inf
        scale = 0.9 * width / ((ends[-1] - ends[0]) or 1.0)  # inches; the rest is margins
        for value, place in places.items():
            text = "∞" if value == math.inf else setting(float(value))
            half = inches(text) / 2
            if scale * place - half >= free:
                names[place], free = text, scale * place + half + _GAP
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(list(names)))
    axes.set_xticklabels(list(names.values()), parse_math=False)
