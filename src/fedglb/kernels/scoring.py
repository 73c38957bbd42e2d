"""Upper confidence bounds of a set of arms, and which one is played."""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.jit import kernel
from fedglb.kernels.types import FloatArray

TIE = 1e-12


@kernel
def upper_bounds(
    arms: FloatArray, centre: FloatArray, A_inv: FloatArray, alpha: float, scores: FloatArray
) -> None:
    """Write xᵀcentre + α‖x‖_{A⁻¹} for every arm x to `scores`.

    `arms` is (d, K): the inner loop runs over arms and vectorises without reordering any sum.
    """
    d, K = arms.shape
    widths = np.zeros(K)
    for k in range(K):
        scores[k] = 0.0
    for i in range(d):
        c = centre[i]
        diagonal = A_inv[i, i]
        for k in range(K):
            scores[k] += arms[i, k] * c
            widths[k] += arms[i, k] * arms[i, k] * diagonal
        for j in range(i):
            twice = 2.0 * A_inv[i, j]
            for k in range(K):
                widths[k] += arms[i, k] * arms[j, k] * twice
    for k in range(K):
        scores[k] += alpha * math.sqrt(max(widths[k], 0.0))


@kernel
def pick(scores: FloatArray) -> int:
    """Return the lowest index whose score is within rounding of the largest.

    With a fresh A and unit arms all scores tie up to rounding: without this rule two correct
    programs would play different arms.
    """
    best = scores[0]
    for k in range(1, scores.shape[0]):
        best = max(best, scores[k])
    level = best - TIE * max(1.0, abs(best))
    for k in range(scores.shape[0]):
        if scores[k] >= level:
            return k
    return 0


@kernel
def choose(arms: FloatArray, centre: FloatArray, A_inv: FloatArray, alpha: float) -> int:
    """Return the index of the arm to play; `arms` is (d, K)."""
    scores = np.empty(arms.shape[1])
    upper_bounds(arms, centre, A_inv, alpha, scores)
    return pick(scores)
