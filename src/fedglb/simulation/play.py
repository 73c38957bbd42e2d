"""The loop of the compiled engine: many interactions of many clients in one call.

`fedglb.simulation.compiled` fills the arrays and calls `play`; parts and links are called by
address (`fedglb.kernels.pointers`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.kernels.decide import CHARGE, ERROR, PROBABILITY, ChoiceParams, decide
from fedglb.kernels.layout import LOG_GAIN, NAME, UPDATES
from fedglb.kernels.pointers import borrow, call3, call_fires, call_radius, call_step
from fedglb.parts.trigger import FEW
from fedglb.typing import BoolArray, FloatArray, IntArray

#: Why `play` returned: all is played; a client requests a global update; a radius is not finite; a
#: client's step failed; a score is not finite.
DONE, ASKS, BAD_RADIUS, BAD_STEP, BAD_SCORES = range(5)


class BlockArrays(NamedTuple):
    """A block of s steps of an environment with N clients and K arms, laid out for `play`."""

    first: int  # the number t of the first step
    arms: FloatArray  # (s, N, d, K)
    means: FloatArray  # the arms' mean rewards, (s, N, K)
    uniforms: FloatArray  # for drawing rewards, (s, N); empty with `rewards`
    rewards: FloatArray  # of all arms, (s, N, K); empty with `uniforms`
    active: BoolArray  # clients that act, (s, N); empty: all
    delays: IntArray  # of rewards, in steps, (s, N)
    ids: IntArray  # of arms, (s, N, K); empty: they have none
    weights: FloatArray  # of interactions, (s, N); empty: 1
    benchmark: FloatArray  # what regret compares with, (s, N); empty: the highest mean on offer


class KernelParams(NamedTuple):
    """Clients' choices and learning: addresses of machine code, and its parameters."""

    step: int  # address of the local update's `step`
    radius: int  # address of the confidence's `formula`
    sample: int  # address of the link's sampler
    choice: ChoiceParams  # the choice rule, with the constants of `radius`
    functions: IntArray  # addresses of the link's functions, at the places of `layout`
    step_constants: FloatArray
    noise: float  # R, for the sampler
    scale: float  # multiplies the radius: `exploration`, or 1
    level: float  # the trigger's level: from it on a client requests an update
    max_gain: float  # the gain from which on it does so, whatever the clock
    own_samples: bool  # whether the trigger counts own samples since the last model, not steps
    share: float  # so many own samples since the last model, per one before it, are enough
    clocked: bool  # whether it counts anything: else the gain alone is compared with the level
    fires: int  # address of a user's trigger, in place of all these; 0: none
    fires_constants: FloatArray


class LearnerArrays(NamedTuple):
    """States and samples of all L learners: L = N, or 1 if centralised."""

    vectors: FloatArray  # (L, ·, d)
    matrices: FloatArray  # (L, ·, d, d)
    counters: FloatArray  # (L, ·)
    X: FloatArray  # room for samples, (L, ·, d), or (L, ·, d + 1) with the arms' names
    y: FloatArray  # (L, ·)
    counts: IntArray  # number of samples in X and y, (L,)
    last: IntArray  # step of each learner's last reward, (L,)
    banks: FloatArray  # the sum of its charges so far (`kernels.decide`), (L,)
    at: FloatArray  # the step in which each sample was learned, (L, ·)


class Pending(NamedTuple):
    """Choices of the N clients without their rewards yet, by step modulo M.

    M − 1 is the longest delay: when a place is used again, its reward has come. M = 0 without
    delays.
    """

    X: FloatArray  # the arms that were played, (N, M, d)
    y: FloatArray  # their rewards, (N, M)
    due: IntArray  # the steps in which the rewards become known, (N, M)


class Log(NamedTuple):
    """The log of a run of T steps so far."""

    choices: IntArray  # the arms played, (T, N)
    regret: FloatArray  # summed up to the end of each step, (T,); so are the next two
    reward: FloatArray
    interactions: IntArray
    totals: FloatArray  # regret, reward and interactions up to now, (3,)
    last_drawn: IntArray  # the last step with a choice that was random, (1,)
    #: Of the arms played, with standard errors, (T, N, 2): zeros where a choice was sure.
    propensities: FloatArray


class Scratch(NamedTuple):
    """Room for one decision (`kernels.decide`), which the caller of `play` keeps alive."""

    work: FloatArray  # (`work_rows`, K)
    factor: FloatArray  # (d, d)
    outcome: FloatArray  # (3,)


