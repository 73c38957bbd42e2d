"""Global updates at the coordinator: begun, asked for again, given up, finished, kept.

What must survive a crash is written before its messages are returned, so before anybody hears
of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from fedglb.errors import InvalidInput
from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.store import (
    CoordinatorFile,
    MemberRecord,
    UpdateFinished,
    UpdateStarted,
)
from fedglb.federation.coordinator.traffic import Traffic
from fedglb.protocol import Coordinator
from fedglb.protocol.messages import Message, SyncRequest
from fedglb.protocol.update import IDLE

log = logging.getLogger(__name__)
_SLOWEST = 4.0  # seconds between two resends at most


class UpdateDriver:
    """The protocol's `Coordinator`, driven by messages and by the clock, with its file.

    Parameters
    ----------
    agreement, file, policy
        What is agreed on, where the state is kept, how clients are treated.
    say
        Called with the kind, the text and the facts of every event.
    after
        The number of the last update, where the coordinator's file was lost.
    """

    def __init__(
        self,
        agreement: Agreement,
        file: CoordinatorFile,
        policy: Policy,
        say: Callable[..., None],
        after: int = 0,
    ) -> None:
        self._file, self.policy, self._say = file, policy, say
        self.known = file.members()
        self.coordinator, self.traffic = _restored(agreement, file, self.known)
        number, self._interrupted = file.last_begun()
        if after > max(self.coordinator.started, number):
            file.skip(after)
        self.coordinator.started = max(self.coordinator.started, number, after)
        self._begun_at, self._bytes_before = 0.0, 0
        self._round: tuple[int, ...] = ()
        self._asked_at, self._resend_at, self._pause = 0.0, 0.0, policy.resend

    @property
    def idle(self) -> bool:
        """Whether no update is in progress."""
        return self.coordinator.phase == IDLE

    def receive(self, message: Message, now: float) -> list[Message]:
        """Pass a member's message on; `InvalidInput` if it cannot be right: nothing changed."""
        return self._run(lambda: self.coordinator.receive(message), now, checked=True)

    # -- clients ---------------------------------------------------------------------------------

    def without(self, clients: Iterable[str], why: str, now: float) -> list[Message]:
        """Go on without these clients, or give the update up if too few are left."""
        leaving = [c for c in clients if c in self.coordinator.participants]
        if not leaving:
            return []
        for client in leaving:
            self._say("left out", f"{client} is left out: {why}", client=client)
        if len(self.coordinator.participants) - len(leaving) < max(1, self.policy.quorum):
            return self._run(self._abandon, now)
        return self._run(lambda: self.coordinator.exclude(*leaving), now)

    def drop_samples(self, client: str, now: float) -> list[Message]:
        """Take a client's samples for lost: it has another file now."""
        out = self.without([client], "it has another file", now)
        self.coordinator.drop_samples(client)
        self.known[client].current = False
        self._file.member(client, self.known[client])
        return out

    def model_for(self, client: str) -> list[Message]:
        """Return the newest model for a client that lacks it; counted once."""
        known, newest = self.known[client], self.coordinator.finished
        message = self.coordinator.model_for(client, again=known.model == newest)
        if known.model != newest:
            known.model = newest
            self._file.member(client, known)
        return [] if message is None else [message]

    # -- the clock -------------------------------------------------------------------------------

    def reset_deadlines(self, now: float) -> None:
        """Give everybody the whole time for an answer: it was not they who were silent."""
        self._asked_at = self._resend_at = now

    def resend(self, now: float) -> None:
        """Ask those who have not answered again at the next tick."""
        self._resend_at = now

    def tick(self, now: float) -> list[Message]:
        """Ask again, or go on without those whose time is over."""
        if self.idle:
            return []
        if now - self._asked_at > self.policy.time_limit:
            why = f"no answer within {self.policy.time_limit:g} s"
            return self.without([str(c) for c in self.coordinator.missing()], why, now)
        if now < self._resend_at:
            return []
        self._pause = min(2.0 * self._pause, _SLOWEST)
        self._resend_at = now + self._pause
        return self.coordinator.outstanding()

    def restart_interrupted(self, now: float) -> list[Message]:
        """Begin anew the update that a crash cut off, under the next number."""
        if self._interrupted is None or not self.idle:
            return []
        started, self._interrupted = self._interrupted, None
        if len(self.coordinator.clients) < self.policy.quorum:
            self._file.end(started.number)
            return []
        if started.asked_by is not None and started.asked_by in self.coordinator.clients:
            request = SyncRequest(started.asked_by, started.t, self.coordinator.finished)
            return self._run(lambda: self.coordinator.receive(request), now)
        return self._run(lambda: self.coordinator.begin(started.t), now)

    def keep(self) -> None:
        """Write the state of an idle coordinator; an update in progress is begun anew later."""
        if self.idle:
            self._file.finish(self.coordinator.to_arrays(), self.traffic.pack(), self.known, None)

    # -- what every change goes through ----------------------------------------------------------

    def _abandon(self) -> list[Message]:
        update, left = self.coordinator.started, len(self.coordinator.participants)
        self._say("abandoned", f"update {update} is off: too few of {left} are left", update=update)
        self.coordinator.abandon()
        return []

    def _run(
        self, action: Callable[[], list[Message]], now: float, checked: bool = False
    ) -> list[Message]:
        """Do something to the coordinator, write what must be kept; return what is to be sent."""
        coordinator = self.coordinator
        before, update, finished = coordinator.phase, coordinator.started, coordinator.finished
        try:
            messages = action()
        except Exception as error:
            if checked and isinstance(error, InvalidInput):
                raise  # of a client's making: nothing has changed
            # a solve that fails must not take the service down
            log.exception("update %d failed", coordinator.started)
            self._say("abandoned", f"update {coordinator.started} failed: {error!r}")
            coordinator.abandon()
            messages = []
        if coordinator.started > update:
            self._begun(now)
        if coordinator.finished > finished:
            self._finished(now)
        elif before != IDLE and self.idle:
            self._file.end(coordinator.started)
        rounds = 0 if coordinator.update is None else coordinator.update.rounds
        current = (coordinator.started, coordinator.phase, rounds)
        if current != self._round:
            self._round, self._asked_at, self._pause = current, now, self.policy.resend
            self._resend_at = now + self._pause
        return messages

    def _begun(self, now: float) -> None:
        coordinator = self.coordinator
        self._interrupted = None  # whoever asked for this one: it does what a crash cut off, too
        asked_by = None if coordinator.update is None else coordinator.update.asked_by
        asked_by = None if asked_by is None else str(asked_by)
        self._file.begin(UpdateStarted(coordinator.started, coordinator.t, asked_by))
        self._begun_at, self._bytes_before = now, self.traffic.size
        text = f"update {coordinator.started} begins with {len(coordinator.participants)}"
        self._say("begun", text, update=coordinator.started, asked_by=asked_by)

    def _finished(self, now: float) -> None:
        coordinator = self.coordinator
        record = coordinator.last_update
        assert record is not None
        done = UpdateFinished(
            number=coordinator.finished,
            at=time.time(),
            t=record.t,
            asked_by=None if record.client is None else str(record.client),
            clients=len(coordinator.covered),
            samples=record.samples,
            rounds=record.rounds,
            gradient_norm=record.gradient_norm,
            gap=record.gap,
            seconds=now - self._begun_at,
            bytes=self.traffic.size - self._bytes_before,
        )
        for name, known in self.known.items():
            known.current = True
            known.model = coordinator.finished if name in coordinator.clients else known.model
        self._file.finish(coordinator.to_arrays(), self.traffic.pack(), self.known, done)
        text = (
            f"update {done.number}: {done.samples} samples of {done.clients} clients, "
            f"{done.rounds} rounds, {1e3 * done.seconds:.1f} ms"
        )
        facts = {f: getattr(done, f) for f in UpdateFinished.__dataclass_fields__}
        totals = {"scalars": coordinator.ledger.scalars, "total_bytes": self.traffic.size}
        self._say("updated", text, **facts, **totals)


def _restored(
    agreement: Agreement, file: CoordinatorFile, known: dict[str, MemberRecord]
) -> tuple[Coordinator, Traffic]:
    """Return the coordinator as of the last finished update; its clients must say hello."""
    algorithm, setting, limit = agreement.algorithm, agreement.setting, agreement.reward_limit
    kept = file.state()
    if kept is None:
        return Coordinator(algorithm, setting, reward_limit=limit), Traffic()
    coordinator = Coordinator.from_arrays(algorithm, setting, kept[0], reward_limit=limit)
    for client in list(coordinator.clients):
        coordinator.leave(client)
    for name, each in known.items():
        if not each.current:  # it came with a new file after that update
            coordinator.drop_samples(name)
    return coordinator, Traffic.unpack(kept[1])
