"""The multiplier of the ball from products with A⁻¹ alone: a secular equation on a Lanczos basis.

(A + νI)θ = Aθ₀ is (I + νA⁻¹)θ = θ₀, and the Krylov space of A⁻¹ and θ₀ serves every ν. On its
basis A⁻¹ is a small tridiagonal T, and the same equation holds with T for A⁻¹ (docs/theory.md).
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.linalg import matvec, norm, set_vector, symmetric_matvec
from fedglb.typing import FloatArray

#: A basis never has more vectors than this; few projections need a third of it.
MOST_VECTORS = 64
#: A basis is large enough if its error moves θ by less than this, relative to S.
_LEFT_OUT = 2.0**-54
#: What the residual may be, relative to ‖Aθ₀‖ and the condition number of A + νI: eight roundings.
RESIDUAL = 8.0 * 2.0**-52
_MAX_STEPS = 200


@kernel
def remove_components(Q: FloatArray, w: FloatArray) -> float:
    """Take QᵀQw from w, for orthonormal rows of Q; return the last element of Qw."""
    count, d = Q.shape
    found = np.empty(count)
    matvec(Q, w, found)
    for i in range(count):
        for j in range(d):
            w[j] -= found[i] * Q[i, j]
    return float(found[count - 1])


@kernel
def shifted_solve(
    alpha: FloatArray, beta: FloatArray, nu: float, length: float, y: FloatArray, work: FloatArray
) -> tuple[float, float]:
    """Write (I + νT)⁻¹e₁·length to `y`; return ‖y‖² and yᵀ(I + νT)⁻¹Ty.

    T is tridiagonal, with `alpha` on its diagonal and `beta` beside it; I + νT = L D Lᵀ.
    """
    n = alpha.shape[0]
    inverse, below = work[0], work[1]  # 1/D, and L below its diagonal of ones
    z = length
    inverse[0] = 1.0 / (1.0 + nu * alpha[0])
    y[0] = z * inverse[0]
    for i in range(1, n):
        side = nu * beta[i - 1]
        below[i] = side * inverse[i - 1]
        inverse[i] = 1.0 / (1.0 + nu * alpha[i] - side * below[i])
        z *= -below[i]
        y[i] = z * inverse[i]
    for i in range(n - 2, -1, -1):
        y[i] -= below[i + 1] * y[i + 1]
    square = slope = u = v = 0.0
    for i in range(n):  # yᵀ(LDLᵀ)⁻¹Ty = (L⁻¹y)ᵀD⁻¹(L⁻¹Ty)
        product = alpha[i] * y[i]
        if i > 0:
            product += beta[i - 1] * y[i - 1]
            u *= -below[i]
            v *= -below[i]
        if i + 1 < n:
            product += beta[i] * y[i + 1]
        u += y[i]
        v += product
        square += y[i] * y[i]
        slope += u * v * inverse[i]
    return square, slope


@kernel
def good_enough(
    A: FloatArray,
    A_inv: FloatArray,
    S: float,
    start: FloatArray,
    theta: FloatArray,
    nu: float,
    work: FloatArray,
) -> bool:
    """Return whether ‖(A + νI)θ − Aθ₀‖ ≤ `RESIDUAL`·κ‖Aθ₀‖, with products with A itself.

    κ is a lower bound on the condition number of A + νI: λ_max ≥ A_jj and λ_min ≤ 1/(A⁻¹)_jj.
    """
    d = theta.shape[0]
    moved, product, residual = work[0], work[1], work[2]
    largest, least = 0.0, np.inf
    for j in range(d):
        moved[j] = start[j] - theta[j]
        largest = max(largest, A[j, j])
        least = min(least, 1.0 / A_inv[j, j])
    symmetric_matvec(A, start, product)
    symmetric_matvec(A, moved, residual)
    force = norm(product)
    largest = max(largest, force / norm(start), norm(residual) / norm(moved))
    for j in range(d):
        residual[j] -= nu * theta[j]
    condition = (largest + nu) / (least + nu)
    return norm(residual) <= RESIDUAL * max(condition, 1.0) * force


@kernel
def project_by_products(A: FloatArray, A_inv: FloatArray, S: float, theta: FloatArray) -> float:
    """Project θ₀ = `theta`, ‖θ₀‖ > S, onto ‖θ‖ ≤ S in the A-norm; return the multiplier.

    It returns −1, and leaves `theta` as it is, where the basis would have too many vectors, or
    where A itself says that A⁻¹ was not good enough.
    """
    d = theta.shape[0]
    most = min(d, MOST_VECTORS)
    Q, work = np.empty((most + 4, d)), np.empty((5, most))
    alpha, beta, y, factors = work[0], work[1], work[2], work[3:]
    length = norm(theta)
    for j in range(d):
        Q[0, j] = theta[j] / length
    nu, count = 0.0, 0
    for k in range(most):
        w = Q[k + 1]
        symmetric_matvec(A_inv, Q[k], w)
        before = max(k - 1, 0)
        alpha[k] = remove_components(Q[before : k + 1], w)  # these are all, but for rounding
        alpha[k] += remove_components(Q[: k + 1], w)
        beta[k] = norm(w)
        settled = False
        for _ in range(_MAX_STEPS):
            square, slope = shifted_solve(alpha[: k + 1], beta, nu, length, y, factors)
            size = math.sqrt(square)
            step = square / slope * (size - S) / S
            settled = not (size > S and nu + step > nu)
            if settled:
                break
            nu += step
            if nu * beta[k] * abs(y[k]) > _LEFT_OUT * S:
                break  # a larger basis first
        if settled and nu * beta[k] * abs(y[k]) <= _LEFT_OUT * S:
            count = k + 1
            break
        scale = 1.0 / beta[k]
        for j in range(d):
            w[j] *= scale
    if count == 0:
        return -1.0
    found = Q[count]
    set_vector(found, 0.0)
    for k in range(count):
        for j in range(d):
            found[j] += y[k] * Q[k, j]
    scale = S / norm(found)
    for j in range(d):
        found[j] *= scale
    if not good_enough(A, A_inv, S, theta, found, nu, Q[count + 1 :]):
        return -1.0
    for j in range(d):
        theta[j] = found[j]
    return nu
