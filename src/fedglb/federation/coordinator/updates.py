"""Global updates at the coordinator: started, resent, abandoned, finished, written to its file.

State that must survive a crash is written before messages about it are returned, so before any
client learns of it.
"""

from __future__ import annotations

import functools
import logging
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from fedglb.errors import InvalidInput, integer
from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.differences import Differences
from fedglb.federation.coordinator.events import Emit
from fedglb.federation.coordinator.members import Stragglers
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.store import (
    CoordinatorStore,
    MemberRecord,
    Traffic,
    UpdateFinished,
    UpdateStarted,
)
from fedglb.federation.names import one_line
from fedglb.federation.wire.messages import Downward, Rejected
from fedglb.io.durations import in_words
from fedglb.protocol import Coordinator
from fedglb.protocol.messages import Covariance, Message, ModelSums, SyncRequest
from fedglb.protocol.one_pass import OnePassUpdate
from fedglb.protocol.update import IDLE

log = logging.getLogger(__name__)
#: A client, and the message for it.
Addressed: TypeAlias = tuple[str, Downward]
#: How far ahead of the last known update another one may be: a hundred years of one per second.
#: Numbers end at 2⁵³, and a forged number must not bring a federation near that.
FARTHEST = 2**32
_LONGEST_PAUSE = 4.0  # seconds between two resends


@dataclass
class Timetable:
    """The times of a schedule, and the number of them that are done.

    A time that passes while the coordinator is down, or too few clients are present, is made up
    for later; one update makes up for several such times.
    """

    times: tuple[float, ...]  # seconds since `start`, rising; empty: there is no schedule
    start: float | None = None  # when the coordinator first started, a Unix time
    done: int = 0

    def due(self, at: float) -> int:
        """Return the index, from 1, of the time that an update is due for; 0: none."""
        if self.start is None:
            return 0
        passed = bisect_right(self.times, at - self.start)
        return passed if passed > self.done else 0

    @property
    def ended(self) -> bool:
        """Whether all times are done."""
        return bool(self.times) and self.done >= len(self.times)

    @property
    def next(self) -> float | None:
        """The Unix time of the next update; None: never, or not yet known."""
        if self.start is None or self.done >= len(self.times):
            return None
        return self.start + self.times[self.done]


