"""FedAvg (McMahan et al., 2017) over a small neural network in NumPy, against FedGLB-Auto.

Each client trains on its own samples; every few of its samples the weights are averaged.
"""

from dataclasses import dataclass

import numpy as np

import fedglb as fg


def forward(weights, x):
    """Return the hidden layer and the predicted probability of a reward for each row of x."""
    W, b, v = weights
    hidden = np.tanh(x @ W + b)
    return hidden, 1.0 / (1.0 + np.exp(-hidden @ v))


class Client:
    """Trains the weights that it got on its own samples; explores at random."""

    def __init__(self, strategy, world):
        self.s, self.rng = strategy, world.rng
        d, h, start = world.problem.dim, strategy.hidden, world.common_rng
        self.weights = [start.normal(size=s) / np.sqrt(s[0]) for s in ((d, h), (h,), (h,))]
        self.x, self.y = [], []

    def choose(self, arms, t):
        """Return the arm of the largest prediction, or one at random."""
        if self.rng.random() < self.s.explore / np.sqrt(t):
            return int(self.rng.integers(len(arms)))
        return int(np.argmax(forward(self.weights, arms)[1]))

    def observe(self, arm, reward, t):
        """Learn; return the weights from time to time."""
        self.x.append(arm)
        self.y.append(reward)
        if len(self.y) % self.s.every:
            return None
        x, y = np.array(self.x), np.array(self.y)
        for _ in range(self.s.passes):
            rows = self.rng.integers(len(y), size=32)
            self.descend(x[rows], y[rows])
        return fg.Payload((len(y), *self.weights), name="Weights")

    def descend(self, x, y):
        """Take a step of gradient descent on the logistic loss."""
        W, b, v = self.weights
        hidden, p = forward(self.weights, x)
        error = (p - y) / len(y)
        back = np.outer(error, v) * (1.0 - hidden**2)
        gradients = (x.T @ back, back.sum(axis=0), hidden.T @ error)
        self.weights = [w - self.s.rate * g for w, g in zip((W, b, v), gradients, strict=True)]

    def receive(self, weights):
        """Take over the average."""
        self.weights = list(weights)


class Coordinator:
    """Averages the last weights of all clients, by their numbers of samples."""

    def __init__(self, world):
        self.world, self.got = world, {}

    def receive(self, client, message):
        """Return the average, once all clients have sent."""
        self.got[client] = message
        if len(self.got) < self.world.clients:
            return None
        n = np.array([m[0] for m in self.got.values()], dtype=float)
        every = zip(*(m[1:] for m in self.got.values()), strict=True)
        self.got = {}
        return fg.Payload(tuple(np.average(w, axis=0, weights=n) for w in every), name="Weights")


@dataclass(frozen=True)
class FedAvg(fg.Strategy):
    """FedAvg: `hidden` neurons, an average every `every` samples, ε = `explore`/√t."""

    hidden: int = 8
    every: int = 25
    passes: int = 50
    rate: float = 1.0
    explore: float = 1.0

    def client(self, i, world):
        """Return client i."""
        return Client(self, world)

    def coordinator(self, world):
        """Return the coordinator."""
        return Coordinator(world)
