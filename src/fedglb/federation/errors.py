"""Exceptions of agents and coordinators, beside `InvalidInput` for bad arguments."""

from __future__ import annotations


class Unavailable(RuntimeError):
    """The agent, or its file, cannot be used here.

    It is closed, was opened before a fork, has no federation, or its file is open in another
    process. The message has the cause and the remedy.
    """


class Superseded(Unavailable):
    """The coordinator stops because another one of the same federation, or with its file, runs."""


class UnknownDecision(KeyError):
    """The agent's file has no decision with this id, or it was forgotten."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message in quotes


class AlreadyObserved(ValueError):
    """The decision already has a reward; a second one is refused, whatever its value.

    An application that does not know whether its reward arrived may send it again, and treat this
    error as an acknowledgement.

    Attributes
    ----------
    same
        Whether the stored reward equals the new one.
    """

    def __init__(self, text: str, same: bool = False) -> None:
        super().__init__(text)
        self.same = same


class DecisionExpired(ValueError):
    """The decision has expired, so its reward is refused.

    It waited longer than `expire_after` seconds, or `max_pending` newer decisions wait: see
    `Agent.open`.
    """
