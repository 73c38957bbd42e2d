"""Arrows: distributions of θ and of arms' effects, in which effects are independent given θ.

An arrow is the Schur complement S of θ's block with its right side q, and per arm
u | θ ~ N(t − x̄ᵀθ, 1/D), with x̄ = b/D and t = p/D. The rows of a table (`kernels.effects`) have D,
p and b. With a variance T added to θ and τ² to each effect it is no arrow: the nearest one, with
the same distribution of θ and each u, is taken (docs/theory.md, section 7.13).
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.effects import COUNT, CROSS, EFFECT, PRECISION, ROWS, TARGET
from fedglb.kernels.linalg import dot, matvec, quadratic
from fedglb.typing import FloatArray


@kernel
def invert_any(A: FloatArray, out: FloatArray) -> float:
    """Write A⁻¹ to `out`, and return log |det A|; A is overwritten. Gauss–Jordan with pivots."""
    d = A.shape[0]
    for i in range(d):
        for j in range(d):
            out[i, j] = 1.0 if i == j else 0.0
    total = 0.0
    for k in range(d):
        best = k
        for i in range(k + 1, d):
            if abs(A[i, k]) > abs(A[best, k]):
                best = i
        if best != k:
            for j in range(d):
                A[k, j], A[best, j] = A[best, j], A[k, j]
                out[k, j], out[best, j] = out[best, j], out[k, j]
        pivot = A[k, k]
        total += math.log(abs(pivot))
        scale = 1.0 / pivot
        for j in range(d):
            A[k, j] *= scale
            out[k, j] *= scale
        for i in range(d):
            factor = A[i, k]
            if i != k and factor != 0.0:
                for j in range(d):
                    A[i, j] -= factor * A[k, j]
                    out[i, j] -= factor * out[k, j]
    return total


@kernel
def product(A: FloatArray, B: FloatArray, out: FloatArray) -> None:
    """Write A B to `out`."""
    d = A.shape[0]
    for i in range(d):
        for j in range(d):
            out[i, j] = 0.0
        for k in range(d):
            f = A[i, k]
            for j in range(d):
                out[i, j] += f * B[k, j]


@kernel
def less_own(S: FloatArray, T: FloatArray, rest: FloatArray) -> float:
    """Write (I + S T)⁻¹ to `rest`, and return log det(I + S T)."""
    d = S.shape[0]
    both = np.empty((d, d))
    product(S, T, both)
    for j in range(d):
        both[j, j] += 1.0
    return invert_any(both, rest)


@kernel
def add_scaled(A: FloatArray, x: FloatArray, y: FloatArray, scale: float) -> None:
    """A += scale·x yᵀ."""
    for i in range(x.shape[0]):
        w = scale * x[i]
        for j in range(y.shape[0]):
            A[i, j] += w * y[j]


@kernel
def add_to(x: FloatArray, y: FloatArray, scale: float) -> None:
    """X += scale·y."""
    for j in range(x.shape[0]):
        x[j] += scale * y[j]


@kernel
def even(A: FloatArray) -> None:
    """Make A exactly symmetric."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = 0.5 * (A[i, j] + A[j, i])
            A[j, i] = A[i, j]


@kernel
def used(table: FloatArray, width: int) -> int:
    """Return how many numbers of a table are in use; 0 where arms have no effects."""
    return 0 if table.shape[0] == 0 else ROWS + int(table[COUNT]) * width


@kernel
def own_arrow(
    A: FloatArray,
    g: FloatArray,
    table: FloatArray,
    theta: FloatArray,
    S: FloatArray,
    q: FloatArray,
) -> None:
    """Turn a client's sums at θ and its effects into an arrow: p in the table, and S and q of θ.

    A = Σwxxᵀ and g = Σx(μ − y); rows have Σ(μ − y) in place of p, and become empty of targets.
    """
    d, width = theta.shape[0], theta.shape[0] + CROSS
    for i in range(d):
        for j in range(d):
            S[i, j] = A[i, j]
    matvec(A, theta, q)
    add_to(q, g, -1.0)
    rows = int(table[COUNT]) if table.size > 0 else 0
    for row in range(rows):
        at = ROWS + row * width
        h, b = table[at + PRECISION], table[at + CROSS : at + width]
        if h <= 0.0:
            table[at + TARGET] = 0.0
            continue
        u = table[at + EFFECT]
        p = h * u + dot(b, theta) - table[at + TARGET]
        table[at + TARGET] = p
        add_to(q, b, u - p / h)
        add_scaled(S, b, b, -1.0 / h)


@kernel
def spread_rows(
    table: FloatArray, rest: FloatArray, before: FloatArray, info: FloatArray, wider: float
) -> None:
    """Turn an arrow's rows into those of the arrow with T and τ², in place: D, p and b.

    `rest` is R, `before` T R, `info` T R q and `wider` τ².
    """
    d = info.shape[0]
    x, y = np.empty(d), np.empty(d)
    for row in range(int(table[COUNT])):
        at = ROWS + row * (d + CROSS)
        D = table[at + PRECISION]
        if D <= 0.0:
            continue
        for j in range(d):
            x[j] = table[at + CROSS + j] / D
        matvec(rest, x, y)
        variance = 1.0 / D + wider + max(quadratic(before, x), 0.0)
        target = table[at + TARGET] / D - dot(x, info)
        table[at + PRECISION] = 1.0 / variance
        table[at + TARGET] = target / variance
        for j in range(d):
            table[at + CROSS + j] = y[j] / variance


@kernel
def spread_arrow(
    S: FloatArray,
    q: FloatArray,
    table: FloatArray,
    T: FloatArray,
    wider: float,
    rest: FloatArray,
) -> None:
    """Turn an arrow of θ + δ and u + v into one of θ and u, or back: S, q and the rows, in place.

    `rest` is (I + S T)⁻¹. S becomes (I + S T)⁻¹S, and so on: docs/theory.md, section 7.13.
    """
    d = q.shape[0]
    W, TR, w, Tw = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty(d)
    product(rest, S, W)
    even(W)
    matvec(rest, q, w)
    if table.size > 0:
        product(T, rest, TR)
        even(TR)
        matvec(T, w, Tw)
        spread_rows(table, rest, TR, Tw, wider)
    for i in range(d):
        q[i] = w[i]
        for j in range(d):
            S[i, j] = W[i, j]


@kernel
def effect_in(known: FloatArray, d: int, key: float) -> float:
    """Return the effect of a key in a shared model's rows; 0: it has none."""
    low, high = 0, known.shape[0] // (d + 3)
    while low < high:
        middle = (low + high) // 2
        if known[middle * (d + 3)] < key:
            low = middle + 1
        else:
            high = middle
    at = low * (d + 3)
    if at < known.shape[0] and known[at] == key:
        return float(known[at + 2])
    return 0.0
