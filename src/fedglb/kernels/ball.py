"""Minimisation of a quadratic over the ball ‖θ‖ ≤ S, by its one-dimensional secular equation."""

from __future__ import annotations

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.krylov import project_by_products
from fedglb.kernels.linalg import (
    cholesky,
    copy_matrix,
    dot,
    matvec,
    norm,
    quadratic,
    solve_lower,
    solve_lower_transposed,
)
from fedglb.kernels.pointers import PROJECT, address_of, call_project
from fedglb.typing import FloatArray

_MAX_STEPS = 200
#: Relative distance from the sphere below which the last steps need no new factorisation.
_CLOSE = 1e-4
#: Up to this number of features, projecting by factorisation is faster.
SMALL = 32


@kernel
def minimise_quadratic(H: FloatArray, w: FloatArray, S: float, theta: FloatArray) -> float:
    """Write argmin ½θᵀHθ − wᵀθ over ‖θ‖ ≤ S to `theta`; return the multiplier ν ≥ 0.

    (H + νI)θ = w, with ν = 0, or with ν > 0 and ‖θ‖ = S. It returns NaN if H is not positive
    definite.
    """
    return solve_secular(H, w, S, theta, 0.0)


@kernel
def solve_secular(H: FloatArray, w: FloatArray, S: float, theta: FloatArray, start: float) -> float:
    """Do as `minimise_quadratic` does, from a `start` that is at most the multiplier.

    The function ν ↦ 1/S − 1/‖θ(ν)‖ is convex and decreasing, so Newton's method on it from
    below increases monotonically to the root (docs/theory.md).
    """
    d = w.shape[0]
    L = np.zeros((d, d))
    shifted = np.empty((d, d))
    copy_matrix(H, shifted)
    work = np.empty((3, d))
    half, first, second = work[0], work[1], work[2]
    size = norm(w)
    nu = start
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
        slope = dot(half, half)  # θᵀ(H + νI)⁻¹θ
        step = length * length / slope * (length - S) / S
        if not nu + step > nu:
            break
        if length - S <= _CLOSE * S:
            # θ(ν + δ) = θ − δGθ + δ²G²θ up to an equation error of exactly δ³G²θ, G = (H + νI)⁻¹
            solve_lower_transposed(L, half, first)
            solve_lower(L, first, half)
            solve_lower_transposed(L, half, second)
            # δ from ‖θ(ν + δ)‖² = ‖θ‖² − 2δ θᵀGθ + 3δ² θᵀG²θ − 4δ³ θᵀG³θ + …
            curve, delta = 1.5 * dot(first, first), step
            for _ in range(3):
                value = 0.5 * (length * length - S * S) - delta * slope + delta * delta * curve
                delta += value / (slope - 2.0 * delta * curve)
            cube = delta * delta * delta
            if cube * norm(second) <= 1e-16 * size and cube * dot(first, second) <= 1e-16 * S * S:
                for j in range(d):
                    theta[j] += delta * (delta * second[j] - first[j])
                nu += delta
                break
        nu += step
    if nu > 0.0:
        length = norm(theta)
        for j in range(d):
            theta[j] *= S / length
    return nu


def projection(dim: int) -> int:
    """Return the address of the projection for many features; 0 for few, and nothing compiled."""
    return address_of(project_by_products, PROJECT) if dim > SMALL else 0


@kernel
def project(
    A: FloatArray, A_inv: FloatArray, S: float, theta: FloatArray, by_products: int
) -> float:
    """Replace `theta` by its projection onto ‖·‖ ≤ S in the A-norm; return the multiplier.

    The last line of the paper's Algorithm 2. It is the ball and not the sphere: a point inside
    stays as it is. Above `SMALL` features A⁻¹ is all that is needed, in O(d²), by the kernel at
    address `by_products` (`projection`). Below, and where A⁻¹ is not good enough, A + νI is
    factorised; the first of Newton's steps, at ν = 0, is A⁻¹'s.
    """
    length = norm(theta)
    if length <= S:
        return 0.0
    if by_products != 0:
        nu = float(call_project(by_products, A, A_inv, S, theta))
        if nu >= 0.0:
            return nu
    w = np.empty(theta.shape[0])
    matvec(A, theta, w)
    start = length * length / quadratic(A_inv, theta) * (length - S) / S
    return solve_secular(A, w, S, theta, start)
