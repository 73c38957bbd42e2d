"""The frame of a figure: text above, panels, a legend below; in inches, so that all fits."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedglb.studies.report.figures.style import Medium

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Characters per inch of bold titles, of notes and of legends, a little less than there is room.
_TITLE, _NOTE, _LEGEND = 8.6, 13.2, 12.6
_TITLE_LINE, _NOTE_LINE, _LEGEND_LINE = 0.23, 0.155, 0.19
_KEY = 0.75  # the line before a legend's text, and the space after it


def wrapped(text: str, width: float, per_inch: float = _TITLE) -> list[str]:
    """Return the lines of a text that fit into a width in inches.

    Examples
    --------
    >>> wrapped("one two three four", 1.2)
    ['one two', 'three four']
    """
    return textwrap.wrap(text, max(int(width * per_inch), 8), break_long_words=True) or [""]


def columns(names: Sequence[str], width: float) -> int:
    """Return how many columns a legend has: as many as fit, at most 4.

    Examples
    --------
    >>> columns(["short"] * 9, 9.4), columns(["a long name of forty characters, or more"], 3.9)
    (4, 1)
    """
    longest = max((len(name) for name in names), default=1) / _LEGEND + _KEY
    return max(1, min(4, int(width / longest), len(names) or 1))


class Frame:
    """Where the parts of a figure go, given what is written above and below the panels.

    Parameters
    ----------
    medium
        For which page.
    title
        Above all; it is wrapped.
    notes
        Below the title; they are wrapped too.
    names
        The entries of the legend.
    panels
        The height of the panels in inches, their axes' names not included.
    """

    def __init__(
        self, medium: Medium, title: str, notes: Sequence[str], names: Sequence[str], panels: float
    ) -> None:
        self._title = wrapped(title, medium.width - 0.4) if title else []
        self._notes = [line for note in notes for line in wrapped(note, medium.width - 0.3, _NOTE)]
        self._columns = columns(names, medium.width)
        rows = -(-len(names) // self._columns)
        self._medium = medium
        self._top = 0.12 + _TITLE_LINE * len(self._title) + _NOTE_LINE * len(self._notes)
        self._top += 0.1 if self._title or self._notes else 0.0
        self._bottom = 0.14 + _LEGEND_LINE * rows
        self.height = self._top + panels + self._bottom
        self.panels = panels

    @property
    def size(self) -> tuple[float, float]:
        """The figure's size in inches."""
        return self._medium.width, self.height

    @property
    def low(self) -> float:
        """The lower end of the panels, as a share of the height."""
        return self._bottom / self.height

    @property
    def high(self) -> float:
        """The upper end of the panels, as a share of the height."""
        return 1.0 - self._top / self.height

    def across(self, inches: float) -> float:
        """Return a length in inches as a share of the width."""
        return inches / self._medium.width

    def up(self, inches: float) -> float:
        """Return a length in inches as a share of the height."""
        return inches / self.height

    def write(self, figure: Figure, handles: Sequence[Any], left: float) -> None:
        """Write title, notes and legend; `left` is where text starts, in inches."""
        y = 1.0 - self.up(0.12)
        figure.text(
            self.across(left), y, "\n".join(self._title), fontsize=11.0, weight="bold", va="top",
            parse_math=False, linespacing=1.25,
        )  # fmt: skip
        y -= self.up(_TITLE_LINE * len(self._title) + 0.01)
        figure.text(
            self.across(left), y, "\n".join(self._notes), fontsize=8.0, va="top",
            color=self._medium.soft, parse_math=False, linespacing=1.25,
        )  # fmt: skip
        figure.legend(
            handles=list(handles), loc="lower center", bbox_to_anchor=(0.5, self.up(0.02)),
            ncols=self._columns, frameon=False, fontsize=8.5, handlelength=3.2,
            columnspacing=1.4, labelspacing=0.4, borderaxespad=0.0,
        )  # fmt: skip
