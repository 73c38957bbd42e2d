"""A federation in one process on a clock of its own: every message may be lost, doubled or late.

Agents and coordinator are the real ones, with their files; the network is a heap of payloads.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.federation.agent.application_calls import ApplicationCalls
from fedglb.federation.agent.decisions import DecisionRules, WithoutRecords
from fedglb.federation.agent.schema_change import newest_schema, opened_client
from fedglb.federation.agent.session import AgentSession
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.events import CoordinatorEvent
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.session import CoordinatorSession, Outgoing
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.frozen import Frozen
from fedglb.federation.wire.codec import Malformed, decode_down, encode
from fedglb.federation.wire.messages import Goodbye, Upward
from fedglb.protocol.messages import Covariance, Derivatives, ModelSums, NewModel
from fedglb.protocol.update import IDLE
from tests.federation.helpers.shop import past

DIM, BEAT, TICK, DOWN_FOR = 2, 0.5, 0.05, 2.0
PATIENT = CoordinatorPolicy(time_limit=1e4, absent_after=1e4, grace=1e4)


def agreed(threshold: float = 0.0, max_clients: int = 5, **more: Any) -> Agreement:
    algorithm = more.pop("algorithm", None) or fg.fedglb_ucb(threshold, fg.Newton())
    return Agreement(fg.Problem(dim=DIM), algorithm, max_clients, **more)


def direction(rng: np.random.Generator, dim: int = DIM) -> np.ndarray:
    x = rng.standard_normal(dim)
    return x / np.linalg.norm(x)


class Node:
    """An agent's file and what works on it; it can be closed and opened again."""

    def __init__(
        self,
        name: str,
        path: Path,
        agreement: Agreement,
        seed: int,
        explore: float = 0.0,
        without_records: WithoutRecords = "refuse",
    ) -> None:
        self.name, self.path, self.agreement = name, path, agreement
        self._rules = DecisionRules(explore, without_records=without_records)
        self.rng = np.random.default_rng(seed)
        self.ids: list[str] = []
        self.fed = 0  # samples of records
        self.next_beat = 0.0
        self.open()

    def open(self) -> None:
        """Open the file as `Agent.open` does; `agreement` is what the bundle has."""
        file = AgentStore(self.path, "process")
        agreement = newest_schema(file, self.agreement, alone=False)
        self.learner = opened_client(self.name, agreement, file, self._rules, {})
        self.calls = ApplicationCalls(self.learner)
        self.agent_session = AgentSession(self.learner, file.instance, "test")
        self.up = True

    def close(self) -> None:
        self.learner.close()
        self.up = False

    @property
    def model(self) -> int:
        return self.learner.protocol_client.adopted

    def feed(self, n: int) -> None:
        """Take in samples that are the same whatever the agent has learned: one arm at a time."""
        for _ in range(n):
            decision = self.calls.choose([direction(self.rng)])
            self.ids.append(decision.id)
            step = self.calls.observe(decision.id, float(self.rng.random() < 0.5))
            if step:
                self.agent_session.note_trigger(step)

    def serve(self, n: int) -> None:
        """Take the next samples of the shop's records."""
        arms, rewards, contexts, ids = past(self.name, self.fed + n)
        for k in range(self.fed, self.fed + n):
            made = self.calls.choose([arms[k]], [ids[k]], context=contexts[k])
            step = self.calls.observe(made.id, rewards[k])
            self.ids.append(made.id)
            self.fed += 1
            if step:
                self.agent_session.note_trigger(step)

    @property
    def revision(self) -> int:
        return self.learner.agreement.revision


