"""Questions about symmetric matrices that Cholesky factors answer."""

from __future__ import annotations

import numpy as np

from fedglb.kernels.jit import kernel
from fedglb.kernels.linalg import cholesky, dot, solve_lower
from fedglb.kernels.types import FloatArray


@kernel
def asymmetry(A: FloatArray) -> float:
    """Return the largest |A_ij − A_ji|."""
    worst = 0.0
    for i in range(A.shape[0]):
        for j in range(i):
            worst = max(worst, abs(A[i, j] - A[j, i]))
    return worst


@kernel
def inverse_quadratic(A: FloatArray, x: FloatArray, shift: float) -> float:
    """Return xᵀ(A + shift·I)⁻¹x; infinity if that matrix is not positive definite."""
    d = x.shape[0]
    L, shifted, solved = np.zeros((d, d)), A.copy(), np.empty(d)
    for j in range(d):
        shifted[j, j] += shift
    if not cholesky(shifted, L):
        return np.inf
    solve_lower(L, x, solved)
    return dot(solved, solved)


@kernel
def is_definite(a: float, A: FloatArray, b: float, B: FloatArray, shift: float) -> bool:
    """Return whether a·A + b·B + shift·I is positive definite."""
    d = A.shape[0]
    total = np.empty((d, d))
    for i in range(d):
        for j in range(i + 1):
            total[i, j] = a * A[i, j] + b * B[i, j]
        total[i, i] += shift
    return cholesky(total, np.zeros((d, d)))
