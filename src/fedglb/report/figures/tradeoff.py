"""The paper's main figure: communication against regret, one dot per setting."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fedglb.report.claims import Evidence
from fedglb.report.figures.labels import place
from fedglb.report.figures.levels import Level, all_levels, draw_levels, write_notes
from fedglb.report.figures.ranges import Range, dress, ranges, trading
from fedglb.report.figures.style import looks, styled
from fedglb.report.study import Study
from fedglb.report.text.numerals import setting
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_SIZE = (9.4, 6.2)
_HALO = {"color": "#c9c9c9", "linewidth": 6.0, "solid_joinstyle": "round", "zorder": 1.0}


def draw(study: Study, evidence: Evidence) -> Figure:
    """Draw the figure."""
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=_SIZE)
        axes = figure.add_axes((0.085, 0.175, 0.715, 0.705))
        extent = ranges(evidence)
        dress(axes, study, extent)
        handles = _front(axes, evidence, extent)
        handles = [*_dots(axes, evidence, extent), *handles]
        levels = all_levels(study, evidence)
        shown = [level for level in levels if extent.shows(level.regret)]
        draw_levels(axes, shown, extent)
        write_notes(figure, study, evidence, levels, extent)
        _labels(axes, evidence, shown, extent)
        figure.legend(
            handles=handles, loc="lower center", bbox_to_anchor=(0.4425, 0.008), ncols=4,
            frameon=False, fontsize=8.5, handlelength=3.2, columnspacing=1.6,
        )  # fmt: skip
    return figure


def caption(study: Study, evidence: Evidence) -> str:
    """Return what the figure shows."""
    seeds = max(r.seeds for r in evidence.rows)
    bars = "bars, and bands around lines, are ± 1 standard error; " if seeds > 1 else ""
    return (
        f"Each dot is one setting: its mean regret over {seeds} seed{'s' if seeds > 1 else ''} "
        f"against its mean communication in {study.measure}, with its D or B beside it; {bars}"
        "the grey stairs are the Pareto front, the least regret that any algorithm has for as "
        "little communication. Horizontal lines have no trade-off to set; those that lie outside "
        "the range are written above the figure."
    )


def _front(axes: Axes, evidence: Evidence, extent: Range) -> list[Line2D]:
    """Draw the stairs: for each amount of communication the least regret that it buys."""
    x, y = _stairs(evidence, extent)
    lines = axes.plot(
        x,
        y,
        drawstyle="steps-post",
        label="Pareto front",
        **_HALO,  # type: ignore[arg-type]
    )
    return list(lines)


def _stairs(evidence: Evidence, extent: Range) -> tuple[list[float], list[float]]:
    """Return the corners on the left of each stair, and the end of the last one."""
    cheapest = sorted((r.cost(evidence.measure), r.regret) for r in evidence.rows if r.front)
    x = [extent.left if cost <= 0 else extent.x(cost) for cost, _ in cheapest]
    y = [regret for _, regret in cheapest]
    return [*x, max(extent.right, x[-1])], [*y, y[-1]]


def _dots(axes: Axes, evidence: Evidence, extent: Range) -> list[Line2D]:
    from matplotlib.lines import Line2D

    drawn = looks([(c.name, c.algorithm) for c in evidence.curves])
    handles: list[Line2D] = []
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
        dial = curve.rows[0].dial
        # Bars and lines below the labels, dots above them.
        axes.errorbar(
            x, y, yerr=bars, color=own.colour, linestyle=own.line, linewidth=1.0,
            elinewidth=0.8, capsize=2.0, capthick=0.8, zorder=2.0,
        )  # fmt: skip
        axes.plot(
            x, y, linestyle="", marker=own.marker, markersize=5.4, markerfacecolor=own.face,
            markeredgecolor=own.colour, zorder=3.0, clip_on=False,
        )  # fmt: skip
        handles.append(
            Line2D(
                [], [], color=own.colour, linestyle=own.line, linewidth=1.0, marker=own.marker,
                markersize=5.4, markerfacecolor=own.face,
                label=f"{curve.name} ({dial})" if dial else curve.name,
            )
        )  # fmt: skip
    return handles


def _labels(axes: Axes, evidence: Evidence, levels: list[Level], extent: Range) -> None:
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
            textcoords="offset points", fontsize=6.8, ha="center", va="center_baseline",
            color=drawn[r.curve].ink, zorder=2.6, annotation_clip=False,
            bbox={"boxstyle": "square,pad=0.06", "fc": "white", "ec": "none", "alpha": 0.65},
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
