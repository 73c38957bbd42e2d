"""The reference engine: the protocol, driven message by message."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.environments import Block, Environment
from fedglb.problem import Problem
from fedglb.protocol import Client
from fedglb.protocol.messages import Message, SyncRequest
from fedglb.simulation.engine import Engine, Progress
from fedglb.typing import FloatArray

#: Called as observer(t, i, client) right before client i chooses in step t.
Observer: TypeAlias = Callable[[int, int, Client], None]


class ReferenceEngine(Engine):
    """Clients and a coordinator as in a federation, without lost messages."""

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
        self.observer = observer
        self.pending: list[list[tuple[int, FloatArray, float]]] = [[] for _ in range(env.clients)]
        learners = [
            Client(i, algorithm, self.setting, seed, self.noise)
            for i in range(self.setting.clients)
        ]
        self.clients = learners * env.clients if algorithm.centralised else learners

    def client(self, i: int) -> Client:
        """Return client i."""
        return self.clients[i]

    def run(self, progress: Progress | None = None) -> None:
        """Play all steps."""
        for block in self.env.checked_blocks(self.horizon, self.seed):
            for step in range(block.arms.shape[0]):
                self.play(block, step, step + 1)
                if progress is not None:
                    progress(block.first + step)

    def play(self, block: Block, begin: int, end: int) -> None:
        """Play the steps from `begin` to `end` − 1 of a block, counted from 0."""
        for step in range(begin, end):
            self._step(block, step)

    def _step(self, block: Block, step: int) -> None:
        t = block.first + step
        for i, client in enumerate(self.clients):
            if block.active is None or block.active[step, i]:
                self._choose(block, step, i)
            asks = False  # the trigger's answer after the last known sample
            for x, reward in self._known(i, t):
                asks = client.observe_unchecked(x, reward, t)
            if asks:
                self._deliver([SyncRequest(client.id, t, client.adopted)])
        self._deliver(self.coordinator.end_step(t))
        self.recorder.stepped(t)
        self.recorder.counted(t, t, self.coordinator)

    def _choose(self, block: Block, step: int, i: int) -> None:
        """Let client i choose; its reward waits until it becomes known."""
        t, client = block.first + step, self.clients[i]
        if self.observer is not None:
            self.observer(t, i, client)
        arms, means = block.arms[step, i], block.means[step, i]
        columns = np.ascontiguousarray(arms.T)
        ids = None if block.ids is None else block.ids[step, i]
        chosen = client.decide(columns, t, stream=i, names=client.names(columns, ids))
        client.bank += chosen.charge
        arm, reward = chosen.arm, reward_of(self.env.problem, block, step, i, chosen.arm)
        self.recorder.played(t, i, chosen, float(means.max() - means[arm]), reward)
        due = t if block.delays is None else t + int(block.delays[step, i])
        self.pending[i].append((due, chosen.row, reward))

    def _known(self, i: int, t: int) -> list[tuple[FloatArray, float]]:
        """Return the samples of client i that become known in step t, in order of their choices."""
        known = [(x, reward) for due, x, reward in self.pending[i] if due == t]
        if known:
            self.pending[i] = [late for late in self.pending[i] if late[0] != t]
        return known

    def _deliver(self, messages: Iterable[Message]) -> None:
        """Deliver messages and their answers until none is left."""
        queue, before = deque(messages), self.coordinator.syncs
        while queue:
            message = queue.popleft()
            if message.upward:
                queue.extend(self.coordinator.receive(message))
            else:
                queue.extend(self.clients[int(message.client)].receive(message))
        if self.coordinator.syncs > before:
            record = self.coordinator.last_update
            assert record is not None
            client = self.client(self.holder(record))
            self.recorder.updated(record, client.choosing, client.state)
            self._deliver(self.coordinator.again())


def reward_of(problem: Problem, block: Block, step: int, i: int, arm: int) -> float:
    """Return the reward of an arm for client i in a step of a block."""
    if block.rewards is not None:
        return float(block.rewards[step, i, arm])
    assert block.uniforms is not None
    return problem.link.compiled_sample.call(
        float(block.means[step, i, arm]), float(block.uniforms[step, i]), problem.R
    )
