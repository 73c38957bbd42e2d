"""What figures have in common: a title above, a legend below; matplotlib finds their places."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedglb.studies.report.figures.style import Look, Medium

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

#: Characters per inch of bold titles, of notes and of legends, a little less than there is room.
_TITLE, _NOTE, _LEGEND = 8.6, 13.2, 12.6
_LINE = 0.2  # the height of a line of text, in inches
_KEY = 0.75  # the line before a legend's text, and the space after it


def wrapped(text: str, width: float, per_inch: float = _NOTE) -> str:
    r"""Return a text in lines that fit into a width in inches.

    Examples
    --------
    >>> wrapped("one two three four", 1.0)
    'one two three\nfour'
    """
    return textwrap.fill(text, max(int(width * per_inch), 8))


def columns(names: Sequence[str], width: float) -> int:
    """Return how many columns a legend has: as many as fit, at most 4.

    Examples
    --------
    >>> columns(["short"] * 9, 9.4), columns(["a long name of forty characters, or more"], 3.9)
    (4, 1)
    """
    longest = max((len(name) for name in names), default=1) / _LEGEND + _KEY
    return max(1, min(4, int(width / longest), len(names) or 1))


def framed(medium: Medium, title: str, handles: Sequence[Line2D], height: float) -> Figure:
    """Return a figure without axes, with a title and a legend; `height` is that of its panels."""
    from matplotlib.figure import Figure

    names = [wrapped(str(h.get_label()), medium.width - _KEY - 0.2, _LEGEND) for h in handles]
    for handle, name in zip(handles, names, strict=True):
        handle.set_label(name)
    count = columns([line for name in names for line in name.split("\n")], medium.width)
    rows = sum(1 + name.count("\n") for name in names[::count])
    above = wrapped(title, medium.width - 0.4, _TITLE) if title else ""
    whole = height + _LINE * (rows + len(above.splitlines()))
    figure = Figure(figsize=(medium.width, whole), layout="constrained")
    if above:
        figure.suptitle(
            above, x=0.01, ha="left", fontsize=11.0, weight="bold", parse_math=False
        )  # fmt: skip
    legend = figure.legend(
        handles=list(handles), loc="outside lower center", ncols=count, frameon=False,
        fontsize=8.5, handlelength=3.2, columnspacing=1.4, labelspacing=0.4,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure


def handle(look: Look, label: str, width: float = 1.4) -> Line2D:
    """Return a legend's entry."""
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=look.colour, linestyle=look.line, linewidth=width, marker=look.marker,
        markersize=5.0, markerfacecolor=look.face, label=label,
    )  # fmt: skip


def dressed(axes: Axes) -> None:
    """Give axes a grid behind everything, and small numbers."""
    axes.tick_params(labelsize=8.0)
    axes.grid()
    axes.set_axisbelow(True)
