"""Events of a coordinator."""

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
    "schema",  # the schema of records has changed, or a client is sent the new one
    "invalid",  # a client sent an invalid message
    "waiting",  # an update is requested or due, with too few clients
    "updating",  # a global update has started
    "excluded",  # the update goes on without a client
    "abandoned",  # the coordinator gave up the update
    "updated",  # the update has produced a model
    "ignored",  # a client's reward report or request is invalid
    "limited",  # a client exceeds its limits: some messages were dropped
    "samples",  # a client has fewer samples than before, or suddenly many more
    "restored",  # a client returned with an older state
    "frozen",  # the operator has frozen the federation, or has ended that
    "memory",  # samples count for longer or shorter from now on
    "ended",  # the schedule or the privacy budget has ended
    "duplicate_coordinator",  # another coordinator of this federation runs
    "alarm",  # an alarm starts or ends
]


@dataclass(frozen=True)
class CoordinatorEvent:
    """An event: its kind, a sentence for the log, data for scripts."""

    kind: EventKind
    text: str
    facts: dict[str, Any] = field(default_factory=dict)


class Emit(Protocol):
    """A function that reports an event: kind, text, and its facts by name."""

    def __call__(self, kind: EventKind, text: str, /, **facts: object) -> None:
        """Report an event."""


class UpdateStatus(msgspec.Struct, frozen=True):
    """A global update that produced a model: see `UpdateFinished`."""

    number: int
    at: float
    t: int
    asked_by: str | None
    clients: int
    samples: int | None  # None: unknown
    rounds: int
    seconds: float
    bytes: int
    left_out: dict[str, str]


class EventStatus(msgspec.Struct, frozen=True):
    """An event: Unix time, kind, text, client."""

    at: float
    kind: EventKind
    text: str
    client: str | None = None


class History:
    """Recent updates and events in memory; starts with the updates of the file."""

    def __init__(self, updates: Iterable[UpdateFinished] = ()) -> None:
        shown = (msgspec.convert(each, UpdateStatus, from_attributes=True) for each in updates)
        self.updates: deque[UpdateStatus] = deque(shown, maxlen=MOST_UPDATES)
        self.events: deque[EventStatus] = deque(maxlen=MOST_EVENTS)
        self.counts: Counter[str] = Counter()
        #: The newest event of each kind about each client (None: without a client).
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
