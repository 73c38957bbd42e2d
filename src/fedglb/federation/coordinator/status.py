"""The status of a coordinator: one snapshot without samples or models.

The live page, `fedglb federation status` and the metrics show the same snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.events import (
    MOST_UPDATES,
    Alarm,
    EventStatus,
    History,
    UpdateStatus,
    alarms_of,
    times_left_out,
)
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.rewards import RewardStatus
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.privacy import state
from fedglb.provenance import release

_MOST_MISSING = 20  # names of clients that an update waits for


class MemberStatus(msgspec.Struct, frozen=True):
    """A client that was ever admitted; times are Unix times, None where they are unknown."""

    name: str
    present: bool
    joined: float | None
    seen: float | None  # when it was last heard of
    software: str
    model: int  # the update of the newest model that was sent to it
    samples: int  # that the newest model covers
    share: float  # of all samples that it covers
    left_out: int  # of how many of the last ten updates
    rewards: RewardStatus | None = None  # what it reports of its rewards, if it does


class Totals(msgspec.Struct, frozen=True):
    """Sums over the life of the coordinator's file.

    `messages`, `transfers` and `scalars` are the protocol's ledger, which counts every message of
    an update once; `sent` and `bytes` count all that went over the wire.
    """

    updates: int
    rounds: int
    samples: int
    messages: int
    transfers: int
    scalars: int
    sent: int
    bytes: int


class CertificateStatus(msgspec.Struct, frozen=True):
    """When a member's certificate ends, a Unix time."""

    name: str
    ends: float


class ScheduleStatus(msgspec.Struct, frozen=True):
    """How far a schedule of updates is; `start` and `next` are Unix times."""

    updates: int
    done: int  # one update may make up for several of the schedule's times
    start: float | None  # None: not started
    next: float | None  # None: never, or not yet known
    ended: str | None  # why no further update begins


class PrivacyStatus(msgspec.Struct, frozen=True):
    """What is promised, to whom, and how much of it is spent: see `GaussianMechanism`."""

    epsilon: float
    delta: float
    neighbours: str
    contributions: int
    noise: str
    zcdp_epsilon: float  # of the same noise by zero-concentrated privacy: a looser promise
    spent: float  # ε, at the same δ, of all updates that have begun: each may have been answered
    releases: int  # updates that have begun
    updates: int  # that there is a budget for
    protects: tuple[str, ...]  # who is protected from whom, one sentence each
    caveats: tuple[str, ...]  # what that rests on


class SumsStatus(msgspec.Struct, frozen=True):
    """What was agreed on about secure sums."""

    minimum: int  # clients in every sum
    roster: str  # its digest: owners of agents compare it with each other
    members: tuple[str, ...]


