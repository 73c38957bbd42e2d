"""The sum of all clients' A and b: the global update of linear models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.kernels.linalg import solve
from fedglb.parts.global_update.base import GlobalUpdate, Objective, Solution, Steps


@dataclass(frozen=True)
class ClosedForm(GlobalUpdate):
    """Ridge regression on all samples: θ = A⁻¹b, with A and b summed over all clients.

    No round is needed: the sums that clients send at the start of an update are enough.

    Wang et al. (2020), DisLinUCB; docs/theory.md, section 2.5.
    """

    stored_name = "ClosedForm"

    model_fields = frozenset({"b"})

    def solve(self, objective: Objective) -> Steps:
        """Return the solution without any query."""
        assert objective.moment is not None
        theta = solve(objective.matrix, objective.moment)
        return Solution(
            theta=theta,
            gradient=np.zeros_like(theta),
            gap=0.0,
            b=objective.moment,
            hessian=objective.covariance,
        )
        yield  # a generator without queries