class Harness:
    """Agents, a coordinator, and the network between them."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str] = ("a", "b", "c"),
        agreement: Agreement | None = None,
        policy: CoordinatorPolicy = PATIENT,
        *,
        seed: int = 0,
        loss: float = 0.0,
        twice: float = 0.0,
        delay: float = 0.0,
        after: int = 0,
        explore: float = 0.0,
    ) -> None:
        self.folder, self.policy = folder, policy
        self.agreement = agreed() if agreement is None else agreement
        self.rng = np.random.default_rng(seed)
        self.loss, self.twice, self.delay, self.explore = loss, twice, delay, explore
        self.now, self._count = 0.0, 0
        self._heap: list[tuple[float, int, str, str, bytes]] = []
        self.said: list[tuple[float, str, str, Any]] = []  # when, up or down, client, message
        self.lost: Callable[[str, str, Any], bool] = lambda way, name, message: False
        self.events: list[CoordinatorEvent] = []
        self._wakes: list[tuple[float, str]] = []
        self.frozen: Frozen | None = None  # what the operator's file says
        self.revisions: dict[int, set[int]] = {}  # of the schemas in each update
        self.nodes = {name: self._node(name, ord(name[-1])) for name in names}
        self.begin(after)
        for node in self.nodes.values():
            self.say(node, node.agent_session.hello())

    def _node(self, name: str, seed: int = 99) -> Node:
        return Node(name, self.folder / f"{name}.db", self.agreement, seed, self.explore)

    def add(self, name: str, **more: Any) -> Node:
        node = self.nodes[name] = self._node(name, **more)
        self.say(node, node.agent_session.hello())
        return node

    # -- the coordinator ---------------------------------------------------------------------

    def begin(self, after: int = 0) -> None:
        self.file = CoordinatorStore(self.folder / "coordinator.db", self.agreement)
        self._start_session(after)

    def _start_session(self, after: int = 0) -> None:
        self.session = CoordinatorSession(
            self.agreement, self.file, self.policy, self.events.append, after, lambda: self.now,
            frozen=self.frozen,
        )  # fmt: skip
        self.tell(self.session.start(self.now))

    def change_features(self, features: fg.Features, *, to_nodes: bool = False) -> None:
        """Give the running coordinator another schema, as its service does when it finds one."""
        revision = self.agreement.revision + 1
        self.agreement = self.agreement.with_features(features, revision)
        if to_nodes:  # the owners have brought the new bundles: they count from the next start
            for node in self.nodes.values():
                node.agreement = self.agreement
        self.file.change_schema(self.agreement)
        self._start_session()

    def freeze(self, update: int | None) -> None:
        """Do as the service when it finds the operator's file; None: none any more."""
        self.frozen = None if update is None else Frozen(update, self.now)
        self.tell(self.session.freeze(self.frozen))

    def crash(self) -> None:
        """End the coordinator without writing anything, and start it again."""
        self.file.close()
        self.begin()

    def stop_for(self, seconds: float) -> None:
        """End the coordinator, and start it again after a while in which nobody speaks."""
        self.file.close()
        self.now += seconds
        self.begin()

    def backup(self, name: str) -> dict[Path, bytes]:
        """What a closed file has, with those beside it."""
        return {file: file.read_bytes() for file in self.folder.glob(f"{name}.db*")}

    def restore(self, name: str, backup: Mapping[Path, bytes] | None = None) -> None:
        """Put a backup in the place of a closed file; None: the file is lost."""
        for file in self.folder.glob(f"{name}.db*"):
            file.unlink()
        for file, data in (backup or {}).items():
            file.write_bytes(data)

    def stop(self) -> None:
        """Stop the coordinator properly, and start it again."""
        self.session.stop()
        self.crash()

    @property
    def coordinator(self) -> fg.Coordinator:
        return self.session.coordinator

    @property
    def idle(self) -> bool:
        return self.coordinator.phase == IDLE

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    # -- the agents --------------------------------------------------------------------------

    def feed(self, n: int = 4) -> None:
        for node in self.nodes.values():
            node.feed(n)

    def request(self, name: str) -> None:
        request = self.nodes[name].agent_session.request()
        assert request is not None
        self.say(self.nodes[name], request)

    def take_down(self, name: str) -> None:
        """End an agent without goodbye; it comes back when what it said has arrived or is lost."""
        self.nodes[name].close()
        self._wakes.append((self.now + DOWN_FOR, name))

    def come_back(self, name: str) -> None:
        self.nodes[name].open()
        self.say(self.nodes[name], self.nodes[name].agent_session.hello())

    def restart(self, name: str) -> None:
        self.nodes[name].close()
        self.come_back(name)
        self.arrive()

    def leave(self, name: str) -> None:
        self.say(self.nodes[name], Goodbye())
        self.nodes.pop(name).close()

    # -- the network -------------------------------------------------------------------------

    def say(self, node: Node, message: Upward) -> None:
        self.said.append((self.now, "up", node.name, message))
        if isinstance(message, Covariance | ModelSums | Derivatives):
            self.revisions.setdefault(message.update, set()).add(node.revision)
        self._post("up", node.name, encode(message, node.agent_session.session), message)

    def tell(self, outgoing: Sequence[Outgoing]) -> None:
        for name, payload in outgoing:
            message = self._decoded(self.session.agreement, name, payload)[1]
            self.said.append((self.now, "down", name, message))
            self._post("down", name, payload, message)

    def hear(self, name: str, message: Upward | bytes, session: str | None = None) -> list[Any]:
        """Hand the coordinator a message or bytes at once; return what it answers this client."""
        if not isinstance(message, bytes):
            own = self.nodes[name].agent_session.session if session is None else session
            message = encode(message, own)
        out = self.session.receive(name, message, self.now)
        self.tell(out)
        return [
            self._decoded(self.session.agreement, to, payload)[1]
            for to, payload in out
            if to == name
        ]

    def _post(self, way: str, name: str, payload: bytes, message: Any) -> None:
        copies = 1 + (self.rng.random() < self.twice)
        for _ in range(copies):
            if self.rng.random() < self.loss or self.lost(way, name, message):
                continue
            arrives = self.now + self.delay * self.rng.random()
            self._count += 1
            heapq.heappush(self._heap, (arrives, self._count, way, name, payload))

    @staticmethod
    def _decoded(agreement: Agreement, name: str, payload: bytes) -> tuple[str, Any]:
        return decode_down(payload, name, agreement.problem.dim, agreement.effects)

    def _arrive(self, way: str, name: str, payload: bytes) -> None:
        if way == "up":
            self.tell(self.session.receive(name, payload, self.now))
            return
        node = self.nodes.get(name)
        if node is None or not node.up:
            return
        try:
            session, message = self._decoded(node.learner.agreement, name, payload)
        except Malformed:  # of another schema
            return
        if session in ("", node.agent_session.session):
            for answer in node.agent_session.receive(message):
                self.say(node, answer)
            if isinstance(message, NewModel) and node.model == message.update:
                self.revisions.setdefault(message.update, set()).add(node.revision)

    def arrive(self, between: Callable[[], None] = lambda: None) -> None:
        """Let all arrive that is due, and all that follows from it.

        `between` is called after every message that an agent has received.
        """
        while self._heap and self._heap[0][0] <= self.now:
            _, _, way, name, payload = heapq.heappop(self._heap)
            self._arrive(way, name, payload)
            if way == "down":
                between()

    def step(self) -> None:
        """Let a tick pass, with all that arrives in it and all that follows from that."""
        self.now += TICK
        for when, name in list(self._wakes):
            if when <= self.now:
                self._wakes.remove((when, name))
                self.come_back(name)
        for node in self.nodes.values():
            if node.up and self.now >= node.next_beat:
                node.next_beat = self.now + BEAT
                self.say(node, node.agent_session.beat())
        self.arrive()
        self.tell(self.session.tick(self.now))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self.step()

    def until(self, condition: Callable[[], bool], seconds: float = 600.0) -> None:
        """Let time pass until something is so; fail if it never is."""
        end = self.now + seconds
        while not condition():
            assert self.now < end, (self.events, [vars(n.agent_session) for n in self.all()])
            self.step()

    def all(self) -> list[Node]:
        return list(self.nodes.values())

    def everybody_here(self) -> bool:
        return all(name in self.session.members for name in self.nodes)

    def shared(self, update: int = 1) -> bool:
        """Whether all agents hold the newest model, of this update or a later one."""
        newest = self.coordinator.finished
        return (
            self.idle and newest >= update and all(n.up and n.model == newest for n in self.all())
        )

    def heard(self, way: str, kind: type, name: str | None = None) -> list[Any]:
        """What was said, lost or not."""
        return [
            m for _, w, n, m in self.said if w == way and isinstance(m, kind) and name in (None, n)
        ]

    def close(self) -> None:
        self.file.close()
        for node in self.nodes.values():
            if node.up:
                node.close()


