"""L-BFGS: clients send gradients only, the coordinator keeps the curvature pairs."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np

from fedglb.errors import integer
from fedglb.kernels.linalg import solve
from fedglb.parts.global_update.base import Objective, Query, Steps, Sums
from fedglb.parts.global_update.evaluation import (
    Evaluation,
    IterativeSolver,
    Stop,
    evaluate,
    project_euclidean,
    within_reach,
)
from fedglb.parts.global_update.newton import MAX_ROUNDS as NEWTON_ROUNDS
from fedglb.parts.global_update.newton import newton_rounds
from fedglb.typing import FloatArray

MAX_ROUNDS = 2000


@dataclass(frozen=True)
class LBFGS(IterativeSolver):
    """Limited-memory BFGS: clients send gradients, the coordinator keeps the curvature.

    Parameters
    ----------
    tolerance
        ε: a solve ends at a θ with F(θ) − min F ≤ ε. None: 1/n², n being the number of samples.
    stop
        When to stop. "certificate" (default): at the first iterate that is proven to be
        ε-optimal. "fixed": after `rounds` rounds, and one more for the gradient at the result,
        which the radius needs.
    rounds
        J, the number of rounds; only with stop="fixed".
    memory
        How many pairs (step, change of the gradient) the coordinator keeps; at least 1.

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or `rounds` does not go with `stop`.

    Notes
    -----
    The first metric is λI + k_μ M, which the coordinator knows. F is convex, so the derivative
    along a step tells whether the step went too far, and it is cut back without any loss being
    sent. A result that lies outside the ball (or is not certified) is finished by constrained
    Newton rounds, in which clients send Hessians too.

    References
    ----------
    Nocedal and Wright, *Numerical Optimization* (2006), Algorithm 7.4 (the two-loop recursion).
    The certificates: docs/theory.md, section 3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.LBFGS(memory=5)
    LBFGS(tolerance=None, stop='certificate', rounds=None, memory=5)
    """

    stored_name = "LBFGS"
    stop: Stop = "certificate"
    memory: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("memory", self.memory)

    def solve(self, objective: Objective) -> Steps:
        """Yield queries, receive sums, return the solution."""
        target = self.epsilon(objective) if self.stop == "certificate" else 0.0
        limit = MAX_ROUNDS if self.rounds is None else self.rounds + 1
        final = yield from self._iterate(objective, target, limit)
        radius, epsilon = objective.setting.problem.S, self.epsilon(objective)
        outside = float(np.linalg.norm(final.theta)) > radius
        uncertified = self.stop == "certificate" and not final.gap <= epsilon
        if outside or uncertified:
            start = project_euclidean(final.theta, radius)
            final = yield from newton_rounds(objective, start, epsilon, NEWTON_ROUNDS)
        return final.solution()

    def _iterate(
        self, objective: Objective, target: float, limit: int
    ) -> Generator[Query, Sums, Evaluation]:
        setting = objective.setting
        metric = setting.ridge * np.eye(setting.problem.dim)
        pairs = _Pairs(metric + setting.problem.k_mu * objective.covariance, self.memory)
        # Certificates for the unconstrained minimum, until the answer turns out to be outside.
        point = yield from evaluate(objective, objective.start, ball=False)
        used = 1
        while used < limit and point.gap > target:
            target_point = point.theta - pairs.apply(point.gradient)
            step = within_reach(target_point, point.theta, setting.problem.S) - point.theta
            slope = float(step @ point.gradient)
            length = 1.0
            following: Evaluation | None = None
            while used < limit:
                trial = point.theta + length * step
                if np.array_equal(trial, point.theta):
                    following = None
                    break
                following = yield from evaluate(objective, trial, ball=False)
                used += 1
                end = float(step @ following.gradient)
                if end <= -0.5 * slope:
                    break
                # φ′ rises from `slope` < 0 to `end` > 0: cut back to where it crosses zero
                length *= min(max(slope / (slope - end), 0.1), 0.9)
            if following is None:
                break
            curved = pairs.add(following.theta - point.theta, following.gradient - point.gradient)
            point = following
            if not curved:
                break
        if self.stop == "fixed":
            for _ in range(limit - used):  # nothing left to gain, but `rounds` is fixed
                point = yield from evaluate(objective, point.theta, ball=False)
        return point


@dataclass
class _Pairs:
    """The two-loop recursion, with a dense first metric."""

    metric: FloatArray
    memory: int
    steps: list[FloatArray] = field(default_factory=list)
    changes: list[FloatArray] = field(default_factory=list)

    def add(self, step: FloatArray, change: FloatArray) -> bool:
        """Keep a pair; False if its curvature is lost in rounding, and it is not kept."""
        if not float(step @ change) > 0.0:
            return False
        self.steps = [*self.steps, step][-self.memory :]
        self.changes = [*self.changes, change][-self.memory :]
        return True

    def apply(self, gradient: FloatArray) -> FloatArray:
        """Return the inverse Hessian estimate times the gradient."""
        q = gradient.copy()
        weights = []
        for step, change in zip(reversed(self.steps), reversed(self.changes), strict=True):
            weight = float(step @ q) / float(step @ change)
            weights.append(weight)
            q -= weight * change
        scale = 1.0
        if self.steps:
            scale = float(self.steps[-1] @ self.changes[-1]) / float(
                self.changes[-1] @ solve(self.metric, self.changes[-1])
            )
        q = scale * solve(self.metric, q)
        for step, change, weight in zip(self.steps, self.changes, reversed(weights), strict=True):
            q += (weight - float(change @ q) / float(step @ change)) * step
        return q
