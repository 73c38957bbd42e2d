"""The paper's main figure: communication against regret, one dot per setting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from fedglb.studies.report.figures.style import (
    WIDE,
    Look,
    Medium,
    curve_looks,
    framed,
    handle,
    in_inches,
    inches,
    styled,
    wrapped,
)
from fedglb.studies.report.numerals import amount, brief, plus_minus, setting
from fedglb.studies.report.summary import REFERENCES, Row, StudyNumbers
from fedglb.studies.spec.plan import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ALONE = ("n-ucb-glm", "n-ons-glm")  # they never communicate
_DOT = 2.5  # half the size of a dot in points
#: Where a text may stand beside its dot, in points: clear of the error bar, the first if it can.
_BESIDE = ((3, 2), (3, -2), (-3, 2), (-3, -2), (3, 9), (3, -9), (-3, 9), (-3, -9))
_BASELINE = Look("#450057", "", (0, (6, 3)))


@dataclass(frozen=True)
class Range:
    """The range of the axes; `zero` is the position of no communication, at the left end."""

    low: float
    high: float
    log: bool
    left: float
    right: float
    zero: float | None
    costs: bool

    def x(self, cost: float) -> float:
        """Return the position of a communication cost."""
        return cost if cost > 0 else self.zero if self.zero is not None else 0.0

    def shows(self, regret: float) -> bool:
        """Return whether a regret is within the range."""
        return self.low <= regret <= self.high


@dataclass(frozen=True)
class Level:
    """A regret without a trade-off: a line with a band, or a note if it is out of range."""

    name: str
    text: str
    algorithm: str
    regret: float
    error: float | None
    look: Look


def draw(numbers: StudyNumbers, medium: Medium = WIDE) -> Figure:
    """Draw the figure."""
    extent = ranges(numbers)
    looks = curve_looks(numbers)
    levels = _levels(numbers, looks)
    shown = [level for level in levels if extent.shows(level.regret)]
    drawn = {name: own.on(medium) for name, own in looks.items()}
    front = Look(medium.front, "", "-")
    with styled(medium):
        handles = []
        for curve in numbers.curves:
            dial = f" ({curve.rows[0].dial})" if curve.rows[0].dial else ""
            handles.append(handle(drawn[curve.name], f"{curve.name}{dial}", 1.0))
        handles.append(handle(front, "Pareto front", 0.9))
        for level in shown:
            handles.append(handle(level.look.on(medium), f"{level.name}: {level.text}", 1.2))
            handles[-1].set_marker("")
        title = "" if medium.narrow else numbers.study.title
        figure = framed(medium, title, handles, 4.4 if medium.narrow else 5.2)
        axes = figure.subplots()
        _axes(axes, numbers.measure, extent, medium)
        _front(axes, numbers, extent, front)
        _dots(axes, numbers, extent, drawn)
        for level in shown:
            _level(axes, level, extent, medium)
        notes = [wrapped(note, medium.width - 1.0) for note in _notes(numbers, levels, extent)]
        if notes:
            axes.set_title("\n".join(notes), fontsize="small", color=medium.soft, parse_math=False)
        colours = {name: medium.small(own.colour) for name, own in looks.items()}
        _settings(axes, numbers, extent, colours)
    return figure


def caption(numbers: StudyNumbers) -> str:
    """Return the caption."""
    seeds = max(r.seeds for r in numbers.rows)
    bars = ""
    if not numbers.few_seeds:
        bars = "bars, and bands around lines, are ± 1 standard error; "
    dials = dict.fromkeys(row.dial for row in _trading(numbers) if row.dial)
    beside = f", with its {' or '.join(dials)} beside it" if dials else ""
    return (
        f"Each dot is one setting: its mean regret over {seeds} seed{'s' if seeds > 1 else ''} "
        f"against its mean communication in {numbers.measure}{beside}; {bars}"
        "the thin grey stairs are the Pareto front, the least regret that any algorithm has for as "
        "little communication. Horizontal lines have no trade-off to set; those outside the range "
        "are written above the figure."
    )


def ranges(numbers: StudyNumbers) -> Range:
    """Choose the axes: logarithmic if defined and the values differ much."""
    rows = _trading(numbers) or list(numbers.rows)
    one = [r.regret for r in numbers.rows if r.algorithm == "one-ucb-glm"]
    regrets = [r.regret for r in rows] + one
    low, high = min(regrets), max(regrets)
    log = low > 0 and high / low > 10
    if log:
        low, high = low / (high / low) ** 0.08, high * (high / low) ** 0.06
    else:
        bounds = [r.regret + s * (r.error or 0.0) for r in rows for s in (-1.0, 1.0)]
        wide = high - low or abs(high) or 1.0  # with few seeds, an error bar may dwarf everything
        low = max(min([low, *bounds]), low - wide) - 0.06 * wide
        high = min(max([high, *bounds]), high + wide) + 0.06 * wide
    costs = sorted(r.cost(numbers.measure) for r in rows)
    positive = [c for c in costs if c > 0]
    if not positive:
        return Range(low, high, log, -1.0, 1.0, 0.0, costs=False)
    least, most = positive[0], positive[-1]
    room = max((most / least) ** 0.05, 1.15)
    zero = least / max((most / least) ** 0.12, 1.6) if costs[0] <= 0 else None
    left = (least if zero is None else zero) / room
    return Range(low, high, log, left, most * room, zero, costs=True)


def _trading(numbers: StudyNumbers) -> list[Row]:
    """Return all settings of all algorithms that have a trade-off to set."""
    return [row for curve in numbers.curves for row in curve.rows]


def _axes(axes: Axes, measure: str, extent: Range, medium: Medium) -> None:
    """Set scales, limits, ticks and names of the axes."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    if extent.log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        if math.log10(extent.high / extent.low) < 2.2:
            steps = [m * 10.0**p for p in range(-9, 13) for m in (1, 2, 5)]
            axes.yaxis.set_major_locator(FixedLocator(steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    if extent.costs:
        axes.set_xscale("log")
        powers = range(math.floor(math.log10(extent.left)), math.ceil(math.log10(extent.right)) + 1)
        span = math.log10(extent.right / extent.left)
        few = (1, 3) if span < 2.2 else (1,)
        within = (1, 2, 5) if span < (1.2 if medium.narrow else 2.2) else few
        ticks = [m * 10.0**p for p in powers for m in within]
        ticks = [t for t in ticks if extent.left <= t <= extent.right]
        if extent.zero is not None:
            ticks = [extent.zero] + [t for t in ticks if t > 1.3 * extent.zero]
        names = ["0" if t == extent.zero else brief(t).removeprefix("1×") for t in ticks]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.set_xticklabels(names)
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(FixedLocator([0.0]))
    axes.set_xlim(extent.left, extent.right)
    axes.set_ylim(extent.low, extent.high)
    name = measure if medium.narrow else MEASURES[measure]
    axes.set_xlabel(name + (", log scale" if extent.costs else ""))
    axes.set_ylabel("mean regret" + (", log scale" if extent.log else ""))


def _front(axes: Axes, numbers: StudyNumbers, extent: Range, look: Look) -> None:
    """Draw the stairs behind everything: the least regret for each amount of communication."""
    cheapest = sorted((r.cost(numbers.measure), r.regret) for r in numbers.rows if r.front)
    x = [extent.left if cost <= 0 else extent.x(cost) for cost, _ in cheapest]
    y = [regret for _, regret in cheapest]
    axes.plot(
        [*x, max(extent.right, x[-1])], [*y, y[-1]], drawstyle="steps-post", color=look.colour,
        linewidth=0.9, linestyle="-", zorder=0.9,
    )  # fmt: skip


def _dots(axes: Axes, numbers: StudyNumbers, extent: Range, drawn: dict[str, Look]) -> None:
    for curve in numbers.curves:
        own = drawn[curve.name]
        x = np.array([extent.x(r.cost(numbers.measure)) for r in curve.rows])
        y = np.array([r.regret for r in curve.rows])
        bars = None
        if any(r.error is not None for r in curve.rows):
            half = np.array([r.error or 0.0 for r in curve.rows])
            # A logarithmic axis ends above zero: the bar goes to its lower edge.
            down = np.minimum(half, y - 0.5 * extent.low) if extent.log else half
            bars = np.vstack([down, half])
        axes.errorbar(
            x, y, yerr=bars, color=own.colour, linestyle=own.line, linewidth=1.0,
            elinewidth=0.8, capsize=2.0, capthick=0.8, zorder=2.0,
        )  # fmt: skip
        axes.plot(
            x, y, linestyle="", marker=own.marker, markerfacecolor=own.face,
            markeredgecolor=own.colour, zorder=3.0, clip_on=False,
        )  # fmt: skip


def _settings(axes: Axes, numbers: StudyNumbers, extent: Range, colours: dict[str, str]) -> None:
    """Write D, B or what else varies beside each dot, where it covers least of the others."""
    axes.figure.figure.draw_without_rendering()  # gives the axes their place
    pixels, rows = axes.figure.dpi / 72, _trading(numbers)
    points = [(extent.x(row.cost(numbers.measure)), row.regret) for row in rows]
    places = axes.transData.transform(np.reshape(points, (-1, 2))) / pixels
    taken = [_Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in places]
    for row, point, (x, y) in zip(rows, points, places, strict=True):
        if row.value is None:
            continue
        text = setting(row.value)
        wide, high = 72 * inches(text), in_inches(0.6) * 72
        boxes = {
            (dx, dy): _Box(x + dx - (dx < 0) * wide, y + dy - (dy < 0) * high,
                           x + dx + (dx > 0) * wide, y + dy + (dy > 0) * high)
            for dx, dy in _BESIDE
        }  # fmt: skip
        dx, dy = min(boxes, key=lambda at: sum(boxes[at].covers(box) for box in taken))
        taken.append(boxes[dx, dy])
        axes.annotate(
            text, point, (dx, dy), textcoords="offset points", fontsize="small", zorder=2.6,
            ha="left" if dx > 0 else "right", va="bottom" if dy > 0 else "top",
            color=colours[row.curve], annotation_clip=False,
        )  # fmt: skip


class _Box(NamedTuple):
    """A rectangle in points."""

    left: float
    low: float
    right: float
    high: float

    def covers(self, other: _Box) -> float:
        """Return the area that both have."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.high, other.high) - max(self.low, other.low)
        return max(wide, 0.0) * max(high, 0.0)


def _levels(numbers: StudyNumbers, looks: dict[str, Look]) -> list[Level]:
    """Return the algorithms and baselines without a trade-off."""
    made = []
    for row in numbers.rows:
        if row.algorithm in REFERENCES:
            cost = row.cost(numbers.measure)
            spent = f"{brief(cost)} {numbers.measure}" if cost else "no communication"
            made.append(Level(row.title, f"{amount(row.regret)}; {spent}", row.algorithm,
                              row.regret, row.error, looks[row.curve]))  # fmt: skip
    grouped = numbers.study.baselines.group_by("name", maintain_order=True).agg(
        pl.col("regret").mean()
    )
    for name, regret in grouped.iter_rows():
        made.append(Level(name, amount(regret), "", regret, None, _BASELINE))
    return made


def _level(axes: Axes, level: Level, extent: Range, medium: Medium) -> None:
    look = level.look.on(medium)
    wide = 1.6 if level.algorithm == "one-ucb-glm" else 1.0
    axes.axhline(level.regret, color=look.colour, linestyle=look.line, linewidth=wide, zorder=1.8)
    if level.error:
        low = max(level.regret - level.error, extent.low)
        high = min(level.regret + level.error, extent.high)
        axes.axhspan(low, high, color=look.colour, alpha=0.16, linewidth=0, zorder=0.8)


def _notes(numbers: StudyNumbers, levels: list[Level], extent: Range) -> list[str]:
    """Return the algorithms without communication, and what is out of range."""
    alone = [r for r in numbers.rows if r.algorithm in _ALONE]
    texts = [f"{r.title} {plus_minus(r.regret, r.error)}" for r in alone]
    lines = [f"Regret without communication: {', '.join(texts)}"] if texts else []
    out = [v for v in levels if not extent.shows(v.regret) and v.algorithm not in _ALONE]
    if out:
        lines.append(f"Out of range: {', '.join(f'{v.name} {v.text}' for v in out)}")
    return lines
