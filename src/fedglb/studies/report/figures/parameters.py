"""Regret against each number that a sweep varies, one curve per setting of all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.claims import Evidence
from fedglb.studies.report.figures.frame import Frame
from fedglb.studies.report.figures.style import WIDE, Look, Medium, setting_look, styled
from fedglb.studies.report.text.numerals import amount, setting
from fedglb.studies.report.varied import Varied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 12  # curves in all panels


def draw(varied: tuple[Varied, ...], medium: Medium = WIDE) -> Figure:
    """Draw one panel per parameter."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    drawn = {name: own.on(medium) for name, own in _looks(varied).items()}
    with styled(medium):
        handles = [
            Line2D([], [], color=own.colour, linestyle=own.line, linewidth=1.2, marker=own.marker,
                   markersize=5.0, markerfacecolor=own.face, label=name)
            for name, own in drawn.items()
        ]  # fmt: skip
        across = 1 if medium.narrow else min(len(varied), 2)
        down = -(-len(varied) // across)
        one = 2.7 if medium.narrow else 3.3
        frame = Frame(medium, "", [], list(drawn), down * one)
        figure = Figure(figsize=frame.size)
        left, gap, below = 0.78, 0.8, 0.5
        width = (medium.width - left - 0.12 - gap * (across - 1)) / across
        for i, one_of_them in enumerate(varied):
            x, y = i % across, i // across
            axes = figure.add_axes(
                (
                    frame.across(left + x * (width + gap)),
                    frame.high - frame.up((y + 1) * one - below),
                    frame.across(width),
                    frame.up(one - below - 0.2),
                )
            )
            _panel(axes, one_of_them, drawn)
        frame.write(figure, handles, left)
    return figure


def caption(varied: tuple[Varied, ...], evidence: Evidence) -> str:
    """Return what the figure shows."""
    bars = "" if evidence.is_look else ", bars are ± 1 standard error"
    names = ", ".join(v.symbol for v in varied)
    every = len({c.name for v in varied for c in v.curves})
    few = f"; the {_MOST} of {every} curves with the least regret" if every > _MOST else ""
    return f"Mean regret over the seeds{bars}, against {names}, all else being equal{few}."


def _looks(varied: tuple[Varied, ...]) -> dict[str, Look]:
    """Return the look of each curve; of many curves only those that come to the least regret."""
    least: dict[str, float] = {}
    for curve in (c for v in varied for c in v.curves):
        best = min(row.regret for _, row in curve.points)
        least[curve.name] = min(best, least.get(curve.name, best))
    kept = set(sorted(least, key=lambda name: least[name])[:_MOST])
    return {name: setting_look(i) for i, name in enumerate(n for n in least if n in kept)}


def _panel(axes: Axes, varied: Varied, drawn: dict[str, Look]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    regrets: list[float] = []
    for curve in varied.curves:
        if curve.name not in drawn:
            continue
        own = drawn[curve.name]
        x = np.array([value for value, _ in curve.points])
        y = np.array([row.regret for _, row in curve.points])
        half = np.array([row.error or 0.0 for _, row in curve.points])
        bars = np.vstack([np.minimum(half, 0.9 * np.abs(y)), half]) if half.any() else None
        axes.errorbar(
            x, y, yerr=bars, color=own.colour, linestyle=own.line, linewidth=1.2,
            marker=own.marker, markersize=5.0, markerfacecolor=own.face, elinewidth=0.8,
            capsize=2.0, capthick=0.8,
        )  # fmt: skip
        regrets += y.tolist()
    if varied.wide:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    values = sorted({v for c in varied.curves for v, _ in c.points})
    ticks = values if len(values) <= 5 else values[:: -(-len(values) // 5)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: setting(value)))
    if regrets and min(regrets) > 0 and max(regrets) / min(regrets) > 10:
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    axes.set_xlabel(varied.symbol + (", log scale" if varied.wide else ""))
    log = ", log scale" if axes.get_yscale() == "log" else ""
    axes.set_ylabel(f"regret, mean over seeds{log}", fontsize=8.0)
    axes.tick_params(labelsize=8.0)
    axes.grid()
    axes.set_axisbelow(True)
