"""Alarms: what an operator should look at, derived from recent events.

An alarm stands as long as its reason does. docs/operate.md says for each kind what to do.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from fedglb.federation.coordinator.events import EventStatus, History, UpdateStatus

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
#: For how many seconds an event of each kind is an alarm, unless something ends it first.
_STANDING = {
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
_NO_UPDATES = _DAY
#: A stored name: scripts that read ``fedglb federation status --json`` wait for it.
AlarmKind: TypeAlias = Literal[
    "stopped",  # the coordinator does not run
    "disconnected",  # it has no connection to the NATS server
    "rejected",  # a client was not admitted
    "invalid",  # a client sent a message that cannot be right
    "ignored",  # a client reported rewards that cannot be right, or asked for what cannot be
    "abandoned",  # an update was given up, and none has led to a model since
    "waiting",  # an update is wanted or due, and there are too few clients for one
    "limited",  # a client sends more than it may
    "samples",  # a client has fewer samples than before, or suddenly many more
    "restored",  # a client came back with an older state than it had
    "duplicate_coordinator",  # another coordinator of this federation is there
    "left_out",  # a client was left out of several of the last updates
    "certificate",  # a certificate ends soon, or has ended
    "no_updates",  # clients are present, and there was no update for a day
]


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
    newest = history.updates[-1].at if history.updates else None
    if started is None:
        out.append(Alarm("stopped", "the coordinator does not run", None))
    elif lost is not None:
        out.append(Alarm("disconnected", "no connection to the NATS server", lost))
    out += _of_certificates(certificates, now)
    out += _of_events(history, newest, now)
    out += _of_updates(history.updates)
    since = max(newest or 0.0, started or 0.0)
    if started is not None and present and not scheduled and now - since > _NO_UPDATES:
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


def _of_events(history: History, newest: float | None, now: float) -> Iterable[Alarm]:
    for (kind, client), event in history.latest.items():
        stands = kind in _STANDING and now - event.at <= _STANDING[kind]
        if stands and not _is_over(event, history, newest):
            yield Alarm(kind, event.text, event.at, client)  # type: ignore[arg-type]


def _is_over(event: EventStatus, history: History, newest: float | None) -> bool:
    if event.kind == "rejected":
        admitted = history.latest.get(("joined", event.client))
        return admitted is not None and admitted.at >= event.at
    return event.kind in ("abandoned", "waiting") and newest is not None and newest >= event.at


def _of_updates(updates: Sequence[UpdateStatus]) -> Iterable[Alarm]:
    for client, times in sorted(times_left_out(updates).items()):
        if times >= _OFTEN:
            last = next(u for u in reversed(updates) if client in u.left_out)
            text = (
                f"{client} was left out of {times} of the last {min(len(updates), _LAST)} "
                f"updates, the last time because: {last.left_out[client]}"
            )
            yield Alarm("left_out", text, last.at, client)
