"""What a coordinator has to tell its operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_LONGEST = 1000  # characters


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Parameters
    ----------
    kind
        "joined", "left", "refused", "offence", "waiting", "begun", "left out", "abandoned" or
        "updated".
    text
        In words.
    facts
        The same as data.
    """

    kind: str
    text: str
    facts: dict[str, Any] = field(default_factory=dict)


def clean(text: str) -> str:
    r"""Return a text that may hold a client's words as one line of a log, and not a long one.

    Examples
    --------
    >>> clean("fine\nupdate 9 is done")
    'fine?update 9 is done'
    """
    return "".join(c if c.isprintable() else "?" for c in text[:_LONGEST])
