"""The agent's side of its conversation with the coordinator: a message in, messages out.

It opens no connection. It runs in the connection's thread; the application never waits for it.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.features import Features
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.frozen import follow
from fedglb.federation.agent.releases import PrivacySpent
from fedglb.federation.agent.schema_change import change_schema
from fedglb.federation.agent.update_answers import UpdateAnswers
from fedglb.federation.agreement import ROSTER
from fedglb.federation.alarms import Alarm
from fedglb.federation.frozen import Frozen
from fedglb.federation.preload import preload
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
    SessionKeys,
    SumCall,
    SumOffer,
    SumReady,
)
from fedglb.protocol.messages import (
    BatchSums,
    Covariance,
    Derivatives,
    Evaluate,
    ModelSums,
    NewModel,
    SumsRequest,
    SyncRequest,
)
from fedglb.typing import FloatArray

if TYPE_CHECKING:  # a single agent needs no cryptography
    from fedglb.federation.agent.sums import AgentSums

log = logging.getLogger(__name__)
RECENT = 1000  # rewards
#: Updates that follow the next one after a change of the schema, or an import.
SETTLING = 4
#: After samples were forgotten: what they were to the model falls to a quarter or less from update
#: to update, and by a hundred in the first.
FORGETTING = 9


@dataclass(frozen=True)
class AgentStatus:
    """An agent's status, returned by `Agent.status`.

    Parameters
    ----------
    connected
        Whether there is a connection to the NATS server.
    admitted
        Whether the coordinator has admitted the agent.
    refused
        Why the server refuses the connection (revoked, expired), or why the coordinator did not
        admit the agent or excluded it from an update; None: not refused.
    model
        The update whose model the agent uses, 0 before the first.
    samples
        Number of samples: decisions with a reward, without forgotten ones, and absorbed
        samples.
    requested_at
        The step of an open request for an update, 0 without one.
    expired
        Number of decisions that have expired without a reward.
    privacy
        The privacy budget spent; None without a budget.
    ignored
        Number of fields in records, since the start, that the schema does not have.
    revision
        The number of the schema of records; None without a schema.
    defaulted
        Number of default rewards learned, because no other came in time.
    replaced
        How many of them a later reward has replaced.
    frozen
        The model that the agent chooses with, since when and by whose word; None: the newest.
    distance
        How many times as far this client is from the others as clients are on average, where each
        has a model of its own; None: unknown, or the clients are alike.
    alarms
        What needs its owner's attention. ``fedglb agent serve`` looks for it; others do not.
    """

    connected: bool
    admitted: bool
    refused: str | None
    model: int
    samples: int
    requested_at: int
    expired: int = 0
    privacy: PrivacySpent | None = None
    ignored: int = 0
    revision: int | None = None
    defaulted: int = 0
    replaced: int = 0
    frozen: Frozen | None = None
    distance: float | None = None
    alarms: tuple[Alarm, ...] = ()


class RewardTotals:
    """Number and sum of the rewards, reported if the agent's owner agrees; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count, self._total = 0, 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)

    def add(self, reward: float) -> None:
        """Count a reward."""
        with self._lock:
            self._count += 1
            self._total += float(reward)
            self._recent.append(float(reward))

    def numbers(self) -> FloatArray:
        """Return count and sum since the process started, then of the last thousand rewards."""
        with self._lock:
            recent = len(self._recent), sum(self._recent)
            return np.array([self._count, self._total, *recent], dtype=np.float64)


