"""Sums over a client's samples: what it answers to a round of a global update."""

from __future__ import annotations

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CUMULANT, MEAN, VARIANCE
from fedglb.kernels.linalg import add_square, dot
from fedglb.kernels.pointers import call1
from fedglb.typing import FloatArray, IntArray


@kernel
def add_derivatives(
    X: FloatArray,
    y: FloatArray,
    theta: FloatArray,
    mean: int,
    variance: int,
    gradient: FloatArray,
    hessian: FloatArray,
    with_hessian: bool,
) -> None:
    """Add Σ x(μ(xᵀθ) − y) and, `with_hessian`, Σ μ'(xᵀθ) x xᵀ, over the rows of X in order.

    `mean` and `variance` are addresses of the link's functions. Rows are taken four at a time,
    so that the sums are read and written a quarter as often; of `hessian` the lower triangle is
    summed, and mirrored at the end. (There is a `while` because the compiler does not recognise
    numba's range with a step as a loop to vectorise.)
    """
    n, d = X.shape
    s = 0
    while s + 4 <= n:
        z0, z1, z2, z3 = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            z0 += X[s, j] * theta[j]
            z1 += X[s + 1, j] * theta[j]
            z2 += X[s + 2, j] * theta[j]
            z3 += X[s + 3, j] * theta[j]
        r0, r1 = call1(mean, z0) - y[s], call1(mean, z1) - y[s + 1]
        r2, r3 = call1(mean, z2) - y[s + 2], call1(mean, z3) - y[s + 3]
        for j in range(d):
            gradient[j] += (r0 * X[s, j] + r1 * X[s + 1, j]) + (r2 * X[s + 2, j] + r3 * X[s + 3, j])
        if with_hessian:
            v0, v1 = call1(variance, z0), call1(variance, z1)
            v2, v3 = call1(variance, z2), call1(variance, z3)
            for i in range(d):
                w0, w1, w2, w3 = v0 * X[s, i], v1 * X[s + 1, i], v2 * X[s + 2, i], v3 * X[s + 3, i]
                for j in range(i + 1):
                    hessian[i, j] += (w0 * X[s, j] + w1 * X[s + 1, j]) + (
                        w2 * X[s + 2, j] + w3 * X[s + 3, j]
                    )
        s += 4
    while s < n:
        z = dot(X[s], theta)
        residual = call1(mean, z) - y[s]
        for j in range(d):
            gradient[j] += residual * X[s, j]
        if with_hessian:
            weight = call1(variance, z)
            for i in range(d):
                w = weight * X[s, i]
                for j in range(i + 1):
                    hessian[i, j] += w * X[s, j]
        s += 1
    if with_hessian:
        for i in range(d):
            for j in range(i):
                hessian[j, i] = hessian[i, j]


@kernel
def sum_loss(X: FloatArray, y: FloatArray, theta: FloatArray, cumulant: int) -> float:
    """Return Σ m(xᵀθ) − y xᵀθ over the rows of X in order."""
    n, d = X.shape
    total = 0.0
    for s in range(n):
        z = 0.0
        for j in range(d):
            z += X[s, j] * theta[j]
        total += call1(cumulant, z) - y[s] * z
    return total


@kernel
def map1(function: int, z: FloatArray) -> FloatArray:
    """Apply a scalar function, given by address, to each element of a flat array."""
    out = np.empty(z.shape[0])
    for k in range(z.shape[0]):
        out[k] = call1(function, z[k])
    return out


@kernel
def sum_over_clients(
    X: FloatArray,
    y: FloatArray,
    first: IntArray,
    last: IntArray,
    theta: FloatArray,
    functions: IntArray,
    gradient: FloatArray,
    hessian: FloatArray,
    with_hessian: bool,
    with_loss: bool,
) -> float:
    """Add up the clients' answers to a round, in their order; return the loss (0 if not asked).

    `X` is (N, ·, d) and `y` (N, ·); client i's samples are the rows first[i] … last[i] − 1.
    """
    d = theta.shape[0]
    own_gradient = np.empty(d)
    own_hessian = np.empty((d, d))
    loss = 0.0
    for i in range(X.shape[0]):
        own_X, own_y = X[i, first[i] : last[i]], y[i, first[i] : last[i]]
        own_gradient[:] = 0.0
        own_hessian[:] = 0.0
        add_derivatives(
            own_X,
            own_y,
            theta,
            functions[MEAN],
            functions[VARIANCE],
            own_gradient,
            own_hessian,
            with_hessian,
        )
        gradient += own_gradient
        if with_hessian:
            hessian += own_hessian
        if with_loss:
            loss += sum_loss(own_X, own_y, theta, functions[CUMULANT])
    return loss


@kernel
def add_model_sums(
    X: FloatArray,
    y: FloatArray,
    covered: int,
    theta: FloatArray,
    functions: IntArray,
    gradient: FloatArray,
    hessian: FloatArray,
) -> None:
    """Add a client's derivatives at the model θ: of the `covered` rows at once, then row by row.

    A client sums the rows that a model covers when it adopts it, and each later one as it comes.
    """
    mean, variance = functions[MEAN], functions[VARIANCE]
    add_derivatives(X[:covered], y[:covered], theta, mean, variance, gradient, hessian, True)
    for s in range(covered, X.shape[0]):
        row = slice(s, s + 1)
        add_derivatives(X[row], y[row], theta, mean, variance, gradient, hessian, True)


@kernel
def add_all_model_sums(
    X: FloatArray,
    y: FloatArray,
    covered: IntArray,
    last: IntArray,
    theta: FloatArray,
    functions: IntArray,
    gradients: FloatArray,
    hessians: FloatArray,
) -> None:
    """Do as `add_model_sums` does for each client i, over its rows 0 … last[i] − 1."""
    for i in range(X.shape[0]):
        own_X, own_y = X[i, : last[i]], y[i, : last[i]]
        add_model_sums(own_X, own_y, covered[i], theta, functions, gradients[i], hessians[i])


@kernel
def add_moments(X: FloatArray, y: FloatArray, covariance: FloatArray, moment: FloatArray) -> None:
    """Add Σ x xᵀ and Σ x y over the rows of X in order, as a client does sample by sample."""
    for s in range(X.shape[0]):
        add_square(covariance, X[s], 1.0)
        for j in range(X.shape[1]):
            moment[j] += y[s] * X[s, j]


@kernel
def add_all_moments(
    X: FloatArray,
    y: FloatArray,
    first: IntArray,
    last: IntArray,
    covariances: FloatArray,
    moments: FloatArray,
) -> None:
    """Do as `add_moments` does for each client i, over its rows first[i] … last[i] − 1."""
    for i in range(X.shape[0]):
        own_X, own_y = X[i, first[i] : last[i]], y[i, first[i] : last[i]]
        add_moments(own_X, own_y, covariances[i], moments[i])
