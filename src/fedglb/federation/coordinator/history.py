"""The last events and updates of a coordinator, and how often each kind of event has happened."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from fedglb.federation.coordinator.events import CoordinatorEvent
from fedglb.federation.coordinator.store import UpdateFinished

#: How many of the last updates and events are remembered (and shown).
MOST_UPDATES, MOST_EVENTS = 500, 200


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
    """What is remembered of the past, in memory; it begins with the updates of the file.

    Examples
    --------
    >>> history = History()
    >>> history.add(CoordinatorEvent("joined", "a has joined", {"client": "a"}), at=1.0)
    >>> history.counts["joined"], history.events[-1].text
    (1, 'a has joined')
    """

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
