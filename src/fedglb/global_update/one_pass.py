"""Each sample once: sums at the model in force, added up over all updates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedglb.global_update.base import GlobalUpdate, Objective, Solution, Steps
from fedglb.kernels.ball import minimise_quadratic
from fedglb.typing import FloatArray

#: Eigenvalues of the noisy matrix are at least λ + κ over this.
_FLOOR = 10.0


@dataclass(frozen=True)
class OnePass(GlobalUpdate):
    """A ridge regression on samples that are linearised once, each at the model in force.

    A sample adds v = x(y − μ(z) + μ′(z)z) and H = μ′(z) x xᵀ, z = xᵀθ at the model that its client
    holds when an update takes it in, and is never evaluated again. The model is the minimum of
    ½θᵀAθ − vᵀθ over the ball, A = H + (λ + κ)I, with sums over all samples so far; κ makes up for
    the noise in H where there is privacy. One message goes up and one model comes down per
    client and update. With the identity link it is exact ridge regression.

    References
    ----------
    docs/theory.md, section 8; docs/privacy.md.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=5, arms=4)
    >>> run = fg.simulate(fg.fedglb_private(updates=8), env, horizon=50, seed=1)
    >>> run.syncs, run.transfers
    (8, 80)
    """

    stored_name = "OnePass"

    refits = False
    one_pass = True

    def solve(self, objective: Objective) -> Steps:
        """Return the solution without any query."""
        assert objective.moment is not None
        ridge, shift = objective.setting.ridge, objective.shift
        A = at_least(objective.covariance, shift, ridge)
        theta = np.empty(len(A))
        multiplier = minimise_quadratic(A, objective.moment, objective.setting.problem.S, theta)
        if math.isnan(multiplier):
            raise FloatingPointError("the sums are not positive definite in double precision")
        return Solution(
            theta=theta,
            gradient=np.full(theta.size, math.nan),
            projected=multiplier > 0.0,
            hessian=A - ridge * np.eye(len(A)),
        )
        yield  # a generator without queries


def at_least(hessian: FloatArray, shift: float, ridge: float) -> FloatArray:
    """Return H + (λ + κ)I, with eigenvalues that the noise made too small raised to λ + κ/10."""
    A = hessian + (ridge + shift) * np.eye(len(hessian))
    if shift == 0.0:
        return A
    values, vectors = np.linalg.eigh(A)
    least = ridge + shift / _FLOOR
    if values[0] >= least:
        return A
    raised = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray(0.5 * (raised + raised.T))
