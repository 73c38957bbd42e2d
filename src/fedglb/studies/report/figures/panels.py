"""Regret against numbers: panels of curves with error bars, and levels across them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.figures.frame import dressed, framed, handle
from fedglb.studies.report.figures.style import WIDE, Look, Medium, styled
from fedglb.studies.report.numerals import amount
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE = 8.0  # the axis of regret is logarithmic if values differ by this factor
_ACROSS = 3  # panels side by side
_TICKS = 10  # at most: fewer on a narrow page


@dataclass(frozen=True)
class Curve:
    """What is drawn of one algorithm: places, means, standard errors; a level has one mean."""

    name: str
    look: Look
    x: Sequence[float]
    y: FloatArray
    error: FloatArray
    level: bool = False


@dataclass(frozen=True)
class Panel:
    """The curves of one pair of axes.

    Attributes
    ----------
    title, axis
        Above it, and the name of its horizontal axis.
    ticks
        The values on the axis, by place.
    curves
        In the order of the legend.
    marks
        Vertical lines: the place, what it is, and the curve that has its colour.
    """

    title: str
    axis: str
    ticks: dict[float, str]
    curves: tuple[Curve, ...]
    marks: tuple[tuple[float, str, str], ...] = field(default=())


def draw(panels: Sequence[Panel], title: str, medium: Medium = WIDE) -> Figure:
    """Draw the figure."""
    looks = {c.name: c.look.on(medium) for panel in panels for c in panel.curves}
    levels = {c.name for panel in panels for c in panel.curves if c.level}
    with styled(medium):
        handles = [
            handle(Look(own.colour, "", own.line) if name in levels else own, name)
            for name, own in looks.items()
        ]
        for panel in panels:
            for _, text, curve in panel.marks:
                label = f"{panel.title}: {text}" if panel.title else text
                handles.append(handle(Look(looks[curve].colour, "", (0, (2, 2))), label, 1.0))
        across = 1 if medium.narrow else min(len(panels), _ACROSS)
        down = -(-len(panels) // across)
        one = 2.9 if medium.narrow else 4.2 if across == 1 else 3.5
        figure = framed(medium, title, handles, down * one)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _panel(axes, panel, looks, medium)
        for axes in grid[len(panels) :]:
            axes.remove()
    return figure


def _panel(axes: Axes, panel: Panel, looks: dict[str, Look], medium: Medium) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    for curve in panel.curves:
        own, error = looks[curve.name], np.nan_to_num(curve.error)
        low = np.minimum(error, 0.9 * np.abs(curve.y))  # a logarithmic axis ends above zero
        if curve.level:
            mean = float(curve.y[0])
            axes.axhline(mean, color=own.colour, linestyle=own.line, linewidth=1.2, zorder=1.8)
            band = (mean - float(low[0]), mean + float(error[0]))
            axes.axhspan(*band, color=own.colour, alpha=0.16, linewidth=0, zorder=0.8)
            continue
        axes.errorbar(
            curve.x, curve.y, np.vstack([low, error]) if error.any() else None,
            color=own.colour, linestyle=own.line, linewidth=1.4, marker=own.marker,
            markersize=5.5, markerfacecolor=own.face, elinewidth=0.9, capsize=2.0,
        )  # fmt: skip
    for x, _, curve_name in panel.marks:
        axes.axvline(x, color=looks[curve_name].colour, linewidth=1.0, linestyle=(0, (2, 2)))
    means = np.concatenate([curve.y for curve in panel.curves])
    if means.min() > 0.0 and means.max() / means.min() > _WIDE:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        steps = [m * 10.0**p for p in range(-3, 12) for m in (1, 2, 5)]
        axes.yaxis.set_major_locator(FixedLocator(steps))
        axes.set_ylim(0.8 * means.min(), 1.3 * means.max())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    every = -(-len(panel.ticks) // (_TICKS // 2 if medium.narrow else _TICKS))
    shown = dict(list(panel.ticks.items())[::every])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(list(shown)))
    axes.set_xticklabels(list(shown.values()))
    axes.set_xlabel(panel.axis, parse_math=False)
    log = ", log scale" if axes.get_yscale() == "log" else ""
    axes.set_ylabel(f"regret, mean over seeds{log}", fontsize=8.5)
    if panel.title:
        axes.set_title(panel.title, fontsize=9.0, loc="left", parse_math=False)
    dressed(axes)
