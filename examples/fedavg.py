"""FedAvg (McMahan et al., 2017): a small network, trained by clients, averaged by weights."""

from dataclasses import dataclass

import numpy as np

import fedglb as fg


def forward(weights, x):
    W, b, v = weights
    hidden = np.tanh(x @ W + b)
    return hidden, 1.0 / (1.0 + np.exp(-hidden @ v))


class Client:
    def __init__(self, strategy, world):
        self.strategy, self.rng = strategy, world.rng
        d, h, start = world.problem.dim, strategy.hidden, world.common_rng
        self.weights = [start.normal(size=s) / np.sqrt(s[0]) for s in ((d, h), (h,), (h,))]
        self.x, self.y = [], []

    def choose(self, arms, t):
        if self.rng.random() < self.strategy.explore / np.sqrt(t):
            return self.rng.integers(len(arms))
        return np.argmax(forward(self.weights, arms)[1])

    def observe(self, arm, reward, t):
        self.x.append(arm)
        self.y.append(reward)
        if len(self.y) % self.strategy.every:
            return None
        x, y = np.array(self.x), np.array(self.y)
        for _ in range(self.strategy.passes):
            rows = self.rng.integers(len(y), size=32)
            self.descend(x[rows], y[rows])
        return fg.Payload((len(y), *self.weights), name="Weights")

    def descend(self, x, y):
        W, b, v = self.weights
        hidden, p = forward(self.weights, x)
        error = (p - y) / len(y)
        back = np.outer(error, v) * (1.0 - hidden**2)
        for w, gradient in ((W, x.T @ back), (b, back.sum(axis=0)), (v, hidden.T @ error)):
            w -= self.strategy.rate * gradient

    def receive(self, weights):
        self.weights = [w.copy() for w in weights]  # what arrives cannot be written to


class Coordinator:
    def __init__(self, clients):
        self.clients, self.received = clients, {}

    def receive(self, client, message):
        self.received[client] = message
        if len(self.received) < self.clients:
            return None
        samples = [n for n, *_ in self.received.values()]
        every = zip(*(weights for _, *weights in self.received.values()), strict=True)
        mean = tuple(np.average(w, axis=0, weights=samples) for w in every)
        self.received = {}
        return fg.Payload(mean, name="Weights")  # to all clients


@dataclass(frozen=True)
class FedAvg(fg.Strategy):
    hidden: int = 8  # neurons
    every: int = 20  # a client's samples between two averages
    passes: int = 20  # steps of gradient descent before each
    rate: float = 1.0
    explore: float = 1.0  # the arm is drawn with probability explore/√t

    def client(self, i, world):
        return Client(self, world)

    def coordinator(self, world):
        return Coordinator(world.clients)
