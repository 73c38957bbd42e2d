"""What every iterative solver does at a point: add the regulariser, find ν, certify."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np

from fedglb.errors import InvalidInput, integer, number, one_of
from fedglb.parts.global_update.base import GlobalUpdate, Objective, Query, Solution, Sums
from fedglb.parts.global_update.certificate import gap
from fedglb.typing import FloatArray

#: When a solve ends: at a certificate, or after a fixed number of rounds.
Stop: TypeAlias = Literal["certificate", "fixed"]
#: `AGD` has the paper's number of rounds besides.
AgdStop: TypeAlias = Literal["certificate", "fixed", "bound"]
#: A gap below this that no longer falls is as small as double precision allows.
ROUNDING_GAP = 1e-13


@dataclass(frozen=True)
class Evaluation:
    """F's derivatives at θ (times n, regulariser included), and how far θ can be from optimal.

    `curvature` is the Hessian without the regulariser.
    """

    theta: FloatArray
    gradient: FloatArray
    hessian: FloatArray | None
    curvature: FloatArray | None
    loss: float
    multiplier: float
    gap: float

    def above(self, other: Evaluation) -> bool:
        """Return whether F is larger here than at `other`, by more than rounding."""
        return not self.loss <= other.loss + 1e-12 * (1.0 + abs(other.loss))

    def solution(self) -> Solution:
        """Return this point as the solution."""
        return Solution(
            self.theta, self.gradient, self.multiplier, self.gap, self.multiplier > 0.0,
            hessian=self.curvature,
        )  # fmt: skip


def evaluate(
    objective: Objective,
    theta: FloatArray,
    *,
    ball: bool,
    hessian: bool = False,
    loss: bool = False,
) -> Generator[Query, Sums, Evaluation]:
    """Ask for the sums at θ (one round), and return F there with its certificate.

    `ball`: the minimum over the ball is sought, and not that over all θ.
    """
    sums = yield Query(theta.copy(), hessian, loss)
    ridge, problem = objective.setting.ridge, objective.setting.problem
    gradient = sums.gradient + ridge * theta
    H = None if sums.hessian is None else sums.hessian + ridge * np.eye(theta.size)
    value = math.nan if sums.loss is None else sums.loss + 0.5 * ridge * float(theta @ theta)
    nu = sphere_multiplier(theta, gradient, problem.S) if ball else 0.0
    bound = gap(objective, theta, gradient, nu, H, ball=ball)
    if math.isnan(bound):
        raise FloatingPointError(f"the certificate at theta = {theta} is not a number")
    return Evaluation(theta.copy(), gradient, H, sums.hessian, value, nu, bound)


def sphere_multiplier(theta: FloatArray, gradient: FloatArray, radius: float) -> float:
    """Return the ν ≥ 0 that makes ‖g + νθ‖ smallest at a θ on the sphere; 0 inside it."""
    square = float(theta @ theta)
    if square < (radius * (1.0 - 1e-9)) ** 2:
        return 0.0
    return max(-float(gradient @ theta) / square, 0.0)


def within_reach(target: FloatArray, theta: FloatArray, radius: float) -> FloatArray:
    """Return `target` or, if it is too far, a point on the way from `theta` to it.

    Too far is a step longer than 2 max(S, ‖θ‖) + 1: with a link that grows like e^z a trial
    point beyond that could leave the range of doubles.
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
    """What `AGD`, `Newton` and `LBFGS` have in common: when to stop."""

    #: The choices for `stop`.
    stop_rules: ClassVar[tuple[str, ...]] = get_args(Stop)
    #: ε: a solve ends at a θ with F(θ) − min F ≤ ε. None: 1/n², n being the number of samples
    tolerance: float | None = None
    #: "certificate" (default): at the first iterate that is proven to be ε-optimal. "fixed": after
    #: `rounds` rounds. A subclass that knows more says so in `stop_rules`
    stop: AgdStop = "certificate"
    rounds: int | None = None  # J, the number of rounds; only with stop="fixed"

    def __post_init__(self) -> None:
        if self.tolerance is not None:
            number("tolerance", self.tolerance, above=0.0)
        one_of("stop", self.stop, self.stop_rules)
        if self.stop == "fixed":
            integer("rounds", self.rounds)
        elif self.rounds is not None:
            raise InvalidInput("rounds", self.rounds, 'a number only with stop="fixed"')

    def epsilon(self, objective: Objective) -> float:
        """Return ε: `tolerance`, or 1/n².

        Parameters
        ----------
        objective
            What is to be fitted; it has n.

        Returns
        -------
        float
            The most by which F(θ) may exceed the minimum of F.
        """
        return 1.0 / objective.samples**2 if self.tolerance is None else self.tolerance
