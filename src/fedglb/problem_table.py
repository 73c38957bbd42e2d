"""The problem table in the files of sweeps and federations."""

from __future__ import annotations

import msgspec

from fedglb.errors import InvalidInput, one_of
from fedglb.links import LINKS, Link
from fedglb.problem import Problem


class ProblemTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[problem]`: the parameters of `fg.Problem`; data may bring its own `dim`."""

    dim: int | None = None
    link: str = "logistic"
    radius: float = 1.0
    noise: float | None = None
    curvature: float | None = None
    blocks: tuple[int, ...] | None = None

    def build(self, dim: int | None = None, link: Link | None = None) -> Problem:
        """Return the problem; `dim` and `link` replace the table's."""
        link = LINKS[one_of("link", self.link, LINKS)]() if link is None else link
        dim = self.dim if dim is None else dim
        if dim is None:
            allowed = "the number of features per arm: it is missing"
            raise InvalidInput("dim", None, allowed)
        return Problem(dim, link, self.radius, self.noise, self.curvature, self.blocks)
