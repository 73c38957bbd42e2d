"""An update that a crash cut off is begun anew once, whoever is first to ask for it."""

from __future__ import annotations

import pytest

from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorFile
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.federation.wire.messages import Heartbeat, Hello
from fedglb.protocol import Client
from fedglb.protocol.messages import CovarianceRequest, Evaluate, NewModel
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
        self.begun: list[str] = []
        self.open()

    def open(self) -> None:
        self.file = CoordinatorFile(self.path, self.agreement)
        self.conversation = CoordinatorSession(self.agreement, self.file, Policy(), self._hear)
        self.conversation.start(self.now)

    def crash(self) -> None:
        """Only the file is left."""
        self.file.close()
        self.open()

    def _hear(self, event) -> None:
        if event.kind == "begun":
            self.begun.append(event.text)

    def hello(self, name: str) -> None:
        held, facts = self.clients[name].adopted, self.agreement.facts()
        self.say(name, Hello(name, held, "test", facts))

    def say(self, name: str, message) -> list:
        return self.conversation.receive(name, encode(message, name), self.now)

    def ask(self, name: str) -> list:
        """Say in a sign of life that an update is wanted."""
        return self.say(name, Heartbeat(self.clients[name].adopted, EACH))

    def deliver(self, outgoing: list) -> None:
        while outgoing:
            name, payload = outgoing.pop(0)
            _, message = decode_down(payload, name, DIM)
            if isinstance(message, CovarianceRequest | Evaluate | NewModel):
                for answer in self.clients[name].receive(message):
                    outgoing += self.say(name, answer)

    def tick(self) -> None:
        self.now += 0.1
        self.deliver(self.conversation.tick(self.now))


@pytest.fixture
def cut_off(tmp_path):
    """A coordinator that crashed after it had begun an update; all agents are back."""
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
def test_there_is_one_update_whoever_asks_first(cut_off, who):
    if who is not None:
        cut_off.deliver(cut_off.ask(who))
    for _ in range(3):
        cut_off.tick()
    assert cut_off.begun == ["update 1 begins with 2", "update 2 begins with 2"]
    coordinator = cut_off.conversation.coordinator
    assert (coordinator.phase, coordinator.finished, coordinator.syncs) == (IDLE, 2, 1)
    assert {client.adopted for client in cut_off.clients.values()} == {2}
    assert cut_off.file.updates()["samples"].to_list() == [len(NAMES) * EACH]
    cut_off.crash()  # and not after the next crash, either
    for name in NAMES:
        cut_off.hello(name)
    cut_off.tick()
    assert len(cut_off.begun) == 2
