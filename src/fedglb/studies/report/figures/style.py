"""The style of figures: colours, markers and lines of algorithms; titles, legends, grids.

The colours are those of Okabe and Ito, and others that colour-blind readers can distinguish from
them and from each other. Nothing is shown by colour alone, so a grey print is readable.

Sizes of text are relative to `font.size`: "small", "medium" and "large".
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedglb.studies.report.summary import StudyNumbers
from fedglb.studies.results.study import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Dashes = Literal["-", ""] | tuple[float, tuple[float, ...]]
_MOST = 4  # columns of a legend
_SHORT = 8  # characters of a line that is not made shorter
_LINE = 1.6  # the height of a line of text with its space, in sizes of the font
#: Of a legend, in sizes of its font: the line before a text, and the spaces around it.
_KEY, _PAD, _BETWEEN = 3.2, 0.8, 1.4
#: Replacements of colours on a dark page: lighter, and as far from each other.
_ON_DARK = {
    "#000000": "#f0f0f0", "#444444": "#c4c4c4", "#666666": "#888470", "#999999": "#b8b8b8",
    "#0072B2": "#0289c5", "#D55E00": "#db6f2f", "#009E73": "#46d2a3", "#56B4E9": "#8ed5ff",
    "#9A1FE0": "#dc83ff", "#6B2F12": "#bc8659", "#B6A254": "#c5af68", "#003D31": "#94c8b2",
    "#00008A": "#5a74fc", "#450057": "#e0b3ee", "white": "#14171b", "black": "#f0f0f0",
}  # fmt: skip


@dataclass(frozen=True)
class Medium:
    """Where a figure is shown: a wide or narrow screen, on a light or dark page; or on paper.

    Printed, a figure is as wide as a page or, if narrow, as a column, and has no title.
    """

    narrow: bool = False
    dark: bool = False
    printed: bool = False

    @property
    def width(self) -> float:
        """The width of the figure in inches; text has the same size in a wide and a narrow one."""
        if self.printed:
            return 3.3 if self.narrow else 6.8
        return 3.9 if self.narrow else 9.4

    def height(self, inches: float) -> float:
        """Return the height of panels, given that on a screen."""
        return 0.68 * inches if self.printed else inches

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


#: The medium of figures saved as files, and those of a paper.
WIDE = Medium()
COLUMN, PAGE = Medium(narrow=True, printed=True), Medium(printed=True)


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
    "fedglb-auto": Look("#9A1FE0", "h", (0, (9, 1.5))),
    "fedglb-personal": Look("#6B2F12", "d", (0, (10, 1.5))),
    "fedglb-private": Look("#003D31", "p", (0, (2, 1)), "white"),
    "fedglb-mix": Look("#B6A254", "p", (0, (3, 1, 3, 1, 1, 1))),
    "fedglb-iterate": Look("#00008A", "d", (0, (6, 1, 2, 1)), "white"),
    "fedlinucb": Look("#56B4E9", "<", (0, (3, 1.5)), "white"),
    "async-linucb": Look("#009E73", ">", (0, (2, 1, 2, 1, 1, 1)), "white"),
    "one-ecolog": Look("#CC79A7", "H", (0, (8, 2)), "white"),
    "n-ecolog": Look("#999999", "8", (0, (1, 1)), "white"),
    "one-ofuglb": Look("#E69F00", "H", (0, (3, 3)), "white"),
    "n-ofuglb": Look("#957EF1", "8", (0, (4, 1, 1, 1)), "white"),
}
#: For all others and for further curves: 12 markers, 7 lines, 11 colours, so that no two of the
#: first 77 have both line and colour in common.
_MARKERS = ("<", ">", "d", "H", "v", "p", "X", "s", "^", "o", "D", "8")
_LINES: tuple[Dashes, ...] = (
    (0, (2, 1)), (0, (4, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), "-", (0, (6, 1, 2, 1)),
    (0, (3, 3)),
)  # fmt: skip
COLOURS = (
    "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B2F12", "#B6A254", "#003D31", "#444444",
    "#0072B2", "#9A1FE0", "#D55E00",
)  # fmt: skip
_INSIDES = ("white", "#c4c4c4", "", "#F0E442")
_PRESETS = {name.replace("-", ""): name for name in LOOKS}


def preset(name: str) -> str | None:
    """Return the preset of a name as in figures: "FedGLB-UCB1" is "fedglb-ucb-1"."""
    return _PRESETS.get(name.lower().replace("-", ""))


def looks(named: Sequence[tuple[str, str]]) -> dict[str, Look]:
    """Return the look of each curve, given (name of the curve, algorithm) in order.

    A preset has its look in `LOOKS`, also by its name in figures; other algorithms take colours
    that none of the others has. Further curves of an algorithm have its colour, and other markers
    and lines.
    """
    named = [(name, preset(algorithm) or algorithm) for name, algorithm in named]
    algorithms = dict.fromkeys(algorithm for _, algorithm in named)
    used = {LOOKS[algorithm].colour for algorithm in algorithms if algorithm in LOOKS}
    free = [colour for colour in COLOURS if colour not in used]
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
            first[algorithm] = replace(own, colour=(free or COLOURS)[i % len(free or COLOURS)])
        made[name] = first[algorithm]
    return made


def curve_looks(numbers: StudyNumbers) -> dict[str, Look]:
    """Return the look of each curve of a study of one sweep, for all its figures."""
    return looks([(row.curve, row.algorithm) for row in numbers.rows])


def algorithm_looks(study: Study) -> dict[str, Look]:
    """Return the look of each algorithm of a study, for all its figures; its first curve's."""
    columns = (cell.result.runs["algorithm"].unique(maintain_order=True) for cell in study.cells)
    return looks([(name, name) for column in columns for name in column])