class UpdateDriver:
    """Drives the protocol's `Coordinator` by messages and by the clock, and writes its file.

    Each method returns the messages to be sent. `emit` gets every event; `after` is the
    number of the last update if the coordinator's file was lost.
    """

    def __init__(
        self,
        agreement: Agreement,
        store: CoordinatorStore,
        policy: CoordinatorPolicy,
        emit: Emit,
        after: int = 0,
    ) -> None:
        self._store, self.policy, self._emit = store, policy, emit
        self.records = store.members()
        self.coordinator, self.traffic = _restored(agreement, store, self.records)
        #: The last one-pass update with sums of each client's file.
        self.released = store.released()
        self.timetable = Timetable(agreement.times, *store.schedule())
        number, self._interrupted = store.last_started()
        known = max(self.coordinator.started, number)
        integer("after", after, at_least=0, at_most=known + FARTHEST)
        if after > known:
            store.skip_updates(after)
        #: An update whose model agents may have, but not this file: it was lost, or is old.
        self.lost_up_to = self.coordinator.started = max(known, after)
        #: Models up to this update are of older schemas of records.
        self.last_of_old_schemas = store.last_of_old_schemas()
        self._typical = store.typical_samples()
        self.stragglers = Stragglers()
        before = [k for k in store.kept_models() if k < self.coordinator.finished]
        kept = store.kept_model(before[-1]) if before else None
        self.differences = Differences(agreement, None if kept is None else kept[0])
        self.differences.note(self.coordinator.model, self.coordinator.covered)
        self.frozen = 0  # the update whose model all clients choose with, 0: the newest
        self._started_at, self._bytes_before = -math.inf, 0
        self._why_left_out: dict[str, str] = {}  # of the update in progress, with reasons
        self._round: tuple[int, ...] = ()
        self._answered = 0  # answers to that round so far
        self._asked_at, self._resend_at, self._pause = 0.0, 0.0, policy.resend
        #: Unix time, by which samples age
        self.wall: Callable[[], float] = time.time

    @property
    def idle(self) -> bool:
        """Whether no update is in progress."""
        return self.coordinator.phase == IDLE

    def missing(self) -> list[str]:
        """Return the clients whose answer the update in progress waits for."""
        return [str(client) for client in self.coordinator.missing()]

    def may_start(self, now: float) -> bool:
        """Return whether the last update started long enough ago for another one."""
        return now - self._started_at >= self.policy.min_interval

    def is_paused(self, client: str, now: float) -> bool:
        """Return whether a client is not asked for a while, because it did not answer."""
        return self.stragglers.pause(client, self.policy.time_limit, now) > 0.0

    def receive(self, message: Message, now: float) -> list[Addressed]:
        """Pass on a member's answer; an invalid one raises `InvalidInput` and changes nothing."""
        out: list[Addressed] = []
        if isinstance(message, Covariance | ModelSums):
            out = self._exclude_overweight(message, now)
            if str(message.client) not in self.coordinator.participants:
                return out
        return out + self._run(lambda: self.coordinator.receive(message), now, checked=True)

    def request_update(self, client: str, t: int, held: int, now: float) -> list[Addressed]:
        """Start the update that a client with the model of update `held` requests."""
        request = SyncRequest(client, t, held)
        action = self._without_paused(lambda: self.coordinator.receive(request), client, now)
        return self._run(action, now, checked=True)

    # -- clients ---------------------------------------------------------------------------------

    def exclude(self, clients: Iterable[str], why: str, now: float) -> list[Addressed]:
        """Go on without these clients, or abandon the update if too few remain."""
        leaving = [c for c in clients if c in self.coordinator.participants]
        if not leaving:
            return []
        for client in leaving:
            self._note_left_out(client, why)
        heavy = self._overweight(self._claims(leaving))  # if these were the last missing answers
        return self._leave_out([*leaving, *heavy], now) + _notices(heavy)

    def _note_left_out(self, client: str, why: str) -> None:
        self._why_left_out[client] = why
        self._emit("excluded", f"excluded {client}: {why}", client=client)

    def withdraw(self, client: str, now: float) -> list[Addressed]:
        """Go on without a client that has left the update."""
        return self.exclude([client], "it withdrew", now)

    def _leave_out(self, leaving: Sequence[str], now: float) -> list[Addressed]:
        if len(self.coordinator.participants) - len(leaving) < max(1, self.policy.quorum):
            return self._run(self._abandon, now)
        return self._run(lambda: self.coordinator.exclude(*leaving), now)

    def _claims(self, without: Iterable[str] = ()) -> dict[str, int]:
        """Return each participant's number of samples; empty until all have answered."""
        update, leaving = self.coordinator.update, set(without)
        if update is None or isinstance(update, OnePassUpdate):  # it has no sample counts
            return {}
        names = [str(client) for client in update.participants if client not in leaving]
        found = {c: update.gathered[c].samples for c in names if c in update.gathered}
        return found if len(found) == len(names) else {}

    def _overweight(self, claims: Mapping[str, int]) -> dict[str, str]:
        """Report clients with too many samples compared with the others; return the reasons."""
        if self.policy.max_samples is not None:
            return {}
        rule = self.policy.weights
        most = rule.limit(claims.values(), self._typical)
        out = {
            client: f"its {samples} samples are more than {most}, {rule.times:g} times the median "
            "client's; if they are real, start the coordinator with --max-samples"
            for client, samples in claims.items()
            if most is not None and samples > most
        }
        for client, why in out.items():
            self._note_left_out(client, why)
        return out

    def _exclude_overweight(self, last: Covariance | ModelSums, now: float) -> list[Addressed]:
        """Exclude clients with too many samples, if this message is the last sample count."""
        update = self.coordinator.update
        if update is None or not update.awaits(last):
            return []
        claims = self._claims(without=[str(last.client)])
        alone = len(update.participants) == 1
        if not claims and not alone:
            return []
        found = self._overweight({**claims, str(last.client): last.samples})
        return self._leave_out(list(found), now) + _notices(found) if found else []

    def drop_samples(self, client: str, now: float) -> list[Addressed]:
        """Count a client's samples as lost, because it has another file."""
        out = self.exclude([client], "it has another file", now)
        self.coordinator.drop_samples(client)
        self.records[client].current = False
        self._store.write_member(client, self.records[client])
        if self.released.pop(client, 0):
            self._store.write_released(self.released)
        return out

    def model_for(self, client: str) -> list[Addressed]:
        """Return the newest model for a client that lacks it; the ledger counts it once."""
        record, newest = self.records[client], self.coordinator.finished
        message = self.coordinator.model_for(client, again=record.model == newest)
        if record.model != newest:
            record.model = newest
            self._store.write_member(client, record)
        return [] if message is None else [(client, message)]

    def lacks_model(self, client: str, held: int) -> bool:
        """Return whether the update waits for a client that lacks the model of the request."""
        behind = held < self.coordinator.finished
        return self._at_model and behind and client in self.coordinator.missing()

    def lose_model(self) -> None:
        """Go on without a model: a client has a later one, which was lost with the file.

        Clients must take sums at the same model. They have different ones now, so the next update
        requests sums at θ = 0, which each client can compute. (In a one-pass update each client
        then takes them at its own model.)
        """
        if self._at_model:
            self.coordinator.model = None

    @property
    def _at_model(self) -> bool:
        """Whether clients take their sums at the newest model."""
        solver = self.coordinator.algorithm.global_update
        return solver is not None and (solver.starts_at_model or solver.one_pass)

    # -- the clock -------------------------------------------------------------------------------

    def reset_deadlines(self, now: float) -> None:
        """Restart all clients' time limits: they did not cause the silence."""
        self._asked_at = self._resend_at = now

    def resend(self, now: float) -> None:
        """At the next tick, send unanswered requests again."""
        self._resend_at = now

    def tick(self, now: float) -> list[Addressed]:
        """Send requests again, or exclude clients after their time limit."""
        if self.idle:
            return []
        if now - self._asked_at > self.policy.time_limit:
            missing = self.missing()
            for client in missing:
                self.stragglers.missed(client, now)
            return self._give_up_on(missing, f"within {self.policy.time_limit:g} s", now)
        if now < self._resend_at:
            return []
        self._pause = min(2.0 * self._pause, _LONGEST_PAUSE)
        self._resend_at = now + self._pause
        return self._requests()

    def _give_up_on(self, missing: list[str], within: str, now: float) -> list[Addressed]:
        """Go on without clients whose time limit is over."""
        return self.exclude(missing, f"no answer {within}", now)

    def _requests(self) -> list[Addressed]:
        """Return the unanswered requests, to be sent again."""
        return _addressed(self.coordinator.outstanding())

    def _wait_for_answers(self, now: float) -> None:
        """Start all clients' time limits for a new request."""
        self._asked_at, self._pause = now, self.policy.resend
        self._resend_at = now + self._pause

    def restart_interrupted(self, now: float) -> list[Addressed]:
        """Start the update that a crash interrupted again, under the next number."""
        if self._interrupted is None or not self.idle:
            return []
        started, self._interrupted = self._interrupted, None
        before = self.coordinator.started
        if len(self.coordinator.clients) < self.policy.quorum:
            self._store.end_update(started.number)
            return []
        if started.asked_by is not None and started.asked_by in self.coordinator.clients:
            request = SyncRequest(started.asked_by, started.t, self.coordinator.finished)
            action = functools.partial(self.coordinator.receive, request)
        else:
            action = functools.partial(self._begin, started.t)
        out = self._run(self._without_paused(action, started.asked_by, now), now)
        if self.coordinator.started == before:  # no budget for another one
            self._store.end_update(before)
        return out

    # -- updates on a schedule -------------------------------------------------------------------

    def start_schedule(self, at: float) -> None:
        """Start the schedule's clock at the coordinator's first start."""
        if self.timetable.times and self.timetable.start is None:
            self._store.start_schedule(at)
            self.timetable.start = at

    def due(self, at: float) -> int:
        """Return the index of the scheduled time that an update is due for; 0: none."""
        return 0 if self.ended else self.timetable.due(at)

    @property
    def ended(self) -> str | None:
        """Why no further update begins, or None."""
        most, count = self.coordinator.algorithm.max_updates, len(self.timetable.times)
        if self.coordinator.budget_spent:
            return f"the privacy budget of {most} updates is spent"
        if self.timetable.ended:
            return f"the schedule of {count} updates has ended"
        return None

    def begin_scheduled(self, time: int, now: float) -> list[Addressed]:
        """Begin the update of a scheduled time; its step is that time's index."""
        self.timetable.done = time
        action = functools.partial(self._begin, time)
        return self._run(self._without_paused(action, None, now), now)

    def _begin(self, t: int) -> list[Message]:
        """Begin an update without a client's request, and return its messages."""
        return self.coordinator.begin(t)

    def save(self) -> None:
        """Write the state if no update is in progress; else a restart repeats the update."""
        if self.idle:
            self._store.write_state(self.coordinator.to_arrays(), self.traffic, self.records)

    def _without_paused(
        self, start: Callable[[], list[Message]], asked_by: str | None, now: float
    ) -> Callable[[], list[Message]]:
        """Return `start`, without the clients that are paused.

        They stay members, and get its model; their samples are in a later one. If too few would
        remain, all are asked.
        """

        def action() -> list[Message]:
            coordinator, limit = self.coordinator, self.policy.time_limit
            pauses = {
                str(c): self.stragglers.pause(str(c), limit, now) for c in coordinator.clients
            }
            paused = [client for client, pause in pauses.items() if pause and client != asked_by]
            remain = len(coordinator.clients) - len(paused)
            if not self.idle or remain < max(1, self.policy.quorum):
                return start()
            for client in paused:
                coordinator.leave(client)
            try:
                return sorted(start(), key=lambda m: self.stragglers.count(str(m.client)) > 0)
            finally:
                for client in paused:
                    coordinator.join(client)
                    if not self.idle:
                        why = f"{self.stragglers.count(client)} updates without its answer"
                        self._why_left_out[client] = f"not asked: {why}"
                        text = f"{client} is not asked: {why}; again in {pauses[client]:.0f} s"
                        self._emit("excluded", text, client=client)

        return action

    # -- common to all changes ----------------------------------------------------------

    def _abandon(self) -> list[Message]:
        update, left = self.coordinator.started, len(self.coordinator.participants)
        quorum = max(1, self.policy.quorum)
        text = f"abandoned update {update}: fewer than {quorum} of {left} clients remain"
        self._emit("abandoned", text, update=update)
        self.coordinator.abandon()
        return []

    def _run(
        self, action: Callable[[], list[Message]], now: float, checked: bool = False
    ) -> list[Addressed]:
        """Change the coordinator, write the state that must survive, return the messages."""
        coordinator = self.coordinator
        before, update, finished = coordinator.phase, coordinator.started, coordinator.finished
        coordinator.now = int(self.wall())
        try:
            messages = action()
        except Exception as error:
            if checked and isinstance(error, InvalidInput):
                raise  # a client's mistake: nothing has changed
            # a failed solve must not stop the service
            log.exception("update %d failed", coordinator.started)
            self._emit("abandoned", f"update {coordinator.started} failed: {error!r}")
            coordinator.abandon()
            messages = []
        if coordinator.started > update:
            self._write_started(now)
        if coordinator.finished > finished:
            self._write_finished(now)
        elif before != IDLE and self.idle:
            self._store.end_update(coordinator.started)
        if self.idle:
            self._why_left_out = {}
        progress = coordinator.update
        rounds, answered = (0, 0) if progress is None else (progress.rounds, progress.answered)
        current = (coordinator.started, coordinator.phase, rounds)
        if current != self._round:
            self._round = current
            self._wait_for_answers(now)
        elif answered > self._answered and self._resend_at > now:
            self._resend_at = now + self._pause  # answers arrive: the missing ones may be next
        self._answered = answered
        out = _addressed(messages)
        if coordinator.finished > finished and coordinator.repeats:
            out += self._run(self._without_paused(coordinator.again, None, now), now)
        return out

    def _write_started(self, now: float) -> None:
        coordinator = self.coordinator
        self._interrupted = None  # this update replaces it
        asked_by = None if coordinator.update is None else coordinator.update.asked_by
        asked_by = None if asked_by is None else str(asked_by)
        started = UpdateStarted(coordinator.started, coordinator.t, asked_by)
        self._store.start_update(started, self.timetable.done if self.timetable.times else None)
        self._started_at, self._bytes_before = now, self.traffic.size
        text = f"update {coordinator.started} starts with {len(coordinator.participants)} clients"
        self._emit("updating", text, update=coordinator.started, asked_by=asked_by)

    def _write_finished(self, now: float) -> None:
        coordinator = self.coordinator
        record = coordinator.last_update
        assert record is not None
        finished = UpdateFinished(
            number=coordinator.finished,
            at=time.time(),
            t=record.t,
            asked_by=None if record.client is None else str(record.client),
            clients=len(coordinator.covered),
            samples=record.samples,
            rounds=record.rounds,
            gradient_norm=record.gradient_norm,
            gap=record.gap,
            seconds=now - self._started_at,
            bytes=self.traffic.size - self._bytes_before,
            left_out=self._why_left_out,
        )
        for client in coordinator.covered:
            self.stragglers.answered(str(client))
        for name, member in self.records.items():
            member.current = True
            member.model = coordinator.finished if name in coordinator.clients else member.model
            member.seen = finished.at if name in coordinator.covered else member.seen
        claims = [part.samples for part in coordinator.covered.values()]
        self._typical = self.policy.weights.typical(claims, self._typical)
        self.differences.note(coordinator.model, coordinator.covered)
        if coordinator.finished in coordinator.releases:
            self.released |= dict.fromkeys(map(str, coordinator.covered), coordinator.finished)
        self._store.write_state(
            coordinator.to_arrays(), self.traffic, self.records,
            finished, self._typical, self.released, self.frozen,
        )  # fmt: skip
        known = f"{finished.samples} samples of " if finished.samples else ""
        text = (
            f"update {finished.number}: {known}{finished.clients} clients, "
            f"{finished.rounds} rounds, {1e3 * finished.seconds:.1f} ms"
        )
        totals = {"scalars": coordinator.ledger.scalars, "total_bytes": self.traffic.size}
        self._emit("updated", text, **asdict(finished), **totals)
        if (filters := coordinator.filters) is not None and filters.switched:
            half_life = 1.0 / rate if (rate := float(filters.in_force[-1])) > 0.0 else None
            length = "for ever" if half_life is None else f"half after {in_words(half_life)}"
            text = f"samples count {length} from now on, which predicts the new ones best"
            self._emit("memory", text, half_life=half_life)


def _addressed(messages: Iterable[Message]) -> list[Addressed]:
    return [(str(message.client), message) for message in messages]  # type: ignore[misc]


def _notices(left_out: Mapping[str, str]) -> list[Addressed]:
    """Return the messages to clients that an update left out, by their reasons."""
    return [(c, Rejected(one_line(why), member=True)) for c, why in left_out.items()]


def _restored(
    agreement: Agreement, store: CoordinatorStore, records: Mapping[str, MemberRecord]
) -> tuple[Coordinator, Traffic]:
    """Return the coordinator as of the last finished update, without clients until their hello."""
    algorithm, setting, limit = agreement.algorithm, agreement.setting, agreement.reward_limit
    kept = store.state()
    if kept is None:
        return Coordinator(algorithm, setting, reward_limit=limit), Traffic()
    coordinator = Coordinator.from_arrays(algorithm, setting, kept[0], reward_limit=limit)
    for client in list(coordinator.clients):
        coordinator.leave(client)
    for name, record in records.items():
        if not record.current:  # it came with a new file after that update
            coordinator.drop_samples(name)
    return coordinator, kept[1]
