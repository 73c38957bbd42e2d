"""The samples that privacy has to hide: what one adds, and which change the releases most.

Written down from the definitions, apart from the package: v = x(y − μ(z) + μ′(z)z), H = μ′(z)xxᵀ
with z = xᵀθ. The change is measured as the accounting does, ‖Δv‖²/σ_v² + ‖ΔH‖²_F/σ_H².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedglb.privacy import NoisePlan
from fedglb.problem import Problem

Array = np.ndarray


@dataclass(frozen=True)
class Change:
    """A model, a sample (x, y) evaluated at it, and what takes its place: None is nothing."""

    theta: Array
    x: Array
    y: float
    other: tuple[Array, float] | None
    size: float  # the root of what is written above


def contribution(problem: Problem, theta: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """v and H of samples, shapes (n, d) and (n, d, d); θ and x of shape (n, d)."""
    z = np.sum(x * theta, axis=-1)
    mean, slope = np.asarray(problem.link.mean(z)), np.asarray(problem.link.variance(z))
    v = x * (y - mean + slope * z)[:, None]
    return v, slope[:, None, None] * x[:, :, None] * x[:, None, :]


def worst(problem: Problem, plan: NoisePlan, replace: bool) -> Change:
    """The largest change on a fine grid, in two dimensions and with θ in the ball."""
    assert problem.dim == 2
    angles = np.linspace(0.0, np.pi, 61)
    radii = np.linspace(0.0, problem.S, 21)
    directions = np.linspace(0.0, 2 * np.pi, 73)
    grid = np.meshgrid(angles if replace else [0.0], radii, directions, plan.rewards,
                       plan.rewards if replace else [0.0], indexing="ij")  # fmt: skip
    angle, radius, direction, y, other_y = (each.ravel() for each in grid)
    theta = np.stack([radius * np.cos(direction), radius * np.sin(direction)], axis=1)
    x = np.tile([1.0, 0.0], (len(theta), 1))
    other = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    v, H = contribution(problem, theta, x, y)
    if replace:
        v_other, H_other = contribution(problem, theta, other, other_y)
        v, H = v - v_other, H - H_other
    squares = (v**2).sum(axis=1) / plan.vector_noise**2
    squares += (H**2).sum(axis=(1, 2)) / plan.matrix_noise**2
    k = int(np.argmax(squares))
    instead = (other[k], float(other_y[k])) if replace else None
    return Change(theta[k], x[k], float(y[k]), instead, float(np.sqrt(squares[k])))
