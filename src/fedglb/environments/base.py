"""Where arms and rewards come from: the interface."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedglb.errors import InvalidInput, arms_in_unit_ball, array, integer, within
from fedglb.problem import Problem
from fedglb.typing import BoolArray, FloatArray

#: How many numbers a block of arms may hold: large enough to draw fast, small enough to stay
#: in the cache of a small machine.
BLOCK_NUMBERS = 2_000_000


@dataclass(frozen=True)
class Block:
    """The steps `first` … `first` + s − 1 of a run.

    Parameters
    ----------
    first
        Its first step, counted from 1.
    arms
        Shape (s, N, K, d).
    means
        Mean reward of every arm, shape (s, N, K).
    uniforms
        One uniform per step and client, shape (s, N), from which the reward is drawn; None
        where `rewards` are given.
    rewards
        The reward that each arm would give, shape (s, N, K).
    active
        Who acts, shape (s, N); None: everybody.
    """

    first: int
    arms: FloatArray
    means: FloatArray
    uniforms: FloatArray | None = None
    rewards: FloatArray | None = None
    active: BoolArray | None = None

    def checked(self, problem: Problem, clients: int) -> Block:
        """Return the block with its numbers as float64; `InvalidInput` if no engine can play it."""
        arms = array("arms", self.arms, (None, clients, None, problem.dim))
        arms_in_unit_ball("arms", arms)
        offered = arms.shape[:3]
        means = array("means", self.means, offered)
        low, high = problem.link.support
        named = f"in [{low:g}, {high:g}], the {problem.link.name} link's"
        if (self.uniforms is None) == (self.rewards is None):
            given = "none" if self.uniforms is None else "both"
            allowed = "exactly one of them: uniforms (T, N), or rewards (T, N, K)"
            raise InvalidInput("uniforms and rewards", given, allowed)
        uniforms = rewards = None
        if self.uniforms is not None:
            uniforms = array("uniforms", self.uniforms, offered[:2])
            within("uniforms", uniforms, 0.0, math.nextafter(1.0, 0.0), "numbers in [0, 1)")
            within("means", means, low, high, f"means {named}")
        if self.rewards is not None:
            rewards = array("rewards", self.rewards, offered)
            within("rewards", rewards, low, high, f"rewards {named}")
        mask = self.active
        if mask is not None and (mask.dtype != np.bool_ or mask.shape != offered[:2]):
            given = f"{mask.dtype} array of shape {mask.shape}"
            raise InvalidInput("active", given, f"a bool array of shape {offered[:2]}")
        return Block(self.first, arms, means, uniforms, rewards, mask)


class Environment(ABC):
    """A source of arms and rewards for N clients.

    Attributes
    ----------
    problem, clients, arms
        The problem, N, and K.
    """

    problem: Problem
    clients: int
    arms: int

    @property
    def horizon(self) -> int | None:
        """The number of steps there are, or None where there is no end."""
        return None

    @abstractmethod
    def parameter(self, seed: int) -> FloatArray | None:
        """Return θ*, where it is known."""

    def facts(self) -> dict[str, Any]:
        """Return what a result should say about where its data came from, as JSON."""
        return {}

    @abstractmethod
    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the steps 1 … horizon, in order; the same for every algorithm of one seed."""

    def checked_blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the blocks, each checked: the steps 1 … horizon in order, and playable."""
        done = 0
        for block in self.blocks(horizon, seed):
            made = block.checked(self.problem, self.clients)
            last = made.first + made.arms.shape[0] - 1
            if made.first != done + 1 or last > horizon:
                given, allowed = f"{made.first} … {last}", f"{done + 1} … {horizon} at most"
                raise InvalidInput("steps of a block", given, allowed)
            done = last
            yield made
        if done < horizon:
            raise InvalidInput("blocks", f"steps up to {done}", f"all steps up to {horizon}")

    def block_steps(self) -> int:
        """Return how many steps make a block."""
        return max(1, BLOCK_NUMBERS // (self.clients * self.arms * self.problem.dim))


def generator(seed: int, role: str) -> np.random.Generator:
    """Return the random stream of one role ("parameter", "arms", "noise") under a seed.

    Each role has a stream of its own, so that all algorithms of a comparison see the same arms
    and noise, however many numbers each role draws.
    """
    integer("seed", seed, at_least=0)
    key = ("parameter", "arms", "noise").index(role)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(key,)))
