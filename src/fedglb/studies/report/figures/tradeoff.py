"""The paper's main figure: communication against regret, one dot per setting."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fedglb.studies.report.claims import Evidence
from fedglb.studies.report.figures.frame import Frame
from fedglb.studies.report.figures.labels import place
from fedglb.studies.report.figures.levels import (
    Level,
    all_levels,
    draw_levels,
    level_handles,
    notes,
)
from fedglb.studies.report.figures.ranges import Range, dress, ranges, trading
from fedglb.studies.report.figures.style import WIDE, Look, Medium, looks, styled
from fedglb.studies.report.study import Study
from fedglb.studies.report.text.numerals import setting
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


def draw(study: Study, evidence: Evidence, medium: Medium = WIDE) -> Figure:
    """Draw the figure."""
    from matplotlib.figure import Figure

    extent = ranges(evidence)
    levels = all_levels(study, evidence)
    shown = [level for level in levels if extent.shows(level.regret)]
    with styled(medium):
        handles = [*_handles(evidence, medium), _front_handle(medium)]
        if medium.narrow:
            handles += level_handles(shown, medium)
        frame = Frame(
            medium, "" if medium.narrow else study.title, notes(evidence, levels, extent),
            [str(h.get_label()) for h in handles], 4.0 if medium.narrow else 4.9,
        )  # fmt: skip
        figure = Figure(figsize=frame.size)
        left, right, below = (0.78, 0.1, 0.5) if medium.narrow else (0.8, 1.88, 0.5)
        low = frame.low + frame.up(below)
        axes = figure.add_axes(
            (frame.across(left), low, 1 - frame.across(left + right), frame.high - low)
        )
        dress(axes, study, extent, few=medium.narrow)
        _front(axes, evidence, extent, medium)
        _dots(axes, evidence, extent, medium)
        draw_levels(axes, shown, extent, medium)
        _labels(axes, evidence, shown, extent, medium)
        frame.write(figure, handles, 0.1 if medium.narrow else left)
    return figure


def caption(study: Study, evidence: Evidence) -> str:
    """Return what the figure shows."""
    seeds = max(r.seeds for r in evidence.rows)
    bars = ""
    if not evidence.is_look:
        bars = "bars, and bands around lines, are ± 1 standard error; "
    return (
        f"Each dot is one setting: its mean regret over {seeds} seed{'s' if seeds > 1 else ''} "
        f"against its mean communication in {study.measure}, with its D or B beside it; {bars}"
        "the thin grey stairs are the Pareto front, the least regret that any algorithm has for as "
        "little communication. Horizontal lines have no trade-off to set; those that lie outside "
        "the range are written above the figure."
    )


def _front(axes: Axes, evidence: Evidence, extent: Range, medium: Medium) -> None:
    """Draw the stairs, behind all: for each amount of communication the least regret it buys."""
    x, y = _stairs(evidence, extent)
    axes.plot(x, y, drawstyle="steps-post", **_thin(medium))


def _front_handle(medium: Medium) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D([], [], label="Pareto front", **_thin(medium))


def _thin(medium: Medium) -> dict[str, Any]:
    return {"color": medium.front, "linewidth": 0.9, "linestyle": "-", "zorder": 0.9}


def _stairs(evidence: Evidence, extent: Range) -> tuple[list[float], list[float]]:
    """Return the corners on the left of each stair, and the end of the last one."""
    cheapest = sorted((r.cost(evidence.measure), r.regret) for r in evidence.rows if r.front)
    x = [extent.left if cost <= 0 else extent.x(cost) for cost, _ in cheapest]
    y = [regret for _, regret in cheapest]
    return [*x, max(extent.right, x[-1])], [*y, y[-1]]


def _looks(evidence: Evidence, medium: Medium) -> dict[str, Look]:
    named = [(curve.name, curve.algorithm) for curve in evidence.curves]
    return {name: own.on(medium) for name, own in looks(named).items()}


def _handles(evidence: Evidence, medium: Medium) -> list[Line2D]:
    """Return one entry of the legend per curve."""
    from matplotlib.lines import Line2D

    drawn = _looks(evidence, medium)
    handles = []
    for curve in evidence.curves:
        own, dial = drawn[curve.name], curve.rows[0].dial
        handles.append(
            Line2D(
                [], [], color=own.colour, linestyle=own.line, linewidth=1.0, marker=own.marker,
                markersize=5.4, markerfacecolor=own.face,
                label=f"{curve.name} ({dial})" if dial else curve.name,
            )
        )  # fmt: skip
    return handles


def _dots(axes: Axes, evidence: Evidence, extent: Range, medium: Medium) -> None:
    drawn = _looks(evidence, medium)
    for curve in evidence.curves:
        own = drawn[curve.name]
        x = np.array([extent.x(r.cost(evidence.measure)) for r in curve.rows])
        y = np.array([r.regret for r in curve.rows])
        bars = None
        if any(r.error is not None for r in curve.rows):
            half = np.array([r.error or 0.0 for r in curve.rows])
            # A logarithmic axis ends above zero: the bar goes to its lower edge.
            down = np.minimum(half, y - 0.5 * extent.low) if extent.log else half
            bars = np.vstack([down, half])
        # Bars and lines below the labels, dots above them.
        axes.errorbar(
            x, y, yerr=bars, color=own.colour, linestyle=own.line, linewidth=1.0,
            elinewidth=0.8, capsize=2.0, capthick=0.8, zorder=2.0,
        )  # fmt: skip
        axes.plot(
            x, y, linestyle="", marker=own.marker, markersize=5.4, markerfacecolor=own.face,
            markeredgecolor=own.colour, zorder=3.0, clip_on=False,
        )  # fmt: skip


def _labels(
    axes: Axes, evidence: Evidence, levels: list[Level], extent: Range, medium: Medium
) -> None:
    """Write D or B at each dot, where there is room."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawn = looks([(c.name, c.algorithm) for c in evidence.curves])
    rows = [r for r in trading(evidence) if r.value is not None]
    if not rows:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None
    canvas = FigureCanvasAgg(figure)  # text has a size only where it is drawn
    per_point = figure.dpi / 72.0

    def points(x: list[float], y: list[float]) -> FloatArray:
        data = np.column_stack([x, y])
        return np.asarray(axes.transData.transform(data), dtype=np.float64) / per_point

    dots = points([extent.x(r.cost(evidence.measure)) for r in rows], [r.regret for r in rows])
    texts = [
        axes.annotate(
            setting(r.value), (extent.x(r.cost(evidence.measure)), r.regret), (0, 0),
            textcoords="offset points", fontsize=7.2 if medium.narrow else 6.8, ha="center",
            va="center_baseline", color=medium.small(drawn[r.curve].colour), zorder=2.6,
            annotation_clip=False,
            bbox={"boxstyle": "square,pad=0.06", "fc": medium.paper, "ec": "none", "alpha": 0.65},
        )
        for r in rows if r.value is not None
    ]  # fmt: skip
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    sizes = []
    for text in texts:
        box = text.get_window_extent(renderer)
        # Leave a margin: "1" beside "0.464" must not read as 10.464.
        sizes.append((box.width / per_point + 3.0, 0.8 * box.height / per_point))
    area = axes.get_window_extent(renderer)
    x0, y0, x1, y1 = (v / per_point for v in area.extents)
    obstacles = [dots]
    across = [extent.left, extent.right]
    obstacles += [_along(points(across, [level.regret] * 2)) for level in levels]
    stairs = _stairs(evidence, extent)
    across, down = (np.repeat(values, 2).tolist() for values in stairs)
    obstacles.append(_along(points(across[1:], down[:-1])))
    for curve in evidence.curves:
        x = [extent.x(r.cost(evidence.measure)) for r in curve.rows]
        obstacles.append(_along(points(x, [r.regret for r in curve.rows])))
        for r, at in zip(curve.rows, x, strict=True):
            if r.error is not None:
                ends = [max(r.regret - r.error, extent.low), min(r.regret + r.error, extent.high)]
                obstacles.append(_along(points([at, at], ends)))
    centres = place([(x, y) for x, y in dots], sizes, np.vstack(obstacles), (x0, y0, x1, y1))
    for text, (to_x, to_y), (dot_x, dot_y) in zip(texts, centres, dots, strict=True):
        text.set_position((to_x - dot_x, to_y - dot_y))


def _along(corners: FloatArray) -> FloatArray:
    """Return points along a line, one every two points of the print."""
    pieces = [corners[:1]]
    for a, b in pairwise(corners):
        steps = max(int(np.hypot(*(b - a)) / 2.0), 1)
        pieces.append(a + (b - a) * np.linspace(0, 1, steps + 1)[1:, None])
    return np.vstack(pieces)
