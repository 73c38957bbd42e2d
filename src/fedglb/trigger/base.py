"""When all clients fit one model: the interface."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from fedglb.setting import Setting


class Trigger(ABC):  # noqa: B024 - both methods have a default
    """A rule that asks for global updates; subclasses are frozen dataclasses."""

    #: Whether the rule looks at the gain of log det A.
    needs_gain: ClassVar[bool] = False

    def check(self, setting: Setting) -> None:
        """Raise `InvalidInput` if the rule cannot be followed in this setting."""

    def fires(self, t: int, t_last: int, log_gain: float) -> bool:
        """Return whether a client asks for an update after its own sample in step t."""
        return False

    def due(self, setting: Setting, t: int) -> bool:
        """Return whether an update is due at the end of step t."""
        return False
