"""The class behind `fg.to_gymnasium`; only that function imports it, as it needs Gymnasium."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from fedglb.environments import Block, Environment
from fedglb.errors import InvalidInput, integer
from fedglb.simulation.reference import reward_of
from fedglb.typing import FloatArray


class BanditEnv(gymnasium.Env[FloatArray, np.int64]):
    """Interactions of one client, or of all in turn, one per step.

    Parameters
    ----------
    env
        Where arms and rewards come from.
    client
        Whose interactions; None: everybody's.
    horizon
        T, the number of steps.
    seed
        The seed of the first episode, where reset gets none.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self, env: Environment, client: int | None, horizon: int, seed: int | None
    ) -> None:
        self.env, self.client, self.horizon = env, client, horizon
        self.observation_space = spaces.Box(-1.0, 1.0, (env.arms, env.problem.dim), np.float64)
        self.action_space = spaces.Discrete(env.arms)
        self._next_seed, self._seed = seed, 0
        self._block: Block | None = None  # the one that is being played
        self._rest: Iterator[Block] | None = None  # those after it; None: to be made anew
        self._place = (0, 0)  # step in the block, client

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
        self._block, self._rest, self._place = None, None, (-1, 0)
        if not self._forward():
            whose = "any client" if self.client is None else f"client {self.client}"
            allowed = f"a client that acts: {whose} does not in {self.horizon} steps"
            raise InvalidInput("client", self.client, allowed)
        return self._offered(), {**self._turn(), "seed": self._seed}

    def step(self, action: np.int64) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Play an arm."""
        if self._block is None:
            raise InvalidInput("step", "no episode", "a reset() first: there is no arm on offer")
        arm = integer("action", action, at_least=0, at_most=self.env.arms - 1)
        step, client = self._place
        means = self._block.means[step, client]
        reward = reward_of(self.env.problem, self._block, step, client, arm)
        info = {"mean": float(means[arm]), "regret": float(means.max() - means[arm])}
        if not self._forward():
            self._block = None
            return np.zeros((self.env.arms, self.env.problem.dim)), reward, False, True, info
        return self._offered(), reward, False, False, {**self._turn(), **info}

    def _offered(self) -> FloatArray:
        """Return the arms on offer, as an array of the caller's own."""
        assert self._block is not None
        # an arm may be longer than 1 by a rounding error, and a coordinate with it
        arms: FloatArray = np.clip(self._block.arms[self._place], -1.0, 1.0)
        return arms.copy(order="C")

    def _turn(self) -> dict[str, Any]:
        assert self._block is not None
        step, client = self._place
        means = self._block.means[step, client].copy()
        return {"t": self._block.first + step, "client": client, "means": means}

    def _forward(self) -> bool:
        """Go to the next interaction; return whether there is one."""
        block, (step, client) = self._block, self._place
        while True:
            if block is None:
                begin = 1 if self._block is None else self._block.first + len(self._block.arms)
                block = self._following(begin)
                if block is None:
                    return False
                step, client = 0, -1
            if self.client is None:
                client += 1
                step, client = (step + 1, 0) if client == self.env.clients else (step, client)
            else:
                step, client = (step if client == -1 else step + 1), self.client
            if step == len(block.arms):
                self._block, block = block, None
            elif block.active is None or block.active[step, client]:
                self._block, self._place = block, (step, client)
                return True

    def _following(self, first: int) -> Block | None:
        """Return the block that begins with a step; None after the last one."""
        if first > self.horizon:
            return None
        if self._rest is None:
            self._rest = self.env.checked_blocks(self.horizon, self._seed)
        for block in self._rest:
            if block.first == first:
                if block.arms.shape[2] != self.env.arms:
                    allowed = f"{self.env.arms} arms in every step: the space of actions is fixed"
                    raise InvalidInput("arms of a block", block.arms.shape[2], allowed)
                return block
        return None

    def __deepcopy__(self, memo: dict[int, Any]) -> BanditEnv:
        """Return a copy that goes on by itself; blocks cannot be changed, and are shared."""
        twin = copy.copy(self)
        twin._np_random = copy.deepcopy(self._np_random, memo)
        twin.action_space = copy.deepcopy(self.action_space, memo)
        twin.observation_space = copy.deepcopy(self.observation_space, memo)
        twin._rest = None  # an iterator cannot be copied: the copy draws the blocks anew
        return twin
