"""Newton's method: clients send gradients and Hessians; a few rounds."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from fedglb.kernels.ball import minimise_quadratic
from fedglb.parts.global_update.base import Objective, Query, Steps, Sums
from fedglb.parts.global_update.evaluation import (
    ROUNDING_GAP,
    Evaluation,
    IterativeSolver,
    Stop,
    evaluate,
)
from fedglb.parts.self_concordance import safe_step
from fedglb.typing import FloatArray

MAX_ROUNDS = 200


@dataclass(frozen=True)
class Newton(IterativeSolver):
    """Newton's method: clients send gradients and Hessians; a few rounds per update.

    Parameters
    ----------
    tolerance
        ε: a solve ends at a θ with F(θ) − min F ≤ ε. None: 1/n², n being the number of samples.
    stop
        When to stop. "certificate" (default): at the first iterate that is proven to be
        ε-optimal. "fixed": after `rounds` steps, and one more round for the gradient at the
        result, which the radius needs.
    rounds
        J, the number of steps; only with stop="fixed".

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or `rounds` does not go with `stop`.

    Notes
    -----
    Each step minimises the quadratic model over the ball ‖θ‖ ≤ S. A step is full
    where that provably decreases F; else it has the length log(1+r)/r, r = s‖p‖ for the full
    step p, which provably does. Where the link's self-concordance s is not known, replies
    carry the loss, and the step is halved until F falls.

    References
    ----------
    docs/theory.md, sections 3 (certificates) and 4 (the length of a step).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.Newton(tolerance=1e-12)
    Newton(tolerance=1e-12, stop='certificate', rounds=None)
    """

    stored_name = "Newton"
    stop: Stop = "certificate"

    def solve(self, objective: Objective) -> Steps:
        """Yield queries, receive sums, return the solution."""
        target = self.epsilon(objective) if self.rounds is None else None
        limit = MAX_ROUNDS if self.rounds is None else self.rounds + 1
        return (yield from newton_rounds(objective, objective.start, target, limit)).solution()


def newton_rounds(
    objective: Objective, start: FloatArray, target: float | None, limit: int
) -> Generator[Query, Sums, Evaluation]:
    """Take Newton steps from `start` until the certificate is ≤ target, in at most `limit` rounds.

    They end early where double precision leaves nothing to gain. Without a target there are
    exactly `limit` rounds.
    """
    problem = objective.setting.problem
    by_loss = problem.link.self_concordance(problem.S) is None

    def at(theta: FloatArray) -> Generator[Query, Sums, Evaluation]:
        return (yield from evaluate(objective, theta, ball=True, hessian=True, loss=by_loss))

    point = yield from at(start)
    used = 1
    while used < limit and (target is None or point.gap > target):
        step = _step(point, problem.S)
        reach = max(float(np.linalg.norm(v)) for v in (point.theta, point.theta + step))
        s = problem.link.self_concordance(reach)  # holds all along the step
        length = 1.0 if s is None else safe_step(s * float(np.linalg.norm(step)))
        trial = point.theta + length * step
        if target is not None and np.array_equal(trial, point.theta):
            break
        following = yield from at(trial)
        used += 1
        while by_loss and following.above(point) and used < limit and length > 1e-9:
            length *= 0.5
            following = yield from at(point.theta + length * step)
            used += 1
        stalled = length == 1.0 and following.gap >= point.gap and following.gap < ROUNDING_GAP
        if target is not None and stalled:
            break  # keep the better point
        point = following
    return point


def _step(point: Evaluation, radius: float) -> FloatArray:
    assert point.hessian is not None
    theta = np.empty_like(point.theta)
    w = point.hessian @ point.theta - point.gradient
    if math.isnan(minimise_quadratic(point.hessian, w, radius, theta)):
        raise FloatingPointError("the Hessian is not positive definite in double precision")
    return theta - point.theta
