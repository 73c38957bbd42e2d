"""Numbers and times as the page says them."""

from __future__ import annotations

import time


def clock(at: float | None) -> str:
    """Return a moment in the coordinator's time zone, to the second; empty if it is unknown."""
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


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
