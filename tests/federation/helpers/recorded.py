"""A recorded stream of samples, and what a federation makes of it when nothing happens.

The stream comes in phases: every client meets a few samples, then one of them asks for an update.
One arm is offered at a time, so that nothing depends on when a model comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedglb.federation.agreement import Agreement, AgreementTable
from fedglb.model import SharedModel
from fedglb.problem_table import ProblemTable
from fedglb.protocol import Client, Coordinator
from fedglb.protocol.messages import Message, SyncRequest
from fedglb.protocol.persistence import Arrays
from fedglb.simulation.reference import ReferenceEngine

ITEMS = 5  # sample k is of item k mod ITEMS, by its id: items have effects, where arms have them
EACH = 3  # samples of every client in a phase
DIM = 3
#: Updates only when asked for; with this radius, every one of them takes two rounds.
AGREED = AgreementTable(10, ProblemTable(DIM, radius=3.0), {"name": "fedglb-ucb", "threshold": 1e9})
#: The same with one exchange per update, mostly, and a ridge that follows from the data.
ONE_EXCHANGE = AgreementTable(
    10, ProblemTable(DIM, radius=3.0), {"name": "fedglb-auto", "threshold": 1e9}
)
#: Updates on a schedule, whose clock the test sets.
ONE_PASS = AgreementTable(
    10, ProblemTable(DIM, radius=3.0),
    {"name": "fedglb-private", "updates": 60, "first": 1.0, "growth": 1.2},
)  # fmt: skip
#: The same with noise.
SILO = AgreementTable(
    10, ProblemTable(DIM, radius=3.0),
    {**ONE_PASS.algorithm, "privacy": {"epsilon": 1.0, "delta": 1e-6, "noise": "silo"}},
)  # fmt: skip


#: With a model for each client.
PERSONAL = AgreementTable(
    10, ProblemTable(DIM, radius=3.0), {"name": "fedglb-personal", "threshold": 1e9}
)


def stream(client: str, dim: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first samples of a client: arms and rewards."""
    rng = np.random.default_rng([ord(c) for c in client])
    table = rng.normal(size=(count, dim + 1))
    X = table[:, :dim] / np.maximum(1.0, np.linalg.norm(table[:, :dim], axis=1))[:, None]
    taste = -1.0 if client == "c" else 1.0  # it differs from the others
    return X, (X @ np.linspace(2.0, -1.0, dim) * taste + table[:, dim] > 0.0).astype(float)


@dataclass(frozen=True)
class Standing:
    """The coordinator and the clients after a phase, as arrays."""

    coordinator: Arrays
    clients: dict[str, Arrays]


def learn(client: Client, count: int) -> None:
    """Let a client meet its stream up to `count` samples, as an agent's clock counts steps."""
    X, y = stream(str(client.id), client.setting.problem.dim, count)
    for k in range(len(client.samples), count):
        client.observe(X[k], y[k], 1 + max(client.last_t, client.state.t_last), id=k % ITEMS)


def asker(names: Sequence[str], phase: int) -> str:
    """Who asks for the update of a phase."""
    return names[phase % len(names)]


def undisturbed(agreement: Agreement, names: Sequence[str], phases: int) -> Iterator[Standing]:
    """Play the protocol in memory, phase by phase."""
    given = (agreement.algorithm, agreement.setting)
    clients = {name: Client(name, *given) for name in names}
    coordinator = Coordinator(*given, names)
    for phase in range(phases):
        for client in clients.values():
            learn(client, EACH * (phase + 1))
        who = clients[asker(names, phase)]
        t = max(who.last_t, who.state.t_last)
        waiting: list[Message] = [SyncRequest(who.id, t, who.adopted)]
        if agreement.times:
            waiting = coordinator.begin(phase + 1)
        while waiting:
            message = waiting.pop(0)
            receiver = coordinator if message.upward else clients[str(message.client)]
            waiting += receiver.receive(message)
        yield Standing(
            coordinator.to_arrays(), {name: c.to_arrays() for name, c in clients.items()}
        )


def recording(
    shape: tuple[int, int, int, int], seed: int, length: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arms (T, N, K, d), their means with a θ* of this length, and the reward of each."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal(shape)
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    theta = rng.standard_normal(shape[-1])
    means = 1.0 / (1.0 + np.exp(-arms @ (length * theta / np.linalg.norm(theta))))
    return arms, means, (rng.random((*shape[:2], 1)) < means).astype(float)


class Simulation(ReferenceEngine):
    """The reference engine, which here keeps the model of every update."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.models: list[SharedModel | None] = []

    def send_down(self, messages: Any) -> None:
        if self.coordinator.syncs > len(self.models):
            self.models.append(self.coordinator.model)
        super().send_down(messages)
