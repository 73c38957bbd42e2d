"""When all clients fit one model: by event, by schedule, always or never."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

from fedglb.errors import InvalidInput, integer, number
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


@dataclass(frozen=True)
class Event(Trigger):
    """(t − t_last) · log(det A_i / det(A_i − ΔA_i)) ≥ D.

    ≥ as in Algorithm 1 (the paper's equation has >, erratum 2). D = 0 asks after every
    interaction, D = ∞ never.
    """

    stored_name = "Event"

    needs_gain = True
    threshold: float

    def __post_init__(self) -> None:
        number(
            "threshold", self.threshold, at_least=0.0, allow_infinite=True,
            allowed="a number D >= 0, or infinity for no updates at all",
        )  # fmt: skip

    @property
    def level(self) -> float:
        """D."""
        return self.threshold


@dataclass(frozen=True)
class Schedule(Trigger):
    """Updates at the end of steps ⌊T/B⌋, 2⌊T/B⌋, …, exactly B of them (B ≤ T)."""

    stored_name = "Schedule"

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


@dataclass(frozen=True)
class Always(Trigger):
    """Ask for an update after every sample of every client."""

    stored_name = "Always"

    @property
    def level(self) -> float:
        """Whatever the gain."""
        return -math.inf


@dataclass(frozen=True)
class Never(Trigger):
    """Never ask for an update: every client learns alone."""

    stored_name = "Never"
