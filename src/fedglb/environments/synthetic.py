"""The paper's synthetic problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedglb.environments.base import Block, Environment, generator
from fedglb.errors import instance, integer
from fedglb.kernels.compile import kernel
from fedglb.kernels.linalg import norm
from fedglb.kernels.pointers import call1
from fedglb.problem import Problem
from fedglb.typing import FloatArray


@kernel
def place(arms: FloatArray, theta: FloatArray, mean: int, means: FloatArray) -> None:
    """Scale the rows of `arms` (·, d) to length 1; write μ(xᵀθ) of each to `means`, in one pass."""
    for k in range(arms.shape[0]):
        x = arms[k]
        length = norm(x)
        z = 0.0
        for j in range(theta.shape[0]):
            x[j] /= length
            z += x[j] * theta[j]
        means[k] = call1(mean, z)


@dataclass(frozen=True)
class Synthetic(Environment):
    """The paper's synthetic problem: new arms in every step, uniform on the unit sphere.

    θ* is uniform on the sphere of radius S. The link draws the rewards: Bernoulli for logistic
    and probit.

    Parameters
    ----------
    problem
        What is known about the rewards.
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
        theta = self.parameter(seed)
        draw_arms, draw_noise = generator(seed, "arms"), generator(seed, "noise")
        N, K, d = self.clients, self.arms, self.problem.dim
        size, mean = self.block_steps(), self.problem.link.compiled_mean.address
        for first in range(1, horizon + 1, size):
            steps = min(size, horizon - first + 1)
            arms = draw_arms.standard_normal((steps, N, K, d))
            means = np.empty((steps, N, K))
            place(arms.reshape(-1, d), theta, mean, means.reshape(-1))
            yield Block(first, arms, means, uniforms=draw_noise.random((steps, N)))
