"""Clients that differ: each has another θ around a common one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.environments.base import Environment, generator
from fedglb.environments.changed import Moved, around
from fedglb.errors import integer, number
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Heterogeneous(Moved):
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
    directions
        Clients differ in the first `directions` coordinates, where gᵢ is uniform on the unit
        sphere; it is 0 in the others. None: in all d coordinates.

    Raises
    ------
    InvalidInput
        If `spread` or `directions` is invalid, or rewards do not come from a θ
        (`fg.Classification`). Where mean rewards turn out not to be μ(xᵀθ), a run raises it.

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
    directions: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        number("spread", self.spread, at_least=0.0)
        if self.directions is not None:
            integer("directions", self.directions, at_most=self.problem.dim)

    @property
    def draws(self) -> bool:
        """Whether the clients' differences are drawn."""
        return self.spread > 0.0

    def moved(self, theta: FloatArray, seed: int, first: int) -> FloatArray:
        """Return the parameters of some steps, from those of `env`, shape (s, N, d)."""
        if self.spread == 0.0:
            return theta
        away = generator(seed, "clients").standard_normal(theta.shape[1:])
        if self.directions is not None:
            away[:, self.directions :] = 0.0
        away *= self.spread / np.linalg.norm(away, axis=1, keepdims=True)
        return around(theta, away)
