"""Compressed gradients: top-k with error feedback (Stich et al., 2018), for a logistic model.

A client sends the k largest entries of its gradient and keeps the rest for the next time. Indices
and values have small types, so messages have few bits.
"""

from dataclasses import dataclass

import numpy as np

import fedglb as fg


class Client:
    def __init__(self, strategy, world):
        self.strategy, self.rng = strategy, world.rng
        self.theta = np.zeros(world.problem.dim)
        self.left = np.zeros(world.problem.dim)  # of the gradient, not sent yet
        self.samples = 0

    def choose(self, arms, t):
        if self.rng.random() < self.strategy.explore / np.sqrt(t):
            return self.rng.integers(len(arms))
        return np.argmax(arms @ self.theta)

    def observe(self, arm, reward, t):
        self.samples += 1
        self.left += (reward - 1.0 / (1.0 + np.exp(-arm @ self.theta))) * arm
        if self.samples % self.strategy.every:
            return None
        largest = np.argsort(-np.abs(self.left))[: self.strategy.k]
        values = self.left[largest].astype(np.float32)
        self.left[largest] -= values  # error feedback: rounding stays here, too
        return fg.Payload((largest.astype(np.uint16), values), name="TopK")

    def receive(self, theta):
        self.theta = theta.astype(float)


class Coordinator:
    def __init__(self, strategy, world):
        self.strategy, self.clients = strategy, world.clients
        self.theta, self.sum, self.received = np.zeros(world.problem.dim), 0.0, 0

    def receive(self, client, message):
        indices, values = message
        gradient = np.zeros_like(self.theta)
        gradient[indices] = values
        self.sum, self.received = self.sum + gradient, self.received + 1
        if self.received < self.clients:
            return None
        self.theta += self.strategy.rate * self.sum / self.received
        self.sum, self.received = 0.0, 0
        return fg.Payload(self.theta.astype(np.float32), name="Model")


@dataclass(frozen=True)
class TopK(fg.Strategy):
    k: int = 2  # entries of a gradient that are sent
    every: int = 2  # a client's samples between two messages
    rate: float = 1.0
    explore: float = 1.0  # the arm is drawn with probability explore/√t

    def client(self, i, world):
        return Client(self, world)

    def coordinator(self, world):
        return Coordinator(self, world)
