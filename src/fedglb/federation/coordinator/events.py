"""What a coordinator has to tell its operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CoordinatorEvent:
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
