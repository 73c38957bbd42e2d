"""The status of a coordinator: one snapshot without samples or models.

The live page, `fedglb federation status` and the metrics show the same snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.alarms import Alarm, alarms_of, times_left_out
from fedglb.federation.coordinator.events import MOST_UPDATES, EventStatus, History, UpdateStatus
from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.rewards import RewardStatus
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.privacy import state
from fedglb.provenance import release

_MOST_MISSING = 20  # names of clients that an update waits for


class MemberStatus(msgspec.Struct, frozen=True):
    """A client that was ever admitted.

    Parameters
    ----------
    name
        Its name.
    present
        Whether it is present now.
    joined, seen
        When it was first admitted and when it was last heard of, as Unix times; None: unknown.
    software
        What it said it was.
    model
        The update of the newest model that was sent to it.
    samples, share
        How many of its samples the newest model covers, and their share of all that it covers.
    left_out
        Of how many of the last ten updates it was left out.
    rewards
        What it reports of its rewards, if it does.
    """

    name: str
    present: bool
    joined: float | None
    seen: float | None
    software: str
    model: int
    samples: int
    share: float
    left_out: int
    rewards: RewardStatus | None = None


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
    """How far a schedule of updates is.

    Parameters
    ----------
    updates
        How many times it has.
    done
        How many of them are past; one update may make up for several.
    start, next
        When it started, and when the next update is due, as Unix times; None: not yet, and never.
    ended
        Why no further update begins; None: one does.
    """

    updates: int
    done: int
    start: float | None
    next: float | None
    ended: str | None


class PrivacyStatus(msgspec.Struct, frozen=True):
    """What is promised, to whom, and how much of it is spent.

    Parameters
    ----------
    epsilon, delta, neighbours, contributions, noise
        What was agreed on: see `GaussianMechanism`.
    zcdp_epsilon
        ε of the same noise by zero-concentrated privacy: a looser promise, by another way.
    spent
        ε, at the same δ, of all updates that have begun: clients may have answered each.
    releases, updates
        How many updates have begun, of how many that there is a budget for.
    protects, caveats
        Who is protected from whom, and what that rests on, one sentence each.
    """

    epsilon: float
    delta: float
    neighbours: str
    contributions: int
    noise: str
    zcdp_epsilon: float
    spent: float
    releases: int
    updates: int
    protects: tuple[str, ...]
    caveats: tuple[str, ...]


class SumsStatus(msgspec.Struct, frozen=True):
    """What was agreed on about secure sums.

    Parameters
    ----------
    minimum
        How many clients are in every sum, at least.
    roster
        The digest of the roster: owners of agents compare it with each other.
    members
        Who is in it.
    """

    minimum: int
    roster: str
    members: tuple[str, ...]


class CoordinatorStatus(msgspec.Struct, frozen=True):
    """A coordinator at one moment.

    Parameters
    ----------
    federation, server, software
        The federation's name, the address of its NATS server, and what the coordinator is.
    running, connected
        Whether the coordinator runs, and whether it is connected to the NATS server.
    time, started
        When the picture was taken, and when the coordinator started (None: it does not run).
    model
        The number of the last update that led to a model, 0 for none.
    updating, waiting_for
        The number of the update in progress (None: there is none), and clients (up to 20) whose
        answers it waits for.
    quorum, max_clients
        How many clients an update needs, and how many there may be.
    totals, members, updates, events, alarms, certificates
        See the classes. Updates and events are the last ones, oldest first.
    event_counts
        How often each kind of event happened since the coordinator started.
    secure_sums
        What was agreed on about secure sums; None: there are none.
    schedule, privacy
        How far the schedule of updates is, and what is spent of the privacy budget; None: there is
        no such thing.
    """

    federation: str
    server: str
    software: str
    running: bool
    connected: bool
    time: float
    started: float | None
    model: int
    updating: int | None
    waiting_for: tuple[str, ...]
    quorum: int
    max_clients: int
    totals: Totals
    members: tuple[MemberStatus, ...]
    updates: tuple[UpdateStatus, ...]
    events: tuple[EventStatus, ...]
    event_counts: dict[str, int]
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
    """Return the picture of a coordinator.

    `started` is when it did (None: it does not run), `lost` since when it has no connection to
    the NATS server (None: it has one).
    """
    now, monotonic = time.time(), time.monotonic()
    coordinator, traffic = session.coordinator, session.traffic
    ledger = coordinator.ledger
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
    ends = tuple(CertificateStatus(*item) for item in sorted(certificates.items()))
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
        certificates=ends,
        schedule=schedule_of(session),
        privacy=privacy_of(session),
        secure_sums=_sums_of(bundle),
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
        session = CoordinatorSession(bundle.agreement, store, Policy(), lambda event: None)
        history = History(store.last_updates(MOST_UPDATES))
        return status_of(bundle, session, history, certificates)
    finally:
        store.close()


def _sums_of(bundle: Bundle) -> SumsStatus | None:
    """Return what was agreed on about secure sums; None: there are none."""
    roster = bundle.roster
    if roster is None:
        return None
    return SumsStatus(bundle.agreement.min_members, roster.digest.hex(), roster.names)


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
    return PrivacyStatus(
        epsilon=said.epsilon,
        delta=said.delta,
        neighbours=said.neighbours,
        contributions=said.contributions,
        noise=said.noise,
        zcdp_epsilon=said.zcdp_epsilon,
        spent=said.spent() if begun else 0.0,
        releases=begun,
        updates=said.updates,
        protects=said.protects,
        caveats=said.caveats,
    )
