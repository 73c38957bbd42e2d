"""When all clients fit one model: the interface."""

from __future__ import annotations

import math
from abc import ABC
from typing import ClassVar

from fedglb.setting import Setting


class Trigger(ABC):  # noqa: B024 - all methods have a default
    """A rule that asks for global updates; subclasses are frozen dataclasses.

    A client asks after its own sample in step t where (t − t_last)·log_gain ≥ `level`, with
    log_gain = log(det A_i / det(A_i − ΔA_i)); beside that an update may be `due` at the end of
    a step.
    """

    #: Whether the rule looks at the gain of log det A.
    needs_gain: ClassVar[bool] = False

    def check(self, setting: Setting) -> None:
        """Raise `InvalidInput` if the rule cannot be followed in this setting."""

    @property
    def level(self) -> float:
        """Where a client asks: never, unless a rule says otherwise."""
        return math.inf

    def fires(self, t: int, t_last: int, log_gain: float) -> bool:
        """Return whether a client asks for an update after its own sample in step t."""
        return (t - t_last) * log_gain >= self.level

    def due(self, setting: Setting, t: int) -> bool:
        """Return whether an update is due at the end of step t."""
        return False
