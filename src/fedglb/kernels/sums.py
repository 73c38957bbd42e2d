"""Sums over a client's samples: its answers to rounds of a global update."""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.effects import (
    CROSS,
    EFFECT,
    add_effects,
    add_to_effects,
    add_to_row,
    bucket,
    row_of,
)
from fedglb.kernels.layout import CUMULANT, DERIVATIVES, MEAN, VARIANCE
from fedglb.kernels.linalg import add_square, dot, set_matrix, set_vector
from fedglb.kernels.merge import Merged, merge
from fedglb.kernels.pointers import Intrinsic, call1, call_derivatives
from fedglb.typing import FloatArray, IntArray

#: Samples that are summed at a time: a block stays in the processor's cache.
BLOCK = 248
#: Rows of scratch that a pass needs beside one per feature.
SCRATCH_ROWS = 6
#: Lanes of a dot product (`dots`).
LANES = 8


def _dots_in_python(W: FloatArray, X: FloatArray, row: int, length: int) -> tuple[float, ...]:
    results = []
    for w in W[:2, :length]:
        for x in X[row : row + 2, :length]:
            lanes = np.zeros(LANES)
            for group in (w * x).reshape(-1, LANES):
                lanes += group
            while lanes.size > 1:
                lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
            results.append(float(lanes[0]))
    return tuple(results)


#: ``dots(W, X, row, length)``: the four dot products of the first two rows of W with the rows `row`
#: and `row` + 1 of X, over their first `length` places, a multiple of `LANES`. Both arrays are in C
#: order. Without leave to reorder a sum, the compiler computes a dot product number by number. Here
#: the order is part of the definition: lane l adds up the products of places l, l + 8, l + 16, …,
#: and the eight sums are added in pairs, l with l + 4, then l with l + 2, then the last two. So the
#: sums stay in vector registers, and the bits are the same whatever the width of the vectors.
dots = Intrinsic("dots", _dots_in_python)


@inlined_kernel
def at_least_secant(z: float, mean: float, slope: float, at_zero: float) -> float:
    """Return the larger of μ′(z) and (μ(z) − μ(0))/z; μ′(z) where μ(0) is not a number."""
    if abs(z) < 1e-3:  # there they differ by less than their rounding errors
        return slope
    secant = (mean - at_zero) / z
    return secant if secant > slope else slope


@kernel
def one_by_one(
    z: FloatArray,
    means: FloatArray,
    variances: FloatArray,
    functions: IntArray,
    with_variances: int,
) -> int:
    """Write μ(z) and, `with_variances`, μ′(z) of every z, by the link's scalar functions."""
    for k in range(z.shape[0]):
        means[k] = call1(functions[MEAN], z[k])
    if with_variances != 0:
        for k in range(z.shape[0]):
            variances[k] = call1(functions[VARIANCE], z[k])
    return 0


@kernel
def add_derivatives(
    X: FloatArray,
    y: FloatArray,
    theta: FloatArray,
    functions: IntArray,
    gradient: FloatArray,
    hessian: FloatArray,
    with_hessian: bool,
) -> None:
    """Add Σ x(μ(xᵀθ) − y) and, `with_hessian`, Σ μ'(xᵀθ) x xᵀ, over the rows of X.

    `functions` are addresses of the link's functions. The result depends on nothing but the
    rows and their order.
    """
    scratch = np.empty((SCRATCH_ROWS + theta.shape[0], min(X.shape[0], BLOCK)))
    none = np.empty(0)
    add_blocks(
        X, y, none, theta, functions, gradient, hessian, with_hessian, scratch, none, 1.0, np.nan
    )


@kernel
def add_blocks(
    X: FloatArray,
    y: FloatArray,
    times: FloatArray,
    theta: FloatArray,
    functions: IntArray,
    gradient: FloatArray,
    hessian: FloatArray,
    with_hessian: bool,
    scratch: FloatArray,
    table: FloatArray,
    buckets: float,
    at_zero: float,
) -> None:
    """Do as `add_derivatives` does, with room for a block of samples in `scratch`.

    Row s of X counts `times`[s] times (once if `times` is empty); y[s] is the sum of its rewards.
    Where arms have effects, `table` has them and gets their sums (`kernels.effects`), if there is a
    Hessian; else it is empty. `at_zero` is μ(0) where weights are at least the secants, or not a
    number.
    The rows of `scratch`, `SCRATCH_ROWS` + d of them, have the length of a block. They hold xᵀθ,
    the residuals and μ′; with a Hessian also two rows of weighted features, and X's columns.
    """
    n, size = X.shape[0], scratch.shape[1]
    for first in range(0, n, max(size, 1)):
        last = min(first + size, n)
        rows, length = X[first:last], last - first
        z, residuals, weights = scratch[0, :length], scratch[1, :length], scratch[2, :length]
        weighted, columns = scratch[3:5], scratch[5:]
        if with_hessian:
            transpose(rows, columns)
            predict_columns(columns, theta, z)
        else:
            predict_rows(rows, theta, z)
        if table.size > 0:
            add_effects(rows, table, buckets, z)
        call_derivatives(
            functions[DERIVATIVES], z, residuals, weights, functions, int(with_hessian)
        )
        if with_hessian and not math.isnan(at_zero):
            for s in range(length):
                weights[s] = at_least_secant(z[s], residuals[s], weights[s], at_zero)
        if times.size > 0:
            for s in range(length):
                residuals[s] *= times[first + s]
        if times.size > 0 and with_hessian:
            for s in range(length):
                weights[s] *= times[first + s]
        for s in range(length):
            residuals[s] -= y[first + s]
        if table.size > 0:
            add_to_effects(rows, residuals, weights, table, buckets)
        add_weighted_rows(rows, residuals, gradient)
        if with_hessian:
            whole = length - length % LANES
            if whole > 0:
                add_squares(columns, weights, whole, weighted, hessian)
            for s in range(whole, length):
                add_lower(hessian, rows[s, : theta.shape[0]], weights[s])
    if with_hessian:
        mirror(hessian)


