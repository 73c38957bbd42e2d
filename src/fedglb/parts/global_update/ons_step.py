"""One online Newton step on the batch since the last update: the global update of variant 3."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.kernels.ball import project, projection
from fedglb.kernels.linalg import invert, solve
from fedglb.parts.global_update.base import GlobalUpdate, Objective, Query, Solution, Steps
from fedglb.parts.local_update.lazy_ons import LazyRate


@dataclass(frozen=True)
class OnsStep(GlobalUpdate):
    """One online Newton step on the samples since the last global update, the batch.

    A_t = A_last + ∇F ∇Fᵀ, with ∇F the gradient of the batch's loss at θ_last; then θ_t is the
    projection of θ_last − (1/γ) A_t⁻¹∇F onto the ball. One round.

    The objective's covariance is the batch's. The solution's `extras` are ‖∇F‖²_{A_t⁻¹} and
    Σz² over the batch, which the radius needs.

    Li and Wang (2022), Algorithm 6 (FedGLB-UCB₃), with γ by erratum 5; docs/theory.md, section 2.4.
    """

    stored_name = "OnsStep"

    refits = False
    model_fields = frozenset({"theta", "b", "gradient_matrix"})
    rate: LazyRate  # source of the step size 1/γ, as in the local update

    def solve(self, objective: Objective) -> Steps:
        """Yield one query, receive its sums, return the solution."""
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
        assert objective.covariance is not None
        squares = float(theta @ objective.covariance @ theta)
        b = b + objective.covariance @ theta
        theta = theta - direction / self.rate.gamma(setting)
        inverse = np.empty_like(A)
        invert(A, inverse)
        nu = project(A, inverse, setting.problem.S, theta, projection(d))
        return Solution(
            theta=theta,
            gradient=sums.gradient,
            projected=nu > 0.0,
            b=b,
            gradient_matrix=A,
            extras=(norm, squares),
        )
