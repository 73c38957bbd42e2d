"""Regrets without a trade-off: lines across the figure, or text above it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from fedglb.studies.report.claims import Evidence
from fedglb.studies.report.figures.labels import spread
from fedglb.studies.report.figures.ranges import Range
from fedglb.studies.report.figures.style import LOOKS, Look, Medium
from fedglb.studies.report.study import Study
from fedglb.studies.report.summary import REFERENCES
from fedglb.studies.report.text.numerals import amount, brief, plus_minus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_ALONE = ("n-ucb-glm", "n-ons-glm")  # they never communicate
_BASELINE = Look("#8a6d00", "", (0, (6, 3)))


@dataclass(frozen=True)
class Level:
    """A regret without a trade-off: a line with a band, or a note where it is out of range."""

    name: str
    said: str
    algorithm: str
    regret: float
    error: float | None
    look: Look


def all_levels(study: Study, evidence: Evidence) -> list[Level]:
    """Return the algorithms and baselines without a trade-off."""
    made = []
    for row in evidence.rows:
        if row.algorithm in REFERENCES:
            cost = row.cost(study.measure)
            said = f"{brief(cost)} {study.measure}" if cost else "no communication"
            made.append(Level(row.curve, f"{amount(row.regret)}; {said}", row.algorithm, row.regret,
                              row.error, LOOKS[row.algorithm]))  # fmt: skip
    grouped = study.baselines.group_by("name", maintain_order=True).agg(pl.col("regret").mean())
    for name, regret in grouped.iter_rows():
        made.append(Level(name, amount(regret), "", regret, None, _BASELINE))
    return made


def level_handles(levels: list[Level], medium: Medium) -> list[Line2D]:
    """Return the levels as entries of a legend, where there is no room beside the axes."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=own.colour, linestyle=own.line, linewidth=1.2,
               label=f"{level.name}: {level.said}")
        for level in levels
        for own in (level.look.on(medium),)
    ]  # fmt: skip


def draw_levels(axes: Axes, levels: list[Level], extent: Range, medium: Medium) -> None:
    """Draw the levels in range; on a wide page their names are right of the axes, moved apart."""

    def height(regret: float) -> float:
        if extent.log:
            return math.log(regret / extent.low) / math.log(extent.high / extent.low)
        return (regret - extent.low) / (extent.high - extent.low)

    at = [height(level.regret) for level in levels]
    for level, own, moved in zip(levels, at, spread(at, 0.078, 0.0, 1.0), strict=True):
        look = level.look.on(medium)
        wide = 1.6 if level.algorithm == "one-ucb-glm" else 1.0
        axes.axhline(
            level.regret, color=look.colour, linestyle=look.line, linewidth=wide, zorder=1.8
        )
        if level.error:
            low = max(level.regret - level.error, extent.low)
            high = min(level.regret + level.error, extent.high)
            axes.axhspan(low, high, color=look.colour, alpha=0.16, linewidth=0, zorder=0.8)
        if medium.narrow:
            continue
        axes.plot(
            [1.0, 1.012], [own, moved], color=look.colour, linewidth=0.8, clip_on=False,
            transform=axes.transAxes,
        )  # fmt: skip
        axes.text(
            1.017, moved, f"{level.name}\n{level.said}", transform=axes.transAxes, fontsize=7.6,
            va="center", color=medium.small(level.look.colour), linespacing=1.1, parse_math=False,
        )  # fmt: skip


def notes(evidence: Evidence, levels: list[Level], extent: Range) -> list[str]:
    """Return the algorithms without communication, and what is out of range."""
    alone = [r for r in evidence.rows if r.algorithm in _ALONE]
    said = [f"{r.curve} {plus_minus(r.regret, r.error)}" for r in alone]
    lines = [f"Regret without communication: {', '.join(said)}"] if said else []
    out = [v for v in levels if not extent.shows(v.regret) and v.algorithm not in _ALONE]
    if out:
        lines.append(f"Out of range: {', '.join(f'{v.name} {v.said}' for v in out)}")
    return lines
