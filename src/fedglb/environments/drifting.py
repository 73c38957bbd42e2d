"""Drift: θ turns while the clients learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedglb.environments.base import Block, Environment, generator
from fedglb.environments.changed import Changed, check_model, following
from fedglb.errors import InvalidInput, number
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Drifting(Changed):
    """An environment with drift: θ turns by the same angle in every step.

    In step t all parameters are those of `env`, turned by the angle (t − 1)·speed in the plane of
    u = θ/‖θ‖ and v, a unit vector that is drawn uniformly among those orthogonal to u: so θ runs
    on a great circle, ‖θ_{t+1} − θ_t‖ = 2‖θ‖·sin(speed/2), and after π/(2·speed) steps it is
    orthogonal to its start. Clients' differences (`fg.Heterogeneous`) turn with it. Arms
    and noise are those of `env`; mean rewards are μ(xᵀθ) with the θ of the step.

    Parameters
    ----------
    env
        The environment at the start; its mean rewards must be μ(xᵀθ), and d ≥ 2.
    speed
        The angle per step in radians, a number ≥ 0; 0: `env` itself, to the bit.

    Raises
    ------
    InvalidInput
        If `speed` is invalid, d = 1, or rewards do not come from a θ (`fg.Classification`).
        Where mean rewards turn out not to be μ(xᵀθ), a run raises it.

    Notes
    -----
    `parameter` returns None, because there is no single θ*; `parameters` returns θ of any step.

    Examples
    --------
    >>> import numpy as np
    >>> import fedglb as fg
    >>> env = fg.Drifting(fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5), speed=0.01)
    >>> begin, later = env.parameters(seed=1)[0, 0], env.parameters(seed=1, first=101)[0, 0]
    >>> round(float(np.arccos(begin @ later)), 6)
    1.0
    """

    env: Environment
    speed: float

    def __post_init__(self) -> None:
        super().__post_init__()
        number("speed", self.speed, at_least=0.0)
        check_model(self.env)
        if self.env.parameter(0) is None:
            allowed = "an environment with a common θ, the start of the turn"
            raise InvalidInput("env", self.env.described(), allowed)
        if self.problem.dim < 2:
            raise InvalidInput("problem.dim", self.problem.dim, "at least 2, so that θ can turn")

    @property
    def draws(self) -> bool:
        """Whether the plane of the turn is drawn."""
        return self.speed > 0.0

    def parameter(self, seed: int) -> FloatArray | None:
        """Return None: there is no single θ* (except at speed 0)."""
        return self.env.parameter(seed) if self.speed == 0.0 else None

    def parameters(self, seed: int, first: int = 1, steps: int = 1) -> FloatArray:
        """Return the parameter of each client in each of some steps, shape (s, N, d)."""
        theta = self.env.parameters(seed, first, steps)
        common = self.env.parameter(seed)
        assert theta is not None  # it was checked
        assert common is not None  # nothing inside drifts
        if self.speed == 0.0:
            return theta
        u = common / max(float(np.linalg.norm(common)), 1e-300)
        v = generator(seed, "drift").standard_normal(u.size)
        v -= (v @ u) * u
        v /= np.linalg.norm(v)
        angle = (self.speed * np.arange(first - 1, first - 1 + steps))[:, None, None]
        along, across = (theta * u).sum(axis=2)[..., None], (theta * v).sum(axis=2)[..., None]
        moved: FloatArray = theta + (np.cos(angle) - 1.0) * (along * u + across * v)
        moved += np.sin(angle) * (along * v - across * u)
        return moved

    def changes(self, seed: int) -> Callable[[Block], Block]:
        """Return the function that gives blocks the means of the steps' own parameters."""
        return following(self, seed)