def setting_look(i: int) -> Look:
    """Return the look of the i-th of many settings: another colour, marker and line each time."""
    return Look(
        COLOURS[i % len(COLOURS)], _MARKERS[i % len(_MARKERS)], _LINES[i % len(_LINES)],
        _INSIDES[(i + 2) % len(_INSIDES)],
    )  # fmt: skip


@contextmanager
def styled(medium: Medium = WIDE, *, users: bool = False) -> Iterator[None]:
    """Draw with matplotlib settings of this package; the user's settings stay unchanged.

    With `users`, what the user has set wins over them; else it does not count.
    """
    import matplotlib
    from matplotlib import style

    own: dict[Any, Any] = {
        "font.size": 8.5 if medium.printed else 9.2, "figure.figsize": (7.2, 4.0),
        "figure.dpi": 100.0, "savefig.dpi": 160.0,
        "xtick.labelsize": "small", "ytick.labelsize": "small", "legend.fontsize": "small",
        "axes.titlesize": "medium", "figure.titlesize": "large", "figure.titleweight": "bold",
        "axes.titlelocation": "left", "axes.grid": True, "axes.axisbelow": True,
        "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": medium.soft,
        "axes.labelcolor": medium.text, "xtick.color": medium.soft, "ytick.color": medium.soft,
        "text.color": medium.text, "figure.facecolor": medium.paper,
        "axes.facecolor": medium.paper, "grid.color": medium.grid, "grid.linewidth": 0.6,
        "lines.linewidth": 1.2 if medium.printed else 1.5,
        "lines.markersize": 4.2 if medium.printed else 5.0, "legend.frameon": False,
        "legend.handlelength": _KEY, "legend.handletextpad": _PAD,
        "legend.columnspacing": _BETWEEN, "legend.labelspacing": 0.4,
        "mathtext.default": "regular", "figure.constrained_layout.w_pad": 0.08,
        # Printed letters are those of the file: TrueType in a PDF, curves in an SVG.
        "pdf.fonttype": 42, "svg.fonttype": "path" if medium.printed else "none",
        "svg.hashsalt": "fedglb",
    }  # fmt: skip
    if users:
        default, given = matplotlib.rcParamsDefault, matplotlib.rcParams
        own = {key: value for key, value in own.items() if given[key] == default[key]}
    with style.context(own if users else ["default", own]):
        yield


def saved(
    figure: Figure, kinds: tuple[str, ...] = ("png", "svg"), medium: Medium = WIDE
) -> dict[str, bytes]:
    """Return the figure as PNG, SVG or PDF: the same bytes each time, without a date."""
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    files = {}
    with styled(medium):
        for kind in kinds:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, metadata=metadata[kind])
            files[kind] = buffer.getvalue()
            figure.set_layout_engine("none")  # all kinds have the places of the first
    return files


def inches(text: str, size: str = "small", weight: str = "normal") -> float:
    """Return the width of the longest line of a text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)
    measure = text_to_path.get_text_width_height_descent
    return max(measure(line, font, ismath=False)[0] / 72 for line in text.split("\n"))


def wrapped(text: str, width: float, size: str = "small", weight: str = "normal") -> str:
    """Return a text in lines that fit into a width in inches."""
    whole = inches(text, size, weight)
    if whole <= width:
        return text
    for characters in range(int(1.2 * len(text) * width / whole), _SHORT, -1):
        lines = textwrap.fill(text, characters)
        if inches(lines, size, weight) <= width:
            return lines
    return textwrap.fill(text, _SHORT)


def in_inches(lines: float, size: str = "small") -> float:
    """Return the height of lines of text with the space between them."""
    from matplotlib.font_manager import FontProperties

    return float(lines * _LINE * FontProperties(size=size).get_size_in_points() / 72)


def legend(figure: Figure, handles: Sequence[Line2D], width: float) -> float:
    """Give a figure a legend below its axes, in as many columns as fit; return its height."""
    key, gap = (in_inches(size / _LINE) for size in (_KEY + _PAD, _BETWEEN))
    names = [wrapped(str(h.get_label()), width - key - 2 * gap) for h in handles]
    for count in range(min(len(names), _MOST), 0, -1):
        columns = [[names[i] for i in c] for c in np.array_split(range(len(names)), count)]
        if sum(max(map(inches, c)) + key + gap for c in columns) + gap <= width:
            break
    made = figure.legend(list(handles), names, loc="outside lower center", ncols=count)
    for text in made.get_texts():
        text.set_parse_math(False)
    return in_inches(max(sum(1 + name.count("\n") for name in c) for c in columns) + 0.5)


def framed(medium: Medium, title: str, handles: Sequence[Line2D], height: float) -> Figure:
    """Return a figure without axes, with a title and a legend; `height` is that of its panels."""
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    whole = medium.height(height) + legend(figure, handles, medium.width)
    if title and not medium.printed:
        above = wrapped(title, medium.width - 0.2, "large", "bold")
        figure.suptitle(above, x=0.01, ha="left", parse_math=False)
        whole += in_inches(1 + above.count("\n"), "large")
    figure.set_size_inches(medium.width, whole)
    return figure


def handle(look: Look, label: str, width: float = 1.4, size: float | None = None) -> Line2D:
    """Return a legend's entry."""
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], color=look.colour, linestyle=look.line, linewidth=width, marker=look.marker,
        markersize=size, markerfacecolor=look.face, label=label,
    )  # fmt: skip
