"""Minimisation of a quadratic over the ball ‖θ‖ ≤ S, by its one-dimensional secular equation."""

from __future__ import annotations

import numpy as np

from fedglb.kernels.jit import kernel
from fedglb.kernels.linalg import cholesky, dot, matvec, norm, solve_lower, solve_lower_transposed
from fedglb.kernels.types import FloatArray

_MAX_STEPS = 200


@kernel
def minimise_quadratic(H: FloatArray, w: FloatArray, S: float, theta: FloatArray) -> float:
    """Write argmin ½θᵀHθ − wᵀθ over ‖θ‖ ≤ S to `theta`; return the multiplier ν ≥ 0.

    H is positive definite. (H + νI)θ = w with ν = 0, or ν > 0 and ‖θ‖ = S. The function
    ν ↦ 1/S − 1/‖θ(ν)‖ is convex and decreasing, so Newton's method on it from ν = 0 increases
    monotonically to the root (docs/theory.md). NaN if H is not positive definite.
    """
    d = w.shape[0]
    L = np.zeros((d, d))
    shifted = H.copy()
    half = np.empty(d)
    nu = 0.0
    for _ in range(_MAX_STEPS):
        for j in range(d):
            shifted[j, j] = H[j, j] + nu
        if not cholesky(shifted, L):
            return np.nan
        solve_lower(L, w, half)
        solve_lower_transposed(L, half, theta)
        length = norm(theta)
        if length <= S:  # inside already, or the root met to rounding
            break
        solve_lower(L, theta, half)
        step = length * length / dot(half, half) * (length - S) / S
        if not nu + step > nu:
            break
        nu += step
    if nu > 0.0:
        length = norm(theta)
        for j in range(d):
            theta[j] *= S / length
    return nu


@kernel
def project(A: FloatArray, S: float, theta: FloatArray) -> float:
    """Replace `theta` by its projection onto ‖·‖ ≤ S in the A-norm; return the multiplier.

    Algorithm 2 of the paper; the ball, not the sphere: a point inside stays as it is.
    """
    if norm(theta) <= S:
        return 0.0
    w = np.empty(theta.shape[0])
    matvec(A, theta, w)
    return minimise_quadratic(A, w, S, theta)
