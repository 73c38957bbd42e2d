"""An update that a crash interrupted is started again once, whoever asks for it first."""

from __future__ import annotations

import pytest

from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.federation.wire.messages import Heartbeat, Hello
from fedglb.protocol import Client
from fedglb.protocol.messages import Evaluate, NewModel, SumsRequest
from fedglb.protocol.update import IDLE
from tests.federation.helpers.recorded import AGREED, DIM, EACH, learn

NAMES = ("a", "b")


class Scene:
    """A coordinator's conversation, and clients that answer at once."""

    def __init__(self, path) -> None:
        self.agreement, self.path, self.now = AGREED.build(), path, 0.0
        given = (self.agreement.algorithm, self.agreement.setting)
        self.clients = {name: Client(name, *given) for name in NAMES}
        for client in self.clients.values():
            learn(client, EACH)
        self.started: list[str] = []
        self.open()

    def open(self) -> None:
        self.file = CoordinatorStore(self.path, self.agreement)
        self.session = CoordinatorSession(self.agreement, self.file, Policy(), self._on_event)
        self.session.start(self.now)

    def crash(self) -> None:
        """Only the file is left."""
        self.file.close()
        self.open()

    def _on_event(self, event) -> None:
        if event.kind == "updating":
            self.started.append(event.text)

    def hello(self, name: str) -> None:
        held, facts = self.clients[name].adopted, self.agreement.facts()
        self.say(name, Hello(name, held, "test", facts))

    def say(self, name: str, message) -> list:
        return self.session.receive(name, encode(message, name), self.now)

    def ask(self, name: str) -> list:
        """Say in a heartbeat that an update is wanted."""
        return self.say(name, Heartbeat(self.clients[name].adopted, EACH))

    def deliver(self, outgoing: list) -> None:
        while outgoing:
            name, payload = outgoing.pop(0)
            _, message = decode_down(payload, name, DIM)
            if isinstance(message, SumsRequest | Evaluate | NewModel):
                for answer in self.clients[name].receive(message):
                    outgoing += self.say(name, answer)

    def tick(self) -> None:
        self.now += 0.1
        self.deliver(self.session.tick(self.now))


@pytest.fixture
def interrupted(tmp_path):
    """A coordinator that crashed after it had started an update; all agents are back."""
    scene = Scene(tmp_path / "coordinator.db")
    for name in NAMES:
        scene.hello(name)
    assert scene.ask("a")  # requests that nobody gets
    scene.crash()
    for name in NAMES:
        scene.hello(name)
    yield scene
    scene.file.close()


@pytest.mark.parametrize("who", [None, *NAMES])
def test_there_is_one_update_whoever_asks_first(interrupted, who):
    if who is not None:
        interrupted.deliver(interrupted.ask(who))
    for _ in range(3):
        interrupted.tick()
    assert interrupted.started == [
        "update 1 starts with 2 clients",
        "update 2 starts with 2 clients",
    ]
    coordinator = interrupted.session.coordinator
    assert (coordinator.phase, coordinator.finished, coordinator.syncs) == (IDLE, 2, 1)
    assert {client.adopted for client in interrupted.clients.values()} == {2}
    assert interrupted.file.updates()["samples"].to_list() == [len(NAMES) * EACH]
    interrupted.crash()  # and not after the next crash, either
    for name in NAMES:
        interrupted.hello(name)
    interrupted.tick()
    assert len(interrupted.started) == 2
