"""An update after every interaction."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.trigger.base import Trigger


@dataclass(frozen=True)
class Always(Trigger):
    """Ask for an update after every sample of every client."""

    def fires(self, t: int, t_last: int, log_gain: float) -> bool:
        """Return True."""
        return True
