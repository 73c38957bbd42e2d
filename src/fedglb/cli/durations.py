"""Durations on the command line: 30s, 10m, 1h, 2d."""

from __future__ import annotations

import math
import re

from fedglb.errors import InvalidInput

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(option: str, text: str) -> float:
    """Return a duration in seconds.

    Examples
    --------
    >>> seconds("--first", "90s"), seconds("--first", "1.5h"), seconds("--first", "20")
    (90.0, 5400.0, 20.0)
    """
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smhd]?)\s*", text)
    value = float(found[1]) * _UNITS[found[2]] if found else math.nan
    if not 0.0 < value < math.inf:
        raise InvalidInput(option, text, "a duration such as 30s, 10m, 1h or 2d")
    return value


def in_words(value: float) -> str:
    """Return a number of seconds in the largest unit of which there are at least two.

    Examples
    --------
    >>> in_words(3600.0), in_words(86400.0 * 3.5), in_words(0.25)
    ('60 min', '3.5 d', '0.25 s')
    """
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"
