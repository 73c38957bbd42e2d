"""What happens at a coordinator: the events it reports, and the last ones that it remembers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from fedglb.federation.coordinator.store import UpdateFinished

#: How many of the last updates and events are remembered (and shown).
MOST_UPDATES, MOST_EVENTS = 500, 200
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
    "ended",  # no further update begins: the schedule or the privacy budget has ended
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


class UpdateStatus(msgspec.Struct, frozen=True):
    """A global update that led to a model: see `UpdateFinished`."""

    number: int
    at: float
    t: int
    asked_by: str | None
    clients: int
    samples: int
    rounds: int
    seconds: float
    bytes: int
    left_out: dict[str, str]


class EventStatus(msgspec.Struct, frozen=True):
    """Something that happened: when (a Unix time), what, in words, and about which client."""

    at: float
    kind: str
    text: str
    client: str | None = None


class History:
    """What is remembered of the past, in memory; it begins with the updates of the file."""

    def __init__(self, updates: Iterable[UpdateFinished] = ()) -> None:
        self.updates: deque[UpdateStatus] = deque(map(_shown, updates), maxlen=MOST_UPDATES)
        self.events: deque[EventStatus] = deque(maxlen=MOST_EVENTS)
        self.counts: Counter[str] = Counter()
        #: The newest event of each kind about each client (None: about none).
        self.latest: dict[tuple[str, str | None], EventStatus] = {}

    def add(self, event: CoordinatorEvent, at: float) -> None:
        """Remember an event that happened at a Unix time."""
        client = event.facts.get("client")
        shown = EventStatus(at, event.kind, event.text, None if client is None else str(client))
        self.events.append(shown)
        self.counts[shown.kind] += 1
        self.latest[shown.kind, shown.client] = shown
        if event.kind == "updated":
            self.updates.append(msgspec.convert(event.facts, UpdateStatus))


def _shown(update: UpdateFinished) -> UpdateStatus:
    return msgspec.convert(update, UpdateStatus, from_attributes=True)
