"""Drift: θ moves a little in every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from fedglb.environments.base import Environment, generator
from fedglb.environments.changed import Moved, around
from fedglb.errors import InvalidInput, number, one_of
from fedglb.typing import FloatArray

#: θ turns in one plane, or goes in a new direction in every step.
Drift: TypeAlias = Literal["turn", "walk"]


@dataclass(frozen=True)
class Drifting(Moved):
    """An environment with drift: θ moves a little in every step.

    kind="turn": in step t all parameters are those of `env`, turned by the angle (t − 1)·speed in
    the plane of u = θ/‖θ‖ and v, a unit vector that is drawn uniformly among those orthogonal to u:
    so θ runs on a great circle, ‖θ_{t+1} − θ_t‖ = 2‖θ‖·sin(speed/2), and after π/(2·speed) steps it
    is orthogonal to its start. Clients' differences (`fg.Heterogeneous`) turn with it.

    kind="walk": a random walk, θ_t = ‖θ‖·(u + speed·w_t)/‖u + speed·w_t‖, where w_t is the sum of
    t − 1 independent normal steps with covariance I/d; it is the same for all clients.

    Arms and noise are those of `env`; mean rewards are μ(xᵀθ) with the θ of the step.

    Parameters
    ----------
    env
        The environment at the start; its mean rewards must be μ(xᵀθ), and d ≥ 2.
    speed
        The angle per step in radians (of a walk: at its start, as a root mean square, up to a
        factor √(1 − 1/d)), a number ≥ 0; 0: `env` itself, to the bit.
    kind
        "turn" or "walk".

    Raises
    ------
    InvalidInput
        If `speed` or `kind` is invalid, d = 1, or rewards do not come from a θ
        (`fg.Classification`). Where mean rewards turn out not to be μ(xᵀθ), a run raises it.

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
    kind: Drift = "turn"

    def __post_init__(self) -> None:
        super().__post_init__()
        number("speed", self.speed, at_least=0.0)
        one_of("kind", self.kind, get_args(Drift))
        if self.env.parameter(0) is None:
            allowed = "an environment with a common θ, the start of the drift"
            raise InvalidInput("env", self.env.described(), allowed)
        if self.problem.dim < 2:
            raise InvalidInput("problem.dim", self.problem.dim, "at least 2, so that θ can move")

    @property
    def draws(self) -> bool:
        """Whether the path is drawn."""
        return self.speed > 0.0

    def parameter(self, seed: int) -> FloatArray | None:
        """Return None: there is no single θ* (except at speed 0)."""
        return self.env.parameter(seed) if self.speed == 0.0 else None

    def moved(self, theta: FloatArray, seed: int, first: int) -> FloatArray:
        """Return the parameters of some steps, from those of `env`, shape (s, N, d)."""
        if self.speed == 0.0:
            return theta
        draw, d, last = generator(seed, "drift"), self.problem.dim, first - 1 + len(theta)
        if self.kind == "walk":
            walk = draw.standard_normal((last, d)) * (self.speed / np.sqrt(d))
            walk[0] = 0.0
            return around(theta, walk.cumsum(axis=0)[first - 1 :, None])
        common = self.env.parameter(seed)
        assert common is not None  # nothing inside drifts
        u = common / max(float(np.linalg.norm(common)), 1e-300)
        v = draw.standard_normal(d)
        v -= (v @ u) * u
        v /= np.linalg.norm(v)
        angle = (self.speed * np.arange(first - 1, last))[:, None, None]
        along, across = (theta * u).sum(axis=2)[..., None], (theta * v).sum(axis=2)[..., None]
        moved: FloatArray = theta + (np.cos(angle) - 1.0) * (along * u + across * v)
        moved += np.sin(angle) * (along * v - across * u)
        return moved
