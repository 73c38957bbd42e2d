"""The loop of the compiled engine: many interactions of many clients in one call.

`fedglb.simulation.compiled` fills the arrays and calls `play`; parts and links are called by
address (`fedglb.kernels.pointers`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, INVERSE, LOG_GAIN
from fedglb.kernels.pointers import borrow, call3, call_radius, call_step
from fedglb.kernels.scoring import choose
from fedglb.typing import BoolArray, FloatArray, IntArray

#: Why `play` returned: all is played; a client asks for a global update; a radius is not finite;
#: a client's step failed.
DONE, ASKS, BAD_RADIUS, BAD_STEP = range(4)


class BlockArrays(NamedTuple):
    """A block of s steps of an environment with N clients and K arms, laid out for `play`.

    Attributes
    ----------
    first
        The number t of the first step.
    arms
        Shape (s, N, d, K).
    means
        The arms' mean rewards, shape (s, N, K).
    best
        The largest mean, shape (s, N).
    uniforms
        What rewards are drawn from, shape (s, N); empty where `rewards` are given.
    rewards
        The arms' rewards, shape (s, N, K); empty where `uniforms` are given.
    active
        Who acts, shape (s, N); empty where everybody does.
    """

    first: int
    arms: FloatArray
    means: FloatArray
    best: FloatArray
    uniforms: FloatArray
    rewards: FloatArray
    active: BoolArray


class KernelParams(NamedTuple):
    """How clients choose and learn: addresses of machine code, and the numbers that it needs.

    Attributes
    ----------
    step, radius, sample
        Addresses of the local update's `step`, the confidence's `formula` and the link's sampler.
    functions
        Addresses of the link's functions, at the places of `layout`.
    step_constants, radius_constants
        The constants of `step` and `radius`.
    noise
        R, for the sampler.
    scale
        What multiplies the radius: `exploration`, or 1.
    level
        The trigger's level, from which on a client asks for a global update.
    """

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
    """States and samples of all L learners: L = N, or 1 where one learner plays for all clients.

    Attributes
    ----------
    vectors, matrices, counters
        The states, shapes (L, ·, d), (L, ·, d, d) and (L, ·).
    X, y
        Room for samples, shapes (L, ·, d) and (L, ·).
    counts
        How many rows of X and y are samples, shape (L,).
    """

    vectors: FloatArray
    matrices: FloatArray
    counters: FloatArray
    X: FloatArray
    y: FloatArray
    counts: IntArray


class Log(NamedTuple):
    """What has happened so far in a run of T steps.

    Attributes
    ----------
    choices
        The arms played, shape (T, N).
    regret, reward, interactions
        Their sums up to the end of each step, shape (T,).
    totals
        Regret, reward and interactions up to now, shape (3,).
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
    """Play from client `client` of step `step` to the end of step `stop` − 1 of a block.

    Parameters
    ----------
    block, params
        What is offered, and how clients choose and learn.
    learners, log
        Changed in place.
    radius_terms, t_last
        Those of the last shared model; empty and 0 before the first.
    step, client, stop
        Where to begin and to end; steps are counted from 0 within the block.

    Returns
    -------
    tuple of int
        Step, client, and why it ended there: DONE, ASKS, BAD_RADIUS or BAD_STEP. A client that
        asks for a global update has learned from its own sample already.
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
    """Learn from the rows of X and y from `first` on, one by one, by the kernel at address `step`.

    Returns 0, or the number n of the sample (counted from 1) whose step failed.
    """
    for n in range(first, X.shape[0]):
        if call_step(
            step, vectors, matrices, counters, X[: n + 1], y[: n + 1], functions, constants
        ):
            return n + 1
    return 0
