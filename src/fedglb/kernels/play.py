"""The block loop of the compiled engine: many interactions of many clients in one call."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, LOG_GAIN
from fedglb.kernels.pointers import borrow, call3, call_radius, call_step
from fedglb.kernels.scoring import choose
from fedglb.typing import BoolArray, FloatArray, IntArray

#: Why the loop came back: all is played; a client asks for a global update; the radius is not
#: finite; a client's step failed.
DONE, ASKS, BAD_RADIUS, BAD_STEP = range(4)


class BlockArrays(NamedTuple):
    """What s steps offer to N clients; of uniforms and rewards, and of active, one may be empty.

    `arms` is (s, N, d, K), `means` (s, N, K), `best` the largest mean (s, N), `uniforms` (s, N),
    `rewards` (s, N, K), `active` (s, N).
    """

    first: int
    arms: FloatArray
    means: FloatArray
    best: FloatArray
    uniforms: FloatArray
    rewards: FloatArray
    active: BoolArray


class KernelParams(NamedTuple):
    """How clients choose and learn: addresses of machine code, and the numbers they need."""

    step: int
    radius: int
    sample: int
    functions: IntArray
    step_constants: FloatArray
    radius_constants: FloatArray
    noise: float
    scale: float
    level: float


class LearnerArrays(NamedTuple):
    """States and samples of all learners, one behind the other: N of them, or one for all.

    `vectors` is (L, ·, d), `matrices` (L, ·, d, d), `counters` (L, ·), `X` (L, ·, d), `y` (L, ·),
    `counts` (L,): how many rows of X and y are samples.
    """

    vectors: FloatArray
    matrices: FloatArray
    counters: FloatArray
    X: FloatArray
    y: FloatArray
    counts: IntArray


class Log(NamedTuple):
    """What happened: arms played (T, N), cumulative regret and reward at the end of steps (T,).

    `totals` are regret, reward and interactions so far.
    """

    choices: IntArray
    regret: FloatArray
    reward: FloatArray
    interactions: IntArray
    totals: FloatArray


@kernel
def play(
    block: BlockArrays,
    params: KernelParams,
    learners: LearnerArrays,
    log: Log,
    radius_terms: FloatArray,
    t_last: int,
    step: int,
    client: int,
    stop: int,
) -> tuple[int, int, int]:
    """Go on at `client` of `step`, up to the end of step `stop` − 1; return step, client, why.

    `radius_terms` and `t_last` are the last shared model's. Where a client asks for an update, its
    own sample is taken in already.
    """
    N, K = block.arms.shape[1], block.arms.shape[3]
    one_for_all = learners.counts.shape[0] == 1
    all_vectors, all_matrices = borrow(learners.vectors), borrow(learners.matrices)
    all_counters, all_arms = borrow(learners.counters), borrow(block.arms)
    X, y = borrow(learners.X), borrow(learners.y)
    scores, widths = np.empty(K), np.empty(K)
    for s in range(step, stop):
        t = block.first + s
        for i in range(client, N):
            if block.active.size > 0 and not block.active[s, i]:
                continue
            k = 0 if one_for_all else i
            vectors, matrices, counters = all_vectors[k], all_matrices[k], all_counters[k]
            radius = call_radius(
                params.radius, vectors, counters, radius_terms, params.radius_constants
            )
            if not math.isfinite(radius):
                return s, i, BAD_RADIUS
            arms = all_arms[s, i]
            alpha = radius * params.scale
            arm = choose(arms, vectors[CENTRE], matrices[INVERSE], alpha, scores, widths)
            mean = block.means[s, i, arm]
            if block.rewards.size > 0:
                reward = block.rewards[s, i, arm]
            else:
                reward = call3(params.sample, mean, block.uniforms[s, i], params.noise)
            n = learners.counts[k]
            for j in range(arms.shape[0]):
                X[k, n, j] = arms[j, arm]
            y[k, n] = reward
            learners.counts[k] = n + 1
            log.choices[t - 1, i] = arm
            log.totals[0] += block.best[s, i] - mean
            log.totals[1] += reward
            log.totals[2] += 1.0
            status = call_step(
                params.step, vectors, matrices, counters,
                X[k, : n + 1], y[k, : n + 1], params.functions, params.step_constants,
            )  # fmt: skip
            if status != 0:
                return s, i, BAD_STEP
            if (t - t_last) * counters[LOG_GAIN] >= params.level:
                return s, i, ASKS
        client = 0
        log.regret[t - 1] = log.totals[0]
        log.reward[t - 1] = log.totals[1]
        log.interactions[t - 1] = int(log.totals[2])
    return stop, 0, DONE


@kernel
def replay(
    step: int,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    first: int,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Take in the rows of X, y from `first` on with the step at this address, one by one.

    Returns 0, or the number of samples at which a step failed.
    """
    for n in range(first, X.shape[0]):
        if call_step(
            step, vectors, matrices, counters, X[: n + 1], y[: n + 1], functions, constants
        ):
            return n + 1
    return 0
