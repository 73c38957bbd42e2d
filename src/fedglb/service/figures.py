"""The geometry of the pages' figures; `templates/parts.html` draws them as SVG.

All x are percentages of the width, so that text keeps its size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedglb.federation.agent.activity import Activity, Period

if TYPE_CHECKING:  # an agent alone has no coordinator
    from fedglb.federation.coordinator.events import UpdateStatus
    from fedglb.federation.coordinator.status import MemberStatus

_ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_MAX_UPDATES, _MAX_DOTS, _MAX_BARS = 200, 100, 15
_MIN_PERIODS = 12  # shown: the older ones may be empty
_LEFT = 8.0  # percent of the width for the levels' texts
_TOP, _BELOW = 18, 24  # pixels above the highest level, and below the axis


@dataclass(frozen=True)
class OverTime:
    """One value per update, over time: x in percent of the width, y in pixels."""

    label: str
    height: int
    bottom: int  # y of the axis
    levels: list[tuple[str, float]]  # of the y axis: text and y
    points: list[tuple[float, float]]
    dots: list[tuple[float, float, UpdateStatus]]  # the newest points
    first: float
    last: float

    @property
    def path(self) -> str:
        """The points as a line that steps from one to the next."""
        (x, y), *others = self.points
        return f"M{x:.2f} {y:.1f}" + "".join(f"H{x:.2f}V{y:.1f}" for x, y in others)


def over_time(
    updates: Sequence[UpdateStatus],
    value: Callable[[UpdateStatus], float],
    text: Callable[[float], str],
    label: str,
    height: int,
) -> OverTime | None:
    """Return the figure of the newest updates; None without updates."""
    if not updates:
        return None
    label = f"{label}, {len(updates)} updates"
    updates = updates[-_MAX_UPDATES:]
    bottom, top = height - _BELOW, _next_round(max(map(value, updates)))
    first, last = updates[0].at, updates[-1].at

    def y(amount: float) -> float:
        return bottom - (bottom - _TOP) * amount / top

    points = [
        (1.5 + 97.0 * (u.at - first) / (last - first) if last > first else 50.0, y(value(u)))
        for u in updates
    ]
    dots = [(*point, u) for point, u in zip(points, updates, strict=True)][-_MAX_DOTS:]
    levels = [(text(level), y(level)) for level in (top, top / 2)]
    return OverTime(label, height, bottom, levels, points, dots, first, last)


@dataclass(frozen=True)
class ByPeriod:
    """One value per period of time, where there is one."""

    label: str
    height: int
    bottom: int
    levels: list[tuple[str, float]]
    marks: list[tuple[float, float, str]]  # x of the period's middle, y, what it means
    width: float  # of a period, in percent
    zero: float  # y of the value 0
    first: float
    last: float

    @property
    def path(self) -> str:
        """The marks as a line."""
        return "M" + "L".join(f"{x:.2f} {y:.1f}" for x, y, _ in self.marks)


def by_period(
    activity: Activity,
    value: Callable[[Period], float | None],
    text: Callable[[Period], str],
    label: str,
    height: int,
) -> ByPeriod | None:
    """Return the figure of an agent's activity; None without a value."""
    found = [(k, p, value(p)) for k, p in enumerate(activity.periods)]
    amounts = [amount for _, _, amount in found if amount is not None]
    if not amounts:
        return None
    top, low = _next_round(max(amounts)), min(amounts)
    low = -_next_round(-low) if low < 0.0 else 0.0
    bottom, missing = height - _BELOW, max(0, _MIN_PERIODS - len(found))
    width = (100.0 - _LEFT) / (len(found) + missing)

    def y(amount: float) -> float:
        return bottom - (bottom - _TOP) * (amount - low) / (top - low)

    marks = [
        (_LEFT + width * (missing + k + 0.5), y(v), text(p)) for k, p, v in found if v is not None
    ]
    levels = [(f"{level:,.3g}", y(level)) for level in (top, (top + low) / 2.0, low) if level]
    first = activity.periods[0].begin - missing * activity.width
    last = activity.periods[-1].begin + activity.width
    return ByPeriod(label, height, bottom, levels, marks, width, y(0.0), first, last)


@dataclass(frozen=True)
class Bar:
    """A client, or all others together: its samples, and a length relative to the longest bar."""

    name: str
    samples: int
    share: float
    length: float | None


def bars(members: Sequence[MemberStatus]) -> list[Bar]:
    """Return the clients with the most samples in the model, and the rest as one row."""
    every = [Bar(m.name, m.samples, m.share or 0.0, None) for m in members if m.samples]
    ranked = sorted(every, key=lambda bar: (-bar.samples, bar.name))
    shown = ranked if len(ranked) <= _MAX_BARS else ranked[: _MAX_BARS - 1]
    out = [replace(bar, length=bar.samples / ranked[0].samples) for bar in shown]
    if others := ranked[len(shown) :]:
        total, share = sum(bar.samples for bar in others), sum(bar.share for bar in others)
        out.append(Bar(f"{len(others)} others", total, share, None))
    return out


def _next_round(value: float) -> float:
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in _ROUND if m * power >= value)
