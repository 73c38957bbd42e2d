"""Steps one by one, clients one after the other, messages one by one: in plain Python."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from fedglb.environments import Block, Environment
from fedglb.problem import Problem
from fedglb.protocol.learner import Chosen
from fedglb.protocol.messages import Ledger
from fedglb.simulation.post import Post
from fedglb.simulation.results import Recorder
from fedglb.typing import FloatArray

#: Called with the number of steps done.
Progress: TypeAlias = Callable[[int], None]


class Stepwise(ABC):
    """The order of events in a run; subclasses say what clients and the coordinator do.

    In each step the messages that have arrived since the last one are handled first. Then the
    clients choose and learn, one after the other; what they send is handled before the next client
    chooses, if it has arrived.
    """

    env: Environment
    horizon: int
    seed: int
    recorder: Recorder
    t: int = 0  # the step that is played

    def begin(self) -> None:
        """Begin a run; `env`, `seed` and `recorder` are set."""
        clients = self.env.clients
        # by client: the step in which a reward becomes known, the arm played, the reward
        self.pending: list[list[tuple[int, FloatArray, float]]] = [[] for _ in range(clients)]
        self.post = Post(self.env.network, clients, self.seed)

    @abstractmethod
    def choose(self, block: Block, step: int, i: int) -> Chosen:
        """Let client i choose in a step of a block."""

    def played(self, i: int, chosen: Chosen) -> None:
        """Note that a choice of client i is an interaction; nothing by default."""

    @abstractmethod
    def learn(self, i: int, known: list[tuple[FloatArray, float]], t: int) -> None:
        """Let client i learn the rewards that have become known, and send its messages."""

    @abstractmethod
    def end_step(self, t: int) -> None:
        """Send what the coordinator sends at the end of a step."""

    @abstractmethod
    def handle(self, event: object) -> None:
        """Handle a message that has arrived, or a time that has come."""

    @abstractmethod
    def communication(self) -> tuple[int, int, Ledger]:
        """Return the number of global updates and of rounds so far, and the ledger."""

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
        self.t = t = block.first + step
        self.post.begin(t)
        self.deliver()
        for i in range(self.env.clients):
            if block.active is None or block.active[step, i]:
                self._play(block, step, i)
            if known := self._known(i, t):
                self.learn(i, known, t)
                self.deliver()
        self.end_step(t)
        self.deliver()
        self.recorder.stepped(t)
        self.recorder.counted(t, t, *self.communication())

    def _play(self, block: Block, step: int, i: int) -> None:
        """Let client i choose; its reward waits until it becomes known, if it ever does."""
        t, chosen = self.t, self.choose(block, step, i)
        reward = reward_of(self.env.problem, block, step, i, chosen.arm)
        if math.isnan(reward):  # it is not known: this is no interaction
            return
        self.played(i, chosen)
        means = block.means[step, i]
        best = means.max() if block.benchmark is None else block.benchmark[step, i]
        weight = 1.0 if block.weights is None else float(block.weights[step, i])
        regret = weight * float(best - means[chosen.arm])
        self.recorder.played(t, i, chosen, regret, weight * reward)
        due = t if block.delays is None else t + int(block.delays[step, i])
        self.pending[i].append((due, chosen.row, reward))

    def deliver(self) -> None:
        """Handle what has arrived by now."""
        for event in self.post.events():
            self.handle(event)

    def _known(self, i: int, t: int) -> list[tuple[FloatArray, float]]:
        """Return the samples of client i that become known in step t, in order of their choices."""
        known = [(x, reward) for due, x, reward in self.pending[i] if due == t]
        if known:
            self.pending[i] = [late for late in self.pending[i] if late[0] != t]
        return known


def reward_of(problem: Problem, block: Block, step: int, i: int, arm: int) -> float:
    """Return the reward of an arm for client i in a step of a block."""
    if block.rewards is not None:
        return float(block.rewards[step, i, arm])
    assert block.uniforms is not None
    return problem.link.compiled_sample.call(
        float(block.means[step, i, arm]), float(block.uniforms[step, i]), problem.R
    )
