"""The paper's synthetic problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedglb.environments.base import Block, Environment, generator, in_range, stream_key
from fedglb.errors import instance, integer
from fedglb.kernels.draw import draw_steps
from fedglb.kernels.threads import in_ranges
from fedglb.problem import Problem
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Synthetic(Environment):
    """The paper's synthetic problem: new arms in every step, uniform on the unit sphere.

    θ* is uniform on the sphere of radius S. The link draws the rewards: Bernoulli for logistic
    and probit.

    Parameters
    ----------
    problem
        The problem.
    clients
        N, the number of clients.
    arms
        K, the number of arms offered to each client in each step.

    References
    ----------
    Li and Wang (2022), Section 5.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=5)
    >>> next(env.blocks(horizon=4, seed=1)).arms.shape
    (4, 2, 5, 3)
    """

    problem: Problem
    clients: int
    arms: int

    def __post_init__(self) -> None:
        instance("problem", self.problem, Problem, "fg.Problem(dim=10)")
        integer("clients", self.clients)
        integer("arms", self.arms)

    def parameter(self, seed: int) -> FloatArray:
        """Return θ*."""
        direction = generator(seed, "parameter").standard_normal(self.problem.dim)
        return direction * (self.problem.S / float(np.linalg.norm(direction)))

    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the steps 1 … horizon."""
        theta, functions = self.parameter(seed), self.problem.link.compiled_functions
        keys = stream_key(seed, "arms"), stream_key(seed, "noise")
        N, K, d = self.clients, self.arms, self.problem.dim
        size = self.block_steps()
        for first in range(1, horizon + 1, size):
            steps = min(size, horizon - first + 1)
            arms, means = np.empty((steps, N, d, K)), np.empty((steps, N, K))
            noise = np.empty((steps, N))
            in_ranges(
                partial(draw_steps, first, *keys, theta, functions, arms, means, noise),
                N, numbers=arms.size,
            )  # fmt: skip
            yield Block(first, arms.transpose(0, 1, 3, 2), means, uniforms=noise)

    def checked_blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield `blocks(horizon, seed)`: drawn in the layout of the engines.

        Only means are checked, because they can be infinite (Poisson, with a huge radius).
        """
        if type(self).blocks is not Synthetic.blocks:  # a user's subclass
            yield from super().checked_blocks(horizon, seed)
            return
        for block in self.blocks(horizon, seed):
            in_range("means", block.means, self.problem)
            yield block
