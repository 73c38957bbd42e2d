"""Small dense linear algebra in plain loops: the same bits on every machine and in every engine.

Builds of LAPACK and BLAS differ in the order of their sums. At the sizes of a bandit's features
(d = 5 to 100) these loops cost about the same.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.typing import FloatArray

# A⁻¹ is recomputed from A after this many rank-one updates (and whenever A is replaced).
REFRESH_EVERY = 1024


@kernel
def dot(x: FloatArray, y: FloatArray) -> float:
    """Return xᵀy."""
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * y[j]
    return total


@kernel
def norm(x: FloatArray) -> float:
    """Return ‖x‖₂."""
    return math.sqrt(dot(x, x))


@kernel
def matvec(A: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Write A x to `out`."""
    for i in range(A.shape[0]):
        total = 0.0
        for j in range(A.shape[1]):
            total += A[i, j] * x[j]
        out[i] = total


@kernel
def symmetric_matvec(A: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Write A x to `out` for an exactly symmetric A: the same sums as `matvec`, row by row."""
    d = x.shape[0]
    for i in range(d):
        out[i] = 0.0
    for j in range(d):
        w = x[j]
        for i in range(d):
            out[i] += A[j, i] * w


@kernel
def quadratic(A: FloatArray, x: FloatArray) -> float:
    """Return xᵀAx."""
    total = 0.0
    for i in range(A.shape[0]):
        row = 0.0
        for j in range(A.shape[1]):
            row += A[i, j] * x[j]
        total += x[i] * row
    return total


@kernel
def add_outer(A: FloatArray, x: FloatArray, weight: float) -> None:
    """A += weight · x xᵀ, kept exactly symmetric."""
    d = x.shape[0]
    for i in range(d):
        w = weight * x[i]
        for j in range(i + 1):
            A[i, j] += w * x[j]
            A[j, i] = A[i, j]


@kernel
def cholesky(A: FloatArray, L: FloatArray) -> bool:
    """Write the lower Cholesky factor of A to `L`; False if A is not positive definite."""
    d = A.shape[0]
    for j in range(d):
        total = A[j, j]
        for k in range(j):
            total -= L[j, k] * L[j, k]
        if not total > 0.0:
            return False
        pivot = math.sqrt(total)
        L[j, j] = pivot
        scale = 1.0 / pivot
        for i in range(j + 1, d):
            total = A[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            L[i, j] = total * scale
    return True


@kernel
def solve_lower(L: FloatArray, b: FloatArray, out: FloatArray) -> None:
    """Solve L x = b for lower triangular L (`out` may be `b`)."""
    for i in range(L.shape[0]):
        total = b[i]
        for k in range(i):
            total -= L[i, k] * out[k]
        out[i] = total / L[i, i]


@kernel
def solve_lower_transposed(L: FloatArray, b: FloatArray, out: FloatArray) -> None:
    """Solve Lᵀ x = b for lower triangular L (`out` may be `b`)."""
    for i in range(L.shape[0] - 1, -1, -1):
        total = b[i]
        for k in range(i + 1, L.shape[0]):
            total -= L[k, i] * out[k]
        out[i] = total / L[i, i]


@kernel
def solve(A: FloatArray, b: FloatArray) -> FloatArray:
    """Return A⁻¹b; NaN if A is not positive definite."""
    out = np.empty(b.shape[0])
    L = np.zeros(A.shape)
    if cholesky(A, L):
        solve_lower(L, b, out)
        solve_lower_transposed(L, out, out)
    else:
        out[:] = np.nan
    return out


@kernel
def log_det(A: FloatArray) -> float:
    """Return log det A; NaN if A is not positive definite."""
    L = np.zeros(A.shape)
    if not cholesky(A, L):
        return np.nan
    total = 0.0
    for j in range(A.shape[0]):
        total += 2.0 * math.log(L[j, j])
    return total


@kernel
def invert(A: FloatArray, out: FloatArray) -> bool:
    """Write A⁻¹, exactly symmetric, to `out`; False if A is not positive definite."""
    d = A.shape[0]
    L = np.zeros((d, d))
    if not cholesky(A, L):
        return False
    column = np.empty(d)
    for j in range(d):
        column[:] = 0.0
        column[j] = 1.0
        solve_lower(L, column, column)
        solve_lower_transposed(L, column, column)
        for i in range(j, d):
            out[i, j] = column[i]
            out[j, i] = column[i]
    return True


@kernel
def add_square(A: FloatArray, x: FloatArray, sign: float) -> None:
    """A += sign · x xᵀ for a sign of ±1: row by row, as memory lies, and exactly symmetric."""
    d = x.shape[0]
    for i in range(d):
        w = sign * x[i]
        for j in range(d):
            A[i, j] += w * x[j]


@kernel
def add_sample(
    A: FloatArray,
    A_inv: FloatArray,
    x: FloatArray,
    weight: float,
    count: int,
    direction: FloatArray,
) -> float:
    """A += weight·x xᵀ, and A⁻¹ with it; return the gain of log det A, log(1 + weight·xᵀA⁻¹x).

    `count` is the number of updates before this one; A⁻¹x, with the new A, is written to
    `direction`. A is the plain sum. A⁻¹ follows by the Sherman–Morrison formula; every
    `REFRESH_EVERY`-th update computes it from A, which keeps rounding errors from building up.
    """
    d = x.shape[0]
    symmetric_matvec(A_inv, x, direction)
    width = weight * dot(x, direction)
    if weight == 1.0:
        add_square(A, x, 1.0)
    else:
        add_outer(A, x, weight)
    scale = 1.0 / (1.0 + width)
    if refreshed(count):
        invert(A, A_inv)
    elif weight > 0.0:
        root = math.sqrt(weight * scale)
        for j in range(d):
            direction[j] *= root
        add_square(A_inv, direction, -1.0)
        scale /= root
    for j in range(d):
        direction[j] *= scale
    return math.log1p(width)


@kernel
def refreshed(count: int) -> bool:
    """Return whether `add_sample` with this `count` computes A⁻¹ from A."""
    return (count + 1) % REFRESH_EVERY == 0


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
