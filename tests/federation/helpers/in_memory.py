"""Agents and a coordinator with their files, without a network: messages are bytes, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from fedglb.federation.agent.application_calls import ApplicationCalls
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.session import AgentSession
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.federation.wire.messages import Upward


class InMemory:
    """All agents are admitted; by name: their clients, the application's calls, their sessions."""

    def __init__(
        self, folder: Path, agreement: Agreement, names: Iterable[str], explore: float = 0.0
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.agreement, self._rules = folder, agreement, DecisionRules(explore)
        self._file = CoordinatorStore(folder / "state.db", agreement)
        self.session = CoordinatorSession(
            agreement, self._file, CoordinatorPolicy(), lambda event: None
        )
        self.learners: dict[str, DurableClient] = {}
        self.calls: dict[str, ApplicationCalls] = {}
        self.agents: dict[str, AgentSession] = {}
        for name in names:
            self.open(name)

    def open(self, name: str) -> None:
        """Open an agent's file, for the first time or after `restart` closed it; say hello."""
        file = AgentStore(self.folder / f"{name}.db", "process")
        file.agree(self.agreement.facts())
        learner = self.learners[name] = DurableClient(name, self.agreement, file, self._rules)
        self.calls[name] = ApplicationCalls(learner)
        self.agents[name] = AgentSession(learner, file.instance, "test")
        self.deliver(name, self.agents[name].hello())

    def restart(self, name: str) -> None:
        self.learners[name].close()
        self.open(name)

    def deliver(
        self, name: str, message: Upward, between: Callable[[], None] = lambda: None
    ) -> None:
        """Carry a message, and all that follows from it; `between` is called after each."""
        queue = deque([(name, message)])
        while queue:
            name, message = queue.popleft()
            payload = encode(message, self.agents[name].session)
            for other, answer in self.session.receive(name, payload, 0.0):
                _, down = decode_down(answer, other, self.agreement.problem.dim)
                queue.extend((other, up) for up in self.agents[other].receive(down))
                between()

    def close(self) -> None:
        for learner in self.learners.values():
            learner.close()
        self._file.close()
