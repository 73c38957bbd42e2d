"""A few clients that have nothing in common with the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.environments.base import Environment, generator
from fedglb.environments.changed import Moved
from fedglb.errors import integer
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Outliers(Moved):
    """An environment in which a few clients have a θ of their own, and all others the common one.

    The first `count` clients are outliers: each has an independent θᵢ, uniform on the sphere of
    radius ‖θ‖. Arms and noise are those of `env`; mean rewards are μ(xᵀθᵢ), and regret is counted
    by them.

    Parameters
    ----------
    env
        The environment with the common θ; its mean rewards must be μ(xᵀθ).
    count
        The number of outliers, from 0 to N; 0: `env` itself, to the bit. With a larger count, the
        outliers of a smaller one remain.

    Raises
    ------
    InvalidInput
        If `count` is invalid, or rewards do not come from a θ (`fg.Classification`). Where mean
        rewards turn out not to be μ(xᵀθ), a run raises it.

    Notes
    -----
    `parameter` returns the common θ; `parameters` returns every client's.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Outliers(fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5), count=1)
    >>> (env.parameters(seed=1)[0] == env.parameter(seed=1)).all(axis=1).tolist()
    [False, True, True, True]
    """

    env: Environment
    count: int

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("count", self.count, at_least=0, at_most=self.clients)

    @property
    def draws(self) -> bool:
        """Whether there are outliers, whose parameters are drawn."""
        return self.count > 0

    def moved(self, theta: FloatArray, seed: int, first: int) -> FloatArray:
        """Return the parameters of some steps, from those of `env`, shape (s, N, d)."""
        own = generator(seed, "outliers").standard_normal((self.count, self.problem.dim))
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        moved = theta.copy()
        moved[:, : self.count] = own
        moved[:, : self.count] *= np.linalg.norm(theta[:, : self.count], axis=2, keepdims=True)
        return moved
