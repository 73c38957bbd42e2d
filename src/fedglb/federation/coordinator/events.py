"""What happens at a coordinator: its events, the last ones that it remembers, and alarms.

An alarm is something that an operator should look at; it stands as long as its reason does.
docs/operate.md says for each kind what to do.
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
    """Something that happened: in one word, as a sentence for a log, as data for a script."""

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
    kind: EventKind
    text: str
    client: str | None = None


class History:
    """What is remembered of the past, in memory; it begins with the updates of the file."""

    def __init__(self, updates: Iterable[UpdateFinished] = ()) -> None:
        shown = (msgspec.convert(each, UpdateStatus, from_attributes=True) for each in updates)
        self.updates: deque[UpdateStatus] = deque(shown, maxlen=MOST_UPDATES)
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


# -- alarms --------------------------------------------------------------------------------------

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
#: For how many seconds an event of each kind is an alarm, unless something ends it first.
_STANDING: dict[str, float] = {
    "rejected": _HOUR,  # until the client is admitted
    "invalid": _HOUR,
    "ignored": _HOUR,
    "abandoned": _DAY,  # until an update leads to a model
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
        "certificate",  # a certificate ends soon, or has ended
        "no_updates",  # clients are present, and there was no update for a day
    ]
)


class Alarm(msgspec.Struct, frozen=True):
    """Something to look at: what, in words, since when (a Unix time), about which client."""

    kind: AlarmKind
    text: str
    since: float | None
    client: str | None = None


def times_left_out(updates: Sequence[UpdateStatus]) -> Counter[str]:
    """Return of how many of the last ten updates each client was left out."""
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
    """Return the alarms that stand now.

    `started` None: the coordinator does not run; `lost` is since when it has no connection. On a
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
            text = f"the certificate of {name} {'has ended' if ends < now else 'ends'} on {when}"
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
                f"updates, the last time because: {last.left_out[client]}"
            )
            yield Alarm("left_out", text, last.at, client)
