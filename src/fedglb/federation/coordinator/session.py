"""The coordinator's side of the conversation: who takes part, who is refused and why.

Free of input and output but for its file: a payload and the time in, payloads out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from fedglb.errors import InvalidInput, integer
from fedglb.federation.agreement import LEAP, Agreement
from fedglb.federation.coordinator.events import CoordinatorEvent
from fedglb.federation.coordinator.members import Roster
from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.store import CoordinatorFile, MemberRecord
from fedglb.federation.coordinator.traffic import Traffic
from fedglb.federation.coordinator.updates import UpdateDriver
from fedglb.federation.names import one_line
from fedglb.federation.wire.codec import Malformed, decode_up, encode
from fedglb.federation.wire.messages import (
    Downward,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequest,
    Rejected,
    Upward,
    Welcome,
    Withdrawal,
)
from fedglb.protocol import Coordinator
from fedglb.protocol.messages import Covariance, Message, SyncRequest

log = logging.getLogger(__name__)

#: A client, and what is to be sent to it.
Outgoing: TypeAlias = tuple[str, bytes]
_QUIET = 10.0  # seconds between two complaints about one client
_PENALTY = 60.0  # seconds for which who offended cannot ask for updates
_LATE = 2.0  # seconds after which a tick is late: it was the coordinator that stood still


class CoordinatorSession:
    """Talks with all clients, and passes on what belongs to global updates.

    Parameters
    ----------
    agreement, file, policy
        What is agreed on, where the state is kept, how clients are treated.
    tell
        Called with every event.
    after
        The number of the last update, where the coordinator's file was lost: agents hold its
        model, and take only later ones.
    """

    def __init__(
        self,
        agreement: Agreement,
        file: CoordinatorFile,
        policy: Policy,
        tell: Callable[[CoordinatorEvent], None],
        after: int = 0,
    ) -> None:
        integer("quorum", policy.quorum, at_most=agreement.max_clients)
        integer("after", after, at_least=0, at_most=2**52)
        self.agreement, self.policy = agreement, policy
        self._file, self._tell = file, tell
        self.updates = UpdateDriver(agreement, file, policy, self._say, after)
        self.roster = Roster(agreement, policy.absent_after)
        self._awaited = {name for name, known in self.known.items() if known.present}
        self._started: float | None = None
        self._ticked: float | None = None
        self._complained: dict[tuple[str, str], float] = {}
        self._offended: dict[str, float] = {}

    @property
    def coordinator(self) -> Coordinator:
        """The protocol's state."""
        return self.updates.coordinator

    @property
    def traffic(self) -> Traffic:
        """What went over the wire."""
        return self.updates.traffic

    @property
    def known(self) -> dict[str, MemberRecord]:
        """All clients that were ever taken in."""
        return self.updates.known

    # -- input -----------------------------------------------------------------------------------

    def start(self, now: float) -> list[Outgoing]:
        """Ask all who were ever here for a hello, on every connection: no need to wait for beats.

        While there was no connection nobody could be heard, so all waits begin anew.
        """
        self._started = now
        self._reset_deadlines(now)
        return [self._packed(name, HelloRequest(), "") for name in self.known]

    def receive(self, client: str, payload: bytes, now: float) -> list[Outgoing]:
        """Handle what came in under a client's subject, which only that client can use."""
        try:
            session, message = decode_up(payload, client, self.agreement.problem.dim)
        except Malformed as error:
            self.traffic.add("Malformed", "up", len(payload))
            return self._offence(client, str(error), now)
        self.traffic.add(message.name, "up", len(payload))
        if isinstance(message, Hello):
            return self._hello(client, session, message, now)
        if not self.roster.touch(client, session, now):
            if self.roster.over(client, session):
                return self._refuse(client, session, "another agent has taken its place", now)
            return (
                []
                if isinstance(message, Goodbye)
                else [self._packed(client, HelloRequest(), session)]
            )
        return self._member(client, message, now)

    def tick(self, now: float) -> list[Outgoing]:
        """Do what time demands: resend, give up on who is silent, begin anew after a crash."""
        if self._ticked is not None and now - self._ticked > _LATE:
            self._reset_deadlines(now)
        self._ticked = now
        out: list[Outgoing] = []
        for client in self.roster.silent(now):
            out += self._leave(client, "silent for too long", now)
        if self._settled(now):
            out += self._deliver(self.updates.restart_interrupted(now))
        return out + self._deliver(self.updates.tick(now))

    def stop(self) -> None:
        """Keep what can be kept."""
        self.updates.keep()

    def _reset_deadlines(self, now: float) -> None:
        self.roster.touch_all(now)
        self.updates.reset_deadlines(now)

    # -- clients come and go ---------------------------------------------------------------------

    def _hello(self, client: str, session: str, hello: Hello, now: float) -> list[Outgoing]:
        rejection_reason = self.roster.rejection_reason(client, session, hello, self.known, now)
        newest = self.coordinator.started
        if rejection_reason is None and hello.update > newest:
            rejection_reason = (
                f"{client} holds the model of update {hello.update}, and the coordinator's last "
                f"is {newest}: its file was lost; restore it, or start the coordinator with "
                f"--after {hello.update}"
            )
        if rejection_reason is not None:
            return self._refuse(client, session, rejection_reason, now)
        out: list[Outgoing] = []
        known = self.known.setdefault(client, MemberRecord(hello.instance, True, 0, True))
        if known.instance != hello.instance:
            known.instance, known.model = hello.instance, 0
            out += self._deliver(self.updates.drop_samples(client, now))
        if client not in self.roster:
            text = f"{client} is here ({hello.software})"
            self._say("joined", text, client=client)
        known.present = True
        self._file.member(client, known)
        self.roster.admit(client, session, hello.instance, now)
        self.coordinator.join(client)
        self.updates.resend(now)  # it may have missed a request
        out.append(self._packed(client, Welcome(self.coordinator.finished)))
        return out + self._model(client, hello.update)

    def _model(self, client: str, held: int) -> list[Outgoing]:
        """Send the newest model to a client that holds an older one."""
        lacks = held < self.coordinator.finished
        return self._deliver(self.updates.model_for(client)) if lacks else []

    def _leave(self, client: str, why: str, now: float) -> list[Outgoing]:
        self._say("left", f"{client} is gone: {why}", client=client)
        out = self._deliver(self.updates.without([client], why, now))
        self.roster.drop(client)
        self.coordinator.leave(client)
        self.known[client].present = False
        self._file.member(client, self.known[client])
        return out

    def _settled(self, now: float) -> bool:
        """Whether those who were here before a restart are back, or have had their time."""
        self._awaited -= {client for client in self._awaited if client in self.roster}
        if self._started is not None and now - self._started >= self.policy.grace:
            self._awaited = set()
        return not self._awaited

    # -- what members say ------------------------------------------------------------------------

    def _member(self, client: str, message: Upward, now: float) -> list[Outgoing]:
        match message:
            case Goodbye():
                out = self._leave(client, "it said goodbye", now)
                self.roster.end(client)
                return out
            case Heartbeat():
                return self._beat(client, message, now)
            case Withdrawal():
                current = message.update == self.coordinator.started
                leaving = [client] if current else []
                return self._deliver(self.updates.without(leaving, "it withdrew", now))
            case SyncRequest() if self._began(client, message):
                return []  # said again, by a beat that was faster: the ledger counts it once
            case SyncRequest() if self.updates.idle and message.update < self.coordinator.finished:
                return self._model(client, message.update)  # the model that it asks for is there
            case SyncRequest() if not self._may_begin(client, now):
                return []  # repeated with its beats, as long as it wants an update
        assert isinstance(message, Message)
        try:
            self._check(message)
            return self._deliver(self.updates.receive(message, now))
        except InvalidInput as error:
            return self._offence(client, str(error), now)

    def _began(self, client: str, request: SyncRequest) -> bool:
        """Whether this is the very request by which the update in progress began."""
        update = self.coordinator.update
        return update is not None and (update.asked_by, update.t) == (client, request.t)

    def _may_begin(self, client: str, now: float) -> bool:
        """Whether a client's request for an update is heard."""
        if not self._settled(now):
            return False  # right after a restart: an update would leave the others out
        if now - self._offended.get(client, -_PENALTY) < _PENALTY:
            return False  # it would be left out again: no reason to trouble the others
        here, quorum = len(self.coordinator.clients), self.policy.quorum
        if here < quorum:
            text = f"{client} asks for an update; {here} are here, the quorum is {quorum}"
            self._complain("waiting", client, text, now)
        return here >= quorum

    def _check(self, message: Message) -> None:
        """Refuse what only a whole federation can judge."""
        most = self.policy.most_samples
        if isinstance(message, Covariance) and most is not None:
            integer("samples", message.samples, at_least=0, at_most=most)
        if isinstance(message, SyncRequest):
            integer("t", message.t, at_most=self.coordinator.t + LEAP)

    def _beat(self, client: str, beat: Heartbeat, now: float) -> list[Outgoing]:
        if not self.updates.idle:
            return []
        if beat.update < self.coordinator.finished:
            return self._model(client, beat.update)
        if beat.wants:
            return self._member(client, SyncRequest(client, beat.wants, beat.update), now)
        return []

    def _refuse(self, client: str, session: str, reason: str, now: float) -> list[Outgoing]:
        self._complain("refused", client, reason, now)
        return [self._packed(client, Rejected(one_line(reason), member=False), session)]

    def _offence(self, client: str, reason: str, now: float) -> list[Outgoing]:
        """Leave a client out of the update that sent what cannot be; name it, and tell it."""
        self._offended[client] = now
        if client in self.coordinator.participants:
            self._complained.pop((client, "offence"), None)  # this one matters
        said = self._complain("offence", client, f"{client} sent what cannot be: {reason}", now)
        out = self._deliver(self.updates.without([client], "what it sent cannot be", now))
        told = Rejected(one_line(reason), member=client in self.roster)
        return [*out, self._packed(client, told)] if said else out

    def _complain(self, kind: str, client: str, text: str, now: float) -> bool:
        """Tell of a client, but not too often; return whether that was done."""
        if now - self._complained.get((client, kind), -_QUIET) < _QUIET:
            return False
        self._complained[client, kind] = now
        self._say(kind, text, client=client)
        return True

    # -- output ----------------------------------------------------------------------------------

    def _deliver(self, messages: Iterable[Message]) -> list[Outgoing]:
        return [self._packed(str(m.client), m) for m in messages]  # type: ignore[arg-type]

    def _packed(self, client: str, message: Downward, session: str | None = None) -> Outgoing:
        to = self.roster.session(client) if session is None else session
        payload = encode(message, to)
        self.traffic.add(message.name, "down", len(payload))
        return client, payload

    def _say(self, kind: str, text: str, **facts: object) -> None:
        log.info("%s", one_line(text))
        self._tell(CoordinatorEvent(kind, one_line(text), facts))