class CoordinatorStatus(msgspec.Struct, frozen=True):
    """A coordinator at one moment; times are Unix times."""

    federation: str
    server: str
    software: str
    running: bool
    connected: bool  # to the NATS server
    time: float  # when this snapshot was taken
    started: float | None  # None: the coordinator does not run
    model: int  # the number of the last update that led to a model, 0: none
    updating: int | None  # the number of the update in progress
    waiting_for: tuple[str, ...]  # up to 20 clients whose answers that waits for
    quorum: int
    max_clients: int
    totals: Totals
    members: tuple[MemberStatus, ...]
    updates: tuple[UpdateStatus, ...]  # the last ones, oldest first
    events: tuple[EventStatus, ...]  # likewise
    event_counts: dict[str, int]  # of each kind, since the coordinator started
    alarms: tuple[Alarm, ...]
    certificates: tuple[CertificateStatus, ...]
    schedule: ScheduleStatus | None = None
    privacy: PrivacyStatus | None = None
    secure_sums: SumsStatus | None = None

    @property
    def present(self) -> int:
        """How many clients are present."""
        return sum(member.present for member in self.members)

    def to_json(self) -> bytes:
        """Return it as JSON: what `/status.json` and ``status --json`` give."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes) -> CoordinatorStatus:
        """Return the status that `to_json` encoded; other data raise `msgspec.MsgspecError`."""
        return msgspec.json.decode(data, type=cls)


def status_of(
    bundle: Bundle,
    session: CoordinatorSession,
    history: History,
    certificates: Mapping[str, float],
    *,
    started: float | None = None,
    lost: float | None = None,
) -> CoordinatorStatus:
    """Return the status of a coordinator.

    `started` is when it did (None: it does not run), `lost` since when it has no connection to
    the NATS server (None: it has one).
    """
    now, monotonic = time.time(), time.monotonic()
    coordinator, traffic = session.coordinator, session.traffic
    ledger, roster = coordinator.ledger, bundle.roster
    missed = times_left_out(history.updates)
    covered = {str(client): c.samples for client, c in coordinator.covered.items()}
    samples = sum(covered.values())
    members = tuple(
        MemberStatus(
            name=name,
            present=started is not None and name in session.members,
            joined=record.joined,
            seen=session.last_seen(name, monotonic),
            software=record.software,
            model=record.model,
            samples=covered.get(name, 0),
            share=covered.get(name, 0) / samples if samples else 0.0,
            left_out=missed.get(name, 0),
            rewards=session.rewards.of(name),
        )
        for name, record in sorted(session.records.items())
    )
    return CoordinatorStatus(
        federation=bundle.federation,
        server=bundle.server,
        software=release(),
        running=started is not None,
        connected=started is not None and lost is None,
        time=now,
        started=started,
        model=coordinator.finished,
        updating=None if session.driver.idle else coordinator.started,
        waiting_for=tuple(session.driver.missing()[:_MOST_MISSING]),
        quorum=session.policy.quorum,
        max_clients=session.agreement.max_clients,
        totals=Totals(
            coordinator.syncs, coordinator.rounds, samples,
            ledger.messages, ledger.transfers, ledger.scalars, traffic.messages, traffic.size,
        ),
        members=members,
        updates=tuple(history.updates),
        events=tuple(history.events),
        event_counts=dict(history.counts),
        alarms=alarms_of(
            history, certificates, now,
            started=started, lost=lost, present=len(session.members),
            scheduled=bool(session.agreement.times),
        ),
        certificates=tuple(CertificateStatus(*item) for item in sorted(certificates.items())),
        schedule=schedule_of(session),
        privacy=privacy_of(session),
        secure_sums=None if roster is None else SumsStatus(
            bundle.agreement.min_members, roster.digest.hex(), roster.names
        ),
    )  # fmt: skip


def stored_status(
    bundle: Bundle, file: Path, certificates: Mapping[str, float]
) -> CoordinatorStatus:
    """Return the status of a coordinator that does not run, from its file, which is not changed.

    Without a file the coordinator has never run: there are no clients and no updates.
    `Unavailable` is raised if a coordinator has the file open.
    """
    store = CoordinatorStore.copy_of(file)
    try:
        session = CoordinatorSession(
            bundle.agreement, store, CoordinatorPolicy(), lambda event: None
        )
        history = History(store.last_updates(MOST_UPDATES))
        return status_of(bundle, session, history, certificates)
    finally:
        store.close()


def schedule_of(session: CoordinatorSession) -> ScheduleStatus | None:
    """Return how far a coordinator's schedule is; None: it has none."""
    driver = session.driver
    table, ended = driver.timetable, driver.ended
    if not table.times:
        return None
    following = None if ended else table.next
    return ScheduleStatus(len(table.times), table.done, table.start, following, ended)


def privacy_of(session: CoordinatorSession) -> PrivacyStatus | None:
    """Return what a federation promises, and what is spent of it; None: nothing is promised."""
    coordinator = session.coordinator
    privacy, plan = coordinator.algorithm.privacy, coordinator.setting.noise
    if privacy is None or plan is None:
        return None
    begun = min(coordinator.started, plan.updates)  # a lost file may skip some
    said = state(privacy, plan, begun, simulated=False)
    same = (field for field in PrivacyStatus.__struct_fields__ if field != "spent")
    spent = said.spent() if begun else 0.0
    return PrivacyStatus(spent=spent, **{field: getattr(said, field) for field in same})
