"""Arms on the unit sphere, drawn where they are played: by step and client, in any order.

Every number is a function of a key, the step and the client (`fedglb.kernels.philox`). So the draws
are the same whatever the size of a block, the number of threads or the engine.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import DERIVATIVES
from fedglb.kernels.philox import normals, uniforms
from fedglb.kernels.pointers import borrow, call_derivatives
from fedglb.kernels.scoring import predictions
from fedglb.typing import FloatArray, IntArray


@kernel
def draw_steps(
    first: int,
    arms_key: int,
    noise_key: int,
    theta: FloatArray,
    functions: IntArray,
    arms: FloatArray,
    means: FloatArray,
    noise: FloatArray,
    begin: int,
    end: int,
) -> None:
    """Draw s steps of the clients `begin` … `end` − 1; `first` is the number t of the first step.

    It writes arms uniform on the unit sphere, shape (s, N, d, K), their mean rewards (s, N, K)
    under θ* = `theta`, and a uniform per step and client (s, N). The keys are modulo 2⁶⁴.
    """
    steps, _, d, K = arms.shape
    all_arms, all_means = borrow(arms), borrow(means)
    z, scale = np.empty(K), np.empty(K)
    for s in range(steps):
        t = first + s
        for i in range(begin, end):
            x = all_arms[s, i]
            normals(arms_key, t, i, 0, x.reshape(d * K))
            for k in range(K):
                scale[k] = 0.0
            for j in range(d):
                for k in range(K):
                    scale[k] += x[j, k] * x[j, k]
            for k in range(K):
                scale[k] = 1.0 / math.sqrt(scale[k])
            for j in range(d):
                for k in range(K):
                    x[j, k] *= scale[k]
            predictions(x, theta, z)
            call_derivatives(functions[DERIVATIVES], z, all_means[s, i], scale, functions, 0)
            noise[s, i] = uniforms(noise_key, t, i, 0, 0)[0]


@kernel
def longest_arm(arms: FloatArray) -> float:
    """Return the largest ‖x‖² of arms (·, d, K); infinity where a number is not finite."""
    rows, d, K = arms.shape
    squares, longest = np.zeros(K), np.zeros(K)
    for r in range(rows):
        for k in range(K):
            squares[k] = 0.0
        for j in range(d):
            for k in range(K):
                squares[k] += arms[r, j, k] * arms[r, j, k]
        for k in range(K):
            # NaN counts as infinite
            square = squares[k] if squares[k] <= 2.0 else math.inf
            longest[k] = max(longest[k], square)
    most = 0.0
    for k in range(K):
        most = max(most, longest[k])
    return most
