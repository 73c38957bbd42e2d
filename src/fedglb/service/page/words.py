"""Numbers and times as the page says them."""

from __future__ import annotations

import time


def clock(at: float | None) -> str:
    """Return a moment in the coordinator's time zone; empty if it is unknown.

    Today's have no date.
    """
    if at is None:
        return ""
    moment = time.localtime(at)
    today = moment[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", moment)


def day(at: float | None) -> str:
    """Return a day."""
    return "" if at is None else time.strftime("%Y-%m-%d", time.localtime(at))


def size(value: float) -> str:
    """Return a number of bytes.

    Examples
    --------
    >>> size(999), size(58_512)
    ('999 B', '58.5 kB')
    """
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} GB"


def duration(seconds: float) -> str:
    """Return how long something took.

    Examples
    --------
    >>> duration(0.0123), duration(5.25)
    ('12 ms', '5.2 s')
    """
    return f"{1e3 * seconds:.0f} ms" if seconds < 1.0 else f"{seconds:,.1f} s"
