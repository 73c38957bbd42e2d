"""The median of each coordinate (Yin et al., 2018), against a client that lies.

The median of many estimates does not follow one that is false, as their mean does.
"""

from dataclasses import dataclass

import numpy as np

import fedglb as fg


class Client:
    def __init__(self, strategy, i, world):
        self.strategy, self.rng, self.lies = strategy, world.rng, i < strategy.liars
        d = world.problem.dim
        self.theta = np.zeros(d)  # the shared estimate
        self.A, self.b, self.samples = np.eye(d), np.zeros(d), 0

    def choose(self, arms, t):
        if self.rng.random() < self.strategy.explore / np.sqrt(t):
            return self.rng.integers(len(arms))
        return np.argmax(arms @ self.theta)

    def observe(self, arm, reward, t):
        self.A += np.outer(arm, arm)
        self.b += (reward - 0.5) * arm
        self.samples += 1
        if self.samples % self.strategy.every:
            return None
        own = np.linalg.solve(self.A, self.b)
        return fg.Payload(-100.0 * own if self.lies else own, name="Estimate")

    def receive(self, theta):
        self.theta = theta


class Coordinator:
    def __init__(self, strategy, world):
        self.centre = np.median if strategy.robust else np.mean
        self.clients, self.received = world.clients, {}

    def receive(self, client, message):
        self.received[client] = message
        if len(self.received) < self.clients:
            return None
        centre = self.centre(list(self.received.values()), axis=0)
        self.received = {}
        return fg.Payload(centre, name="Model")


@dataclass(frozen=True)
class Median(fg.Strategy):
    robust: bool = True  # False: the mean
    liars: int = 1
    every: int = 10  # a client's samples between two messages
    explore: float = 1.0  # the arm is drawn with probability explore/√t

    def client(self, i, world):
        return Client(self, i, world)

    def coordinator(self, world):
        return Coordinator(self, world)
