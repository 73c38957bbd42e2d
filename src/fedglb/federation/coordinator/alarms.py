"""The conditions of a coordinator's alarms.

An alarm needs the operator's attention; it lasts as long as its reason. docs/operate.md has the
remedy for each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fedglb.federation.alarms import DAY, HOUR, MINUTE, Alarm, ends_soon
from fedglb.federation.coordinator.differences import OFTEN
from fedglb.federation.coordinator.events import EventStatus, History, UpdateStatus
from fedglb.federation.coordinator.session import CoordinatorSession

#: Seconds for which an event of each kind is an alarm, unless something ends it first.
_STANDING: dict[str, float] = {
    "rejected": HOUR,  # until the client is admitted
    "invalid": HOUR,
    "ignored": HOUR,
    "abandoned": DAY,  # until an update succeeds
    "waiting": 5 * MINUTE,  # repeated while it lasts
    "limited": HOUR,
    "samples": DAY,
    "restored": DAY,
    "duplicate_coordinator": 5 * MINUTE,  # repeated while it lasts
}
#: All kinds: stored names. Scripts that read ``fedglb federation status --json`` wait for them.
KINDS = (
    *_STANDING,
    "stopped",  # the coordinator does not run
    "disconnected",  # it has no connection to the NATS server
    "nobody",  # no client is present
    "away",  # a client is away for longer than it ever was
    "overdue",  # an update is requested or scheduled, and does not finish
    "left_out",  # a client was left out of several of the last updates
    "far",  # a client is far from all others, in several updates in a row
    "disk",  # the disk is nearly full
    "certificate",  # a certificate expires soon, or has expired
)
_LAST, _OFTEN = 10, 3  # an alarm: left out of 3 of the last 10 updates
_DISCONNECTED, _NOBODY = 10.0, 5 * MINUTE  # seconds until it is an alarm
_LONGER, _AWAY = 1.25, HOUR  # times the longest absence so far, but at least so long
_GONE = 30 * DAY  # then a client counts as gone for good
_PATIENCE = 30  # time limits, of one answer, for a whole update


def times_left_out(updates: Sequence[UpdateStatus]) -> Counter[str]:
    """Return how many of the last ten updates left each client out."""
    last = list(updates)[-_LAST:]
    return Counter(client for update in last for client in update.left_out)


def current_alarms(
    session: CoordinatorSession,
    history: History,
    certificates: Mapping[str, float],
    now: float,
    *,
    started: float | None,
    lost: float | None,
) -> tuple[Alarm, ...]:
    """Return the alarms of a coordinator that hold now; times as in `alarms_of`."""
    due, policy = session.due_since(), session.policy
    return alarms_of(
        history, certificates, now, started=started, lost=lost, present=len(session.members),
        absences={name: (session.absence(name), r.longest) for name, r in session.records.items()},
        late=None if due is None else due + policy.min_interval + _PATIENCE * policy.time_limit,
        far=session.driver.differences.far,
    )  # fmt: skip


def alarms_of(
    history: History,
    certificates: Mapping[str, float],
    now: float,
    *,
    started: float | None,
    lost: float | None,
    present: int,
    absences: Mapping[str, tuple[float, float]] | None = None,
    late: float | None = None,
    far: Mapping[str, int] | None = None,
) -> tuple[Alarm, ...]:
    """Return the alarms that hold now.

    `started` None: the coordinator does not run; `lost`: when it lost its connection; `absences`:
    the seconds for which each client has been away, and its longest absence before; `late`: when
    the update that is due should have finished; `far`: in how many updates in a row a client was
    far from all others.
    """
    out: list[Alarm] = []
    newest = history.updates[-1].at if history.updates else 0.0
    if started is None:
        out.append(Alarm("stopped", "the coordinator does not run: start it", urgent=True))
    elif lost is not None and now - lost > _DISCONNECTED:
        text = "no connection to the NATS server: is it up, and has no certificate expired?"
        out.append(Alarm("disconnected", text, lost, urgent=True))
    out += _of_certificates(certificates, now)
    for (kind, client), event in history.latest.items():
        if now - event.at <= _STANDING.get(kind, -1.0) and not _is_over(event, history, newest):
            out.append(Alarm(event.kind, event.text, event.at, client))
    out += _of_updates(history.updates)
    out += _of_distances(far or {})
    if started is not None and lost is None:
        out += _of_absences(absences or {}, certificates, now, started, present)
    if started is not None and late is not None and now > late:
        text = (
            "an update is due and does not finish: find clients that are absent or left out, and "
            "read the coordinator's log"
        )
        out.append(Alarm("overdue", text, late))
    return tuple(out)


def _of_certificates(certificates: Mapping[str, float], now: float) -> Iterable[Alarm]:
    for name, ends in sorted(certificates.items(), key=lambda item: item[1]):
        how = f"fedglb federation renew FOLDER {name.removeprefix('the ')}"
        yield from ends_soon(name, ends, now, how)


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


def _of_distances(far: Mapping[str, int]) -> Iterable[Alarm]:
    for client, times in far.items():
        if times >= OFTEN:
            text = (
                f"{client} has been far from all other clients in {times} updates in a row: do its "
                "features and rewards mean what the others' do? If so, its own model serves it"
            )
            yield Alarm("far", text, None, client)


def _of_absences(
    absences: Mapping[str, tuple[float, float]],
    certificates: Mapping[str, float],
    now: float,
    started: float,
    present: int,
) -> Iterable[Alarm]:
    shortest = min((away for away, _ in absences.values()), default=0.0)
    if not present and min(shortest, now - started) > _NOBODY:
        text = "no client is present: check the network to the server, and the agents' status"
        yield Alarm("nobody", text, now - shortest, urgent=True)
    every = "the server" in certificates  # else only the coordinator's own are known
    for client, (away, longest) in sorted(absences.items()):
        if every and client not in certificates:
            continue  # it is revoked
        if max(_AWAY, _LONGER * longest) < away < _GONE:
            before = f"{longest / HOUR:.1f} h at most before" if longest else "never before"
            text = (
                f"{client} has been away for {away / HOUR:.1f} h ({before}): ask its owner; if it "
                "has left for good, revoke it"
            )
            yield Alarm("away", text, now - away, client)
