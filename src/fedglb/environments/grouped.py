"""Clients in groups: each group has another θ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.environments.base import Environment, generator
from fedglb.environments.changed import Moved, around
from fedglb.errors import integer, number
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Grouped(Moved):
    """An environment whose clients belong to groups with a θ each.

    Client i is in group g = i mod `groups`, with θ_g = ‖θ‖·(u + spread·v_g)/‖u + spread·v_g‖,
    u = θ/‖θ‖. The unit vectors v_g point to the corners of a regular simplex in a random
    subspace: of two groups one has u + spread·v and the other u − spread·v, of three any two v_g
    have 120° between them. Arms and noise are those of `env`; mean rewards are μ(xᵀθ_g), and
    regret is counted by them.

    Parameters
    ----------
    env
        The environment with the common θ; its mean rewards must be μ(xᵀθ).
    groups
        The number of groups, from 2 to d.
    spread
        How much groups differ, a number ≥ 0; 0: `env` itself, to the bit.

    Raises
    ------
    InvalidInput
        If `groups` or `spread` is invalid, or rewards do not come from a θ
        (`fg.Classification`). Where mean rewards turn out not to be μ(xᵀθ), a run raises it.

    Notes
    -----
    `parameter` returns the common θ; `parameters` returns every client's.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Grouped(fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5), groups=2)
    >>> one, other, again, _ = env.parameters(seed=1)[0].tolist()
    >>> one == other, one == again
    (False, True)
    """

    env: Environment
    groups: int = 2
    spread: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("groups", self.groups, at_least=2, at_most=self.problem.dim)
        number("spread", self.spread, at_least=0.0)

    @property
    def draws(self) -> bool:
        """Whether the groups' differences are drawn."""
        return self.spread > 0.0

    def moved(self, theta: FloatArray, seed: int, first: int) -> FloatArray:
        """Return the parameters of some steps, from those of `env`, shape (s, N, d)."""
        if self.spread == 0.0:
            return theta
        normals = generator(seed, "groups").standard_normal((self.problem.dim, self.groups))
        corners = np.linalg.qr(normals)[0].T
        corners -= corners.mean(axis=0)
        corners *= self.spread / np.linalg.norm(corners, axis=1, keepdims=True)
        return around(theta, corners[np.arange(self.clients) % self.groups])
