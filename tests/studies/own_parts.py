"""Parts that somebody else might write: a choice rule, an environment, functions that make them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import fedglb as fg
from fedglb.parts.choice import Choice, Model
from fedglb.parts.confidence import Confidence
from fedglb.parts.local_update import LocalState, Ons
from fedglb.parts.trigger import Never
from fedglb.setting import Setting
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Cautious(Choice):
    """Play the arm whose lower bound is the largest."""

    width: float = 1.0

    def score(self, arms: FloatArray, model: Model, t: int) -> FloatArray:
        return model.mean - self.width * model.sd


def misnamed(mu, sigma, scale=1.0):
    """A rule that asks for what there is not."""
    return mu + scale * sigma


def growing(mean: FloatArray, sd: FloatArray, width: float = 1.0) -> FloatArray:
    """A rule that is a function."""
    return mean + width * sd


def falling(samples: int, alpha: float = 1.0) -> float:
    """A radius that is a function."""
    return alpha / (1.0 + samples)


def cautious(width: float = 1.0, exploration: float = 1.0, seed: int = 0) -> fg.Algorithm:
    """An algorithm with this rule; `seed` is a parameter whose name results have already."""
    made = replace(fg.fedglb_auto(), choice=Cautious(width * exploration))
    return replace(made, name="Cautious")


@dataclass(frozen=True)
class Pooled(fg.Strategy):
    """A strategy: all clients add up the rewards of all arms."""

    drawn: float = 0.2

    def client(self, i: int, world: fg.World) -> PooledClient:
        return PooledClient(self.drawn, world)

    def coordinator(self, world: fg.World) -> PooledSum:
        return PooledSum(world.problem.dim)


class PooledClient:
    def __init__(self, drawn: float, world: fg.World) -> None:
        self.drawn, self.rng, self.sum = drawn, world.rng, np.zeros(world.problem.dim)

    def choose(self, arms: FloatArray, t: int) -> int:
        if self.rng.random() < self.drawn:
            return int(self.rng.integers(len(arms)))
        return int(np.argmax(arms @ self.sum))

    def observe(self, arm: FloatArray, reward: float, t: int) -> fg.Payload:
        return fg.Payload(np.float32(reward - 0.5) * arm.astype(np.float32), name="Sum")

    def receive(self, message: FloatArray) -> None:
        self.sum = message


class PooledSum:
    def __init__(self, dim: int) -> None:
        self.sum = np.zeros(dim, np.float32)

    def receive(self, client: int, message: FloatArray) -> fg.Payload:
        self.sum = self.sum + message
        return fg.Payload(self.sum, name="Total")


class Coins(fg.Environment):
    """Arms that are the same in every step."""

    arms = 2

    def __init__(self, problem: fg.Problem, clients: int, best: float = 0.6) -> None:
        self.problem, self.clients, self.best = problem, clients, best

    def parameter(self, seed: int) -> None:
        return None

    def blocks(self, horizon: int, seed: int) -> Iterator[fg.Block]:
        shape = (horizon, self.clients, self.arms)
        arms = np.broadcast_to(np.eye(2), (*shape, 2))
        means = np.broadcast_to([0.3, self.best], shape)
        noise = np.random.default_rng(seed).random(shape[:2])
        yield fg.Block(1, arms, means, uniforms=noise)


def coins(clients: int, best: float = 0.6) -> Coins:
    """An environment with a problem of its own."""
    return Coins(fg.Problem(dim=2), clients, best)


@dataclass(frozen=True)
class Plain(Confidence[LocalState]):
    """A radius in plain Python, which only the reference engine runs."""

    state_type = LocalState
    alpha: float = 0.3

    def constants(self, setting: Setting) -> tuple[float, ...]:
        return ()

    def radius(self, setting: Setting, state: LocalState) -> float:
        return self.alpha


def plain(alpha: float = 0.3, exploration: float = 1.0) -> fg.Algorithm:
    return fg.Algorithm("plain", Ons(), None, Never(), Plain(alpha * exploration))
