"""The class behind `fg.to_gymnasium`; only that function imports it, because it needs Gymnasium."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from fedglb.environments import Block, Environment
from fedglb.errors import InvalidInput, integer
from fedglb.simulation.stepwise import reward_of
from fedglb.typing import FloatArray

Turn: TypeAlias = tuple[Block, int, int]  # an interaction: its block, step in the block, client


class BanditEnv(gymnasium.Env[FloatArray, np.int64]):
    """Interactions of one client, or of all in turn (None), one per step; T is the horizon.

    `seed` is for the first episode, if `reset` gets none.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self, env: Environment, client: int | None, horizon: int, seed: int | None
    ) -> None:
        self.env, self.client, self.horizon = env, client, horizon
        self.observation_space = spaces.Box(-1.0, 1.0, (env.arms, env.problem.dim), np.float64)
        self.action_space = spaces.Discrete(env.arms)
        self._next_seed, self._seed = seed, 0
        self._now: Turn | None = None
        self._turns: Iterator[Turn] | None = None  # the remaining ones; None: not created yet
        self._played = 0  # turns of this episode so far

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Begin an episode."""
        if seed is None and self._next_seed is not None:
            seed = self._next_seed
        super().reset(seed=seed)
        self._next_seed = None
        if seed is None:
            seed = int(self.np_random.integers(2**31))
        self._seed = integer("seed", seed, at_least=0)
        self._turns, self._played = None, 0
        if not self._forward():
            whose = "any client" if self.client is None else f"client {self.client}"
            allowed = f"a client that acts: {whose} does not act in {self.horizon} steps"
            raise InvalidInput("client", self.client, allowed)
        return self._offered(), {**self._turn(), "seed": self._seed}

    def step(self, action: np.int64) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Play an arm."""
        if self._now is None:
            raise InvalidInput("step", "no episode", "a call of reset() first")
        arm = integer("action", action, at_least=0, at_most=self.env.arms - 1)
        block, step, client = self._now
        means = block.means[step, client]
        reward = reward_of(self.env.problem, block, step, client, arm)
        info = {"mean": float(means[arm]), "regret": float(means.max() - means[arm])}
        if not self._forward():
            return np.zeros((self.env.arms, self.env.problem.dim)), reward, False, True, info
        return self._offered(), reward, False, False, {**self._turn(), **info}

    def _offered(self) -> FloatArray:
        """Return the arms on offer, as a new array."""
        assert self._now is not None
        block, *place = self._now
        # an arm may be longer than 1 by a rounding error, and a coordinate with it
        arms: FloatArray = np.clip(block.arms[tuple(place)], -1.0, 1.0)
        return arms.copy(order="C")

    def _turn(self) -> dict[str, Any]:
        assert self._now is not None
        block, step, client = self._now
        means = block.means[step, client].copy()
        return {"t": block.first + step, "client": client, "means": means}

    def _forward(self) -> bool:
        """Go to the next interaction; return whether there is one."""
        if self._turns is None:
            self._turns = itertools.islice(self._all_turns(), self._played, None)
        self._now = next(self._turns, None)
        self._played += 1
        return self._now is not None

    def _all_turns(self) -> Iterator[Turn]:
        """Yield the interactions of an episode."""
        clients = range(self.env.clients) if self.client is None else [self.client]
        for block in self.env.checked_blocks(self.horizon, self._seed):
            if block.arms.shape[2] != self.env.arms:
                allowed = f"{self.env.arms} arms in every step: the space of actions is fixed"
                raise InvalidInput("arms of a block", block.arms.shape[2], allowed)
            for step, client in itertools.product(range(len(block.arms)), clients):
                if block.active is None or block.active[step, client]:
                    yield block, step, client

    def __deepcopy__(self, memo: dict[int, Any]) -> BanditEnv:
        """Return an independent copy; immutable blocks are shared."""
        twin = copy.copy(self)
        twin._np_random = copy.deepcopy(self._np_random, memo)
        twin.action_space = copy.deepcopy(self.action_space, memo)
        twin.observation_space = copy.deepcopy(self.observation_space, memo)
        twin._turns = None  # an iterator cannot be copied: the copy draws the blocks again
        return twin
