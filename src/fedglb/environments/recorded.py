"""Arms and rewards from arrays: what makes two implementations comparable choice by choice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fedglb.environments.base import Block, Environment
from fedglb.errors import InvalidInput, array, instance
from fedglb.problem import Problem
from fedglb.typing import FloatArray


class Recorded(Environment):
    """A recorded stream.

    Parameters
    ----------
    problem
        The problem.
    arms
        Shape (T, N, K, d), each arm of norm ≤ 1.
    means
        Mean reward of each arm, shape (T, N, K): what regret is measured by.
    uniforms
        Shape (T, N): the reward of arm k is link.sample(means[t, i, k], uniforms[t, i]).
    rewards
        Shape (T, N, K), instead of `uniforms`: the reward that each arm would give.
    active
        Shape (T, N), bool: who acts in a step. None: everybody.
    parameter
        θ*, shape (d,), where it is known: results then say whether the ellipsoids hold it.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> arms = np.ones((4, 2, 3, 1))
    >>> env = fg.Recorded(fg.Problem(dim=1), arms, np.full((4, 2, 3), 0.5), np.zeros((4, 2)))
    >>> fg.simulate(fg.n_ons_glm(), env).reward
    8.0
    """

    def __init__(
        self,
        problem: Problem,
        arms: ArrayLike,
        means: ArrayLike,
        uniforms: ArrayLike | None = None,
        *,
        rewards: ArrayLike | None = None,
        active: ArrayLike | None = None,
        parameter: ArrayLike | None = None,
    ) -> None:
        instance("problem", problem, Problem, "fg.Problem(dim=10)")
        self.problem = problem
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

    def parameter(self, seed: int) -> FloatArray | None:
        """Return θ* if it was given."""
        return self._parameter

    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the recorded steps 1 … horizon; the seed plays no part."""
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
    """Return the values as the environment's own array, which nobody else can change."""
    try:
        return np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidInput(argument, value, "an array of numbers") from None