@kernel
def predict_rows(X: FloatArray, theta: FloatArray, z: FloatArray) -> None:
    """Write xᵀθ of every row x of X to `z`.

    Four rows at a time, which are four sums that do not wait for each other. (There is a `while`
    because the compiler does not recognise numba's range with a step as a loop to vectorise.)
    """
    n, d = X.shape[0], theta.shape[0]
    s = 0
    while s + 4 <= n:
        z0, z1, z2, z3 = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            z0 += X[s, j] * theta[j]
            z1 += X[s + 1, j] * theta[j]
            z2 += X[s + 2, j] * theta[j]
            z3 += X[s + 3, j] * theta[j]
        z[s], z[s + 1], z[s + 2], z[s + 3] = z0, z1, z2, z3
        s += 4
    while s < n:
        z[s] = dot(theta, X[s])
        s += 1


@kernel
def transpose(X: FloatArray, columns: FloatArray) -> None:
    """Write the columns of X to the rows of `columns`; behind them a row of zeros."""
    n, d = X.shape[0], columns.shape[0] - 1
    for s in range(n):
        for j in range(d):
            columns[j, s] = X[s, j]
        columns[d, s] = 0.0


@kernel
def predict_columns(columns: FloatArray, theta: FloatArray, z: FloatArray) -> None:
    """Do as `predict_rows` does, to the bit, with the columns of X at hand."""
    for s in range(z.shape[0]):
        z[s] = 0.0
    for j in range(theta.shape[0]):
        weight = theta[j]
        for s in range(z.shape[0]):
            z[s] += columns[j, s] * weight


@kernel
def add_weighted_rows(X: FloatArray, weights: FloatArray, total: FloatArray) -> None:
    """Add Σ w x over the rows x of X to `total`, which is read and written once per four rows."""
    n, d = X.shape[0], total.shape[0]
    s = 0
    while s + 4 <= n:
        r0, r1, r2, r3 = weights[s], weights[s + 1], weights[s + 2], weights[s + 3]
        for j in range(d):
            total[j] += (r0 * X[s, j] + r1 * X[s + 1, j]) + (r2 * X[s + 2, j] + r3 * X[s + 3, j])
        s += 4
    while s < n:
        for j in range(d):
            total[j] += weights[s] * X[s, j]
        s += 1


@kernel
def add_squares(
    columns: FloatArray,
    weights: FloatArray,
    n: int,
    weighted: FloatArray,
    total: FloatArray,
) -> None:
    """Add Σ w x xᵀ over n samples x, given by columns, to the lower triangle of `total`.

    n is a multiple of `LANES`. Each pair of features is a dot product over samples, and four of
    them are taken at a time; for an odd number of features there is one more column, of zeros.
    """
    d = total.shape[0]
    for i in range(0, d, 2):
        for s in range(n):
            weighted[0, s] = weights[s] * columns[i, s]
            weighted[1, s] = weights[s] * columns[i + 1, s]
        for j in range(0, i + 1, 2):
            first, second, third, fourth = dots(weighted, columns, j, n)
            total[i, j] += first
            if j < i:
                total[i, j + 1] += second
            if i + 1 < d:
                total[i + 1, j] += third
                total[i + 1, j + 1] += fourth


