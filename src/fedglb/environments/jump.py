"""A jump: θ turns around in one step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.environments.base import Environment
from fedglb.environments.changed import Moved
from fedglb.errors import integer
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Jump(Moved):
    """An environment in which θ becomes −θ in one step, for all clients.

    From then on the best arms are those that were the worst, and all that was learned is wrong.
    Arms and noise are those of `env`; mean rewards are μ(xᵀθ) with the θ of the step.

    Parameters
    ----------
    env
        The environment before the jump; its mean rewards must be μ(xᵀθ).
    at
        The first step with −θ, a whole number ≥ 2.

    Raises
    ------
    InvalidInput
        If `at` is invalid, or rewards do not come from a θ (`fg.Classification`). Where mean
        rewards turn out not to be μ(xᵀθ), a run raises it.

    Notes
    -----
    `parameter` returns None, because there is no single θ*; `parameters` returns θ of any step.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Jump(fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5), at=10)
    >>> before, after = env.parameters(seed=1, first=9, steps=2)[:, 0]
    >>> (after == -before).all()
    np.True_
    """

    env: Environment
    at: int

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("at", self.at, at_least=2)

    @property
    def draws(self) -> bool:
        """Return False: a jump draws nothing."""
        return False

    def parameter(self, seed: int) -> FloatArray | None:
        """Return None: there is no single θ*."""
        return None

    def moved(self, theta: FloatArray, seed: int, first: int) -> FloatArray:
        """Return the parameters of some steps, from those of `env`, shape (s, N, d)."""
        before = np.arange(first, first + len(theta)) < self.at
        return theta * np.where(before, 1.0, -1.0)[:, None, None]
