"""Proven upper bounds on F(θ) − min F, from the coordinator's sums.

The proofs are in docs/theory.md, section 3.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.linalg import solve
from fedglb.links import Link
from fedglb.parts.global_update.base import Objective
from fedglb.parts.self_concordance import newton_gap
from fedglb.typing import FloatArray

#: How far beyond the ball (or θ) ρ is tried, in order.
_LADDER = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


def ridge_bound(gradient: FloatArray, ridge: float, n: int) -> float:
    """Certificate (a): ‖g‖²/(2λn), always valid and very loose; g = n∇F(θ)."""
    return float(gradient @ gradient) / (2.0 * ridge * n)


def curvature_bound(
    theta: FloatArray,
    gradient: FloatArray,
    covariance: FloatArray,
    link: Link,
    radius: float,
    ridge: float,
    n: int,
) -> float:
    """Certificate (b), unconstrained: gᵀQ⁻¹g/(2n) with Q = λI + c_ρ M.

    Valid if the minimiser provably has |xᵀθ| ≤ ρ for all x; ρ = ‖θ‖ + ‖g‖/λ always passes.
    """
    length = float(np.linalg.norm(theta))
    floor = max(radius, length)
    last = length + float(np.linalg.norm(gradient)) / ridge
    best = math.inf
    for rho in [*(floor + step for step in _LADDER), last]:
        slope = link.c_mu(rho)
        Q = ridge * np.eye(theta.size) + slope * covariance
        square = float(gradient @ solve(Q, gradient))
        reach = length + math.sqrt(square / max(float(np.linalg.eigvalsh(Q)[0]), ridge))
        if rho == last or reach <= rho:
            best = min(best, square / (2.0 * n))
            break
    return best


def ball_curvature_bound(
    theta: FloatArray,
    gradient: FloatArray,
    multiplier: float,
    covariance: FloatArray,
    slope: float,
    radius: float,
    ridge: float,
    n: int,
) -> float:
    """Certificate (b) for the minimum over ‖θ‖ ≤ S, at a θ in the ball.

    `slope` is inf μ′ on [−S, S]. With a multiplier ν, F + ν‖θ‖²/(2n) is certified, and
    ν(S² − ‖θ‖²)/(2n) added.
    """
    shifted = gradient + multiplier * theta
    Q = (ridge + multiplier) * np.eye(theta.size) + slope * covariance
    square = float(shifted @ solve(Q, shifted))
    return square / (2.0 * n) + _slack(theta, multiplier, radius, n)


def newton_bound(
    theta: FloatArray,
    gradient: FloatArray,
    multiplier: float,
    hessian: FloatArray,
    link: Link,
    radius: float,
    ridge: float,
    n: int,
) -> float:
    """Certificate (c), for the minimum over the ball: δ_N² ω(κ)/n.

    δ_N² = gᵀH⁻¹g and κ = sδ_N/√λ_min(H), with the self-concordance s on the ball.
    """
    s = link.self_concordance(radius)
    if s is None:
        return math.inf
    shifted = gradient + multiplier * theta
    H = hessian + multiplier * np.eye(theta.size)
    decrement = math.sqrt(max(float(shifted @ solve(H, shifted)), 0.0))
    smallest = max(float(np.linalg.eigvalsh(H)[0]), ridge + multiplier)
    return newton_gap(decrement, s, smallest) / n + _slack(theta, multiplier, radius, n)


def gap(
    objective: Objective,
    theta: FloatArray,
    gradient: FloatArray,
    multiplier: float,
    hessian: FloatArray | None,
    *,
    ball: bool,
) -> float:
    """Return the smallest of the certificates at θ, for the minimum over the ball or over all θ.

    `gradient` is n∇F(θ) with the regulariser, `hessian` n∇²F(θ) likewise, or None;
    it tells of the minimum over the ball only.
    """
    setting = objective.setting
    problem, ridge, n = setting.problem, setting.ridge, objective.samples
    covariance, S = objective.covariance, problem.S
    assert covariance is not None
    if not ball:
        bound = curvature_bound(theta, gradient, covariance, problem.link, S, ridge, n)
        return min(ridge_bound(gradient, ridge, n), bound)
    bound = ball_curvature_bound(
        theta, gradient, multiplier, covariance, problem.slope_infimum, S, ridge, n
    )
    if hessian is None:
        return bound
    return min(bound, newton_bound(theta, gradient, multiplier, hessian, problem.link, S, ridge, n))


def _slack(theta: FloatArray, multiplier: float, radius: float, n: int) -> float:
    return multiplier * max(radius**2 - float(theta @ theta), 0.0) / (2.0 * n)
