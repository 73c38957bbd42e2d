"""The status of a coordinator: one snapshot without samples; of the model, the strongest weights.

The live page, `fedglb federation status` and the metrics show the same snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fedglb.algorithms.catalog import in_words
from fedglb.features.weights import Weight
from fedglb.federation.alarms import Alarm
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.alarms import current_alarms, times_left_out
from fedglb.federation.coordinator.differences import SpreadStatus
from fedglb.federation.coordinator.events import MOST_UPDATES, EventStatus, History, UpdateStatus
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.rewards import RewardStatus
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore, MemberRecord
from fedglb.federation.frozen import Frozen, read_frozen
from fedglb.privacy import state
from fedglb.provenance import release

_MOST_MISSING = 20  # names of clients that an update waits for


class MemberStatus(msgspec.Struct, frozen=True):
    """A client that was admitted or added; times are Unix times, None if unknown.

    On a schedule clients do not send their number of samples: it is None, as in `Totals` and
    `UpdateStatus`.
    """

    name: str
    present: bool
    joined: float | None  # None: it never came
    seen: float | None  # time of its last message
    software: str
    model: int  # the update of the newest model sent to it
    samples: int | None  # covered by the newest model
    share: float | None  # of all samples in the newest model
    left_out: int  # number of the last ten updates
    rewards: RewardStatus | None = None  # its own report, if any
    #: How many times as far from the others as clients are on average; None: unknown, or alike.
    distance: float | None = None
    far: bool = False  # its samples say that others are little help

    @property
    def apart(self) -> str:
        """Its distance as text."""
        times = "" if self.distance is None else f"{self.distance:.1f} ×"
        return f"{times} far".strip() if self.far else times


class Totals(msgspec.Struct, frozen=True):
    """Sums over the life of the coordinator's file.

    `messages`, `transfers` and `scalars` are the protocol's ledger, which counts every message of
    an update once; `sent` and `bytes` count all traffic.
    """

    updates: int
    rounds: int
    samples: int | None
    messages: int
    transfers: int
    scalars: int
    sent: int
    bytes: int


class CertificateStatus(msgspec.Struct, frozen=True):
    """The expiry of a member's certificate, a Unix time."""

    name: str
    ends: float


class ScheduleStatus(msgspec.Struct, frozen=True):
    """Progress of a schedule of updates; `start` and `next` are Unix times."""

    updates: int
    done: int  # one update may count for several scheduled times
    start: float | None  # None: not started
    next: float | None  # None: never, or not yet known
    ended: str | None  # why no further update begins


class PrivacyStatus(msgspec.Struct, frozen=True):
    """The promised privacy and the budget spent: see `GaussianMechanism`."""

    epsilon: float
    delta: float
    neighbours: str
    contributions: int
    noise: str
    zcdp_epsilon: float  # of the same noise by zero-concentrated privacy: a looser promise
    spent: float  # ε, at the same δ, of all updates begun: each may have been answered
    releases: int  # updates begun
    updates: int  # covered by the budget
    honest: int  # number of clients in every sum that must be honest; 1 with silo noise
    protects: tuple[str, ...]  # against whom, one sentence each
    caveats: tuple[str, ...]  # the assumptions


class SumsStatus(msgspec.Struct, frozen=True):
    """The agreed secure sums."""

    minimum: int  # minimum clients per sum
    roster: str  # its digest: owners of agents compare it with each other
    members: tuple[str, ...]


class MemoryStatus(msgspec.Struct, frozen=True):
    """How long samples count, where they age: times in seconds, and a Unix time."""

    half_life: float | None  # None: for ever, until the coordinator chooses another memory
    since: float | None  # older samples count less than that says; None: none do


