"""Fields that a part gets after files have named it: left out of them at their default.

Files of federations and results hold what a part was given, as text. What they said before the
part had the field is then still the same text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

_LATER = {"omitted_at_default": True}


def later(default: Any) -> Any:
    """Return a dataclass field that `told` leaves out where it has its default.

    Parameters
    ----------
    default
        What the part did before it had the field.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Bell:
    ...     weight: float
    ...     tone: str = later("low")
    ...     __repr__ = as_before
    >>> Bell(3.0), Bell(3.0, "high")
    (Bell(weight=3.0), Bell(weight=3.0, tone='high'))
    """
    return dataclasses.field(default=default, metadata=_LATER)


def told(part: Any) -> Iterator[tuple[str, Any]]:
    """Give name and value of each field of a part, but those added later that have their default.

    Examples
    --------
    >>> from fedglb.parts.trigger import Event
    >>> dict(told(Event(1.0))), dict(told(Event(1.0, clock="own samples")))
    ({'threshold': 1.0}, {'threshold': 1.0, 'clock': 'own samples'})
    """
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if not (field.metadata.get("omitted_at_default") and value == field.default):
            yield field.name, value


def as_before(part: Any) -> str:
    """Return what a dataclass's `repr` returned before it had its later fields."""
    said = ", ".join(f"{name}={value!r}" for name, value in told(part))
    return f"{type(part).__qualname__}({said})"
