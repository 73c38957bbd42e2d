"""Sums over a client's samples: what it answers to a round of a global update."""

from __future__ import annotations

import numpy as np

from fedglb.kernels.jit import call1, kernel
from fedglb.kernels.types import FloatArray


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
    """Add Σ x(μ(xᵀθ) − y), and if asked Σ μ'(xᵀθ) x xᵀ, over the rows of X in order.

    `mean` and `variance` are addresses of the link's functions. Only the lower triangle of
    `hessian` is summed; it is mirrored at the end.
    """
    n, d = X.shape
    for s in range(n):
        z = 0.0
        for j in range(d):
            z += X[s, j] * theta[j]
        residual = call1(mean, z) - y[s]
        for j in range(d):
            gradient[j] += residual * X[s, j]
        if with_hessian:
            weight = call1(variance, z)
            for i in range(d):
                w = weight * X[s, i]
                for j in range(i + 1):
                    hessian[i, j] += w * X[s, j]
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
