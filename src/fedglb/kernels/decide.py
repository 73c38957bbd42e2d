"""One decision: from a client's state and the arms on offer to the arm that is played.

Both engines and the agents call `decide`. It bounds the arms by the confidence set, scores them by
the choice rule (`fedglb.parts.choice`), takes the largest score (one of equal ones at random), or
the largest bound if the bank cannot pay for that arm, explores at random, and computes the
probability of the arm that is played.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.effects import shift_arms
from fedglb.kernels.layout import CENTRE, HIGH, INVERSE, LOW, SCORES, UPPER, WIDTHS
from fedglb.kernels.philox import uniforms
from fedglb.kernels.pointers import borrow, call_bounds, call_index
from fedglb.kernels.scoring import TIE, arm_bounds, pick, tie_level
from fedglb.typing import FloatArray

#: Places in the outcome of a decision: the probability of the arm, its standard error, and what the
#: arm takes from the bank.
PROBABILITY, ERROR, CHARGE = range(3)
#: Draws of one decision: the one that is played; 1, 2, … are those that estimate its probability.
PLAYED = 0
#: The draw of uniform exploration: the last one, so that it is never one of those.
EXPLORATION = 2**32 - 1
#: The block of a draw that breaks its ties: the last one, so that no rule's numbers are in it.
TIES = 2**32 - 1


class ChoiceParams(NamedTuple):
    """How arms are chosen: addresses of machine code, and the numbers that it needs."""

    #: Address of the confidence's `bounds`; 0: the bounds of an ellipsoid.
    bounds: int
    #: Address of the rule's scores; 0: the scores are the upper bounds.
    index: int  # type: ignore[assignment]  # a tuple's method has this name too
    index_constants: FloatArray
    radius_constants: FloatArray  # of `bounds`
    with_bounds: bool
    with_interval: bool  # whether certified intervals are needed
    #: The bank's C, and its G: infinity if there is no bank.
    factor: float
    credit: float
    first_of_ties: bool  # of equal scores the first is played, and not one at random
    epsilon: float  # the probability of an arm drawn uniformly
    #: −1 where `index` is not random; else how many further draws estimate the probability of the
    #: arm that is played (0: it is not estimated).
    draws: int
    key: int  # the seed of the stream (`fedglb.kernels.philox`), modulo 2⁶⁴


@inlined_kernel
def bounds_around(
    arms: FloatArray,
    centre: FloatArray,
    A_inv: FloatArray,
    alpha: float,
    with_interval: int,
    work: FloatArray,
) -> None:
    """Write the bounds xᵀcentre ± α‖x‖_{A⁻¹} of every arm x to `work`."""
    upper, widths = work[UPPER], work[WIDTHS]
    arm_bounds(arms, centre, A_inv, alpha, work, upper)
    if with_interval != 0:
        for k in range(arms.shape[1]):
            work[HIGH, k] = upper[k]
            work[LOW, k] = upper[k] - 2.0 * alpha * math.sqrt(max(widths[k], 0.0))


@kernel
def ellipsoid_bounds(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    radius_terms: FloatArray,
    constants: FloatArray,
    alpha: float,
    with_interval: int,
    work: FloatArray,
) -> int:
    """The bounds of the ellipsoid around the state's centre: the paper's Eq. (5)."""
    bounds_around(arms, vectors[CENTRE], matrices[INVERSE], alpha, with_interval, work)
    return 0


@inlined_kernel
def charge_for(arm: int, work: FloatArray, factor: float) -> float:
    """Return g − C·w of an arm: g = max high − low, w = high − low."""
    low, high = work[LOW], work[HIGH]
    largest = high[0]
    for k in range(1, high.shape[0]):
        largest = max(largest, high[k])
    return float(largest - low[arm] - factor * (high[arm] - low[arm]))


@inlined_kernel
def can_pay(
    balance: float, params: ChoiceParams, work: FloatArray, row: int, won: int, level: float
) -> bool:
    """Return whether the bank can pay for `won`, and for all arms that reach `level` with it.

    `TIE` is for rounding.
    """
    for k in range(work.shape[1]):
        reaches = k == won or work[row, k] >= level
        if reaches and balance + charge_for(k, work, params.factor) > params.credit + TIE:
            return False
    return True


@inlined_kernel
def keep_optimists(work: FloatArray) -> None:
    """Set the upper bounds of all arms to −∞ but of those of the largest `high`, where g = w."""
    level = tie_level(work[HIGH])
    for k in range(work.shape[1]):
        if work[HIGH, k] < level:
            work[UPPER, k] = -np.inf


@inlined_kernel
def winner(
    scores: FloatArray, params: ChoiceParams, number: int, client: int, draw: int
) -> tuple[int, int, float]:
    """Return an arm of the largest score, how many may be drawn, and the score that they reach.

    −1: a score is not finite.
    """
    level, tied = tie_level(scores), 0
    for k in range(scores.shape[0]):
        tied += 1 if scores[k] >= level else 0
    if params.first_of_ties or tied < 2:
        return pick(scores, level, 0), 1, np.inf
    share, _ = uniforms(params.key, number, client, draw, TIES)
    return pick(scores, level, int(share * tied)), tied, level


@inlined_kernel
def score_arms(
    arms: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    params: ChoiceParams,
    t: int,
    number: int,
    client: int,
    draw: int,
    work: FloatArray,
    factor: FloatArray,
) -> int:
    """Return the row of `work` with the scores of a draw; −1: they are not valid."""
    if params.index == 0:
        return UPPER
    status = call_index(
        params.index, arms, vectors, matrices, work, factor, borrow(params.index_constants),
        t, params.key, number, client, draw,
    )  # fmt: skip
    return SCORES if status == 0 else -1


@inlined_kernel
def decide(
    arms: FloatArray,
    names: FloatArray,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    radius_terms: FloatArray,
    params: ChoiceParams,
    alpha: float,
    t: int,
    number: int,
    client: int,
    balance: float,
    work: FloatArray,
    factor: FloatArray,
    outcome: FloatArray,
) -> int:
    """Return the arm to play, and write the probability with which it is played.

    Returns −1 if a score is not finite.

    `arms` is (d, K), and `names` (K,) their names, empty where arms have no effects. `alpha` is the
    radius with `exploration` in it, t counts from 1, `number` and `client` are the place in the
    stream of random numbers, `balance` is the sum of the charges of the arms played so far. `work`
    (`layout.work_rows`, K) and `factor` (d, d) are scratch: at the end `work` has the bounds, if
    the rule needs them, and the scores of the last draw, but for the returned arm that of the draw
    that was played. `outcome` (3,) gets the probability of the returned arm, given the state and
    the arms, and its standard error (0 where it is exact; both NaN where it is not estimated), and
    its charge to the bank: none if it was drawn uniformly.
    """
    if names.size > 0:
        shift_arms(arms, names, counters, work)
    if params.with_bounds and params.bounds == 0:
        centre, A_inv = vectors[CENTRE], matrices[INVERSE]
        bounds_around(arms, centre, A_inv, alpha, int(params.with_interval), work)
    elif params.with_bounds:
        call_bounds(
            params.bounds, arms, vectors, matrices, counters, radius_terms,
            borrow(params.radius_constants), alpha, int(params.with_interval), work,
        )  # fmt: skip
    arm, wins, score, probability, error = 0, 0, 0.0, 0.0, 0.0
    for draw in range(PLAYED, max(params.draws, 0) + 1):
        row = score_arms(arms, vectors, matrices, params, t, number, client, draw, work, factor)
        if row < 0:
            return -1
        won, tied, level = winner(work[row], params, number, client, draw)
        if won < 0:
            return won
        stopped = params.credit < np.inf and not can_pay(balance, params, work, row, won, level)
        if stopped:
            keep_optimists(work)
            row = UPPER
            won, tied, level = winner(work[row], params, number, client, draw)
        if draw == PLAYED:
            arm, outcome[CHARGE] = won, 0.0
            if params.credit < np.inf:
                outcome[CHARGE] = charge_for(arm, work, params.factor)
            if stopped:
                outcome[CHARGE] = min(outcome[CHARGE], 0.0)  # but for rounding
            if params.epsilon > 0.0:
                whether, which = uniforms(params.key, number, client, EXPLORATION, 0)
                if whether < params.epsilon:
                    arm, outcome[CHARGE] = int(which * arms.shape[1]), 0.0
            score = work[SCORES, arm]
            if arm == won or work[row, arm] >= level:
                probability = 1.0 / tied
        wins += 1 if won == arm else 0
    if params.draws == 0:
        probability, error = np.nan, np.nan
    elif params.draws > 0:
        # The first draw counts too: without exploration p̂ > 0, and E[1{arm = a}/p̂] is
        # 1 − (1 − p)^(m + 1), almost 1.
        work[SCORES, arm] = score
        probability = wins / (params.draws + 1)
        error = math.sqrt(probability * (1.0 - probability) / (params.draws + 1))
    outcome[PROBABILITY] = params.epsilon / arms.shape[1] + (1.0 - params.epsilon) * probability
    outcome[ERROR] = (1.0 - params.epsilon) * error
    return arm
