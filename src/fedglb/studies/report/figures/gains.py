"""What joining gained: the gains of all clients, sorted, at a few values of the axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedglb.studies.report.along import some
from fedglb.studies.report.figures.style import (
    WIDE,
    Medium,
    algorithm_looks,
    framed,
    handle,
    styled,
    wrapped,
)
from fedglb.studies.report.gains import Gain
from fedglb.studies.report.numerals import amount, setting
from fedglb.studies.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS = 3  # charts side by side
_VALUES = 6  # at most, of all panels


def draw(study: Study, found: Sequence[Gain], medium: Medium = WIDE) -> Figure:
    """Draw one chart for each panel and some of its values, with a curve per algorithm."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    looks = algorithm_looks(study)
    shown = {gain.name: looks[gain.algorithm].on(medium) for gain in found}
    panels = dict.fromkeys(gain.panel for gain in found)
    most = _VALUES // 2 if medium.printed and medium.narrow else _VALUES
    count = max(most // len(panels), 2)
    charts = [
        (title, value)
        for title in panels
        for value in some(sorted({gain.value for gain in found if gain.panel == title}), count)
    ]
    across = 1 if medium.narrow else min(len(charts), _ACROSS)
    down = -(-len(charts) // across)
    with styled(medium):
        handles = [handle(look, name) for name, look in shown.items()]
        figure = framed(medium, "What joining gained each client", handles, down * 2.6)
        grid = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
        for axes, (panel, value) in zip(grid, charts, strict=False):
            axes.axhline(0.0, color=medium.soft, linewidth=0.9, zorder=1.5)
            for gain in found:
                if (gain.panel, gain.value) != (panel, value):
                    continue
                n, own = len(gain.clients), shown[gain.name]
                axes.plot(
                    100.0 * (np.arange(n) + 0.5) / n, gain.clients, color=own.colour,
                    linestyle=own.line, marker=own.marker, markerfacecolor=own.face,
                    markevery=(n // 12, max(n // 6, 1)),
                )  # fmt: skip
            text = ": ".join(filter(None, [panel, f"{study.axis} {setting(value)}"]))
            text = wrapped(text, (medium.width - 0.6) / across)
            axes.set_title(text, fontsize="small", parse_math=False)
            axes.set_xlim(0.0, 100.0)
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda gained, _: amount(gained)))
        for axes in grid[len(charts) :]:
            axes.remove()
        for i, axes in enumerate(grid[: len(charts)]):
            if i % across == 0:
                axes.set_ylabel("regret alone less joined", fontsize="small")
            if i + across >= len(charts):
                axes.tick_params(labelbottom=True)
                axes.set_xlabel("clients, in per cent, by their gain", fontsize="small")
    return figure


def caption(study: Study, found: Sequence[Gain]) -> str:
    """Return the caption."""
    alone = " or ".join(dict.fromkeys(gain.alone for gain in found))
    return (
        f"Each client’s regret with {alone} (at each {study.axis} the best without communication) "
        "less its regret with the algorithm shown, on the same arms and noise; all clients of all "
        "seeds, sorted. Below zero a client loses by joining; single clients also do by chance."
    )
