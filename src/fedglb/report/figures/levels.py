"""Regrets without a trade-off: lines across the figure, or text above it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from fedglb.report.claims import Evidence
from fedglb.report.figures.labels import spread
from fedglb.report.figures.ranges import Range
from fedglb.report.figures.style import LOOKS, Look
from fedglb.report.study import Study
from fedglb.report.summary import REFERENCES
from fedglb.report.text.numerals import amount, brief, plus_minus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Level:
    """A regret without a trade-off: a line with a band, or a note where it is out of range."""

    text: str
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
            made.append(Level(f"{row.curve}\n{amount(row.regret)}; {said}", row.regret, row.error,
                              LOOKS[row.algorithm]))  # fmt: skip
    grouped = study.baselines.group_by("name", maintain_order=True).agg(pl.col("regret").mean())
    for name, regret in grouped.iter_rows():
        made.append(
            Level(f"{name}\n{amount(regret)}", regret, None, Look("#8a6d00", "", (0, (6, 3))))
        )
    return made


def draw_levels(axes: Axes, levels: list[Level], extent: Range) -> None:
    """Draw the levels in range; their names are right of the axes, moved apart."""
    from matplotlib.transforms import blended_transform_factory

    def height(regret: float) -> float:
        if extent.log:
            return math.log(regret / extent.low) / math.log(extent.high / extent.low)
        return (regret - extent.low) / (extent.high - extent.low)

    at = [height(level.regret) for level in levels]
    mixed = blended_transform_factory(axes.transAxes, axes.transAxes)
    for level, own, moved in zip(levels, at, spread(at, 0.068, 0.0, 1.0), strict=True):
        wide = 1.6 if level.look is LOOKS["one-ucb-glm"] else 1.0
        axes.axhline(
            level.regret, color=level.look.colour, linestyle=level.look.line, linewidth=wide,
            zorder=1.8,
        )  # fmt: skip
        if level.error:
            low = max(level.regret - level.error, extent.low)
            high = min(level.regret + level.error, extent.high)
            axes.axhspan(low, high, color=level.look.colour, alpha=0.16, linewidth=0, zorder=0.8)
        axes.plot(
            [1.0, 1.012], [own, moved], color=level.look.colour, linewidth=0.8, clip_on=False,
            transform=mixed,
        )  # fmt: skip
        axes.text(
            1.017, moved, level.text, transform=mixed, fontsize=7.6, va="center",
            color=level.look.ink, linespacing=1.1, parse_math=False,
        )  # fmt: skip


def write_notes(
    figure: Figure, study: Study, evidence: Evidence, levels: list[Level], extent: Range
) -> None:
    """Write the title, the two algorithms without communication, and what is out of range."""
    figure.text(0.085, 0.955, study.title, fontsize=11.5, weight="bold", parse_math=False)
    alone = [r for r in evidence.rows if r.algorithm in ("n-ucb-glm", "n-ons-glm")]
    said = [f"{r.curve} {plus_minus(r.regret, r.error)}" for r in alone]
    lines = [f"Regret without communication: {',  '.join(said)}"] if said else []
    out = [v for v in levels if not extent.shows(v.regret)]
    rest = [v.text.replace("\n", " ") for v in out if v.look not in (
        LOOKS["n-ucb-glm"], LOOKS["n-ons-glm"])]  # fmt: skip
    if rest:
        lines.append(f"Out of range: {',  '.join(rest)}")
    figure.text(
        0.085, 0.938, "\n".join(lines), fontsize=8.2, va="top", color="#444444", parse_math=False
    )
