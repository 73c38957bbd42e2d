"""Arms and rewards from arrays: what makes two implementations comparable choice by choice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from fedglb.environments.base import Block, Environment
from fedglb.errors import InvalidInput, arms_in_unit_ball, array, instance
from fedglb.kernels.types import BoolArray, FloatArray
from fedglb.problem import Problem


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
        self._arms = arms_in_unit_ball("arms", array("arms", arms, (None, None, None, problem.dim)))
        T, self.clients, self.arms, _ = self._arms.shape
        offered = (T, self.clients, self.arms)
        self._means = array("means", means, offered)
        if (uniforms is None) == (rewards is None):
            raise InvalidInput(
                "uniforms and rewards",
                "none" if uniforms is None else "both",
                "exactly one of them: uniforms (T, N), or rewards (T, N, K)",
            )
        self._uniforms: FloatArray | None = None
        self._rewards: FloatArray | None = None
        if uniforms is not None:
            self._uniforms = array("uniforms", uniforms, offered[:2])
            _within("uniforms", self._uniforms, 0.0, 1.0, "numbers in [0, 1)")
            low, high = problem.link.support
            _within(
                "means", self._means, low, high,
                f"means in [{low:g}, {high:g}], from which the {problem.link.name} link can draw",
            )  # fmt: skip
        else:
            assert rewards is not None
            self._rewards = array("rewards", rewards, offered)
            low, high = problem.link.support
            _within(
                "rewards", self._rewards, low, high,
                f"rewards in [{low:g}, {high:g}], the {problem.link.name} link's",
            )  # fmt: skip
        self._active = None if active is None else _mask("active", active, offered[:2])
        self._parameter = (
            None if parameter is None else array("parameter", parameter, (problem.dim,))
        )

    @property
    def horizon(self) -> int:
        """T, the number of recorded steps."""
        return int(self._arms.shape[0])

    def parameter(self, seed: int) -> FloatArray | None:
        """Return θ* if it was given."""
        return self._parameter

    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the recorded steps 1 … horizon; the seed plays no part."""
        size = self.block_steps()
        for start in range(0, horizon, size):
            part = slice(start, min(start + size, horizon))
            yield Block(
                start + 1,
                self._arms[part],
                self._means[part],
                uniforms=None if self._uniforms is None else self._uniforms[part],
                rewards=None if self._rewards is None else self._rewards[part],
                active=None if self._active is None else self._active[part],
            )


def _within(argument: str, values: FloatArray, low: float, high: float, allowed: str) -> None:
    outside = (values < low) | (values > high)
    if outside.any():
        where = tuple(int(i) for i in np.argwhere(outside)[0])
        raise InvalidInput(f"{argument}{list(where)}", float(values[where]), allowed)


def _mask(argument: str, value: ArrayLike, shape: tuple[int, ...]) -> BoolArray:
    out = np.asarray(value)
    if out.dtype != np.bool_ or out.shape != shape:
        raise InvalidInput(
            argument, f"{out.dtype} array of shape {out.shape}", f"a bool array of shape {shape}"
        )
    return out
