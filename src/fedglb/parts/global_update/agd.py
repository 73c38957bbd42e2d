"""Accelerated gradient descent, the paper's Algorithm 3: clients send gradients."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import get_args

import numpy as np

from fedglb.parts.global_update.base import Objective, Query, Steps, Sums
from fedglb.parts.global_update.evaluation import (
    ROUNDING_GAP,
    AgdStop,
    Evaluation,
    IterativeSolver,
    evaluate,
    project_euclidean,
)
from fedglb.typing import FloatArray

MAX_ROUNDS = 100_000
PATIENCE = 1000  # rounds without progress, once the gap is within rounding


@dataclass(frozen=True)
class AGD(IterativeSolver):
    """Accelerated gradient descent: clients send gradients; the paper's solver and the default.

    Nesterov's method with the paper's sequences υ and γ and step 1/(k_μ + λ/n).

    Parameters
    ----------
    tolerance
        ε: a solve ends at a θ with F(θ) − min F ≤ ε. None: 1/n², n being the number of samples.
    stop
        When to stop. "certificate" (default): at the first iterate that is proven to be
        ε-optimal. "fixed": after `rounds` rounds. "bound": after the paper's J_t rounds,
        1 + √(k_μ n/λ + 1)·log((k_μ + 2λ/n)Δ²/(2ε)), where ‖n∇F(θ⁽¹⁾)‖/λ bounds
        Δ = ‖θ⁽¹⁾ − θ̂‖. After "fixed" and "bound" one more round gives the gradient at the
        result, which the radius needs.
    rounds
        J, the number of rounds; only with stop="fixed".

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or `rounds` does not go with `stop`.

    Notes
    -----
    Every iterate is projected onto the ball ‖θ‖ ≤ S.

    References
    ----------
    Li and Wang (2022), Algorithm 3 and Eq. (3). Erratum 6: the rate in Eq. (3) belongs to another
    momentum. The certificates: docs/theory.md, section 3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.AGD(stop="fixed", rounds=20)
    AGD(tolerance=None, stop='fixed', rounds=20)
    >>> fg.fedglb_ucb(threshold=10.0, solver=fg.AGD(tolerance=1e-8)).solver
    AGD(tolerance=1e-08, stop='certificate', rounds=None)
    """

    stored_name = "AGD"
    stop_rules = get_args(AgdStop)

    def solve(self, objective: Objective) -> Steps:
        """Yield queries, receive sums, return the solution."""
        return (yield from self._iterate(objective)).solution()

    def _iterate(self, objective: Objective) -> Generator[Query, Sums, Evaluation]:
        setting = objective.setting
        problem, n = setting.problem, objective.samples
        step = 1.0 / (problem.k_mu + setting.ridge / n)
        target = self.epsilon(objective)
        limit = self.rounds if self.stop == "fixed" else MAX_ROUNDS
        assert limit is not None
        upsilon = 1.0  # γ_j = (1 − υ_j)/υ_{j+1}, υ_j = (1 + √(1 + 4υ_{j−1}²))/2, υ_0 = 0
        theta = base = objective.start
        best: Evaluation | None = None
        j = best_round = 0
        while j < limit:
            point = yield from evaluate(objective, theta, ball=True)
            j += 1
            if self.stop == "certificate":
                if best is None or point.gap < best.gap:
                    best, best_round = point, j
                stalled = best.gap < ROUNDING_GAP and j - best_round > PATIENCE
                if best.gap <= target or stalled:
                    return best
            if self.stop == "bound" and j == 1:
                limit = paper_rounds(objective, point.gradient, target)
            following = project_euclidean(point.theta - step * point.gradient / n, problem.S)
            before, upsilon = upsilon, (1.0 + math.sqrt(1.0 + 4.0 * upsilon**2)) / 2.0
            gamma = (1.0 - before) / upsilon
            theta = project_euclidean((1.0 - gamma) * following + gamma * base, problem.S)
            base = following
        if best is not None:
            return best
        # The rate is for ϑ; the paper returns the extrapolated point (erratum 6).
        return (yield from evaluate(objective, base, ball=True))


def paper_rounds(objective: Objective, gradient: FloatArray, epsilon: float) -> int:
    """Return the paper's J_t, Eq. (3); `gradient` is n∇F at the starting point."""
    setting, n = objective.setting, objective.samples
    k, ridge = setting.problem.k_mu, setting.ridge
    distance = float(np.linalg.norm(gradient)) / ridge
    ratio = (k + 2.0 * ridge / n) * distance**2 / (2.0 * epsilon)
    if ratio <= 1.0:
        return 1
    return 1 + math.ceil(math.sqrt(k * n / ridge + 1.0) * math.log(ratio))
