"""The weights of samples by their age, where old ones count less.

A memory is a row of numbers r₀, t₁, r₁, t₂, r₂, …: weights halve r₀ times per unit of time before
t₁, then r₁ times, and so on. A sample's weight is 2^(−Λ), where Λ sums the rate from the time of
the sample until now.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.elementary import exp
from fedglb.kernels.sums import BLOCK, SCRATCH_ROWS, add_blocks, add_lower, mirror
from fedglb.typing import BoolArray, FloatArray, IntArray

_LOG_2 = math.log(2.0)


@kernel
def halvings(memory: FloatArray, since: float, now: float) -> float:
    """Return Λ, how often a weight halves between two times; 0 if `since` is the later one."""
    total, end, k = 0.0, now, memory.shape[0] - 1
    while k > 0 and memory[k - 1] > since:
        if end > memory[k - 1]:
            total += memory[k] * (end - memory[k - 1])
            end = memory[k - 1]
        k -= 2
    return float(total + memory[k] * max(end - since, 0.0))


@kernel
def weigh(memory: FloatArray, at: FloatArray, last: IntArray, now: float) -> FloatArray:
    """Return the weights of client i's samples 0 … last[i] − 1 of the times at[i]; 0 behind."""
    weights = np.zeros(at.shape)
    for i in range(at.shape[0]):
        for s in range(last[i]):
            weights[i, s] = exp(-_LOG_2 * halvings(memory, at[i, s], now))
    return weights


@kernel
def thinned(weights: FloatArray) -> BoolArray:
    """Return which samples to learn, one by one, so that their number follows Σ of the weights."""
    taken, total = np.zeros(weights.shape[0], dtype=np.bool_), 0.5
    for s in range(weights.shape[0]):
        total += weights[s]
        if total >= 1.0:
            taken[s] = True
            total -= 1.0
    return taken


@kernel
def add_weighted_model_sums(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    last: IntArray,
    theta: FloatArray,
    functions: IntArray,
    gradients: FloatArray,
    hessians: FloatArray,
    tables: FloatArray,
    buckets: float,
    at_zero: float,
) -> None:
    """Add each client's derivatives at the model θ, over its rows 0 … last[i] − 1.

    As `kernels.sums.add_all_model_sums`, but with a weight per row; y has rewards times weights.
    """
    scratch = np.empty((SCRATCH_ROWS + theta.shape[0], BLOCK))
    for i in range(X.shape[0]):
        n = last[i]
        add_blocks(
            X[i, :n], y[i, :n], weights[i, :n], theta, functions, gradients[i], hessians[i], True,
            scratch, tables[i], buckets, at_zero,
        )  # fmt: skip


@kernel
def add_weighted_moments(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    last: IntArray,
    covariances: FloatArray,
    moments: FloatArray,
) -> None:
    """Add each client's Σ w x xᵀ and Σ w x y; y has rewards times weights."""
    for i in range(X.shape[0]):
        for s in range(last[i]):
            add_lower(covariances[i], X[i, s], weights[i, s])
            for j in range(X.shape[2]):
                moments[i, j] += y[i, s] * X[i, s, j]
        mirror(covariances[i])
