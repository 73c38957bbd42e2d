"""One online Newton step on the batch since the last update: the global update of variant 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.global_update.base import GlobalUpdate, Objective, Query, Solution, Steps
from fedglb.kernels.ball import project
from fedglb.kernels.linalg import invert, solve
from fedglb.lazy_rate import LazyRate


@dataclass(frozen=True)
class OnsStep(GlobalUpdate):
    """θ_t = θ_last − (1/γ) A_t⁻¹ ∇F_batch(θ_last), projected; A_t gains ∇F_batch ∇F_batchᵀ.

    One round. The objective's covariance is that of the batch. The solution's `extras` are
    ‖∇F_batch‖²_{A_t⁻¹} and Σz² over the batch, which the radius needs.
    """

    stored_name = "OnsStep"

    refits = False
    model_fields = frozenset({"theta", "b", "gradient_matrix"})
    rate: LazyRate

    def solve(self, objective: Objective) -> Steps:
        """Yield one query, return the solution."""
        setting, previous = objective.setting, objective.previous
        d = setting.problem.dim
        theta = objective.start
        sums = yield Query(theta.copy())
        if previous is None:
            A, b = setting.ridge * np.eye(d), np.zeros(d)
        else:
            assert previous.gradient_matrix is not None
            assert previous.b is not None
            A, b = previous.gradient_matrix, previous.b
        A = A + np.outer(sums.gradient, sums.gradient)
        direction = solve(A, sums.gradient)
        norm = float(sums.gradient @ direction)
        squares = float(theta @ objective.covariance @ theta)
        b = b + objective.covariance @ theta
        theta = theta - direction / self.rate.gamma(setting)
        inverse = np.empty_like(A)
        invert(A, inverse)
        nu = project(A, inverse, setting.problem.S, theta)
        return Solution(
            theta=theta,
            gradient=sums.gradient,
            projected=nu > 0.0,
            b=b,
            gradient_matrix=A,
            extras=(norm, squares),
        )
