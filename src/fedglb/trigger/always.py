"""An update after every interaction."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedglb.trigger.base import Trigger


@dataclass(frozen=True)
class Always(Trigger):
    """Ask for an update after every sample of every client."""

    @property
    def level(self) -> float:
        """Whatever the gain."""
        return -math.inf
