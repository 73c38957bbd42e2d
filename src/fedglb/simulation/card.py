"""A result as a small piece of HTML for notebooks: a title, a table, a figure, notes.

The figure is SVG written by hand, so that no drawing package has to be loaded. Text and axes have
the colour of the page around them, so that the card is readable on white and on black.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

#: The most curves that a small figure can show.
MOST = 6
# Line styles and colours differ, and are readable on white and black.
_LOOKS = (
    ("#2f86c6", ""), ("#d98b00", "7 3"), ("#00a878", "2 2"), ("#c45f9a", "7 2 2 2"),
    ("#d55e00", "10 3"), ("currentColor", "3 3"),
)  # fmt: skip
_WIDTH, _HEIGHT = 430, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 12, 26
_POINTS = 160  # per curve: more would not be visible


@dataclass(frozen=True)
class Curve:
    """One line of the figure: steps and values."""

    t: Sequence[float]
    y: Sequence[float]


def card(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    curves: Sequence[Curve],
    measure: str,
    notes: Sequence[str] = (),
) -> str:
    """Return the HTML: a title, a figure of `measure` over time, a table, folded notes.

    The first column of the table is text, the others are numbers. At most `MOST` curves are shown;
    several curves belong to the first rows, which have a sample of their lines.
    """
    drawn = min(len(curves), MOST) if len(curves) > 1 else 0
    body = [_row(row, "td", _sample(i) if i < drawn else "") for i, row in enumerate(rows)]
    folded = ""
    if notes:
        items = "".join(f"<li>{escape(note)}</li>" for note in notes)
        count = "1 note" if len(notes) == 1 else f"{len(notes)} notes"
        folded = f"<details><summary>{count}</summary><ul>{items}</ul></details>"
    return (
        '<div style="max-width:100%;overflow-x:auto">'
        f"<div><strong>{escape(title)}</strong></div>"
        '<div style="display:flex;flex-wrap:wrap;gap:0.3em 1em;align-items:flex-start">'
        f"{figure(curves[:MOST], measure)}"
        '<table style="border-collapse:collapse;margin:0.4em 0">'
        f"{_row(header, 'th', '')}{''.join(body)}</table></div>{folded}</div>"
    )


def _row(cells: Sequence[str], kind: str, sample: str) -> str:
    """Return a row of the table, with a sample of its curve before the first cell."""
    first = f'<{kind} style="text-align:left;padding:0.1em 0.6em">{sample}{escape(cells[0])}'
    style = "text-align:right;padding:0.1em 0.6em;white-space:nowrap"
    others = (f'<{kind} style="{style}">{escape(text)}</{kind}>' for text in cells[1:])
    return f"<tr>{first}</{kind}>{''.join(others)}</tr>"


def _stroke(i: int) -> str:
    """Return the i-th curve's SVG attributes."""
    colour, dashes = _LOOKS[i]
    return f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"'


def _sample(i: int) -> str:
    """Return a short piece of the i-th curve."""
    return (
        '<svg width="34" height="8" style="vertical-align:middle;margin-right:0.5em">'
        f'<line x1="0" x2="34" y1="4" y2="4" {_stroke(i)}/></svg>'
    )


def figure(curves: Sequence[Curve], measure: str) -> str:
    """Return the curves over time as SVG."""
    last = max((curve.t[-1] for curve in curves if len(curve.t)), default=1)
    values = [value for curve in curves for value in curve.y]
    low, high = min(values, default=0.0), max(values, default=0.0)
    low = min(low, 0.0)
    high = high if high > low else low + 1.0
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def down(y: float) -> float:
        return bottom - (bottom - _TOP) * (y - low) / (high - low)

    said = escape(f"{measure} over {last:,.0f} steps")
    out = [
        f'<svg role="img" aria-label="{said}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" style="max-width:100%;height:auto" '
        'fill="currentColor" font-size="12" font-family="sans-serif">'
    ]
    for value in (low, (low + high) / 2, high):
        y = down(value)
        out.append(
            f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            f'stroke-opacity="0.25"/><text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{short(value)}</text>"
        )
    out.append(
        f'<text x="{_LEFT}" y="{bottom + 16}">0</text>'
        f'<text x="{right}" y="{bottom + 16}" text-anchor="end">{last:,.0f}</text>'
        f'<text x="{(_LEFT + right) / 2:.0f}" y="{bottom + 16}" text-anchor="middle">step t</text>'
        f'<text transform="translate(13 {(bottom + _TOP) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(measure)}</text>'
    )
    for i, curve in enumerate(curves):
        places = [
            f"{_LEFT + (right - _LEFT) * curve.t[k] / last:.1f},{down(curve.y[k]):.1f}"
            for k in _thinned(len(curve.t))
        ]
        out.append(f'<polyline points="{" ".join(places)}" {_stroke(i)}/>')
    return "".join([*out, "</svg>"])


def _thinned(points: int) -> list[int]:
    """Return the places of at most 160 points, evenly spaced, both ends included."""
    if points <= _POINTS:
        return list(range(points))
    return [round(k * (points - 1) / (_POINTS - 1)) for k in range(_POINTS)]


def short(value: float) -> str:
    """Return a number with three digits, or all digits before the point.

    >>> short(0.12345), short(12345.6), short(1234567.0), short(2.0)
    ('0.123', '12,346', '1.23M', '2')
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
