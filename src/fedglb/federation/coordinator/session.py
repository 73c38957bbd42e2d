"""The coordinator's side of the conversation with clients: admission, updates, rejections.

Apart from its file it does no input or output: it takes payloads and the time, and returns
payloads.
"""

from __future__ import annotations

import json
import logging
import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from fedglb.errors import InvalidInput, integer
from fedglb.features.weights import Weight, strongest, weights
from fedglb.federation.agreement import LEAP, Agreement
from fedglb.federation.coordinator.events import CoordinatorEvent, EventKind
from fedglb.federation.coordinator.members import Members
from fedglb.federation.coordinator.policy import CoordinatorPolicy, remark
from fedglb.federation.coordinator.rates import RateLimiter
from fedglb.federation.coordinator.rewards import ReportedRewards
from fedglb.federation.coordinator.secure_updates import SecureUpdateDriver
from fedglb.federation.coordinator.store import CoordinatorStore, MemberRecord
from fedglb.federation.coordinator.updates import FARTHEST, Addressed, UpdateDriver
from fedglb.federation.frozen import Frozen
from fedglb.federation.names import COORDINATOR, one_line
from fedglb.federation.secure_sums.transcript import SumRules
from fedglb.federation.wire.codec import Malformed, decode_up, encode
from fedglb.federation.wire.messages import (
    Admitted,
    Downward,
    Freeze,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequest,
    NewSchema,
    Rejected,
    Upward,
    Withdrawal,
)
from fedglb.federation.wire.sum_messages import (
    AllHere,
    Consent,
    SessionKey,
    SumCall,
    SumOffer,
    SumReady,
)
from fedglb.model import SharedModel
from fedglb.protocol.messages import (
    BatchSums,
    Covariance,
    Evaluate,
    MaskedSum,
    Message,
    ModelSums,
    SumsRequest,
    SyncRequest,
)
from fedglb.protocol.one_pass import check_size

log = logging.getLogger(__name__)

#: A client, and the payload for it.
Outgoing: TypeAlias = tuple[str, bytes]
_QUIET = 10.0  # seconds between two events of one kind about one client
_REPORT = 60.0  # seconds between two events about one client's dropped messages
_PENALTY = 60.0  # seconds without requests for a client after an invalid message
_WEIGHTS = 20  # shown
_LATE = 2.0  # seconds after which a tick is late, because the coordinator was suspended
_SHORT = 1800.0  # seconds of absences that are not remembered: no alarm depends on them
_STANDS = 600.0  # seconds for which a request stands that is not repeated