@kernel
def play(
    block: BlockArrays,
    params: KernelParams,
    learners: LearnerArrays,
    pending: Pending,
    log: Log,
    scratch: Scratch,
    radius_terms: FloatArray,
    t_last: IntArray,
    names: FloatArray,
    step: int,
    client: int,
    stop: int,
) -> tuple[int, int, int]:
    """Play from client `client` of step `step` to the end of step `stop` − 1 of a block.

    Steps are counted from 0 within the block. `radius_terms` are the clients' terms from the last
    shared model for their sets, `t_last` (L,) its step, 0 before a learner's first; `names`
    (s, N, K) are the arms' names, empty where arms have no effects. Returns step, client, and why
    it ended there: DONE, ASKS, BAD_RADIUS, BAD_STEP or BAD_SCORES. A client that requests a global
    update has already learned from its own samples.
    """
    N = block.arms.shape[1]
    places = pending.due.shape[1]
    one_for_all = learners.counts.shape[0] == 1
    all_vectors, all_matrices = borrow(learners.vectors), borrow(learners.matrices)
    all_counters, all_arms = borrow(learners.counters), borrow(block.arms)
    X, y, all_means = borrow(learners.X), borrow(learners.y), borrow(block.means)
    named, no_names, all_names = names.size > 0, np.empty(0), borrow(names)
    weighted, compared = block.weights.size > 0, block.benchmark.size > 0
    work, factor = borrow(scratch.work), borrow(scratch.factor)
    outcome, terms = borrow(scratch.outcome), borrow(radius_terms)
    for s in range(step, stop):
        t = block.first + s
        for i in range(client, N):
            acts = block.active.size == 0 or block.active[s, i]
            if not acts and places == 0:
                continue
            k = 0 if one_for_all else i
            vectors, matrices, counters = all_vectors[k], all_matrices[k], all_counters[k]
            n = first = learners.counts[k]
            if acts:
                radius = call_radius(
                    params.radius, vectors, counters, radius_terms, params.choice.radius_constants
                )
                if not math.isfinite(radius):
                    return s, i, BAD_RADIUS
                arms = all_arms[s, i]
                own_names = all_names[s, i] if named else no_names
                arm = decide(
                    arms, own_names, vectors, matrices, counters, terms, params.choice,
                    radius * params.scale, t, t, i, learners.banks[k], work, factor, outcome,
                )  # fmt: skip
                if arm < 0:
                    return s, i, BAD_SCORES
                means = all_means[s, i]
                mean, best = means[arm], means[0]
                for j in range(1, means.shape[0]):
                    best = max(best, means[j])
                if compared:
                    best = block.benchmark[s, i]
                if block.rewards.size > 0:
                    reward = block.rewards[s, i, arm]
                else:
                    reward = call3(params.sample, mean, block.uniforms[s, i], params.noise)
                if not math.isnan(reward):  # else it is not known: this is no interaction
                    weight = block.weights[s, i] if weighted else 1.0
                    log.choices[t - 1, i] = arm
                    learners.banks[k] += outcome[CHARGE]
                    if outcome[PROBABILITY] != 1.0:
                        log.last_drawn[0] = t
                        log.propensities[t - 1, i, 0] = outcome[PROBABILITY]
                        log.propensities[t - 1, i, 1] = outcome[ERROR]
                    log.totals[0] += weight * (best - mean)
                    log.totals[1] += weight * reward
                    log.totals[2] += 1.0
                    if places == 0:
                        for j in range(arms.shape[0]):
                            X[k, n, j] = arms[j, arm]
                        if named:
                            X[k, n, arms.shape[0]] = work[NAME, arm]
                        y[k, n] = reward
                        n += 1
                    else:
                        place = t % places
                        for j in range(arms.shape[0]):
                            pending.X[i, place, j] = arms[j, arm]
                        if named:
                            pending.X[i, place, arms.shape[0]] = work[NAME, arm]
                        pending.y[i, place] = reward
                        pending.due[i, place] = t + block.delays[s, i]
            for age in range(places - 1, -1, -1):  # rewards that become known now, oldest first
                place = (t - age) % places
                if pending.due[i, place] == t:
                    for j in range(pending.X.shape[2]):
                        X[k, n, j] = pending.X[i, place, j]
                    y[k, n] = pending.y[i, place]
                    n += 1
            for m in range(first, n):
                learners.counts[k] = m + 1
                learners.last[k] = t
                learners.at[k, m] = t
                status = call_step(
                    params.step, vectors, matrices, counters,
                    X[k, : m + 1], y[k, : m + 1], params.functions, params.step_constants,
                )  # fmt: skip
                if status != 0:
                    return s, i, BAD_STEP
            clock = 1.0
            if params.clocked:
                clock = counters[UPDATES] if params.own_samples else float(t - t_last[k])
            gain = counters[LOG_GAIN]
            recent = counters[UPDATES]
            if params.fires != 0:
                if n > first and call_fires(
                    params.fires, t, t_last[k], gain, int(recent), n, borrow(params.fires_constants)
                ):
                    return s, i, ASKS
            elif n > first and (
                clock * gain >= params.level
                or gain >= params.max_gain
                or (params.share < math.inf and recent >= FEW + params.share * (n - recent))
            ):
                return s, i, ASKS
        client = 0
        log.regret[t - 1] = log.totals[0]
        log.reward[t - 1] = log.totals[1]
        log.interactions[t - 1] = int(log.totals[2])
    return stop, 0, DONE
