"""Clustered clients, after CLUB (Gentile et al., 2014): groups that nobody knows in advance.

The coordinator connects clients whose own estimates are close; each gets the sums of its group.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

import fedglb as fg


class Client:
    def __init__(self, strategy, world):
        d = world.problem.dim
        self.strategy, self.samples = strategy, 0
        self.A, self.b = np.zeros((d, d)), np.zeros(d)  # own sums
        self.hold(np.zeros((d, d)), np.zeros(d))

    def hold(self, A, b):
        """Choose with these sums, to which own samples are added."""
        self.inverse, self.vector = np.linalg.inv(A + np.eye(len(b))), np.array(b)

    def choose(self, arms, t):
        mean = arms @ self.inverse @ self.vector
        width = np.sqrt(np.einsum("kd,de,ke->k", arms, self.inverse, arms))
        return np.argmax(mean + self.strategy.width * width)

    def observe(self, arm, reward, t):
        reward -= 0.5  # centred: 0 of a linear model is an even chance
        self.A += np.outer(arm, arm)
        self.b += reward * arm
        u = self.inverse @ arm
        self.inverse -= np.outer(u, u) / (1.0 + arm @ u)
        self.vector += reward * arm
        self.samples += 1
        if self.samples % self.strategy.every:
            return None
        return fg.Payload((self.A, self.b, self.samples), name="Sums")

    def receive(self, message):
        self.hold(*message)


class Coordinator:
    def __init__(self, strategy, world):
        self.strategy, self.clients, self.sums = strategy, world.clients, {}

    def receive(self, client, message):
        self.sums[client] = message
        if len(self.sums) < self.clients or client < self.clients - 1:
            return None
        every = [self.sums[i] for i in range(self.clients)]
        A, b, n = (np.array(part) for part in zip(*every, strict=True))
        theta = np.linalg.solve(A + np.eye(A.shape[1]), b[..., None])[..., 0]
        far = np.linalg.norm(theta[:, None] - theta, axis=2)
        error = np.sqrt((1.0 + np.log1p(n)) / (1.0 + n))  # CLUB's width of an estimate
        near = far < self.strategy.alpha * (error[:, None] + error)
        _, group = connected_components(near)
        return [
            fg.Payload((A[group == g].sum(axis=0), b[group == g].sum(axis=0)), to=i, name="Group")
            for i, g in enumerate(group)
        ]


@dataclass(frozen=True)
class Clustered(fg.Strategy):
    alpha: float = 0.4  # clients farther apart than alpha times their errors are not connected
    every: int = 20  # a client's samples between two messages
    width: float = 0.5

    def client(self, i, world):
        return Client(self, world)

    def coordinator(self, world):
        return Coordinator(self, world)