@kernel
def sum_loss(
    X: FloatArray, y: FloatArray, times: FloatArray, theta: FloatArray, cumulant: int
) -> float:
    """Return Σ m(xᵀθ) − y xᵀθ over the rows of X in order; `times` as in `add_blocks`."""
    n, d = X.shape
    total = 0.0
    for s in range(n):
        z = 0.0
        for j in range(d):
            z += X[s, j] * theta[j]
        count = times[s] if times.size > 0 else 1.0
        total += count * call1(cumulant, z) - y[s] * z
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
    weights: FloatArray,
    first: IntArray,
    last: IntArray,
    merged: Merged,
    theta: FloatArray,
    functions: IntArray,
    gradient: FloatArray,
    hessian: FloatArray,
    with_hessian: bool,
    with_loss: bool,
) -> float:
    """Add up the clients' answers to a round, in their order; return the loss (0 if not asked).

    `X` is (N, ·, d) and `y` (N, ·); client i's samples are the rows first[i] … last[i] − 1. Where
    these are all of its samples, `merged` is brought up to date, and summed over if few differ.
    `weights` is empty, or has a weight for each sample, by which its reward in `y` is multiplied.
    """
    d = theta.shape[0]
    own_gradient = np.empty(d)
    own_hessian = np.empty((d, d))
    scratch = np.empty((SCRATCH_ROWS + d, BLOCK))
    once = np.empty(0)
    loss = 0.0
    for i in range(X.shape[0]):
        own_X, own_y, times = X[i, first[i] : last[i]], y[i, first[i] : last[i]], once
        if weights.size > 0:
            times = weights[i, first[i] : last[i]]
        elif first[i] == 0:
            merge(merged, i, own_X, own_y)
            k = merged.different[i]
            if k >= 0:
                own_X, own_y, times = merged.X[i, :k], merged.y[i, :k], merged.times[i, :k]
        set_vector(own_gradient, 0.0)
        if with_hessian:
            set_matrix(own_hessian, 0.0)
        add_blocks(
            own_X, own_y, times, theta, functions, own_gradient, own_hessian, with_hessian, scratch,
            once, 1.0, np.nan,
        )  # fmt: skip
        for j in range(d):
            gradient[j] += own_gradient[j]
        if with_hessian:
            for j in range(d):
                for k in range(d):
                    hessian[j, k] += own_hessian[j, k]
        if with_loss:
            loss += sum_loss(own_X, own_y, times, theta, functions[CUMULANT])
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
    merged: Merged,
    i: int,
    table: FloatArray,
    buckets: float,
    at_zero: float,
) -> None:
    """Add client i's derivatives at the model θ: of the `covered` rows at once, then row by row.

    A client sums the rows that a model covers when it adopts it, and each later one as it comes.
    The rows that are covered are summed by those that differ, if these are few (`merged` is brought
    up to date). `table` is empty, or has the effects of arms and gets their sums.
    """
    own_X, own_y, times = X[:covered], y[:covered], np.empty(0)
    if covered > 0:
        merge(merged, i, own_X, own_y)
        k = merged.different[i]
        if k >= 0:
            own_X, own_y, times = merged.X[i, :k], merged.y[i, :k], merged.times[i, :k]
    scratch = np.empty((SCRATCH_ROWS + theta.shape[0], min(own_X.shape[0], BLOCK)))
    add_blocks(
        own_X,
        own_y,
        times,
        theta,
        functions,
        gradient,
        hessian,
        True,
        scratch,
        table,
        buckets,
        at_zero,
    )
    for s in range(covered, X.shape[0]):
        add_row(X[s], y[s], theta, functions, gradient, hessian, table, buckets, at_zero)
    mirror(hessian)


@kernel
def add_row(
    x: FloatArray,
    y: float,
    theta: FloatArray,
    functions: IntArray,
    gradient: FloatArray,
    hessian: FloatArray,
    table: FloatArray,
    buckets: float,
    at_zero: float,
) -> None:
    """Add one sample's derivatives at θ; of `hessian` to the lower triangle only."""
    d, z, at = theta.shape[0], dot(theta, x), -1
    if table.size > 0 and x[d] >= 0.0:
        at = row_of(table, d + CROSS, bucket(float(x[d]), buckets), 0.0)
        z += table[at + EFFECT]
    mean, weight = call1(functions[MEAN], z), call1(functions[VARIANCE], z)
    weight = at_least_secant(z, mean, weight, at_zero)
    residual = mean - y
    for j in range(d):
        gradient[j] += residual * x[j]
    add_lower(hessian, x[:d], weight)
    if at >= 0:
        add_to_row(table, at, x, residual, weight)


@kernel
def add_lower(A: FloatArray, x: FloatArray, weight: float) -> None:
    """Add weight·x xᵀ to the lower triangle of A."""
    for i in range(x.shape[0]):
        w = weight * x[i]
        for j in range(i + 1):
            A[i, j] += w * x[j]


@kernel
def mirror(A: FloatArray) -> None:
    """Copy the lower triangle of A to the upper one."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[j, i] = A[i, j]


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
    merged: Merged,
    tables: FloatArray,
    buckets: float,
    at_zero: float,
) -> None:
    """Do as `add_model_sums` does for each client i, over its rows 0 … last[i] − 1."""
    for i in range(X.shape[0]):
        own_X, own_y = X[i, : last[i]], y[i, : last[i]]
        add_model_sums(
            own_X, own_y, covered[i], theta, functions, gradients[i], hessians[i],
            merged, i, tables[i], buckets, at_zero,
        )  # fmt: skip


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
