"""Sums of the one-pass update, in whole numbers: the same bits in whatever order they are added."""

from __future__ import annotations

import math

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import MEAN, VARIANCE
from fedglb.kernels.linalg import dot
from fedglb.kernels.pointers import call1
from fedglb.typing import FloatArray, IntArray

#: In `limits`: S, the smallest and the largest reward, the most that |y − μ + μ′z| and μ′ can be
#: then, the unit 2^BITS, and what they may be, so that no sum overflows.
BALL, LEAST, MOST, RESIDUAL, SLOPE, UNIT, LARGEST = range(7)
_ROOT_TWO = math.sqrt(2.0)


@kernel
def add_release(
    x: FloatArray,
    y: float,
    theta: FloatArray,
    functions: IntArray,
    limits: FloatArray,
    numbers: IntArray,
) -> int:
    """Add one sample's v = x(y − μ(z) + μ′(z)z) and μ′(z) x xᵀ; return 1 if they are too large.

    z = xᵀθ, y and what follows from them are clipped to `limits`, and ‖x‖ to 1. Each entry is
    rounded to a whole number of units before it is added. First v, then the lower triangle of the
    matrix, row by row, times √2 off the diagonal: the length of the numbers is then the Frobenius
    norm of the matrix.
    """
    d, unit, square = x.shape[0], limits[UNIT], dot(x, x)
    shorter = 1.0 if square <= 1.0 else 1.0 / math.sqrt(square)
    z = min(max(shorter * dot(x, theta), -limits[BALL]), limits[BALL])
    reward = min(max(y, limits[LEAST]), limits[MOST])
    weight = min(call1(functions[VARIANCE], z), limits[SLOPE])
    pull = reward - call1(functions[MEAN], z) + weight * z
    if not abs(pull) + weight <= limits[LARGEST]:
        return 1
    pull = shorter * min(max(pull, -limits[RESIDUAL]), limits[RESIDUAL])
    weight *= shorter * shorter
    for j in range(d):
        numbers[j] += math.floor(pull * x[j] * unit + 0.5)
    place = d
    for i in range(d):
        scaled = weight * x[i]
        for j in range(i):
            numbers[place] += math.floor(scaled * x[j] * _ROOT_TWO * unit + 0.5)
            place += 1
        numbers[place] += math.floor(scaled * x[i] * unit + 0.5)
        place += 1
    return 0


@kernel
def add_all_releases(
    X: FloatArray,
    y: FloatArray,
    first: IntArray,
    last: IntArray,
    theta: FloatArray,
    functions: IntArray,
    limits: FloatArray,
    numbers: IntArray,
) -> int:
    """Do as `add_release` does for each client i, over its rows first[i] … last[i] − 1.

    `numbers` has a row per client. Returned is how many samples were too large, and left out.
    """
    refused = 0
    for i in range(X.shape[0]):
        for s in range(first[i], last[i]):
            refused += add_release(X[i, s], y[i, s], theta, functions, limits, numbers[i])
    return refused