class CoordinatorStatus(msgspec.Struct, frozen=True):
    """A coordinator at one moment; times are Unix times."""

    federation: str
    server: str
    software: str
    running: bool
    connected: bool  # to the NATS server
    time: float  # when this snapshot was taken
    started: float | None  # None: the coordinator does not run
    model: int  # the number of the last successful update, 0: none
    updating: int | None  # the number of the update in progress
    waiting_for: tuple[str, ...]  # up to 20 clients that it waits for
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
    caveats: tuple[str, ...] = ()  # limits of the proofs: see `Algorithm.caveats`
    weights: tuple[Weight, ...] = ()  # the strongest of the model, where there is a schema
    algorithm: str = ""  # its name
    choice: str = ""  # the rule by which arms are chosen, as `init` takes it, and its options
    frozen: Frozen | None = None  # the model that all clients choose with; None: the newest
    kept: tuple[int, ...] = ()  # the updates whose models are kept
    spread: SpreadStatus | None = None  # how far clients differ, where each has a model of its own
    memory: MemoryStatus | None = None  # None: all samples count alike, for good

    @property
    def present(self) -> int:
        """Number of clients present."""
        return sum(member.present for member in self.members)

    def to_json(self) -> bytes:
        """Return the JSON of `/status.json` and ``status --json``."""
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
    alarms: tuple[Alarm, ...] | None = None,
) -> CoordinatorStatus:
    """Return the status of a coordinator.

    `started` is its start time (None: it does not run), `lost` the time when it lost its
    connection to the NATS server (None: connected), `alarms` those that stand (None: those whose
    reason holds now).
    """
    now, monotonic = time.time(), time.monotonic()
    coordinator, traffic = session.coordinator, session.traffic
    ledger, roster = coordinator.ledger, bundle.roster
    missed, differences = times_left_out(history.updates), session.driver.differences
    covered = {str(client): c.samples for client, c in coordinator.covered.items()}
    counted = not session.agreement.times
    samples = sum(covered.values()) if counted else None
    never = MemberRecord("", present=False, model=0)
    # names with a space ("the server") are no clients'
    added = {name for name in certificates if " " not in name}
    records = dict.fromkeys(added | set(roster.names if roster else ()), never) | session.records
    members = tuple(
        MemberStatus(
            name=name,
            present=started is not None and name in session.members,
            joined=record.joined,
            seen=None if record is never else session.last_seen(name, monotonic),
            software=record.software,
            model=record.model,
            samples=covered.get(name, 0) if counted else None,
            share=None if samples is None else covered.get(name, 0) / max(1, samples),
            left_out=missed.get(name, 0),
            rewards=session.rewards.of(name),
            distance=differences.distances.get(name),
            far=name in differences.far,
        )
        for name, record in sorted(records.items())
    )
    if alarms is None:
        alarms = current_alarms(session, history, certificates, now, started=started, lost=lost)
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
        updates=tuple(history.updates) if counted else tuple(
            msgspec.structs.replace(each, samples=None) for each in history.updates
        ),
        events=tuple(history.events),
        event_counts=dict(history.counts),
        alarms=alarms,
        certificates=tuple(CertificateStatus(*item) for item in sorted(certificates.items())),
        schedule=schedule_of(session),
        privacy=privacy_of(session),
        secure_sums=None if roster is None else SumsStatus(
            bundle.agreement.min_members, roster.digest.hex(), roster.names
        ),
        caveats=session.agreement.algorithm.caveats(session.agreement.problem, federated=True),
        weights=session.weights(),
        algorithm=session.agreement.algorithm.name,
        choice=in_words(session.agreement.algorithm.choice),
        frozen=session.frozen,
        kept=tuple(session.kept_models()),
        spread=differences.spread,
        memory=memory_of(session),
    )  # fmt: skip


def stored_status(
    bundle: Bundle, file: Path, certificates: Mapping[str, float]
) -> CoordinatorStatus:
    """Return the status of a coordinator that does not run, from its file, without changing it.

    Without a file the coordinator has never run: there are no clients and no updates.
    `Unavailable` is raised if a coordinator has the file open.
    """
    store = CoordinatorStore.copy_of(file)
    try:
        session = CoordinatorSession(
            bundle.agreement, store, CoordinatorPolicy(), lambda event: None,
            frozen=read_frozen(bundle.folder),
        )  # fmt: skip
        history = History(store.last_updates(MOST_UPDATES))
        return status_of(bundle, session, history, certificates)
    finally:
        store.close()


def schedule_of(session: CoordinatorSession) -> ScheduleStatus | None:
    """Return the progress of a coordinator's schedule, or None without one."""
    driver = session.driver
    table, ended = driver.timetable, driver.ended
    if not table.times:
        return None
    following = None if ended else table.next
    return ScheduleStatus(len(table.times), table.done, table.start, following, ended)


def memory_of(session: CoordinatorSession) -> MemoryStatus | None:
    """Return the memory in force for the next update, or None where no memory forgets."""
    row = session.agreement.algorithm.memory.in_force(session.coordinator.model)
    if row is None:
        return None
    rate, since = float(row[-1]), float(row[-2]) if row.size > 1 else None
    return MemoryStatus(1.0 / rate if rate > 0.0 else None, since)


def privacy_of(session: CoordinatorSession) -> PrivacyStatus | None:
    """Return a federation's promised privacy and the budget spent, or None."""
    coordinator = session.coordinator
    privacy, plan = coordinator.algorithm.privacy, coordinator.setting.noise
    if privacy is None or plan is None:
        return None
    begun = min(coordinator.started, plan.updates)  # a lost file may skip numbers
    said = state(privacy, plan, begun, simulated=False)
    same = (field for field in PrivacyStatus.__struct_fields__ if field != "spent")
    spent = said.spent() if begun else 0.0
    return PrivacyStatus(spent=spent, **{field: getattr(said, field) for field in same})
