"""Events and alarms of a coordinator.

An alarm needs the operator's attention; it lasts as long as its reason. docs/operate.md has the
remedy for each kind.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
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
    "ended",  # the schedule or the privacy budget has ended
    "duplicate_coordinator",  # another coordinator of this federation runs
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


# -- alarms --------------------------------------------------------------------------------------

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
#: Seconds for which an event of each kind is an alarm, unless something ends it first.
_STANDING: dict[str, float] = {
    "rejected": _HOUR,  # until the client is admitted
    "invalid": _HOUR,
    "ignored": _HOUR,
    "abandoned": _DAY,  # until an update succeeds
    "waiting": 5 * _MINUTE,  # repeated while it lasts
    "limited": _HOUR,
    "samples": _DAY,
    "restored": _DAY,
    "duplicate_coordinator": 5 * _MINUTE,  # repeated while it lasts
}
_LAST, _OFTEN = 10, 3  # an alarm: left out of 3 of the last 10 updates
_ENDS_SOON = 30 * _DAY
#: A stored name: scripts that read ``fedglb federation status --json`` wait for it.
AlarmKind: TypeAlias = (
    EventKind
    | Literal[
        "stopped",  # the coordinator does not run
        "disconnected",  # it has no connection to the NATS server
        "left_out",  # a client was left out of several of the last updates
        "certificate",  # a certificate expires soon, or has expired
        "no_updates",  # no update for a day, though clients are present
    ]
)


class Alarm(msgspec.Struct, frozen=True):
    """An alarm: kind, text, start (Unix time), client."""

    kind: AlarmKind
    text: str
    since: float | None
    client: str | None = None


def times_left_out(updates: Sequence[UpdateStatus]) -> Counter[str]:
    """Return how many of the last ten updates left each client out."""
    last = list(updates)[-_LAST:]
    return Counter(client for update in last for client in update.left_out)


def alarms_of(
    history: History,
    certificates: Mapping[str, float],
    now: float,
    *,
    started: float | None,
    lost: float | None,
    present: int,
    scheduled: bool = False,
) -> tuple[Alarm, ...]:
    """Return the current alarms.

    `started` None: the coordinator does not run; `lost`: when it lost its connection. On a
    schedule (`scheduled`) updates may be days apart.
    """
    out: list[Alarm] = []
    newest = history.updates[-1].at if history.updates else 0.0
    if started is None:
        out.append(Alarm("stopped", "the coordinator does not run", None))
    elif lost is not None:
        out.append(Alarm("disconnected", "no connection to the NATS server", lost))
    out += _of_certificates(certificates, now)
    for (kind, client), event in history.latest.items():
        if now - event.at <= _STANDING.get(kind, -1.0) and not _is_over(event, history, newest):
            out.append(Alarm(event.kind, event.text, event.at, client))
    out += _of_updates(history.updates)
    since = max(newest, started or 0.0)
    if started is not None and present and not scheduled and now - since > _DAY:
        hours = int((now - since) / _HOUR)
        text = f"no update for {hours} hours, with {present} clients present"
        out.append(Alarm("no_updates", text, since))
    return tuple(out)


def _of_certificates(certificates: Mapping[str, float], now: float) -> Iterable[Alarm]:
    for name, ends in sorted(certificates.items(), key=lambda item: item[1]):
        if ends - now < _ENDS_SOON:
            when = time.strftime("%Y-%m-%d", time.gmtime(ends))
            text = f"{name}'s certificate {'expired' if ends < now else 'expires'} on {when}"
            yield Alarm("certificate", text, max(0.0, ends - _ENDS_SOON), name)


def _is_over(event: EventStatus, history: History, newest: float) -> bool:
    if event.kind == "rejected":
        admitted = history.latest.get(("joined", event.client))
        return admitted is not None and admitted.at >= event.at
    return event.kind in ("abandoned", "waiting") and newest >= event.at


def _of_updates(updates: Sequence[UpdateStatus]) -> Iterable[Alarm]:
    for client, times in sorted(times_left_out(updates).items()):
        if times >= _OFTEN:
            last = next(u for u in reversed(updates) if client in u.left_out)
            text = (
                f"{client} was left out of {times} of the last {min(len(updates), _LAST)} "
                f"updates; the last reason: {last.left_out[client]}"
            )
            yield Alarm("left_out", text, last.at, client)
