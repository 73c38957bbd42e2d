"""A fixed schedule of B global updates."""

from __future__ import annotations

from dataclasses import dataclass

from fedglb.errors import InvalidInput, integer
from fedglb.setting import Setting
from fedglb.trigger.base import Trigger


@dataclass(frozen=True)
class Schedule(Trigger):
    """Updates at the end of steps ⌊T/B⌋, 2⌊T/B⌋, …, exactly B of them (B ≤ T)."""

    updates: int

    def __post_init__(self) -> None:
        integer("updates", self.updates)

    def check(self, setting: Setting) -> None:
        """Raise unless the horizon is known and B ≤ T."""
        if setting.horizon is None:
            raise InvalidInput("horizon", None, "the number of steps T, which a schedule needs")
        if self.updates > setting.horizon:
            raise InvalidInput(
                "updates", self.updates, f"at most B = T = {setting.horizon} updates"
            )

    def due(self, setting: Setting, t: int) -> bool:
        """Return whether t is one of the B steps."""
        assert setting.horizon is not None
        period = setting.horizon // self.updates
        return t % period == 0 and t // period <= self.updates
