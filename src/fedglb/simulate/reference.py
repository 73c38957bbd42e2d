"""The reference engine: the protocol, driven message by message."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from fedglb.algorithms import Algorithm
from fedglb.environments import Block, Environment
from fedglb.kernels.linalg import solve
from fedglb.kernels.types import FloatArray
from fedglb.protocol import Client, Coordinator, Ledger
from fedglb.protocol.messages import ClientId, Message
from fedglb.simulate.results import Recorder

#: Called as observer(t, i, client) right before client i chooses in step t.
Observer: TypeAlias = Callable[[int, int, Client], None]
#: Called with the number of steps done.
Progress: TypeAlias = Callable[[int], None]


class ReferenceEngine:
    """One run: N clients and a coordinator, or one learner for all where it is centralised."""

    def __init__(
        self,
        algorithm: Algorithm,
        env: Environment,
        horizon: int,
        seed: int,
        observer: Observer | None = None,
    ) -> None:
        self.env, self.horizon, self.seed = env, horizon, seed
        self.observer = observer
        setting = algorithm.setting(env.problem, env.clients, horizon)
        if algorithm.centralised:
            shared = Client(0, algorithm, setting)
            self.clients = [shared] * env.clients
        else:
            self.clients = [Client(i, algorithm, setting) for i in range(env.clients)]
        self.coordinator = Coordinator(algorithm, setting, range(setting.clients))
        self.centralised = algorithm.centralised
        choices = np.full((horizon, env.clients), -1, dtype=np.int64)
        self.recorder = Recorder(choices, env.parameter(seed))

    @property
    def ledger(self) -> Ledger:
        """The communication so far."""
        return self.coordinator.ledger

    def shared_theta(self) -> FloatArray | None:
        """Return the last model that all clients share, None if there was none."""
        if self.centralised:
            return self.clients[0].state.theta.copy()
        model = self.coordinator.model
        if model is None:
            return None
        if model.theta is None:  # a linear model is its A and b
            assert model.b is not None
            return solve(model.matrix, model.b)
        return model.theta

    def run(self, progress: Progress | None = None) -> None:
        """Play all steps."""
        for block in self.env.blocks(self.horizon, self.seed):
            block.check(self.env.problem, self.env.clients)
            for step in range(block.arms.shape[0]):
                self._step(block, step)
                if progress is not None:
                    progress(block.first + step)

    def _step(self, block: Block, step: int) -> None:
        t = block.first + step
        for i, client in enumerate(self.clients):
            if block.active is not None and not block.active[step, i]:
                continue
            if self.observer is not None:
                self.observer(t, i, client)
            arms, means = block.arms[step, i], block.means[step, i]
            arm = client.play(np.ascontiguousarray(arms.T))
            reward = self._reward(block, step, i, arm)
            self.recorder.played(t, i, arm, float(means.max() - means[arm]), reward)
            self._deliver(client.learn(arms[arm], reward, t))
            if self.centralised:
                self._count_centralised(arms)
        self._deliver(self.coordinator.end_step(t))
        c = self.coordinator
        self.recorder.stepped(t, c.syncs, c.rounds, c.ledger.transfers, c.ledger.scalars)

    def _reward(self, block: Block, step: int, i: int, arm: int) -> float:
        if block.rewards is not None:
            return float(block.rewards[step, i, arm])
        assert block.uniforms is not None
        problem = self.env.problem
        return problem.link.compiled_sample.call(
            float(block.means[step, i, arm]), float(block.uniforms[step, i]), problem.R
        )

    def _deliver(self, messages: Iterable[Message]) -> None:
        """Carry messages to and fro until nobody has anything left to say."""
        queue, before = deque(messages), self.coordinator.syncs
        while queue:
            message = queue.popleft()
            if message.upward:
                queue.extend(self.coordinator.receive(message))
            else:
                queue.extend(self._client(message.client).receive(message))
        if self.coordinator.syncs > before:
            record = self.coordinator.last_update
            assert record is not None
            self.recorder.updated(record, self.clients[0])

    def _client(self, client: ClientId) -> Client:
        assert isinstance(client, int)
        return self.clients[client]

    def _count_centralised(self, arms: FloatArray) -> None:
        """The paper's count: each interaction is one update, one gradient to each of N clients."""
        self.coordinator.syncs += 1
        self.coordinator.rounds += 1
        self.ledger.add("Centralised", "down", len(self.clients), arms.shape[1])
