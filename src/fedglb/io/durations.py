"""Durations for people."""

from __future__ import annotations


def in_words(value: float) -> str:
    """Return a number of seconds in the largest unit of which there are at least two.

    >>> in_words(20), in_words(1500), in_words(3600.0), in_words(9000), in_words(0.25)
    ('20 s', '25 min', '60 min', '2.5 h', '0.25 s')
    """
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"