@contextmanager
def harness(folder: Path, *arguments: Any, **more: Any) -> Iterator[Harness]:
    folder.mkdir(exist_ok=True)
    running = Harness(folder, *arguments, **more)
    try:
        yield running
    finally:
        running.close()


#: With short timeouts.
POLICY = CoordinatorPolicy(quorum=2, time_limit=5.0, absent_after=20.0, resend=0.25, grace=8.0)


def joined(folder: Path, **more) -> Harness:
    """Return three agents with samples, all admitted; no update has been requested."""
    given = {"policy": POLICY, "agreement": agreed(1e9), **more}
    running = Harness(folder, **given)
    running.until(running.everybody_here)
    running.feed()
    return running


def ask(running: Harness, name: str = "a") -> None:
    running.nodes[name].agent_session.ask()
    running.request(name)


def updated(running: Harness, name: str = "a") -> None:
    """Let an agent ask for an update, and wait until all hold its model."""
    number = running.coordinator.finished + 1
    ask(running, name)
    running.until(lambda: running.shared(number))


def recover(running: Harness, update: int = 1) -> None:
    """Let messages arrive again, and wait until all hold the model of this update or a later."""
    running.lost = lambda *_: False
    running.until(lambda: running.shared(update))


def stuck(running: Harness, name: str = "a", seconds: float = 1.0) -> None:
    """Let an agent ask for an update in which no derivatives arrive."""
    running.lost = lambda way, _, m: way == "up" and isinstance(m, Derivatives)
    ask(running, name)
    running.run(seconds)


def texts(running: Harness, kind: str) -> list[str]:
    return [e.text for e in running.events if e.kind == kind]
