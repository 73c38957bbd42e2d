"""The paper's projection of a global model into the ball: `projection="paper"`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fedglb.kernels.ball import minimise_quadratic
from fedglb.parts.global_update.base import Objective, Steps
from fedglb.parts.global_update.evaluation import Evaluation, Projection, evaluate

_SMALLEST_STEP = 1e-10
_MAX_ROUNDS = 200


def into_ball(objective: Objective, found: Evaluation, projection: Projection) -> Steps:
    """Return `found`; where it lies outside and `projection` is "paper", the paper's projection."""
    radius = objective.setting.problem.S
    if projection == "ball" or float(np.linalg.norm(found.theta)) <= radius:
        return found.solution()
    return (yield from paper_projection(objective, found))


def paper_projection(objective: Objective, outside: Evaluation) -> Steps:
    """Find argmin ‖g(θ̃) − g(θ)‖_{A⁻¹} over ‖θ‖ ≤ S by Gauss–Newton steps on the ball.

    g(θ̃) − g(θ) is the difference of the gradients of nF. The problem is not convex and the
    paper's proof needs the MLE inside the ball (erratum 4), so this is not the default. A step
    that does not decrease the objective is halved.

    References
    ----------
    Li and Wang (2022), the last line of Algorithm 3.
    """
    radius = objective.setting.problem.S
    A_inv = np.linalg.inv(objective.matrix)

    def distance(point: Evaluation) -> float:
        residual = outside.gradient - point.gradient
        return float(residual @ A_inv @ residual)

    theta = outside.theta * (radius / float(np.linalg.norm(outside.theta)))
    point = yield from evaluate(objective, theta, ball=False, hessian=True)
    for _ in range(_MAX_ROUNDS):
        H = point.hessian
        assert H is not None
        model = H @ A_inv @ H
        target = np.empty_like(theta)
        pull = model @ point.theta + H @ A_inv @ (outside.gradient - point.gradient)
        minimise_quadratic(0.5 * (model + model.T), pull, radius, target)
        step = target - point.theta
        length = 1.0
        while length * float(np.linalg.norm(step)) >= _SMALLEST_STEP:
            trial = yield from evaluate(
                objective, point.theta + length * step, ball=False, hessian=True
            )
            if distance(trial) < distance(point):
                point = trial
                break
            length *= 0.5
        else:
            break
    return replace(point.solution(), gap=math.nan, projected=True)
