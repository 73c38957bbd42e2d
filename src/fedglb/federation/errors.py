"""What can go wrong with an agent beside bad input."""

from __future__ import annotations


class Unavailable(RuntimeError):
    """It cannot be used here: closed, forked, or its file is another process's."""


class UnknownDecision(KeyError):
    """There is no such decision, or it was forgotten."""

    def __str__(self) -> str:
        return str(self.args[0])


class AlreadyObserved(ValueError):
    """The decision has its reward: a second one is refused."""


class DecisionExpired(ValueError):
    """The decision waited too long for its reward, or too many newer ones wait."""
