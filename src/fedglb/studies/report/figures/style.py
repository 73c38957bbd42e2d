"""The style of figures: colours, markers and lines of algorithms; titles, legends, grids.

The colours are those of Okabe and Ito, which colour-blind readers can distinguish. Nothing is shown
by colour alone, so a grey print is readable.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Dashes = Literal["-"] | tuple[float, tuple[float, ...]]
#: Characters per inch of bold titles, of notes and of legends, a little less than fits.
_TITLE, _NOTE, _LEGEND = 8.6, 13.2, 12.6
_LINE = 0.2  # the height of a line of text, in inches
_KEY = 0.75  # the line before a legend's text, and the space after it
#: Replacements of colours on a dark page, where black and dark blue would be invisible.
_ON_DARK = {
    "#000000": "#f0f0f0", "#666666": "#a9a9a9", "#444444": "#c4c4c4", "#0072B2": "#4da6e0",
    "#D55E00": "#f28241", "#009E73": "#2fc79b", "#8a6d00": "#d6b33c", "white": "#14171b",
    "#7B3FA0": "#b98ae0", "black": "#f0f0f0",
}  # fmt: skip


@dataclass(frozen=True)
class Medium:
    """The medium of a figure: a wide or narrow screen, a light or dark page."""

    narrow: bool = False
    dark: bool = False

    @property
    def width(self) -> float:
        """The width of the figure in inches; text has the same size in both."""
        return 3.9 if self.narrow else 9.4

    @property
    def paper(self) -> str:
        """The background."""
        return self.colour("white")

    @property
    def text(self) -> str:
        """The colour of text."""
        return "#e4e4e4" if self.dark else "#222222"

    @property
    def soft(self) -> str:
        """The colour of secondary text."""
        return "#b8b8b8" if self.dark else "#444444"

    @property
    def grid(self) -> str:
        """The colour of faint lines."""
        return "#2c3138" if self.dark else "#ececec"

    @property
    def front(self) -> str:
        """The colour of the Pareto front."""
        return "#7d8590" if self.dark else "#9a9a9a"

    def colour(self, colour: str) -> str:
        """Return a colour adapted to this page."""
        return _ON_DARK.get(colour, colour) if self.dark else colour

    def small(self, colour: str) -> str:
        """Return a colour of small print: darker on white, lighter on a dark page."""
        shown = self.colour(colour)
        parts = [int(shown[i : i + 2], 16) for i in (1, 3, 5)]
        mixed = (int(255 - 0.55 * (255 - p)) if self.dark else int(0.55 * p) for p in parts)
        return "#" + "".join(f"{p:02x}" for p in mixed)


#: The medium of figures saved as files.
WIDE = Medium()


@dataclass(frozen=True)
class Look:
    """The look of an algorithm."""

    colour: str
    marker: str
    line: Dashes
    inside: str = ""

    def on(self, medium: Medium) -> Look:
        """Return the look with colours adapted to a page."""
        return replace(self, colour=medium.colour(self.colour), inside=medium.colour(self.inside))

    @property
    def face(self) -> str:
        """Return the colour inside the marker: `inside`, or else `colour`."""
        return self.inside or self.colour


LOOKS = {
    "fedglb-ucb": Look("#0072B2", "o", "-"),
    "fedglb-ucb-1": Look("#E69F00", "s", (0, (5, 1.5))),
    "fedglb-ucb-2": Look("#009E73", "^", (0, (5, 1.5, 1, 1.5))),
    "fedglb-ucb-3": Look("#CC79A7", "D", (0, (1.5, 1.5))),
    "dislinucb": Look("#56B4E9", "v", (0, (7, 1.5, 1, 1.5, 1, 1.5))),
    "one-ucb-glm": Look("#D55E00", "*", "-"),
    "n-ucb-glm": Look("#000000", "P", (0, (4, 2))),
    "n-ons-glm": Look("#666666", "X", (0, (1, 2))),
    "fedglb-auto": Look("#7B3FA0", "h", (0, (9, 1.5))),
    "fedglb-personal": Look("#D55E00", "D", (0, (10, 1.5))),
    "fedglb-mix": Look("#8a6d00", "p", (0, (3, 1, 3, 1, 1, 1))),
    "fedglb-iterate": Look("#0072B2", "d", (0, (6, 1, 2, 1)), "white"),
    "fedlinucb": Look("#56B4E9", "<", (0, (3, 1.5)), "white"),
    "async-linucb": Look("#009E73", ">", (0, (2, 1, 2, 1, 1, 1)), "white"),
    "one-ecolog": Look("#CC79A7", "H", (0, (8, 2)), "white"),
    "n-ecolog": Look("#444444", "8", (0, (1, 1)), "white"),
    "one-ofuglb": Look("#E69F00", "H", (0, (3, 3)), "white"),
    "n-ofuglb": Look("#666666", "8", (0, (4, 1, 1, 1)), "white"),
}
#: For all others and for further curves: 12 markers, 7 lines, 8 colours, so that no two of the
#: first 56 have both line and colour in common.
_MARKERS = ("<", ">", "d", "H", "8", "p", "X", "s", "^", "o", "D", "v")
_LINES: tuple[Dashes, ...] = (
    (0, (2, 1)), (0, (4, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), "-", (0, (6, 1, 2, 1)),
    (0, (3, 3)),
)  # fmt: skip
COLOURS = (
    "#444444", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8a6d00",
)  # fmt: skip
_INSIDES = ("white", "#c4c4c4", "", "#F0E442")


def looks(named: Sequence[tuple[str, str]], every: Sequence[str] = ()) -> dict[str, Look]:
    """Return the look of each curve, given (name of the curve, algorithm) in order.

    Further curves of an algorithm have its colour, and other markers and lines. Algorithms that
    are not in `LOOKS` take colours that none of the others has. `every` has all algorithms of a
    report, so that an algorithm has one colour in all its figures.
    """
    algorithms = dict.fromkeys([*every, *(algorithm for _, algorithm in named)])
    used = {LOOKS[algorithm].colour for algorithm in algorithms if algorithm in LOOKS}
    free = [colour for colour in COLOURS if colour not in used] or list(COLOURS)
    others = [algorithm for algorithm in algorithms if algorithm not in LOOKS]
    first: dict[str, Look] = {}
    made: dict[str, Look] = {}
    for name, algorithm in named:
        if name in made:
            continue
        if algorithm in first:
            i = len(made) - len(first)
            made[name] = replace(
                first[algorithm], marker=_MARKERS[i % len(_MARKERS)], line=_LINES[i % len(_LINES)],
                inside=_INSIDES[i % len(_INSIDES)],
            )  # fmt: skip
            continue
        if algorithm in LOOKS:
            first[algorithm] = LOOKS[algorithm]
        else:
            i = others.index(algorithm)
            own = setting_look(i + 4)  # the first is solid
            first[algorithm] = replace(own, colour=free[i % len(free)])
        made[name] = first[algorithm]
    return made


def setting_look(i: int) -> Look:
    """Return the look of the i-th of many settings: another colour, marker and line each time."""
    return Look(
        COLOURS[i % len(COLOURS)], _MARKERS[i % len(_MARKERS)], _LINES[i % len(_LINES)],
        _INSIDES[(i + 2) % len(_INSIDES)],
    )  # fmt: skip


@contextmanager
def styled(medium: Medium = WIDE) -> Iterator[None]:
    """Draw with matplotlib settings of this package; the user's settings stay unchanged."""
    import matplotlib

    own: dict[Any, Any] = {
        "font.family": "DejaVu Sans", "font.size": 9.0, "figure.dpi": 100.0,
        "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": medium.soft,
        "axes.labelcolor": medium.text, "xtick.color": medium.soft, "ytick.color": medium.soft,
        "text.color": medium.text, "figure.facecolor": medium.paper,
        "axes.facecolor": medium.paper, "savefig.facecolor": "auto", "grid.color": medium.grid,
        "grid.linewidth": 0.6, "axes.unicode_minus": True, "mathtext.default": "regular",
        "figure.constrained_layout.w_pad": 0.08, "svg.fonttype": "none",
        "svg.hashsalt": "fedglb", "path.simplify": True,
    }  # fmt: skip
    with matplotlib.rc_context(own):
        yield


def saved(figure: Figure, kinds: tuple[str, ...] = ("png", "svg")) -> dict[str, bytes]:
    """Return the figure as PNG and SVG: the same bytes each time, without a date."""
    metadata = {"png": {"Software": None}, "svg": {"Date": None}}
    files = {}
    with styled():
        for kind in kinds:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, metadata=metadata[kind], dpi=160)
            files[kind] = buffer.getvalue()
    return files


def wrapped(text: str, width: float, per_inch: float = _NOTE) -> str:
    r"""Return a text in lines that fit into a width in inches."""
    return textwrap.fill(text, max(int(width * per_inch), 8))


def columns(names: Sequence[str], width: float) -> int:
    """Return the number of columns of a legend: as many as fit, at most 4."""
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
