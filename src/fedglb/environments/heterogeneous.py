"""Clients that differ: each has another θ around a common one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedglb.environments.base import Block, Environment, generator
from fedglb.environments.changed import Changed, check_model, following
from fedglb.errors import number
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Heterogeneous(Changed):
    """An environment whose clients differ: client i has its θᵢ around the common θ.

    θᵢ = ‖θ‖·(θ/‖θ‖ + spread·gᵢ) / ‖θ/‖θ‖ + spread·gᵢ‖ with gᵢ independent and uniform on the unit
    sphere: as long as θ, so within the ball of the problem. The angle φ between θᵢ and θ has
    sin φ ≤ spread, and is near arctan(spread) in many dimensions; at spread = 1 two clients have
    about 60° between them, and with spread → ∞ they have nothing in common. Arms and noise are
    those of `env`; mean rewards are μ(xᵀθᵢ), and regret is counted by them.

    Parameters
    ----------
    env
        The environment with the common θ; its mean rewards must be μ(xᵀθ).
    spread
        How much clients differ, a number ≥ 0; 0: `env` itself, to the bit.

    Raises
    ------
    InvalidInput
        If `spread` is invalid, or rewards do not come from a θ (`fg.Classification`). Where
        mean rewards turn out not to be μ(xᵀθ), a run raises it.

    Notes
    -----
    `parameter` returns the common θ, to which the column theta_star_inside of results refers;
    `parameters` returns every client's.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Heterogeneous(fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5), spread=0.3)
    >>> env.parameters(seed=1).shape
    (1, 4, 3)
    >>> fg.simulate(fg.fedglb_auto(), env, horizon=20).choices.shape
    (20, 4)
    """

    env: Environment
    spread: float

    def __post_init__(self) -> None:
        super().__post_init__()
        number("spread", self.spread, at_least=0.0)
        check_model(self.env)

    @property
    def draws(self) -> bool:
        """Whether the clients' differences are drawn."""
        return self.spread > 0.0

    def parameters(self, seed: int, first: int = 1, steps: int = 1) -> FloatArray:
        """Return the parameter of each client in each of some steps, shape (s, N, d)."""
        theta = self.env.parameters(seed, first, steps)
        assert theta is not None  # it was checked
        if self.spread == 0.0:
            return theta
        away = generator(seed, "clients").standard_normal((self.clients, self.problem.dim))
        away *= self.spread / np.linalg.norm(away, axis=1, keepdims=True)
        length = np.linalg.norm(theta, axis=2, keepdims=True)
        moved: FloatArray = theta + length * away
        moved *= length / np.maximum(np.linalg.norm(moved, axis=2, keepdims=True), 1e-300)
        return moved

    def changes(self, seed: int) -> Callable[[Block], Block]:
        """Return the function that gives blocks the means of the clients' own parameters."""
        return following(self, seed)
