"""What every iterative solver does at a point: add the regulariser, find ν, certify."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from fedglb.errors import InvalidInput, integer, number, one_of
from fedglb.global_update.base import GlobalUpdate, Objective, Query, Solution, Sums
from fedglb.global_update.certificate import gap
from fedglb.typing import FloatArray

PROJECTIONS = ("ball", "paper")
#: A gap below this that no longer falls is as small as double precision allows.
ROUNDING_GAP = 1e-13


@dataclass(frozen=True)
class Evaluation:
    """F's derivatives at θ (times n, regulariser included), and how far θ can be from optimal."""

    theta: FloatArray
    gradient: FloatArray
    hessian: FloatArray | None
    loss: float
    multiplier: float
    gap: float

    def above(self, other: Evaluation) -> bool:
        """Return whether F is larger here than at `other`, by more than rounding."""
        return not self.loss <= other.loss + 1e-12 * (1.0 + abs(other.loss))

    def solution(self) -> Solution:
        """Return this point as the answer."""
        return Solution(self.theta, self.gradient, self.multiplier, self.gap, self.multiplier > 0.0)


def evaluate(
    objective: Objective,
    theta: FloatArray,
    *,
    ball: bool,
    hessian: bool = False,
    loss: bool = False,
) -> Generator[Query, Sums, Evaluation]:
    """One round at θ."""
    sums = yield Query(theta.copy(), hessian, loss)
    ridge, problem = objective.setting.ridge, objective.setting.problem
    gradient = sums.gradient + ridge * theta
    H = None if sums.hessian is None else sums.hessian + ridge * np.eye(theta.size)
    value = math.nan if sums.loss is None else sums.loss + 0.5 * ridge * float(theta @ theta)
    nu = sphere_multiplier(theta, gradient, problem.S) if ball else 0.0
    bound = gap(objective, theta, gradient, nu, H, ball=ball)
    if math.isnan(bound):
        raise FloatingPointError(f"the certificate at theta = {theta} is not a number")
    return Evaluation(theta.copy(), gradient, H, value, nu, bound)


def sphere_multiplier(theta: FloatArray, gradient: FloatArray, radius: float) -> float:
    """Return the ν ≥ 0 that best explains the gradient at a θ on the sphere; 0 inside it."""
    square = float(theta @ theta)
    if square < (radius * (1.0 - 1e-9)) ** 2:
        return 0.0
    return max(-float(gradient @ theta) / square, 0.0)


def within_reach(target: FloatArray, theta: FloatArray, radius: float) -> FloatArray:
    """Return `target`, or the point on the way to it that is not wildly far from the ball.

    A trial point of a link that grows like e^z must not leave the range of doubles.
    """
    reach = 2.0 * max(radius, float(np.linalg.norm(theta))) + 1.0
    step = target - theta
    length = float(np.linalg.norm(step))
    return target if length <= reach else theta + step * (reach / length)


def project_euclidean(theta: FloatArray, radius: float) -> FloatArray:
    """Return the point of the ball nearest to θ."""
    length = float(np.linalg.norm(theta))
    return theta if length <= radius else theta * (radius / length)


@dataclass(frozen=True)
class IterativeSolver(GlobalUpdate):
    """Hyper-parameters that AGD, Newton and L-BFGS have in common.

    Parameters
    ----------
    tolerance
        ε with F(θ) − min F ≤ ε; None: 1/n².
    stop
        "certificate": at the first iterate proven to be ε-optimal; "fixed": after `rounds`.
    rounds
        J, with stop="fixed".
    projection
        "ball": minimise over ‖θ‖ ≤ S. "paper": minimise without constraint, then, if the
        result lies outside, the paper's argmin ‖g(θ̃) − g(θ)‖_{A⁻¹} over the ball.
    """

    tolerance: float | None = None
    stop: str = "certificate"
    rounds: int | None = None
    projection: str = "ball"

    def _stops(self) -> tuple[str, ...]:
        return ("certificate", "fixed")

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            number("tolerance", self.tolerance, above=0.0)
        one_of("stop", self.stop, self._stops())
        one_of("projection", self.projection, PROJECTIONS)
        if self.stop == "fixed":
            integer("rounds", self.rounds)
        elif self.rounds is not None:
            raise InvalidInput("rounds", self.rounds, 'a number only with stop="fixed"')

    @property
    def on_ball(self) -> bool:
        """Whether the minimum over the ball is sought."""
        return self.projection == "ball"

    def epsilon(self, objective: Objective) -> float:
        """Return ε."""
        return 1.0 / objective.samples**2 if self.tolerance is None else self.tolerance
