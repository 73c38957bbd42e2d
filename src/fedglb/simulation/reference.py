"""The reference engine: the protocol, driven message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.environments import Block, Environment
from fedglb.protocol import Client
from fedglb.protocol.learner import Chosen
from fedglb.protocol.messages import (
    BITS,
    ClientId,
    Ledger,
    Message,
    NewModel,
    SumsRequest,
    SyncRequest,
)
from fedglb.protocol.update import UpdateRecord
from fedglb.simulation.engine import Engine
from fedglb.simulation.stepwise import Stepwise
from fedglb.typing import FloatArray

#: Called as observer(t, i, client) right before client i chooses in step t.
Observer: TypeAlias = Callable[[int, int, Client], None]


@dataclass(frozen=True)
class _TimeLimit:
    """The time limit of the requests of a round is over."""

    update: int
    rounds: int


@dataclass
class _Adoption:
    """The model of a finished update, on its way to clients."""

    record: UpdateRecord
    row: dict[str, Any]  # of the table of updates
    requested: float  # when the update was asked for
    to: set[ClientId]  # those who do not have it yet


class ReferenceEngine(Stepwise, Engine):
    """Clients and a coordinator as in a federation, with or without a network between them."""

    name = "reference"

    def __init__(
        self,
        algorithm: Algorithm,
        env: Environment,
        horizon: int,
        seed: int,
        observer: Observer | None = None,
    ) -> None:
        super().__init__(algorithm, env, horizon, seed)
        self.begin()
        self.observer = observer
        learners = [
            Client(i, algorithm, self.setting, seed, self.noise)
            for i in range(self.setting.clients)
        ]
        self.clients = learners * env.clients if algorithm.centralised else learners
        self._asked: dict[ClientId, tuple[int, int]] = {}  # the state in which a client last asked
        self._requested = 0.0  # when the update in progress was asked for
        self._adoptions: dict[int, _Adoption] = {}  # by the number of the update

    def client(self, i: int) -> Client:
        """Return client i."""
        return self.clients[i]

    def choose(self, block: Block, step: int, i: int) -> Chosen:
        """Let client i choose by its rule."""
        t, client = block.first + step, self.clients[i]
        if self.observer is not None:
            self.observer(t, i, client)
        columns = np.ascontiguousarray(block.arms[step, i].T)
        ids = None if block.ids is None else block.ids[step, i]
        return client.decide(columns, t, stream=i, names=client.names(columns, ids))

    def played(self, i: int, chosen: Chosen) -> None:
        """Charge the bank of client i."""
        self.clients[i].bank += chosen.charge

    def learn(self, i: int, known: list[tuple[FloatArray, float]], t: int) -> None:
        """Let client i learn, and request an update if its trigger fires after the last sample."""
        client, asks = self.clients[i], False
        for x, reward in known:
            asks = client.observe_unchecked(x, reward, t)
        state = (client.adopted, client.update)
        if asks and (self.post.network is None or self._asked.get(client.id) != state):
            self._asked[client.id] = state
            self._send([SyncRequest(client.id, t, client.adopted)], self.post.now)

    def end_step(self, t: int) -> None:
        """Begin an update if one is due."""
        self.coordinator.now = t
        self.send_down(self.coordinator.end_step(t))

    def communication(self) -> tuple[int, int, Ledger]:
        """Return the coordinator's counts."""
        return self.coordinator.syncs, self.coordinator.rounds, self.coordinator.ledger

    def handle(self, event: object) -> None:
        """Deliver a message, or leave out the clients that have not answered in time."""
        self.coordinator.now = self.t  # a late request has the step in which it was sent
        if isinstance(event, _TimeLimit):
            update = self.coordinator.update
            if update is not None and event == _TimeLimit(update.number, update.rounds):
                self.send_down(self.coordinator.exclude(*self.coordinator.missing()))
                if self.coordinator.update is None:
                    self._asked.clear()  # without a model, clients may ask again
            return
        assert isinstance(event, tuple)
        message, sent = event
        if message.upward:
            idle, ledger = self.coordinator.update is None, self.coordinator.ledger
            counted = ledger.messages
            down = self.coordinator.receive(message)
            if ledger.messages == counted:  # an answer after the time limit: ignored, but sent
                ledger.count(message)
            if idle and self.coordinator.update is not None:
                self._requested = sent
            self.send_down(down)
            return
        client = self.clients[int(message.client)]
        self._send(client.receive(message), self.post.now)
        if isinstance(message, NewModel):
            self._adopted(message.update, client)

    def send_down(self, messages: list[Message]) -> None:
        """Send the coordinator's messages; record the update if they bring its model."""
        coordinator = self.coordinator
        if coordinator.update is not None and messages:
            if isinstance(messages[0], SumsRequest) and coordinator.update.asked_by is None:
                self._requested = self.post.now
            network, update = self.post.network, coordinator.update
            if network is not None:
                self.post.wait(_TimeLimit(update.number, update.rounds), network.time_limit)
        elif len(self.recorder.updates) < coordinator.syncs:
            self._finished({m.client for m in messages})
        self._send(messages, self.post.now)
        if coordinator.repeats:
            self.send_down(coordinator.again())

    def _send(self, messages: Iterable[Message], now: float) -> None:
        for message in messages:
            scalars, client = message.scalars(), int(message.client)
            again = self.post.send(
                (message, now), client, upward=message.upward, bits=BITS * scalars
            )
            if again:
                way, carries = "up" if message.upward else "down", int(scalars > 0)
                numbers = again * scalars
                self.coordinator.ledger.add(
                    "Resent", way, again, again * carries, numbers, BITS * numbers
                )

    def _finished(self, recipients: set[ClientId]) -> None:
        """Record an update whose model is on its way."""
        record = self.coordinator.last_update
        assert record is not None
        row = self.recorder.updated(record)
        requested = self._requested
        if self.post.network is not None:
            row["seconds"] = self.post.now - requested
        self._adoptions[self.coordinator.finished] = _Adoption(record, row, requested, recipients)
        if self.holder(record) not in recipients:
            self._describe(record, row)

    def _adopted(self, update: int, client: Client) -> None:
        """Record that a client has the model of an update."""
        adoption = self._adoptions.get(update)
        if adoption is None:
            return
        if client.id == self.holder(adoption.record):
            self._describe(adoption.record, adoption.row)
        adoption.to.discard(client.id)
        if not adoption.to:
            if self.post.network is not None:
                adoption.row["seconds_to_all"] = self.post.now - adoption.requested
            del self._adoptions[update]

    def _describe(self, record: UpdateRecord, row: dict[str, Any]) -> None:
        client = self.client(self.holder(record))
        self.recorder.describe(row, client.choosing, client.state)
