"""Regret across values of the environment, one curve per algorithm; crossings are marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.across import Across, Crossing, Curve, positions
from fedglb.studies.report.figures.frame import wrapped
from fedglb.studies.report.figures.style import WIDE, Medium, looks, styled
from fedglb.studies.report.summary import ENOUGH
from fedglb.studies.report.text.numerals import amount

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEIGHT = 5.2  # in inches
_WIDE = 8.0  # the axis of regret is logarithmic if values differ by this factor
_UNITS = {
    "heterogeneity": "heterogeneity (spread of the clients’ own θ around the common one)",
    "drift": "drift (radians that θ turns per step)",
    "delay": "delay (steps until a reward is known)",
    "participation": "participation (probability that a client acts in a step)",
}


def draw(
    study: Across, found: Sequence[Curve], crossed: Sequence[Crossing], medium: Medium = WIDE
) -> Figure:
    """Draw the figure."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    places = positions(study.values)
    plain = looks([(curve.name, curve.algorithm) for curve in found])
    drawn = {name: look.on(medium) for name, look in plain.items()}
    title = wrapped(study.title, medium.width - 0.6)
    columns = 2 if medium.narrow else 4
    below = 0.75 + 0.2 * -(-len(found) // columns)
    with styled(medium):
        figure = Figure(figsize=(medium.width, _HEIGHT))
        axes = figure.subplots()
        figure.subplots_adjust(
            left=0.16 if medium.narrow else 0.1, right=0.975, bottom=below / _HEIGHT,
            top=1.0 - (0.2 + 0.22 * len(title)) / _HEIGHT,
        )  # fmt: skip
        for curve in found:
            look = drawn[curve.name]
            axes.errorbar(
                places, curve.means, np.nan_to_num(curve.errors), label=curve.name,
                color=look.colour, marker=look.marker, markerfacecolor=look.face, markersize=6.5,
                linestyle=look.line, linewidth=1.6, elinewidth=1.0, capsize=2.5,
            )  # fmt: skip
        means = np.concatenate([curve.means for curve in found])
        lines = 0.975 - 0.05 * len(crossed)  # the part of the axis below the words of the crossings
        if means.min() > 0 and means.max() / means.min() > _WIDE:
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(NullLocator())
            steps = [m * 10.0**p for p in range(-3, 12) for m in (1, 2, 5)]
            axes.yaxis.set_major_locator(FixedLocator(steps))
            low, high = 0.75 * means.min(), 1.2 * means.max()
            axes.set_ylim(low, max(1.6 * means.max(), low * (high / low) ** (1.0 / lines)))
        else:
            axes.set_ylim(0.0, 1.2 * means.max() / lines)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
        axes.xaxis.set_major_locator(FixedLocator(places))
        axes.xaxis.set_minor_locator(NullLocator())
        labels = [f"{value:g}" for value in study.values]
        axes.set_xticklabels(labels, fontsize=8.2, rotation=45 if medium.narrow else 0)
        even = "" if places == [float(v) for v in study.values] else "; values are evenly spaced"
        label = wrapped(_UNITS[study.key] + even, medium.width - 0.8, 13.0)
        axes.set_xlabel("\n".join(label))
        axes.set_ylabel("regret, mean over seeds" + (
            ", log scale" if axes.get_yscale() == "log" else ""))  # fmt: skip
        axes.grid()
        axes.set_axisbelow(True)
        colours = {curve.name: drawn[curve.name] for curve in found}
        for k, each in enumerate(crossed):
            x = float(np.interp(each.at, study.values, places))
            axes.axvline(x, color=colours[each.name].colour, linewidth=1.0, linestyle=(0, (2, 2)))
            right = x > (places[0] + places[-1]) / 2
            verb = "stops paying" if each.stops else "begins to pay"
            axes.annotate(
                f"{each.name} {verb}: {each.at:.2g}", (x, 0.975 - 0.05 * k),
                xycoords=("data", "axes fraction"), xytext=(-4 if right else 4, 0),
                textcoords="offset points", ha="right" if right else "left", va="top",
                fontsize=8.5, color=medium.small(plain[each.name].colour),
                bbox={"facecolor": medium.paper, "edgecolor": "none", "pad": 1.0, "alpha": 0.85},
            )  # fmt: skip
        figure.text(
            axes.get_position().x0, 1.0 - 0.08 / _HEIGHT, "\n".join(title), fontsize=11.5,
            weight="bold", va="top", parse_math=False,
        )  # fmt: skip
        figure.legend(
            loc="lower center", ncols=columns, frameon=False, fontsize=8.5, handlelength=3.6,
            columnspacing=1.8, bbox_to_anchor=(0.5, 0.01),
        )  # fmt: skip
    return figure


def caption(study: Across, found: Sequence[Curve]) -> str:
    """Return what the figure shows."""
    seeds = found[0].regrets.shape[1]
    bars = "bars are ± 1 standard error; " if seeds > 1 else ""
    few = "" if seeds >= ENOUGH else " With so few seeds a crossing has no interval."
    return (
        f"Means over {seeds} seeds, {bars}of an algorithm with several settings the one with the "
        f"least mean regret at each {study.key}. Dotted lines: where an algorithm that "
        f"communicates and the best one that does not have equal regret, interpolated.{few}"
    )
