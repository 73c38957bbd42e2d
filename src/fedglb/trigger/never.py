"""No global updates."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.trigger.base import Trigger


@dataclass(frozen=True)
class Never(Trigger):
    """Never ask for an update: every client learns alone."""
