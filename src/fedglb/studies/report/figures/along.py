"""The figure of a study with an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.along import Crossing, Line, Panel, positions
from fedglb.studies.report.figures import panels
from fedglb.studies.report.figures.style import WIDE, Medium, looks
from fedglb.studies.report.numerals import setting
from fedglb.studies.report.summary import ENOUGH
from fedglb.studies.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNITS = {
    "heterogeneity": "heterogeneity (spread of the clients’ θ around the common one)",
    "drift": "drift (radians that θ turns per step)",
    "delay": "delay (steps until a reward is known)",
    "participation": "participation (probability that a client acts in a step)",
    "epsilon": "ε",
}


def draw(
    study: Study,
    found: Sequence[Panel],
    crossed: Sequence[Sequence[Crossing]],
    medium: Medium = WIDE,
) -> Figure:
    """Draw the figure: a panel for each of the study's."""
    shown = looks([(line.name, line.algorithm) for panel in found for line in panel.lines])
    names = {line.name: _legend(line) for panel in found for line in panel.lines}
    unit = _UNITS.get(study.axis, study.axis)
    made = []
    for panel, own in zip(found, crossed, strict=True):
        places = dict(zip(panel.values, positions(panel.values), strict=True))
        even = list(places) != list(places.values()) and not medium.narrow
        made.append(
            panels.Panel(
                panel.title, f"{unit}{'; evenly spaced' if even else ''}",
                {place: setting(value) for value, place in places.items()},
                tuple(
                    panels.Curve(
                        names[line.name], shown[line.name],
                        [places[v] for v in line.values if v is not None], line.means,
                        line.errors, line.level,
                    )
                    for line in panel.lines
                ),
                tuple(
                    (
                        float(np.interp(c.at, list(places), list(places.values()))),
                        f"{c.name} {'stops paying' if c.stops else 'begins to pay'}: {c.at:.2g}",
                        names[c.name],
                    )
                    for c in own
                ),
            )
        )  # fmt: skip
    return panels.draw(made, study.title, medium)


def _legend(line: Line) -> str:
    best = f", best of {line.settings} settings" if line.settings > 1 else ""
    return f"no communication ({line.name}{best})" if line.alone and line.level else (
        f"{line.name}{best}"
    )  # fmt: skip


def caption(study: Study, found: Sequence[Panel], *, crossed: bool) -> str:
    """Return what the figure shows."""
    seeds = found[0].lines[0].regrets.shape[1]
    bars = "; bars and bands are ± 1 standard error" if seeds > 1 else ""
    text = (
        f"Mean regret over {seeds} seeds{bars}. Of an algorithm with several settings, the one "
        f"with the least mean regret at each {study.axis} is shown, chosen in hindsight."
    )
    if any(line.level for panel in found for line in panel.lines):
        text += (
            f" Horizontal: algorithms without {study.axis}; of those that never communicate, the "
            "best."
        )
    if crossed:
        text += (
            " Dotted: where an algorithm that communicates and the best one that does not have "
            "equal regret, interpolated."
        )
        text += "" if seeds >= ENOUGH else f" With fewer than {ENOUGH} seeds it has no interval."
    return text