class CoordinatorSession:
    """Handles all clients' messages; passes those of global updates to its `UpdateDriver`.

    `after` is the number of the last update if the coordinator's file was lost: agents hold its
    model, and accept only models of later updates. `wall` is the clock of scheduled updates (Unix
    time), `rules` the agreed rules of secure sums (None: no secure sums), `frozen` the model that
    clients choose with (None: the newest).
    """

    def __init__(
        self,
        agreement: Agreement,
        store: CoordinatorStore,
        policy: CoordinatorPolicy,
        on_event: Callable[[CoordinatorEvent], None],
        after: int = 0,
        wall: Callable[[], float] = time.time,
        rules: SumRules | None = None,
        frozen: Frozen | None = None,
    ) -> None:
        integer("quorum", policy.quorum, at_most=agreement.max_clients)
        self.agreement, self.policy = agreement, policy
        self._store, self._on_event = store, on_event
        self._secure: SecureUpdateDriver | None = None
        if rules is None:
            self.driver = UpdateDriver(agreement, store, policy, self._emit, after)
        else:
            self.driver = self._secure = SecureUpdateDriver(
                agreement, store, policy, self._emit, after, rules=rules
            )
            self.policy = self.driver.policy  # a secure sum has a minimum
        self.driver.wall = wall
        self.coordinator = self.driver.coordinator  # the protocol's state
        self.traffic, self.records = self.driver.traffic, self.driver.records
        self.members = Members(agreement, policy.absent_after)
        self.rewards = ReportedRewards(self.coordinator.rewards)
        self._awaited = {name for name, record in self.records.items() if record.present}
        self._started: float | None = None
        self._ticked: float | None = None
        self._emitted: dict[tuple[str, EventKind], float] = {}
        self._barred_at: dict[str, float] = {}  # clients whose requests are ignored for a while
        self._claims: dict[str, int] = {}  # the updates of rejected clients' models
        self._held: dict[str, int] = {}  # each client's model, by its own account
        covered = self.coordinator.covered
        self._samples = {str(client): part.samples for client, part in covered.items()}
        self._weights: tuple[SharedModel | None, tuple[Weight, ...]] = (None, ())
        self._now = 0.0  # of the last input
        self._set_frozen(frozen)
        self._wall, self._has_ended, self._began = wall, False, wall()
        #: When the update that is due fell due, when that was last said, and the last update then.
        self._due = 0.0, -math.inf, -1
        self._waiting: tuple[str, int, int] | None = None  # until an update may start again
        self.gate = RateLimiter(policy.rates, answer_size=8 * agreement.largest_answer + 4096)

    # -- input -----------------------------------------------------------------------------------

    def start(self, now: float) -> list[Outgoing]:
        """Ask all clients ever admitted for a hello; call it after every connection.

        Without it, the coordinator would wait for their heartbeats. Without a connection no message
        could arrive, so all deadlines are reset.
        """
        self._started = self._now = now
        self._reset_deadlines(now)
        self.driver.start_schedule(self._wall())
        return [self._encode(name, HelloRequest(), "") for name in self.records]

    def receive(self, client: str, payload: bytes, now: float) -> list[Outgoing]:
        """Handle a payload from a client's subject, on which only that client can publish."""
        self._now = now
        try:
            session, message = decode_up(
                payload, client, self.agreement.problem.dim, self.agreement.effects
            )
        except Malformed as error:
            self.traffic.add("Malformed", "up", len(payload))
            if self.agreement.features is not None and client not in self.members:
                # an answer under the last schema, sent before it met this one
                return [self._encode(client, HelloRequest(), "")]
            return self._reject_message(client, str(error), now)
        self.traffic.add(message.name, "up", len(payload))
        if isinstance(message, Hello):
            return self._handle_hello(client, session, message, now)
        if not self.members.touch(client, session, now):
            if self.members.has_ended(client, session):
                return self._reject(client, session, "another agent has replaced it", now)
            if isinstance(message, Goodbye):
                return []
            return [self._encode(client, HelloRequest(), session)]
        return self._handle_member(client, message, now)

    def tick(self, now: float) -> list[Outgoing]:
        """Do pending work: drop silent clients, restart an interrupted update, resend requests."""
        if self._ticked is not None and now - self._ticked > _LATE:
            self._reset_deadlines(now)
        self._ticked = self._now = now
        for client, dropped in self.gate.reports(now, _REPORT):
            count, kinds = sum(dropped.values()), ", ".join(sorted(dropped))
            text = f"{client} exceeds its rate limit: dropped {count} messages ({kinds})"
            self._emit("limited", text, client=client, dropped=dropped)
        out: list[Outgoing] = []
        for client in self.members.silent(now):
            out += self._leave(client, "silent for too long", now)
        if self._all_back(now):
            out += self._deliver(self.driver.restart_interrupted(now))
            out += self._handle_schedule(now)
        out += self._handle_waiting(now)
        return out + self._deliver(self.driver.tick(now))

    def _handle_schedule(self, now: float) -> list[Outgoing]:
        """Begin a due update, once enough clients are present."""
        if not self.agreement.times or not self.driver.idle:
            return []
        if (why := self.driver.ended) is not None:
            if not self._has_ended:
                self._has_ended = True
                self._emit("ended", why, update=self.coordinator.started)
            return []
        time = self.driver.due(self._wall())
        if time:
            self._note_due(self.driver.timetable.next or 0.0)
        present, quorum = len(self.coordinator.clients), self.policy.quorum
        if not time or not present or not self.driver.may_start(now):
            return []
        if present < quorum:
            text = f"an update is due; {present} present, the quorum is {quorum}"
            self._emit_rarely("waiting", COORDINATOR, text, now)
            return []
        return self._deliver(self.driver.begin_scheduled(time, now))

    def _handle_waiting(self, now: float) -> list[Outgoing]:
        """Handle a request that came too soon after the last update."""
        request = self._waiting
        if request is None or not self.driver.may_start(now):
            return []
        self._waiting = None
        stands = request[0] in self.members and self.driver.idle
        return self._handle_request(*request, now) if stands else []

    def mute(self, client: str, seconds: float, now: float) -> list[Outgoing]:
        """Go on without a flooding client: it is muted for a while."""
        if client not in self.members:
            return []
        return self._leave(client, f"it floods, and is muted for {seconds:g} s", now)

    def note_duplicate(self, who: str, now: float) -> bool:
        """Report another coordinator, which has to stop; return whether it is new."""
        text = f"another coordinator of this federation runs, and has to stop: {who}"
        return self._emit_rarely("duplicate_coordinator", COORDINATOR, text, now)

    def last_seen(self, client: str, now: float) -> float | None:
        """Return the Unix time of a client's last message, if known."""
        silence = self.members.silence(client, now)
        return self.records[client].seen if silence is None else self._wall() - silence

    def absence(self, client: str) -> float:
        """Return for how many seconds a client has been away; 0: it is here.

        One that was here before a restart of the coordinator is away since then.
        """
        record = self.records[client]
        since = self._began if record.present else record.seen
        if client in self.members or since is None:
            return 0.0
        return max(0.0, self._wall() - since)

    def _note_due(self, since: float) -> None:
        """Note that an update is requested or scheduled, and since when."""
        first, last, before = self._due
        now, finished = self._wall(), self.coordinator.finished
        stands = before == finished and now - last < _STANDS
        self._due = first if stands else since, now, finished

    def due_since(self) -> float | None:
        """Return since when an update is due or in progress, a Unix time; None: none is."""
        first, last, before = self._due
        recent = not self.driver.idle or self._wall() - last < _STANDS
        return first if recent and before == self.coordinator.finished else None

    def weights(self) -> tuple[Weight, ...]:
        """Return the strongest weights of the newest model; none without a schema."""
        model = self.coordinator.model
        if self._weights[0] is not model:  # a status is taken every second
            self._weights = model, strongest_weights(self.agreement, model)
        return self._weights[1]

    def freeze(self, frozen: Frozen | None) -> list[Outgoing]:
        """Let all clients choose with the model of an update; None: with the newest."""
        self._set_frozen(frozen)
        if frozen is None:
            self._emit("frozen", "all clients choose with the newest model again", update=0)
        elif self._freeze.model is None:
            text = (
                f"frozen at update {frozen.update}, whose model is not in the coordinator's file: "
                "clients that have it choose with it, the others with the newest"
            )
            self._emit("frozen", text, update=frozen.update)
        else:
            text = (
                f"all clients choose with the model of update {frozen.update}, and go on learning"
            )
            self._emit("frozen", text, update=frozen.update)
        return [each for client in self.records if client in self.members
                for each in self._send_freeze(client)]  # fmt: skip

    def _set_frozen(self, frozen: Frozen | None) -> None:
        self.frozen, self._freeze = frozen, Freeze(0)
        self.driver.frozen = 0
        if frozen is not None:
            model, models = self._store.kept_model(frozen.update) or (None, 0)
            self.driver.frozen = frozen.update
            self._freeze = Freeze(frozen.update, models, model)

    def kept_models(self) -> list[int]:
        """Return the updates whose models are kept."""
        return self._store.kept_models()

    def _send_freeze(self, client: str) -> list[Outgoing]:
        """Send a client which model to choose with, if this coordinator has it."""
        lost = self._freeze.update and self._freeze.model is None
        return [] if lost else [self._encode(client, self._freeze)]

    def stop(self) -> None:
        """Write the state, if no update is in progress."""
        if self._ticked is not None:
            for client, record in self.records.items():
                record.seen = self.last_seen(client, self._ticked)
        self.driver.save()

    def _reset_deadlines(self, now: float) -> None:
        self.members.touch_all(now)
        self.driver.reset_deadlines(now)

    # -- clients come and go ---------------------------------------------------------------------

    def _handle_hello(self, client: str, session: str, hello: Hello, now: float) -> list[Outgoing]:
        if self.agreement.is_older(hello.agreement):
            return self._send_schema(client, session, hello, now)
        reason = self.members.rejection_reason(client, session, hello, self.records, now)
        if self._secure is not None and client not in self._secure.rules.roster.keys:
            reason = f"{client} is not in the agreed roster"
        if reason is None:
            reason = self._unknown_model(client, hello.update)
        if reason is not None:
            # An agent may have taken up another roster: an update must not wait for it.
            gone = session and session == self.members.session(client)
            out = self._leave(client, "it is not admitted any more", now) if gone else []
            return out + self._reject(client, session, reason, now)
        self._claims.pop(client, None)
        if hello.update > self.coordinator.finished:
            self.driver.lose_model()
        self._note_held(client, hello)
        out = []
        new = client not in self.records
        first = MemberRecord(hello.instance, True, 0, True, joined=time.time())
        record = self.records.setdefault(client, first)
        before = replace(record)
        record.software = one_line(hello.software)
        if record.instance != hello.instance:
            record.instance, record.model = hello.instance, 0
            self._samples.pop(client, None)
            out += self._deliver(self.driver.drop_samples(client, now))
        if client not in self.members:
            self._emit("joined", f"{client} has joined ({hello.software})", client=client)
            if not new and self.absence(client) > _SHORT:
                record.longest = max(record.longest, self.absence(client))
        record.present = True
        if new or record != before:  # writes wait for the disk, so not for every hello
            self._store.write_member(client, record)
        self.members.admit(client, session, hello.instance, now)
        if self._secure is not None:
            self._secure.sessions[client] = session
        self.coordinator.join(client)
        self.driver.resend(now)  # it may have missed a request
        released = self.driver.released.get(client, 0)
        out.append(self._encode(client, Admitted(self.coordinator.finished, released)))
        if self.frozen is not None:
            out += self._send_freeze(client)
        return out + self._newer_model(client, hello.update)

    def _send_schema(self, client: str, session: str, hello: Hello, now: float) -> list[Outgoing]:
        """Send the schema to a client with an older one: it is in no update until it has it."""
        features = self.agreement.features
        assert features is not None
        if session and session == self.members.session(client):
            return []  # it came late: this session has the newer schema
        before, revision = hello.agreement["revision"], self.agreement.revision
        text = f"{client} has schema {before}, and is sent schema {revision}: no update has it yet"
        self._emit_rarely("schema", client, text, now)
        message = NewSchema(revision, self.driver.last_of_old_schemas, json.dumps(features.plain()))
        return [self._encode(client, message, session)]

    def _unknown_model(self, client: str, update: int) -> str | None:
        """Return why a client that holds this model is not admitted, or None if it may hold it.

        The number cannot be verified. So it is bounded, and the operator sees which clients claim
        it and the median claim of the others.
        """
        newest = self.coordinator.started
        if update <= max(self.coordinator.finished, self.driver.lost_up_to):
            return None
        says = f"{client} claims to have the model of update {update}"
        if update > newest + FARTHEST or update <= newest:
            return f"{says}, which cannot exist: the coordinator's last update is {newest}"
        self._claims[client] = update
        most = statistics.median_high(self._claims.values())
        above = sorted(name for name, claim in self._claims.items() if claim > most)
        text = (
            f"{says}, but the coordinator's last is {newest}: its file was lost, or is an old "
            f"copy; restore it, or start the coordinator with --after {most}"
        )
        if above:
            text += (
                f" (of {len(self._claims)} such clients at least half have the model of update "
                f"{most} or an earlier one; {', '.join(above)} claim a later one)"
            )
        return text

    def _note_held(self, client: str, hello: Hello) -> None:
        """Report a client whose model is older than before, with the same file."""
        record = self.records.get(client)
        before = self._held.get(client, 0)
        if record is not None and record.instance == hello.instance and hello.update < before:
            text = (
                f"{client} has the model of update {hello.update}, before {before}: an old backup "
                "of its file was restored, and its later samples are lost"
            )
            self._emit("restored", text, client=client, model=hello.update, before=before)
        self._held[client] = hello.update

    def _newer_model(self, client: str, held: int) -> list[Outgoing]:
        """Send the newest model to a client with an older one."""
        lacks = held < self.coordinator.finished
        return self._deliver(self.driver.model_for(client)) if lacks else []

    def _leave(self, client: str, why: str, now: float) -> list[Outgoing]:
        self._emit("left", f"{client} has left: {why}", client=client)
        self.records[client].seen = self.last_seen(client, now)
        out = self._deliver(self.driver.exclude([client], why, now))
        self.members.drop(client)
        self.coordinator.leave(client)
        self.records[client].present = False
        self._store.write_member(client, self.records[client])
        return out

    def _all_back(self, now: float) -> bool:
        """Return whether all clients from before a restart are back, or the grace time is over."""
        self._awaited -= {client for client in self._awaited if client in self.members}
        if self._started is not None and now - self._started >= self.policy.grace:
            self._awaited = set()
        return not self._awaited

    # -- what members say ------------------------------------------------------------------------

    def _handle_member(self, client: str, message: Upward, now: float) -> list[Outgoing]:
        secure = self._secure
        match message:
            case Goodbye():
                out = self._leave(client, "goodbye", now)
                self.members.end(client)
                return out
            case Heartbeat():
                return self._handle_heartbeat(client, message, now)
            case Withdrawal():
                current = message.update == self.coordinator.started
                return self._deliver(self.driver.withdraw(client, now) if current else [])
            case SyncRequest():
                return self._handle_request(client, message.t, message.update, now)
        try:
            match message:
                case SessionKey() | SumReady() | MaskedSum() | Consent() if secure is None:
                    allowed = "messages of a federation without secure sums"
                    raise InvalidInput("message", message.name, allowed)
                case SessionKey() if secure is not None:
                    session = self.members.session(client)
                    return self._deliver(secure.note_key(client, session, message, now))
                case SumReady() | MaskedSum() | Consent() if secure is not None:
                    return self._deliver(secure.receive_sum(client, message, now))
            assert isinstance(message, Message)
            self._check(message)
            self._note_samples(client, message, now)
            return self._deliver(self.driver.receive(message, now))
        except InvalidInput as error:
            return self._reject_message(client, str(error), now)

    def _handle_request(self, client: str, t: int, held: int, now: float) -> list[Outgoing]:
        """Handle the request for an update, at step t, of a client with model `held`.

        It comes as a `SyncRequest`, and again in each heartbeat until it is fulfilled.
        """
        if self.agreement.times:
            return self._refuse_request(client, now)
        update = self.coordinator.update
        if update is not None and (update.asked_by, update.t) == (client, t):
            return []  # the update in progress is for this request: count it once
        if self.driver.idle and held < self.coordinator.finished:
            return self._newer_model(client, held)  # the requested model exists
        self._note_due(self._wall())
        if not self._may_start(client, now):
            return []
        if self.driver.idle and not self.driver.may_start(now):
            self._waiting = self._waiting or (client, t, held)
            return []
        try:
            integer("t", t, at_most=self.coordinator.t + LEAP)
            return self._deliver(self.driver.request_update(client, t, held, now))
        except InvalidInput as error:
            return self._reject_message(client, str(error), now)

    def _refuse_request(self, client: str, now: float) -> list[Outgoing]:
        """Refuse a client's request, because updates are on a schedule."""
        why = "updates are on an agreed schedule: clients cannot request one"
        if not self._emit_rarely("ignored", client, f"{client} requests an update; {why}", now):
            return []
        return [self._encode(client, Rejected(why, member=True))]

    def _note_samples(self, client: str, message: Message, now: float) -> None:
        """Report a jump or a fall in a client's number of samples."""
        update = self.coordinator.update
        if not isinstance(message, Covariance | ModelSums):
            return
        if update is None or not update.awaits(message):
            return
        before, samples = self._samples.get(client), message.samples
        self._samples[client] = samples
        text = None if before is None else remark(client, before, samples)
        if text is not None:
            self._emit_rarely("samples", client, text, now, samples=samples, before=before)

    def _may_start(self, client: str, now: float) -> bool:
        """Return whether an update starts if this client requests one."""
        if not self._all_back(now):
            return False  # right after a restart: the update would leave the others out
        if now - self._barred_at.get(client, -_PENALTY) < _PENALTY:
            return False  # it would probably be excluded again
        if self.driver.is_paused(client, now):
            return False  # it does not answer
        present, quorum = len(self.coordinator.clients), self.policy.quorum
        if present < quorum:
            text = f"{client} requests an update; {present} present, the quorum is {quorum}"
            self._emit_rarely("waiting", client, text, now)
        return present >= quorum

    def _check(self, message: Message) -> None:
        """Raise `InvalidInput` for more samples than the policy allows."""
        most = self.policy.max_samples
        if isinstance(message, Covariance | ModelSums) and most is not None:
            integer("samples", message.samples, at_least=0, at_most=most)
        if isinstance(message, BatchSums) and most is not None:
            check_size(message.numbers, self.coordinator.setting, most)

    def _handle_heartbeat(self, client: str, beat: Heartbeat, now: float) -> list[Outgoing]:
        if beat.rewards is not None:
            session = self.members.session(client)
            why = self.rewards.objection(client, session, beat.rewards)
            if why is not None:
                text = f"ignored {client}'s report of its rewards: {why}"
                self._emit_rarely("ignored", client, text, now)
        held = min(beat.update, self.coordinator.finished)
        self._held[client] = max(held, self._held.get(client, 0))
        out = [] if beat.frozen == self._freeze.update else self._send_freeze(client)
        if not self.driver.idle:
            if self.driver.lacks_model(client, beat.update):
                self.driver.resend(now)  # it answers as soon as it has the model
                out += self._newer_model(client, beat.update)
            return out
        if beat.update < self.coordinator.finished:
            return out + self._newer_model(client, beat.update)
        if beat.requested_at:
            out += self._handle_request(client, beat.requested_at, beat.update, now)
        return out

    def _reject(self, client: str, session: str, reason: str, now: float) -> list[Outgoing]:
        """Send an agent the reason why it is not admitted."""
        self._emit_rarely("rejected", client, reason, now)
        return [self._encode(client, Rejected(one_line(reason), member=False), session)]

    def _reject_message(self, client: str, reason: str, now: float) -> list[Outgoing]:
        """Exclude a client from the update because of an invalid message; send it the reason."""
        self._barred_at[client] = now
        if client in self.coordinator.participants:
            self._emitted.pop((client, "invalid"), None)  # it affects an update: always report it
        text = f"{client} sent an invalid message: {reason}"
        reported = self._emit_rarely("invalid", client, text, now)
        out = self._deliver(self.driver.exclude([client], "invalid message", now))
        answer = Rejected(one_line(reason), member=client in self.members)
        return [*out, self._encode(client, answer)] if reported else out

    def _emit_rarely(
        self, kind: EventKind, client: str, text: str, now: float, **facts: object
    ) -> bool:
        """Report an event that clients can repeat, at most every ten seconds."""
        if now - self._emitted.get((client, kind), -_QUIET) < _QUIET:
            return False
        self._emitted[client, kind] = now
        self._emit(kind, text, client=client, **facts)
        return True

    # -- output ----------------------------------------------------------------------------------

    def _deliver(self, messages: Iterable[Addressed]) -> list[Outgoing]:
        out = []
        for client, message in messages:
            if isinstance(message, Rejected):
                self._barred_at[client] = self._now  # it would be left out again
            out.append(self._encode(client, message))
        return out

    def _encode(self, client: str, message: Downward, session: str | None = None) -> Outgoing:
        to = self.members.session(client) if session is None else session
        payload = encode(message, to)
        if isinstance(message, SumsRequest | Evaluate | SumOffer | SumCall | AllHere):
            self.gate.grant(client, self._now)
        self.traffic.add(message.name, "down", len(payload))
        return client, payload

    def _emit(self, kind: EventKind, text: str, /, **facts: object) -> None:
        log.info("%s", one_line(text))
        self._on_event(CoordinatorEvent(kind, one_line(text), facts))


def strongest_weights(agreement: Agreement, model: SharedModel | None) -> tuple[Weight, ...]:
    """Return the weights farthest from 0, in their standard deviations; none without a schema."""
    features = agreement.features
    if model is None or features is None or len(model.matrix) != features.dim:
        return ()
    try:
        inverse = np.linalg.inv(model.matrix)
    except np.linalg.LinAlgError:
        return ()
    theta = model.theta
    if theta is None:
        theta = np.zeros(features.dim) if model.b is None else inverse @ model.b
    variances = np.diagonal(inverse) * agreement.problem.dispersion
    return strongest(weights(features, theta, variances), _WEIGHTS)