class AgentSession:
    """The agent's side of the conversation with the coordinator.

    `instance` identifies the agent's file; `software` is for the coordinator's log.
    """

    def __init__(self, client: DurableClient, instance: str, software: str) -> None:
        self.client, self.answers = client, UpdateAnswers(client)
        self.session = secrets.token_hex(8)
        self.admitted = False
        self.refused: str | None = None
        self.rewards: RewardTotals | None = None  # set if the owner agreed to report them
        self.sums: AgentSums | None = None  # set if the federation has secure sums
        self.follows_roster = False  # set if the owner allows it
        self._instance, self._software = instance, software
        #: The step of an open request for an update, 0 without one.
        self.requested_at = self.answers.triggered_at()
        # The application requested an update later than this one that covers the samples up to this
        # sequence number.
        self._asked: tuple[int, int] | None = None
        self._answer: tuple[object, Upward] = (None, Goodbye())
        self._adopted = threading.Condition()
        self._refused_schema = 0  # the number of the last one
        self._settling = 0  # how many more updates to ask for

    # -- own messages ---------------------------------------------------------------------

    def hello(self) -> Hello:
        """Return the first message on every new connection."""
        return Hello(
            self._instance, self.client.adopted, self._software, self.client.agreement.facts()
        )

    def beat(self) -> Heartbeat | Hello:
        """Return a heartbeat, which repeats a request for an update; before admission, hello."""
        if not self.admitted:
            return self.hello()
        rewards = None if self.rewards is None else self.rewards.numbers()
        operators = self.client.freezes.get("operator")
        frozen = 0 if operators is None else operators.update
        return Heartbeat(self.client.adopted, self.requested_at, rewards, frozen)

    def note_trigger(self, step: int) -> bool:
        """Remember that the trigger fired in this step; return whether to send a request now.

        Only the first request is sent at once; heartbeats repeat it. So an agent that learns
        fast does not flood the coordinator.
        """
        with self._adopted:
            first = self.requested_at == 0
            self.requested_at = step
            return first

    def ask(self) -> None:
        """Remember that the application requests an update with all samples so far."""
        with self._adopted:
            self._asked = self.answers.newest()
            self.requested_at = max(1, self.client.clock)

    def settle(self, updates: int | None = None) -> None:
        """Ask for more updates after the next one: each is one step of the fit."""
        wanted = SETTLING if updates is None else updates
        self._settling = 0 if self.client.agreement.times else max(wanted, self._settling)

    def request(self) -> SyncRequest | None:
        """Return the open request for an update."""
        if not self.requested_at:
            return None
        return SyncRequest(self.client.name, self.requested_at, self.client.adopted)

    # -- answers -------------------------------------------------------------------------

    def answers_soon(self, message: Downward) -> bool:
        """Return whether `receive` takes about a millisecond: it may run in the event loop."""
        if isinstance(message, SessionKeys | SumOffer | SumCall | AllHere | NewSchema | Freeze):
            return False  # signatures, noise, the disk; all samples; a whole model
        passes = isinstance(message, SumsRequest | Evaluate | NewModel)
        return not passes or self.answers.is_quick()

    def receive(self, message: Downward) -> list[Upward]:
        """Handle a message and return the answers; one with invalid content is only logged."""
        try:
            return self._receive(message)
        except InvalidInput as error:
            log.error("ignored an invalid message of the coordinator: %s", error)
            return []

    def _receive(self, message: Downward) -> list[Upward]:
        match message:
            case SessionKeys() | SumOffer() | SumCall() | AllHere():
                return self._about_sums(message)
            case SumsRequest() | Evaluate() if self.sums is not None:
                log.error("refused %s: the federation has secure sums", message.name)
                return [Withdrawal(message.update)]
            case SumsRequest() | Evaluate():
                return [self._answered(message)]
            case NewModel():
                return self._adopt(message)
            case Admitted():
                self.admitted, self.refused = True, None
                log.info("admitted; the newest model is of update %d", message.update)
                if self.client.one_pass:
                    self.answers.note_released(message.released)
                # the trigger may have fired before admission
                request = self.request()
                out: list[Upward] = [] if request is None else [request]
                return out if self.sums is None else [self.sums.key(), *out]
            case Rejected():
                if message.reason != self.refused:
                    log.warning("refused by the coordinator: %s", message.reason)
                self.admitted, self.refused = message.member, message.reason
            case NewSchema():
                return self._take_up(message)
            case Freeze():
                follow(self.client, message)
            case HelloRequest():
                return [self.hello()]
        return []

    def _take_up(self, message: NewSchema) -> list[Upward]:
        """Change to the federation's newer schema, and say hello again."""
        client = self.client
        if message.revision <= max(client.agreement.revision, self._refused_schema):
            return []
        try:
            if client.agreement.features is None:
                raise InvalidInput("features", "a schema", "none: this federation has vectors")
            tables = json.loads(message.features)
            if not isinstance(tables, dict):
                raise InvalidInput("features", tables, "the tables of a schema")
            features = Features.from_plain(tables, source="the federation's schema")
            agreement = client.agreement.with_features(features, message.revision)
            preload(agreement)
            change_schema(client, agreement, message.after)
        except (InvalidInput, ValueError, RecursionError) as error:
            self._refused_schema = message.revision
            self.admitted = False
            self.refused = f"schema {message.revision} of the federation: {error}"
            log.error("refused a new schema, and continues with the old one: %s", error)
            return []
        self.admitted, self.refused = False, None
        with self._adopted:  # there is no model: all samples are new
            self.requested_at = max(self.requested_at, self.answers.triggered_at())
        self.settle()
        log.info("changed to schema %d, d = %d", message.revision, features.dim)
        return [self.hello()]

    def follow_roster(self, folder: Path) -> list[Upward]:
        """Take up a smaller roster in the member's folder, if the owner allows it; say hello again.

        It runs between two messages. A sum in progress under the old roster gets no consent.
        """
        from fedglb.federation.agent.roster import follow_roster
        from fedglb.federation.agent.sums import AgentSums
        from fedglb.federation.bundle import Bundle

        client = self.client
        try:
            bundle = Bundle.read(folder)
            found = [change.name for change in client.agreement.compare(bundle.agreement.facts())]
            if not found:
                return []
            if found != [ROSTER] or not self.follows_roster:
                allowed = "the agreement in the agent's file: see `fedglb agent accept`"
                raise InvalidInput("bundle", ", ".join(found), allowed)
            sums = AgentSums.of(bundle, self.answers, self.session)  # raises for a wrong key
            with client.locked():
                client.ready()
                follow_roster(client.store, bundle)
        except InvalidInput as error:
            log.warning("the agent continues with the roster it had: %s", error)
            return []
        self.sums, client.agreement = sums, bundle.agreement
        self.admitted = False
        log.info("follows the smaller roster %s", bundle.agreement.roster)
        return [self.hello()]

    def _about_sums(self, message: SessionKeys | SumOffer | SumCall | AllHere) -> list[Upward]:
        if self.sums is None:
            log.error("ignored %s: the federation has no secure sums", message.name)
            return []
        if isinstance(message, SessionKeys):
            self.sums.take_keys(message)
            return []
        newer = isinstance(message, SumOffer) and self.client.adopted < message.model
        if newer or (isinstance(message, SumCall) and not self.sums.holds(message.digest)):
            return [self.beat()]  # has this model's number: the coordinator sends the newer one
        answer = self.sums.answer(message)
        if answer is None:
            return []
        return [self.sums.key(), answer] if isinstance(answer, SumReady) else [answer]

    def _answered(self, message: SumsRequest | Evaluate) -> Upward:
        """Answer a request; a repeated one gets the same answer."""
        asked = (type(message), message.update, getattr(message, "round", 0))
        if self._answer[0] == asked and self.answers.takes_part(message.update):
            return self._answer[1]
        found: Covariance | ModelSums | BatchSums | Derivatives | None
        if isinstance(message, SumsRequest):
            if message.model > self.client.adopted:
                return self.beat()  # has this model's number: the coordinator sends the newer one
            one_pass = self.client.one_pass
            found = (self.answers.release if one_pass else self.answers.freeze)(message)
        else:
            found = self.answers.evaluate(message)
        if found is None:
            return Withdrawal(message.update)
        self._answer = (asked, found)
        return found

    def _adopt(self, message: NewModel) -> list[Upward]:
        if not self.answers.adopt(message):
            return []
        log.info("adopted the model of update %d", message.update)
        self.admitted = True  # only members get models
        in_it = bool(message.covered) or self.client.one_pass  # their messages count no samples
        self.refused = None if in_it else self.refused
        with self._adopted:
            self._adopted.notify_all()
            asked = self._asked
            if asked is not None and message.update > asked[0] and self.answers.covers(asked[1]):
                self._asked = None
            if self._asked is None and self._settling and message.covered:
                self._settling -= 1
                self._asked = self.answers.newest()
            # Samples that came during the update may fire the trigger at once. A client that the
            # update excluded (no sample covered) requests another one only after its next sample,
            # unless the application requested one.
            self.requested_at = self.answers.triggered_at() if message.covered else 0
            if self._asked is not None:
                self.requested_at = max(1, self.client.clock)
            request = self.request()
        return [] if request is None else [request]

    def wait_for(self, update: int, timeout: float) -> bool:
        """Wait until the model of this update or a later one is adopted; False: not in time."""
        with self._adopted:
            return self._adopted.wait_for(lambda: self.client.adopted >= update, timeout)
