"""The page's figures, as SVG: updates over time, and samples per client.

They have no viewBox: along the x axis all places are shares of the width, so that text has its
size on a phone, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from fedglb.federation.coordinator.history import UpdateStatus
from fedglb.federation.coordinator.page.words import clock, duration, size
from fedglb.federation.coordinator.status import MemberStatus

_HEIGHT, _TOP, _BOTTOM = 200, 22, 176  # of the plot, in pixels
_MOST_DOTS = 150
_MOST_BARS, _ROW = 15, 24
_NAME, _BAR = 34.0, 46.0  # shares of the width


def updates_figure(updates: Sequence[UpdateStatus]) -> str:
    """Return how many samples the model covered after each update, over time."""
    if not updates:
        return '<p class="empty">There was no update yet.</p>'
    first, last = updates[0].at, updates[-1].at
    most = _nice(max(u.samples for u in updates))
    places = [
        (
            1.5 + 97.0 * (u.at - first) / (last - first) if last > first else 50.0,
            _BOTTOM - (_BOTTOM - _TOP) * u.samples / most,
        )
        for u in updates
    ]
    steps = "".join(f"H{x:.2f}V{y:.1f}" for x, y in places[1:])
    line = f"M{places[0][0]:.2f} {places[0][1]:.1f}{steps}"
    grid = "".join(
        f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
        f'<text class="tick" x="0" y="{y - 4}">{value:,.0f}</text>'
        for value in (most, most / 2)
        for y in [_BOTTOM - (_BOTTOM - _TOP) * value / most]
    )
    few = len(updates) <= _MOST_DOTS
    dots = "".join(
        f'<circle class="{"short" if u.left_out else "dot"}" cx="{x:.2f}%" cy="{y:.1f}" r="3.5">'
        f"<title>{escape(_told(u))}</title></circle>"
        for u, (x, y) in zip(updates, places, strict=True)
        if few or u.left_out
    )
    ends = f'<text class="tick" x="0" y="{_HEIGHT - 6}">{clock(first)}</text>'
    if last > first:
        ends += f'<text class="tick end" x="100%" y="{_HEIGHT - 6}">{clock(last)}</text>'
    return (
        f'<svg width="100%" height="{_HEIGHT}" role="img" '
        f'aria-label="Samples in the model over time, {len(updates)} updates">{grid}'
        f'<line class="axis" x1="0" x2="100%" y1="{_BOTTOM}" y2="{_BOTTOM}"/>'
        f'<svg width="100%" height="{_HEIGHT}" viewBox="0 0 100 {_HEIGHT}" '
        f'preserveAspectRatio="none"><path class="line" d="{line}"/></svg>{dots}{ends}</svg>'
    )


def samples_figure(members: Sequence[MemberStatus]) -> str:
    """Return a bar for each of the clients with the most samples in the model."""
    ranked = sorted((m for m in members if m.samples), key=lambda m: (-m.samples, m.name))
    if not ranked:
        return '<p class="empty">The model has no samples yet.</p>'
    shown = ranked if len(ranked) <= _MOST_BARS else ranked[: _MOST_BARS - 1]
    rows = [(m.name, m.samples, m.share, "bar") for m in shown]
    if others := ranked[len(shown) :]:
        total, share = sum(m.samples for m in others), sum(m.share for m in others)
        rows.append((f"{len(others)} others", total, share, "bar others"))
    longest = max(samples for _, samples, _, kind in rows if kind == "bar")
    bars = "".join(
        _bar(k * _ROW, *row, share_of_longest=min(1.0, row[1] / longest))
        for k, row in enumerate(rows)
    )
    return (
        f'<svg width="100%" height="{_ROW * len(rows)}" role="img" '
        f'aria-label="Samples in the model per client">{bars}</svg>'
    )


def _bar(y: int, name: str, samples: int, share: float, kind: str, share_of_longest: float) -> str:
    short = name if len(name) <= 15 else name[:14] + "…"
    return (
        f"<g><title>{escape(name)}: {samples:,} samples, {share:.1%} of the model</title>"
        f'<text class="name" x="0" y="{y + 16}">{escape(short)}</text>'
        f'<rect class="{kind}" x="{_NAME}%" y="{y + 4}" height="{_ROW - 8}" rx="2" '
        f'width="{max(0.4, _BAR * share_of_longest):.2f}%"/>'
        f'<text class="value" x="100%" y="{y + 16}">{samples:,}</text></g>'
    )


def _told(update: UpdateStatus) -> str:
    out = (
        f"update {update.number}, {clock(update.at)}: {update.samples:,} samples of "
        f"{update.clients} clients, {update.rounds} rounds, {duration(update.seconds)}, "
        f"{size(update.bytes)}"
    )
    missing = ", ".join(update.left_out)
    return f"{out}; without {missing}" if missing else out


def _nice(value: float) -> float:
    """Return the next round number: 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= value)
