"""The base of environments that change another one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fedglb.environments.base import Block, Environment, in_range
from fedglb.environments.network import Network
from fedglb.errors import InvalidInput, instance
from fedglb.links import Link
from fedglb.problem import Problem
from fedglb.typing import FloatArray


class Changed(Environment):
    """Another environment, with its blocks changed. Subclasses are frozen dataclasses.

    The first field is `env`, the environment to change; attributes that a subclass does not
    override are those of `env`.
    """

    env: Environment

    def __post_init__(self) -> None:
        instance("env", self.env, Environment, "fg.Synthetic(problem, clients=200, arms=25)")
        inner: object = self.env
        while isinstance(inner, Changed):
            if type(inner) is type(self):
                name = type(self).__name__
                raise InvalidInput("env", self.env.described(), f"no {name} in it")
            inner = inner.env

    @property
    def problem(self) -> Problem:  # type: ignore[override]
        """The problem."""
        return self.env.problem

    @property
    def clients(self) -> int:  # type: ignore[override]
        """N, the number of clients."""
        return self.env.clients

    @property
    def arms(self) -> int:  # type: ignore[override]
        """K, the number of arms offered to each client in each step."""
        return self.env.arms

    @property
    def horizon(self) -> int | None:
        """The number of steps that the environment has; None: no limit."""
        return self.env.horizon

    @property
    def longest_delay(self) -> int:
        """The maximum delay of a reward in steps."""
        return self.env.longest_delay

    @property
    def network(self) -> Network | None:
        """The network between clients and coordinator."""
        return self.env.network

    @property
    def knows_all_rewards(self) -> bool:
        """Whether each arm has a reward."""
        return self.env.knows_all_rewards

    @property
    def draws(self) -> bool:
        """Whether the change itself depends on the seed."""
        return True

    @property
    def randomised(self) -> bool:
        """Whether runs depend on the seed."""
        return self.draws or self.env.randomised

    def parameter(self, seed: int) -> FloatArray | None:
        """Return the changed environment's θ*."""
        return self.env.parameter(seed)

    def parameters(self, seed: int, first: int = 1, steps: int = 1) -> FloatArray | None:
        """Return the parameter of each client in each of some steps, shape (s, N, d)."""
        return self.env.parameters(seed, first, steps)

    def described(self) -> str:
        """Return the environment's name in results, with parameters that are no defaults."""
        given = [(f.name, getattr(self, f.name), f.default) for f in fields(self)[1:]]  # type: ignore[arg-type]
        said = [f"{name}={value!r}" for name, value, default in given if value != default]
        return f"{type(self).__name__}({', '.join([self.env.described(), *said])})"

    def facts(self) -> dict[str, Any]:
        """Return the origin of the data for results, as JSON values."""
        return self.env.facts()

    def block_steps(self) -> int:
        """Return the maximum number of steps per block."""
        return self.env.block_steps()

    @abstractmethod
    def changes(self, seed: int) -> Callable[[Block], Block]:
        """Return the function that changes the blocks of a run, called with each block in order.

        Parameters
        ----------
        seed
            The seed of the run.

        Returns
        -------
        Callable
            Takes a block and returns it changed.
        """

    def blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield the steps 1 … horizon."""
        change = self.changes(seed)
        for block in self.env.checked_blocks(horizon, seed):
            yield change(block)

    def checked_blocks(self, horizon: int, seed: int) -> Iterator[Block]:
        """Yield `blocks(horizon, seed)`: `env` is checked, and the change keeps it valid."""
        yield from self.blocks(horizon, seed)


class Moved(Changed):
    """Another environment with other parameters: mean rewards are μ(xᵀθ) by `parameters`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.env.parameters(0) is None:
            allowed = "an environment with a true θ, such as fg.Synthetic: data has none"
            raise InvalidInput("env", self.env.described(), allowed)

    @abstractmethod
    def moved(self, theta: FloatArray, seed: int, first: int) -> FloatArray:
        """Return the parameters of some steps, from those of `env`, shape (s, N, d).

        Parameters
        ----------
        theta
            Those of `env`, shape (s, N, d); not to be written to.
        seed
            The seed of the run.
        first
            The first of the steps.

        Returns
        -------
        array
            The parameters, shape (s, N, d).
        """

    def parameters(self, seed: int, first: int = 1, steps: int = 1) -> FloatArray:
        """Return the parameter of each client in each of some steps, shape (s, N, d)."""
        theta = self.env.parameters(seed, first, steps)
        assert theta is not None  # it was checked
        return self.moved(theta, seed, first)

    def changes(self, seed: int) -> Callable[[Block], Block]:
        """Return the function that gives blocks the mean rewards of the parameters."""

        def change(block: Block) -> Block:
            check_means(self.env, block, seed)
            theta = self.parameters(seed, block.first, block.arms.shape[0])
            means = means_under(self.problem.link, block, theta)
            in_range("means", means, self.problem)
            return replace(block, means=means)

        return change


def around(theta: FloatArray, away: FloatArray) -> FloatArray:
    """Return ‖θ‖·(θ/‖θ‖ + away)/‖θ/‖θ‖ + away‖ for each θ of `theta` (s, N, d)."""
    length = np.linalg.norm(theta, axis=2, keepdims=True)
    moved: FloatArray = theta + length * away
    moved *= length / np.maximum(np.linalg.norm(moved, axis=2, keepdims=True), 1e-300)
    return moved


def means_under(link: Link, block: Block, theta: FloatArray) -> FloatArray:
    """Return μ(xᵀθ) of each arm of a block, shape (s, N, K).

    `theta` is each client's θ in each step, shape (s, N, d). The sums are taken in the order of
    `fedglb.kernels.scoring.predictions`, so that they have its bits.
    """
    z, term = np.zeros(block.arms.shape[:3]), np.empty(block.arms.shape[:3])
    for j in range(block.arms.shape[3]):
        np.multiply(block.arms[..., j], theta[..., j, None], out=term)
        z += term
    return link.mean(z)


def check_means(env: Environment, block: Block, seed: int) -> None:
    """Raise unless a block draws its rewards from the means μ(xᵀθ)."""
    one = Block(block.first, block.arms[:1], block.means[:1])
    theta = env.parameters(seed, block.first)
    assert theta is not None
    if block.rewards is not None:
        given = "an environment with fixed rewards"
    elif not np.allclose(means_under(env.problem.link, one, theta), one.means, 1e-6, 1e-9):
        given = f"{env.described()}, whose means are not μ(xᵀθ)"
    else:
        return
    allowed = "an environment with rewards from means μ(xᵀθ), such as fg.Synthetic"
    raise InvalidInput("env", given, allowed)
