"""How algorithms are drawn: each has its own colour, marker and line style.

The colours are those of Okabe and Ito, which colour-blind readers can tell apart. Nothing is told
by colour alone, so a print in grey can be read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Dashes = Literal["-"] | tuple[float, tuple[float, ...]]


@dataclass(frozen=True)
class Look:
    """How an algorithm is drawn."""

    colour: str
    marker: str
    line: Dashes
    inside: str = ""

    @property
    def face(self) -> str:
        """Return the colour inside the marker: `colour`, unless `inside` says otherwise."""
        return self.inside or self.colour

    @property
    def ink(self) -> str:
        """Return the colour of small print: darker, for contrast on white.

        Examples
        --------
        >>> Look("#E69F00", "s", "-").ink
        '#7e5700'
        """
        parts = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return "#" + "".join(f"{int(0.55 * p):02x}" for p in parts)


LOOKS = {
    "fedglb-ucb": Look("#0072B2", "o", "-"),
    "fedglb-ucb-1": Look("#E69F00", "s", (0, (5, 1.5))),
    "fedglb-ucb-2": Look("#009E73", "^", (0, (5, 1.5, 1, 1.5))),
    "fedglb-ucb-3": Look("#CC79A7", "D", (0, (1.5, 1.5))),
    "dislinucb": Look("#56B4E9", "v", (0, (7, 1.5, 1, 1.5, 1, 1.5))),
    "one-ucb-glm": Look("#D55E00", "*", "-"),
    "n-ucb-glm": Look("#000000", "P", (0, (4, 2))),
    "n-ons-glm": Look("#666666", "X", (0, (1, 2))),
    "fedglb-auto": Look("#B2182B", "h", (0, (6, 1))),
    "fedglb-mix": Look("#5E3C99", "d", (0, (3, 1, 1, 1))),
}
_UNKNOWN = Look("#444444", "p", (0, (3, 1)))
_LINES: tuple[Dashes, ...] = ((0, (2, 1)), (0, (4, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
_INSIDES = ("white", "#c4c4c4", "black", "#F0E442")
_FONTS: dict[Any, Any] = {
    "font.family": "DejaVu Sans", "font.size": 9.0, "figure.dpi": 100.0, "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": "#555555", "axes.labelcolor": "#222222",
    "xtick.color": "#444444", "ytick.color": "#444444", "text.color": "#222222",
    "axes.unicode_minus": True, "mathtext.default": "regular",
    "svg.fonttype": "none", "svg.hashsalt": "fedglb", "path.simplify": True,
}  # fmt: skip


def look(algorithm: str, nth: int = 0) -> Look:
    """Return how an algorithm is drawn; `nth` tells several curves of one algorithm apart.

    Examples
    --------
    >>> look("fedglb-ucb").face, look("fedglb-ucb", 1).face
    ('#0072B2', 'white')
    """
    first = LOOKS.get(algorithm, _UNKNOWN)
    if nth == 0:
        return first
    place = (nth - 1) % len(_LINES)
    return replace(first, line=_LINES[place], inside=_INSIDES[place])


def looks(named: list[tuple[str, str]]) -> dict[str, Look]:
    """Return the look of each curve, given (name of the curve, algorithm) in order."""
    seen: dict[str, int] = {}
    made = {}
    for name, algorithm in named:
        if name not in made:
            made[name] = look(algorithm, seen.get(algorithm, 0))
            seen[algorithm] = seen.get(algorithm, 0) + 1
    return made


@contextmanager
def styled() -> Iterator[None]:
    """Draw with matplotlib settings of this package; the user's own stay as they are."""
    import matplotlib

    with matplotlib.rc_context(_FONTS):
        yield


def saved(figure: Figure) -> dict[str, bytes]:
    """Return the figure as PNG and SVG: the same bytes each time, without a date."""
    files = {}
    with styled():
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, metadata=metadata, dpi=160)
            files[kind] = buffer.getvalue()
    return files
