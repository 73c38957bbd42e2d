"""Regret against a parameter of algorithms, a panel per problem; levels for those without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.figures.frame import Frame
from fedglb.studies.report.figures.style import (
    COLOURS,
    WIDE,
    Look,
    Medium,
    looks,
    setting_look,
    styled,
)
from fedglb.studies.report.panels import Line, Panels
from fedglb.studies.report.text.numerals import amount, setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_UNITS = {"epsilon": "ε"}
_HEIGHT = {False: 4.1, True: 3.0}  # of a row of panels, in inches
_WIDE = 8.0  # an axis is logarithmic if its values differ by this factor
_ACROSS = 3  # panels side by side


def draw(study: Panels, found: Sequence[Sequence[Line]], medium: Medium = WIDE) -> Figure:
    """Draw the figure; `found` has the lines of each panel."""
    from matplotlib.figure import Figure

    every = {line.algorithm: line for own in found for line in own}
    drawn = {name: look.on(medium) for name, look in _looks(every).items()}
    across = 1 if medium.narrow else min(len(found), _ACROSS)
    down = -(-len(found) // across)
    one = _HEIGHT[medium.narrow]
    with styled(medium):
        handles = [_handle(line, drawn[line.algorithm]) for line in every.values()]
        names = [str(handle.get_label()) for handle in handles]
        frame = Frame(medium, study.title, [], names, down * one)
        figure = Figure(figsize=frame.size)
        left, gap, below, above = 0.78, 0.62, 0.5, 0.3
        width = (medium.width - left - 0.12 - gap * (across - 1)) / across
        for i, (panel, own) in enumerate(zip(study.panels, found, strict=True)):
            x, y = i % across, i // across
            axes = figure.add_axes(
                (
                    frame.across(left + x * (width + gap)),
                    frame.high - frame.up((y + 1) * one - below),
                    frame.across(width),
                    frame.up(one - below - above),
                )
            )
            _panel(axes, study.parameter, own, drawn)
            axes.set_title(panel.title, fontsize=9.0, loc="left", parse_math=False)
            if x == 0:
                log = ", log scale" if axes.get_yscale() == "log" else ""
                axes.set_ylabel(f"regret, mean over seeds{log}")
        frame.write(figure, handles, left)
    return figure


def caption(study: Panels, found: Sequence[Sequence[Line]]) -> str:
    """Return what the figure shows."""
    seeds = found[0][0].regrets.shape[1]
    bars = "; bars and bands are ± 1 standard error" if seeds > 1 else ""
    return (
        f"Mean regret over {seeds} seeds against {_UNITS.get(study.parameter, study.parameter)}"
        f"{bars}. Horizontal: algorithms without it. Of an algorithm with several settings the "
        "one with the least mean regret is shown, chosen in hindsight, and of those that never "
        "communicate the best."
    )


def _looks(every: dict[str, Line]) -> dict[str, Look]:
    """Return the look of each algorithm; lines get colours that no level has."""
    levels = looks([(name, name) for name, line in every.items() if line.level])
    used = {look.colour for look in levels.values()}
    free = [colour for colour in COLOURS if colour not in used] or list(COLOURS)
    made = {}
    for i, name in enumerate(name for name, line in every.items() if not line.level):
        # the first of them has a line without gaps
        made[name] = replace(setting_look(i + 4), colour=free[i % len(free)])
    return made | levels


def _said(line: Line) -> str:
    best = f", best of {line.settings} settings" if line.settings > 1 else ""
    return f"no communication ({line.name}{best})" if line.alone else f"{line.name}{best}"


def _handle(line: Line, own: Look) -> Line2D:
    from matplotlib.lines import Line2D

    marker = "" if line.level else own.marker
    return Line2D(
        [], [], color=own.colour, linestyle=own.line, linewidth=1.4, marker=marker,
        markersize=5.5, markerfacecolor=own.face, label=_said(line),
    )  # fmt: skip


def _panel(axes: Axes, parameter: str, found: Sequence[Line], drawn: dict[str, Look]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    for line in found:
        own, errors = drawn[line.algorithm], np.nan_to_num(line.errors)
        if line.level:
            mean, error = float(line.means[0]), float(errors[0])
            axes.axhline(mean, color=own.colour, linestyle=own.line, linewidth=1.2, zorder=1.8)
            low = max(mean - error, 0.05 * mean)
            axes.axhspan(low, mean + error, color=own.colour, alpha=0.16, linewidth=0, zorder=0.8)
            continue
        axes.errorbar(
            [float(v) for v in line.values if v is not None], line.means,
            np.vstack([np.minimum(errors, 0.9 * line.means), errors]), color=own.colour,
            linestyle=own.line, linewidth=1.4, marker=own.marker, markersize=5.5,
            markerfacecolor=own.face, elinewidth=0.9, capsize=2.0,
        )  # fmt: skip
    values = sorted({float(v) for line in found for v in line.values if v is not None})
    if values[0] > 0.0 and values[-1] / values[0] >= _WIDE:
        axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: setting(value)))
    means = np.concatenate([line.means for line in found])
    if means.min() > 0.0 and means.max() / means.min() > _WIDE:
        axes.set_yscale("log")
        axes.yaxis.set_minor_locator(NullLocator())
        steps = [m * 10.0**p for p in range(-3, 12) for m in (1, 2, 5)]
        axes.yaxis.set_major_locator(FixedLocator(steps))
        axes.set_ylim(0.8 * means.min(), 1.3 * means.max())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    log = ", log scale" if axes.get_xscale() == "log" else ""
    axes.set_xlabel(f"{_UNITS.get(parameter, parameter)}{log}")
    axes.tick_params(labelsize=8.0)
    axes.grid()
    axes.set_axisbelow(True)
