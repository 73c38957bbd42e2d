"""The page's figures, as SVG: updates over time, and samples per client.

They have no viewBox: along the x axis all places are shares of the width, so that text has its
size on a phone, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

from fedglb.federation.coordinator.events import UpdateStatus
from fedglb.federation.coordinator.status import MemberStatus
from fedglb.service.page.words import clock, duration, size

_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_MOST_SHOWN, _MOST_DOTS = 200, 100  # updates
_MOST_BARS, _ROW = 15, 24
_NAME, _BAR = 34.0, 46.0  # shares of the width


def updates_figure(updates: Sequence[UpdateStatus]) -> str:
    """Return how many samples the model covered after each update, over time."""
    if not updates:
        return '<p class="empty">There was no update yet.</p>'
    label = f"Samples in the model over time, {len(updates)} updates"
    return _over_time(updates, [u.samples for u in updates], "{:,.0f}".format, label, 190)


def duration_figure(updates: Sequence[UpdateStatus]) -> str:
    """Return how long each update took, over time."""
    if not updates:
        return ""
    label = f"How long updates took, {len(updates)} updates"
    return _over_time(updates, [u.seconds for u in updates], duration, label, 110, stems=True)


def _over_time(
    updates: Sequence[UpdateStatus],
    values: Sequence[float],
    said: Callable[[float], str],
    label: str,
    height: int,
    stems: bool = False,
) -> str:
    """Return values over time: a line that steps from one to the next, or a stem for each."""
    updates, values = updates[-_MOST_SHOWN:], values[-_MOST_SHOWN:]
    top, bottom = 18, height - 24
    first, last, most = updates[0].at, updates[-1].at, _nice(max(values))
    places = [
        (
            1.5 + 97.0 * (u.at - first) / (last - first) if last > first else 50.0,
            bottom - (bottom - top) * value / most,
        )
        for u, value in zip(updates, values, strict=True)
    ]
    levels = [(value, bottom - (bottom - top) * value / most) for value in (most, most / 2)]
    grid = "".join(f'<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>' for _, y in levels)
    ticks = "".join(
        f'<text class="tick" x="0" y="{y - 4}">{said(value)}</text>' for value, y in levels
    )
    dots = "".join(
        f'<circle class="{"short" if u.left_out else "dot"}" cx="{x:.2f}%" cy="{y:.1f}" r="3.5">'
        f"<title>{escape(_told(u))}</title></circle>"
        for u, (x, y) in list(zip(updates, places, strict=True))[-_MOST_DOTS:]
    )
    ticks += f'<text class="tick" x="0" y="{height - 8}">{clock(first)}</text>'
    if last > first:
        ticks += f'<text class="tick end" x="100%" y="{height - 8}">{clock(last)}</text>'
    line = _stems(places, bottom) if stems else _steps(places, height)
    return (
        f'<svg width="100%" height="{height}" role="img" aria-label="{label}">{grid}'
        f'<line class="axis" x1="0" x2="100%" y1="{bottom}" y2="{bottom}"/>'
        f"{line}{dots}{ticks}</svg>"
    )


def _stems(places: Sequence[tuple[float, float]], bottom: int) -> str:
    return "".join(
        f'<line class="stem" x1="{x:.2f}%" x2="{x:.2f}%" y1="{bottom}" y2="{y:.1f}"/>'
        for x, y in places
    )


def _steps(places: Sequence[tuple[float, float]], height: int) -> str:
    (x, y), *others = places
    path = f"M{x:.2f} {y:.1f}" + "".join(f"H{x:.2f}V{y:.1f}" for x, y in others)
    return (  # a path has no shares of the width: it is stretched
        f'<svg width="100%" height="{height}" viewBox="0 0 100 {height}" '
        f'preserveAspectRatio="none"><path class="line" d="{path}"/></svg>'
    )


def samples_figure(members: Sequence[MemberStatus]) -> str:
    """Return a bar for each of the clients with the most samples in the model."""
    ranked = sorted((m for m in members if m.samples), key=lambda m: (-m.samples, m.name))
    if not ranked:
        return '<p class="empty">The model has no samples yet.</p>'
    shown = ranked if len(ranked) <= _MOST_BARS else ranked[: _MOST_BARS - 1]
    bars = [
        _bar(k, m.name, m.samples, m.share, m.samples / ranked[0].samples)
        for k, m in enumerate(shown)
    ]
    if others := ranked[len(shown) :]:
        total, share = sum(m.samples for m in others), sum(m.share for m in others)
        bars.append(_bar(len(shown), f"{len(others)} others", total, share, None))
    return (
        f'<svg width="100%" height="{_ROW * len(bars)}" role="img" '
        f'aria-label="Samples in the model per client">{"".join(bars)}</svg>'
    )


def _bar(row: int, name: str, samples: int, share: float, length: float | None) -> str:
    """Return a row: name, bar (its length is a share of the longest) and number."""
    short = name if len(name) <= 15 else name[:14] + "…"
    y = row * _ROW
    bar = ""
    if length is not None:
        bar = (
            f'<rect class="bar" x="{_NAME}%" y="{y + 4}" height="{_ROW - 8}" rx="2" '
            f'width="{max(0.4, _BAR * length):.2f}%"/>'
        )
    return (
        f"<g><title>{escape(name)}: {samples:,} samples, {share:.1%} of the model</title>"
        f'<text class="name" x="0" y="{y + 16}">{escape(short)}</text>{bar}'
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
    """Return the next round number."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        m * power for m in (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0) if m * power >= value
    )
