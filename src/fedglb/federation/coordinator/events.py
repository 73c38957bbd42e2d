"""The events that a coordinator reports to its operator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

#: A stored name: `fedglb federation coordinator --json` prints it, and scripts wait for it.
EventKind: TypeAlias = Literal[
    "joined",  # a client was admitted
    "left",  # a client said goodbye, or was silent for too long
    "rejected",  # a client was not admitted
    "invalid",  # a client sent a message that cannot be right
    "waiting",  # an update is wanted or due, and there are too few clients for one
    "updating",  # a global update has started
    "excluded",  # the update goes on without a client
    "abandoned",  # the update was given up
    "updated",  # the update has led to a model
    "ignored",  # what a client reports of its rewards, or asks for, cannot be
    "limited",  # a client sends more than it may, and some of it was dropped unread
    "samples",  # a client has fewer samples than before, or suddenly many more
    "restored",  # a client came back with an older state than it had
    "ended",  # no update will begin any more: the schedule or the privacy budget is at its end
    "duplicate_coordinator",  # another coordinator of this federation is there
]


@dataclass(frozen=True)
class CoordinatorEvent:
    """Something that happened at the coordinator.

    Parameters
    ----------
    kind
        What happened, in one word.
    text
        The same as a sentence, for a log.
    facts
        The same as data, for a script.
    """

    kind: EventKind
    text: str
    facts: dict[str, Any] = field(default_factory=dict)


class Emit(Protocol):
    """A function that reports an event: kind, text, and its facts by name."""

    def __call__(self, kind: EventKind, text: str, /, **facts: object) -> None:
        """Report an event."""
