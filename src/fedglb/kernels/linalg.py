"""Small dense linear algebra in plain loops: the same bits on every machine and in every engine.

Builds of LAPACK and BLAS differ in the order of their sums. At the sizes of a bandit's features
(d = 5 to 100) these loops cost about the same. Arrays are set, copied and added by loops too, in
this and every other kernel: what numba makes of ``A[:] = 0.0`` or ``A += B`` takes it many times
longer to compile.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.typing import FloatArray

# A⁻¹ is recomputed from A after this many rank-one updates (and whenever A is replaced).
REFRESH_EVERY = 1024
#: Up to this d rows are too short to be worth vectors.
_SHORT = 24


@kernel
def dot(x: FloatArray, y: FloatArray) -> float:
    """Return xᵀy."""
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * y[j]
    return total


@kernel
def set_vector(x: FloatArray, value: float) -> None:
    """Set every element of x."""
    for j in range(x.shape[0]):
        x[j] = value


@kernel
def set_matrix(A: FloatArray, value: float) -> None:
    """Set every element of A."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = value


@kernel
def copy_matrix(A: FloatArray, out: FloatArray) -> None:
    """Write A to `out`."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i, j] = A[i, j]


@kernel
def norm(x: FloatArray) -> float:
    """Return ‖x‖₂."""
    return math.sqrt(dot(x, x))


@kernel
def matvec(A: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Write A x to `out`.

    Rows are taken four at a time: each has its own sum, and none waits for another's.
    """
    rows, columns = A.shape
    i = 0
    while i + 4 <= rows:
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for j in range(columns):
            first += A[i, j] * x[j]
            second += A[i + 1, j] * x[j]
            third += A[i + 2, j] * x[j]
            fourth += A[i + 3, j] * x[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = first, second, third, fourth
        i += 4
    for k in range(i, rows):
        total = 0.0
        for j in range(columns):
            total += A[k, j] * x[j]
        out[k] = total


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
    """Return xᵀAx, four rows of A at a time as in `matvec`."""
    d = A.shape[0]
    total = 0.0
    i = 0
    while i + 4 <= d:
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            first += A[i, j] * x[j]
            second += A[i + 1, j] * x[j]
            third += A[i + 2, j] * x[j]
            fourth += A[i + 3, j] * x[j]
        total += x[i] * first
        total += x[i + 1] * second
        total += x[i + 2] * third
        total += x[i + 3] * fourth
        i += 4
    for k in range(i, d):
        row = 0.0
        for j in range(d):
            row += A[k, j] * x[j]
        total += x[k] * row
    return total


@kernel
def add_outer(A: FloatArray, x: FloatArray, weight: float) -> None:
    """A += weight · x xᵀ, kept exactly symmetric: x_i x_j is x_j x_i to the bit."""
    d = x.shape[0]
    for i in range(d):
        w = x[i]
        for j in range(d):
            A[i, j] += weight * (w * x[j])


@kernel
def cholesky(A: FloatArray, L: FloatArray) -> bool:
    """Write the lower Cholesky factor of A to `L`; False if A is not positive definite.

    Then `L`, which comes in as zeros, has the columns before the first bad pivot. Only the lower
    triangle of A is read.
    """
    d = A.shape[0]
    if d > _SHORT:
        return cholesky_by_rows(A, L)
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
def cholesky_by_rows(A: FloatArray, L: FloatArray) -> bool:
    """Do as `cholesky` does, to the same bits, in loops that vectorise: faster where d > 24.

    Row j of Lᵀ is A's less multiples of the rows before it, four at a time, as memory lies: it is
    made in the upper triangle of `L` and then moved below. (Loops run over i + j with i from 0:
    the compiler does not vectorise them from j on.)
    """
    d, definite = A.shape[0], True
    for j in range(d):
        n, fours = d - j, j // 4
        for i in range(n):
            L[j, i + j] = A[i + j, j]
        for k4 in range(fours):
            k = 4 * k4
            f0, f1, f2, f3 = L[k, j], L[k + 1, j], L[k + 2, j], L[k + 3, j]
            for i in range(n):
                total = L[j, i + j] - L[k, i + j] * f0
                total -= L[k + 1, i + j] * f1
                total -= L[k + 2, i + j] * f2
                L[j, i + j] = total - L[k + 3, i + j] * f3
        for k in range(4 * fours, j):
            f0 = L[k, j]
            for i in range(n):
                L[j, i + j] -= L[k, i + j] * f0
        if not L[j, j] > 0.0:
            definite = False
            for i in range(n):
                L[j, i + j] = 0.0
            break
        pivot = math.sqrt(L[j, j])
        scale = 1.0 / pivot
        for i in range(n):
            L[j, i + j] *= scale
        L[j, j] = pivot
    for j in range(d):
        for i in range(j):
            L[j, i] = L[i, j]
            L[i, j] = 0.0
    return definite


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
    """Solve Lᵀ x = b for lower triangular L (`out` may be `b`), row by row of L."""
    d = L.shape[0]
    for i in range(d):
        out[i] = b[i]
    for k in range(d - 1, -1, -1):
        found = out[k] / L[k, k]
        out[k] = found
        for i in range(k):
            out[i] -= L[k, i] * found


@kernel
def solve(A: FloatArray, b: FloatArray) -> FloatArray:
    """Return A⁻¹b; NaN if A is not positive definite."""
    out = np.empty(b.shape[0])
    L = np.zeros((b.shape[0], b.shape[0]))
    if cholesky(A, L):
        solve_lower(L, b, out)
        solve_lower_transposed(L, out, out)
    else:
        set_vector(out, np.nan)
    return out


@kernel
def log_det(A: FloatArray) -> float:
    """Return log det A; NaN if A is not positive definite."""
    d = A.shape[0]
    L = np.zeros((d, d))
    if not cholesky(A, L):
        return np.nan
    total = 0.0
    for j in range(d):
        total += 2.0 * math.log(L[j, j])
    return total


@kernel
def invert(A: FloatArray, out: FloatArray) -> bool:
    """Write A⁻¹, exactly symmetric, to `out`; False if A is not positive definite.

    With A = L Lᵀ and M = L⁻¹ it is MᵀM. Both M and the product are sums of rows, as memory lies,
    four at a time.
    """
    d = A.shape[0]
    M = np.zeros((d, d))
    if not cholesky(A, M):
        return False
    factors = np.empty(d)
    for i in range(d):  # row i of L becomes row i of M, out of the rows before it
        scale, fours = 1.0 / M[i, i], i // 4
        for k in range(i):
            factors[k] = -scale * M[i, k]
            M[i, k] = 0.0
        M[i, i] = scale
        for k4 in range(fours):
            k = 4 * k4
            f0, f1, f2, f3 = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
            for j in range(k + 4):
                total = M[i, j] + M[k, j] * f0
                total += M[k + 1, j] * f1
                total += M[k + 2, j] * f2
                M[i, j] = total + M[k + 3, j] * f3
        for k in range(4 * fours, i):
            for j in range(k + 1):
                M[i, j] += M[k, j] * factors[k]
    for i in range(d):
        n, fours = i + 1, (d - i) // 4
        for j in range(n):
            out[i, j] = 0.0
        for k4 in range(fours):
            k = i + 4 * k4
            f0, f1, f2, f3 = M[k, i], M[k + 1, i], M[k + 2, i], M[k + 3, i]
            for j in range(n):
                total = out[i, j] + M[k, j] * f0
                total += M[k + 1, j] * f1
                total += M[k + 2, j] * f2
                out[i, j] = total + M[k + 3, j] * f3
        for k in range(i + 4 * fours, d):
            for j in range(n):
                out[i, j] += M[k, j] * M[k, i]
        for j in range(i):
            out[j, i] = out[i, j]
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
    L, shifted, solved = np.zeros((d, d)), np.empty((d, d)), np.empty(d)
    copy_matrix(A, shifted)
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
