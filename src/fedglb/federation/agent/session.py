"""An agent's part in the federation: what it answers to the coordinator, and what it says itself.

Free of input and output: a message in, messages out. It runs beside the application, in a
thread of the connection's, and never holds the application up.
"""

from __future__ import annotations

import logging
import secrets
import threading
from dataclasses import dataclass

from fedglb.errors import InvalidInput
from fedglb.federation.agent.learner import Learner
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
from fedglb.protocol.messages import (
    Covariance,
    CovarianceRequest,
    Derivatives,
    Evaluate,
    NewModel,
    SyncRequest,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentStatus:
    """Where an agent stands.

    Parameters
    ----------
    connected
        Whether there is a connection to the server.
    welcome
        Whether the coordinator has taken the agent in.
    refused
        Why it has not, or why it left the agent out of an update; None: it did not say so.
    model
        The update whose model the agent holds, 0 before the first.
    samples
        How many samples it has.
    wants
        The step of its request for an update that is not fulfilled yet, 0 for none.
    """

    connected: bool
    welcome: bool
    refused: str | None
    model: int
    samples: int
    wants: int


class AgentSession:
    """The agent's side of the conversation with the coordinator."""

    def __init__(self, learner: Learner, instance: str, software: str) -> None:
        self.learner = learner
        self.session = secrets.token_hex(8)
        self.welcome = False
        self.refused: str | None = None
        self._instance, self._software = instance, software
        self._facts = learner.agreement.facts()
        self._wanted = learner.asks()  # the step of a request that is not fulfilled
        # What the application asked for: a later update than this, with samples up to this place.
        self._requested: tuple[int, int] | None = None
        self._answer: tuple[object, Upward] = (None, Goodbye())
        self._adopted = threading.Condition()

    # -- what it says itself ---------------------------------------------------------------------

    def hello(self) -> Hello:
        """Return what it begins with, on every new connection."""
        return Hello(self._instance, self._held, self._software, self._facts)

    def beat(self) -> Heartbeat | Hello:
        """Return that it is there, and whether it wants an update; hello, till it is answered."""
        if not self.welcome:
            return self.hello()
        return Heartbeat(self._held, self._wanted)

    def want(self, step: int) -> bool:
        """Remember that the trigger fired in this step; return whether that is news.

        The first request is sent at once, and then repeated with every beat: an agent that
        learns fast does not flood the coordinator.
        """
        with self._adopted:
            news = self._wanted == 0
            self._wanted = step
            return news

    def ask(self) -> None:
        """Remember that the application wants an update with all samples so far."""
        with self._adopted:
            self._requested = self.learner.newest()
            self._wanted = max(1, self.learner.clock())

    @property
    def wants(self) -> int:
        """The step of a request for an update that is not fulfilled, 0 for none."""
        return self._wanted

    def request(self) -> SyncRequest | None:
        """Return the request for an update, if one is wanted."""
        return SyncRequest(self.learner.name, self._wanted, self._held) if self._wanted else None

    @property
    def _held(self) -> int:
        return self.learner.client.adopted

    # -- what it answers -------------------------------------------------------------------------

    def receive(self, message: Downward) -> list[Upward]:
        """Handle a message; what the learner refuses is logged, and nothing is answered."""
        try:
            return self._receive(message)
        except InvalidInput as error:
            log.error("the coordinator sent what cannot be right, ignored: %s", error)
            return []

    def _receive(self, message: Downward) -> list[Upward]:
        match message:
            case CovarianceRequest() | Evaluate():
                return [self._answered(message)]
            case NewModel():
                return self._adopt(message)
            case Welcome():
                self.welcome, self.refused = True, None
                log.info("taken in; the newest model is that of update %d", message.update)
                # the trigger may have fired while nobody could hear of it
                request = self.request()
                return [] if request is None else [request]
            case Rejected():
                if message.reason != self.refused:
                    log.warning("refused by the coordinator: %s", message.reason)
                self.welcome, self.refused = message.member, message.reason
            case HelloRequest():
                return [self.hello()]
        return []

    def _answered(self, message: CovarianceRequest | Evaluate) -> Upward:
        """Answer a request; one that comes again gets the same answer, not worked out again."""
        asked = (type(message), message.update, getattr(message, "round", 0))
        if self._answer[0] == asked and self.learner.takes_part(message.update):
            return self._answer[1]
        found: Covariance | Derivatives | None
        if isinstance(message, CovarianceRequest):
            found = self.learner.freeze(message)
        else:
            found = self.learner.evaluate(message)
        if found is None:
            return Withdrawal(message.update)
        self._answer = (asked, found)
        return found

    def _adopt(self, message: NewModel) -> list[Upward]:
        if not self.learner.adopt(message):
            return []
        log.info("holds the model of update %d", message.update)
        self.welcome = True  # only members get models
        self.refused = None if message.covered else self.refused
        with self._adopted:
            self._adopted.notify_all()
            asked = self._requested
            if asked is not None and message.update > asked[0] and self.learner.covers(asked[1]):
                self._requested = None
            # Samples that came during the update may be reason enough for the next one; who was
            # left out of this one (and has all samples on top) waits for its next sample to ask,
            # unless the application asked.
            self._wanted = self.learner.asks() if message.covered else 0
            if self._requested is not None:
                self._wanted = max(1, self.learner.clock())
            request = self.request()
        return [] if request is None else [request]

    def wait_for(self, update: int, timeout: float) -> bool:
        """Wait until the agent holds the model of this update or a later one."""
        with self._adopted:
            return self._adopted.wait_for(lambda: self._held >= update, timeout)
