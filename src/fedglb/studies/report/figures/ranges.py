"""The axes of the trade-off figure: what they show, and where logarithms are safe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedglb.studies.report.claims import Evidence
from fedglb.studies.report.study import MEASURES, Study
from fedglb.studies.report.summary import Row
from fedglb.studies.report.text.numerals import amount, brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Range:
    """What the axes show."""

    low: float
    high: float
    log: bool
    left: float
    right: float
    zero: float | None
    costs: bool

    def x(self, cost: float) -> float:
        """Return where a communication is drawn; zero has a place left of all others."""
        return cost if cost > 0 else self.zero if self.zero is not None else 0.0

    def shows(self, regret: float) -> bool:
        """Return whether a regret is within the range."""
        return self.low <= regret <= self.high


def trading(evidence: Evidence) -> list[Row]:
    """Return all settings of all algorithms that have a trade-off to set."""
    return [row for curve in evidence.curves for row in curve.rows]


def ranges(evidence: Evidence) -> Range:
    """Choose the axes: logarithms where they are defined and the values differ much."""
    rows = trading(evidence) or list(evidence.rows)
    one = [r.regret for r in evidence.rows if r.algorithm == "one-ucb-glm"]
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
    costs = sorted(r.cost(evidence.measure) for r in rows)
    positive = [c for c in costs if c > 0]
    if not positive:
        return Range(low, high, log, -1.0, 1.0, 0.0, costs=False)
    least, most = positive[0], positive[-1]
    room = max((most / least) ** 0.05, 1.15)
    zero = least / max((most / least) ** 0.12, 1.6) if costs[0] <= 0 else None
    left = (least if zero is None else zero) / room
    return Range(low, high, log, left, most * room, zero, costs=True)


def dress(axes: Axes, study: Study, extent: Range, *, few: bool = False) -> None:
    """Set scales, limits, ticks and names of the axes; `few`: there is room for few ticks."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    if extent.log:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
        decades = math.log10(extent.high / extent.low)
        if decades < 2.2:
            steps = [m * 10.0**p for p in range(-9, 13) for m in (1, 2, 5)]
            axes.yaxis.set_major_locator(FixedLocator(steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    if extent.costs:
        axes.set_xscale("log")
        powers = range(math.floor(math.log10(extent.left)), math.ceil(math.log10(extent.right)) + 1)
        close = math.log10(extent.right / extent.left) < (1.2 if few else 2.2)
        ticks = [m * 10.0**p for p in powers for m in ((1, 2, 5) if close else (1,))]
        ticks = [t for t in ticks if extent.left <= t <= extent.right]
        if extent.zero is not None:
            ticks = [extent.zero] + [t for t in ticks if t > 1.3 * extent.zero]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: "0" if value == extent.zero else _tick(value))
        )
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(FixedLocator([0.0]))
    axes.set_xlim(extent.left, extent.right)
    axes.set_ylim(extent.low, extent.high)
    name = study.measure if few else MEASURES[study.measure]
    axes.set_xlabel(name + (", log scale" if extent.costs else ""))
    axes.set_ylabel("regret, mean over seeds" + (", log scale" if extent.log else ""))
    axes.grid()
    axes.set_axisbelow(True)


def _tick(value: float) -> str:
    return brief(value).removeprefix("1×")
