"""Upper confidence bounds of a set of arms, and which arm is played (the paper's Eq. (5))."""

from __future__ import annotations

import math

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.layout import EXTRA, OFFSET, SHIFTED, WIDTHS
from fedglb.typing import FloatArray

#: Scores that differ by less than this, relative to max(1, |best|), count as equal.
TIE = 1e-12


@kernel
def upper_bounds(
    arms: FloatArray,
    centre: FloatArray,
    A_inv: FloatArray,
    alpha: float,
    scores: FloatArray,
    widths: FloatArray,
) -> None:
    """Write xᵀcentre + α‖x‖_{A⁻¹} of every arm x to `scores`, and ‖x‖²_{A⁻¹} to `widths`.

    `arms` is (d, K): the inner loops run over arms and vectorise without reordering any sum.
    Rows of A⁻¹ are taken two at a time and its columns four at a time, which halves the traffic
    between registers and cache; only one triangle of A⁻¹ is read. (There is a `while` because
    the compiler does not recognise numba's range with a step as a loop to vectorise.)
    """
    d, K = arms.shape
    for k in range(K):
        scores[k] = 0.0
        widths[k] = 0.0
    i = 0
    while i + 2 <= d:
        c0, c1 = centre[i], centre[i + 1]
        m00, m10, m11 = A_inv[i, i], 2.0 * A_inv[i + 1, i], A_inv[i + 1, i + 1]
        j = 0
        if i >= 4:
            a0, a1, a2, a3 = (
                2.0 * A_inv[i, 0],
                2.0 * A_inv[i, 1],
                2.0 * A_inv[i, 2],
                2.0 * A_inv[i, 3],
            )
            b0, b1 = 2.0 * A_inv[i + 1, 0], 2.0 * A_inv[i + 1, 1]
            b2, b3 = 2.0 * A_inv[i + 1, 2], 2.0 * A_inv[i + 1, 3]
            for k in range(K):
                x0, x1 = arms[i, k], arms[i + 1, k]
                y0, y1, y2, y3 = arms[0, k], arms[1, k], arms[2, k], arms[3, k]
                scores[k] += x0 * c0 + x1 * c1
                widths[k] += x0 * (x0 * m00 + a0 * y0 + a1 * y1 + a2 * y2 + a3 * y3) + x1 * (
                    x1 * m11 + x0 * m10 + b0 * y0 + b1 * y1 + b2 * y2 + b3 * y3
                )
            j = 4
        else:
            for k in range(K):
                x0, x1 = arms[i, k], arms[i + 1, k]
                scores[k] += x0 * c0 + x1 * c1
                widths[k] += x0 * (x0 * m00) + x1 * (x1 * m11 + x0 * m10)
        while j + 4 <= i:
            a0, a1 = 2.0 * A_inv[i, j], 2.0 * A_inv[i, j + 1]
            a2, a3 = 2.0 * A_inv[i, j + 2], 2.0 * A_inv[i, j + 3]
            b0, b1 = 2.0 * A_inv[i + 1, j], 2.0 * A_inv[i + 1, j + 1]
            b2, b3 = 2.0 * A_inv[i + 1, j + 2], 2.0 * A_inv[i + 1, j + 3]
            for k in range(K):
                y0, y1, y2, y3 = arms[j, k], arms[j + 1, k], arms[j + 2, k], arms[j + 3, k]
                widths[k] += arms[i, k] * (a0 * y0 + a1 * y1 + a2 * y2 + a3 * y3) + arms[
                    i + 1, k
                ] * (b0 * y0 + b1 * y1 + b2 * y2 + b3 * y3)
            j += 4
        if j < i:
            a0, a1 = 2.0 * A_inv[i, j], 2.0 * A_inv[i, j + 1]
            b0, b1 = 2.0 * A_inv[i + 1, j], 2.0 * A_inv[i + 1, j + 1]
            for k in range(K):
                y0, y1 = arms[j, k], arms[j + 1, k]
                widths[k] += arms[i, k] * (a0 * y0 + a1 * y1) + arms[i + 1, k] * (b0 * y0 + b1 * y1)
        i += 2
    if i < d:
        c0, m00 = centre[i], A_inv[i, i]
        for k in range(K):
            x0 = arms[i, k]
            scores[k] += x0 * c0
            widths[k] += x0 * (x0 * m00)
        for j in range(i):
            twice = 2.0 * A_inv[i, j]
            for k in range(K):
                widths[k] += arms[i, k] * (arms[j, k] * twice)
    for k in range(K):
        scores[k] += alpha * math.sqrt(max(widths[k], 0.0))


@kernel
def offered(arms: FloatArray, work: FloatArray) -> FloatArray:
    """Return the arms, or the shifted arms where arms have effects (`kernels.effects`)."""
    return arms if work.shape[0] <= SHIFTED else work[SHIFTED:]


@kernel
def arm_bounds(
    arms: FloatArray,
    centre: FloatArray,
    A_inv: FloatArray,
    alpha: float,
    work: FloatArray,
    scores: FloatArray,
) -> None:
    """Write mean + α·width of every arm to `scores`, its squared width to `work`; with effects."""
    widths = work[WIDTHS]
    if work.shape[0] <= SHIFTED:
        upper_bounds(arms, centre, A_inv, alpha, scores, widths)
    else:
        upper_bounds(work[SHIFTED:], centre, A_inv, 0.0, scores, widths)
        for k in range(scores.shape[0]):
            widths[k] += work[EXTRA, k]
            scores[k] += work[OFFSET, k] + alpha * math.sqrt(max(widths[k], 0.0))


@kernel
def predictions(arms: FloatArray, theta: FloatArray, scores: FloatArray) -> None:
    """Write xᵀθ of every arm x to `scores`; `arms` is (d, K)."""
    d, K = arms.shape
    for k in range(K):
        scores[k] = 0.0
    for i in range(d):
        weight = theta[i]
        for k in range(K):
            scores[k] += arms[i, k] * weight


@inlined_kernel
def tie_level(scores: FloatArray) -> float:
    """Return the least score that counts as equal to the largest; NaN if that is not finite.

    Before the first sample all unit arms have the same score up to rounding: without this rule
    two correct programs would play different arms.
    """
    best = scores[0]
    for k in range(1, scores.shape[0]):
        best = max(best, scores[k])
    return float(best - TIE * max(1.0, abs(best)))


@kernel
def pick(scores: FloatArray, level: float, which: int) -> int:
    """Return the index of the score number `which`, from 0, among those of at least `level`.

    −1: there are not so many.
    """
    for k in range(scores.shape[0]):
        if scores[k] >= level:
            if which == 0:
                return k
            which -= 1
    return -1


@kernel
def into_columns(arms: FloatArray, columns: FloatArray, longest: float) -> bool:
    """Write `arms` (K, d) to `columns` (d, K); return whether every ‖x‖² ≤ `longest`.

    An arm with an element that is not finite makes it False.
    """
    fits = True
    for k in range(arms.shape[0]):
        square = 0.0
        for j in range(arms.shape[1]):
            x = arms[k, j]
            columns[j, k] = x
            square += x * x
        fits = fits and square <= longest  # False for NaN
    return fits
