"""The reward model: the problem's GLM, fitted to the log as in a global update."""

from __future__ import annotations

import numpy as np

from fedglb.kernels.sums import add_derivatives
from fedglb.parts.global_update import OneExchange
from fedglb.parts.global_update.base import Objective, Solution, Solve, Sums
from fedglb.parts.global_update.refit import Refit
from fedglb.parts.ridge import Evidence
from fedglb.problem import Problem
from fedglb.setting import Setting
from fedglb.typing import FloatArray

#: A fit ends within this many posterior standard deviations of the minimum.
_PRECISION = 1e-6


def fit(problem: Problem, X: FloatArray, y: FloatArray, ridge: float | Evidence) -> Solution:
    """Fit θ to samples by maximum likelihood with a ridge, over all θ: S plays no part."""
    rule = ridge if isinstance(ridge, Evidence) else None
    setting = Setting(problem, 1, None, ridge.start if rule else float(ridge), 0.01)  # type: ignore[union-attr,arg-type]
    d = problem.dim
    objective = Objective(setting, len(y), np.zeros((d, d)), np.zeros((d, d)), np.zeros(d))
    solver = OneExchange(_PRECISION, "deviation")
    solve = Solve(Refit(solver, rule, lambda _: 0.0, with_hessian=True), objective)
    while solve.query is not None:
        gradient, hessian = np.zeros(d), np.zeros((d, d))
        theta = solve.query.theta
        add_derivatives(X, y, theta, problem.link.compiled_functions, gradient, hessian, True)
        solve.tell(Sums(gradient, hessian))
    assert solve.solution is not None
    return solve.solution


def fits_of_the_past(
    problem: Problem, X: FloatArray, y: FloatArray, ridge: float | Evidence, folds: int
) -> FloatArray:
    """Return a model for each sample that was fitted to earlier ones only.

    The samples are cut into `folds` blocks, in order; a block's model is fitted to all blocks
    before it, and θ = 0 for the first.
    """
    models = np.zeros(X.shape)
    for rows in np.array_split(np.arange(len(y)), folds)[1:]:
        if rows.size:
            models[rows] = fit(problem, X[: rows[0]], y[: rows[0]], ridge).theta
    return models
