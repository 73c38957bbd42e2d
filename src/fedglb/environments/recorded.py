"""Arms and rewards from arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fedglb.environments.base import Block, Environment
from fedglb.errors import InvalidInput, array, instance
from fedglb.problem import Problem
from fedglb.typing import FloatArray


class Recorded(Environment):
    """Arms and rewards from arrays.

    Two implementations of an algorithm can be compared on them choice by choice.

    Parameters
    ----------
    problem
        The problem.
    arms
        Shape (T, N, K, d), each arm of norm ≤ 1. Longer ones by at most 1e-6, the rounding of
        float32, are scaled to norm 1.
    means
        Mean reward of each arm, shape (T, N, K). The regret of a choice is the highest mean
        offered minus the mean chosen. None: the rewards are the means, so the regret of a choice
        is the highest reward offered minus its reward. This counts luck as well: not even the best
        policy has regret 0.
    uniforms
        Numbers in [0, 1), shape (T, N): the reward of arm k for client i in row t is
        link.sample(means[t, i, k], uniforms[t, i]).
    rewards
        Instead of `uniforms`, the reward that each arm would give, shape (T, N, K).
    active
        Which clients act in each step, bool of shape (T, N); None: all of them.
    parameter
        θ*, shape (d,); None if unknown. With it, results show whether the confidence
        ellipsoids contain it.

    Raises
    ------
    InvalidInput
        If a shape or a value is invalid, or not exactly one of `uniforms` and `rewards` is
        present, or `uniforms` without means.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> arms = np.ones((4, 2, 3, 1))
    >>> env = fg.Recorded(fg.Problem(dim=1), arms, np.full((4, 2, 3), 0.5), np.zeros((4, 2)))
    >>> fg.simulate(fg.n_ons_glm(), env).reward
    8.0

    Rewards of which no means are known:

    >>> env = fg.Recorded(fg.Problem(dim=1), arms, rewards=np.eye(3)[[[0, 1], [2, 0]] * 2])
    >>> run = fg.simulate(fg.n_ons_glm(), env)
    >>> run.regret + run.reward
    8.0
    """

    def __init__(
        self,
        problem: Problem,
        arms: ArrayLike,
        means: ArrayLike | None = None,
        uniforms: ArrayLike | None = None,
        *,
        rewards: ArrayLike | None = None,
        active: ArrayLike | None = None,
        parameter: ArrayLike | None = None,
    ) -> None:
        instance("problem", problem, Problem, "fg.Problem(dim=10)")
        self.problem = problem
        if means is None:
            if rewards is None:
                allowed = "mean rewards, which `uniforms` needs, or `rewards` in their place"
                raise InvalidInput("means", None, allowed)
            means = rewards
        self._all = Block(
            1,
            _copy("arms", arms),
            _copy("means", means),
            None if uniforms is None else _copy("uniforms", uniforms),
            None if rewards is None else _copy("rewards", rewards),
            None if active is None else np.array(active),
        )
        if self._all.arms.ndim != 4:
            raise InvalidInput("arms.shape", self._all.arms.shape, "an array of shape (T, N, K, d)")
        _, self.clients, self.arms, _ = self._all.arms.shape
        self._all = self._all.checked(problem, self.clients)
        self._parameter = None
        if parameter is not None:
            self._parameter = array("parameter", parameter, (problem.dim,))

    @property
    def horizon(self) -> int:
        """T, the number of recorded steps."""
        return int(self._all.arms.shape[0])

    @property
    def randomised(self) -> bool:
        """False: every seed has the same arms and rewards (a subclass may have other blocks)."""
        return type(self).blocks is not Recorded.blocks

    def parameter(self, seed: int) -> FloatArray | None:
        """Return θ*, or None if unknown."""
        return self._parameter

    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the recorded steps 1 … horizon, whatever the seed."""
        size = self.block_steps()
        for start in range(0, horizon, size):
            part = slice(start, min(start + size, horizon))
            whole = self._all
            yield Block(
                start + 1,
                whole.arms[part],
                whole.means[part],
                None if whole.uniforms is None else whole.uniforms[part],
                None if whole.rewards is None else whole.rewards[part],
                None if whole.active is None else whole.active[part],
            )


def _copy(argument: str, value: ArrayLike) -> FloatArray:
    """Return a copy, so that later changes of the caller's array have no effect."""
    try:
        return np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInput(argument, value, "an array of numbers") from None
