"""Personal models: what a client sends, the others' model as its prior, and its posterior.

A client's θ_i is the shared θ plus δ_i ~ N(0, φT), and its effect of an arm the shared effect plus
a number of variance φτ² (docs/theory.md, section 7.13). All matrices are in units of 1/φ.
"""

from __future__ import annotations

import math

import numpy as np

from fedglb.kernels.arrows import (
    add_scaled,
    add_to,
    effect_in,
    even,
    less_own,
    own_arrow,
    product,
    spread_arrow,
    spread_rows,
    used,
)
from fedglb.kernels.compile import kernel
from fedglb.kernels.effects import (
    BUCKET_COUNT,
    COUNT,
    CROSS,
    EFFECT,
    EFFECT_RIDGE,
    PRECISION,
    ROWS,
    TABLE,
    TARGET,
    WEIGHT,
    bucket,
    find_row,
    row_of,
)
from fedglb.kernels.layout import CENTRE, INVERSE, LOG_GAIN, MATRIX, THETA, UPDATES
from fedglb.kernels.linalg import dot, invert, matvec, norm, quadratic
from fedglb.kernels.merge import Merged
from fedglb.kernels.sums import BLOCK, SCRATCH_ROWS, add_blocks, add_model_sums, mirror
from fedglb.typing import FloatArray, IntArray

#: Places in a state, behind those of `parts.local_update.anchored`. In `vectors`: where samples are
#: linearised, their gradient there, the last direction; r, the distance from the others; and θ_i
#: with the others' prior, where the client learns alone.
ANCHOR, GRADIENT, DIRECTION, RESIDUAL, UNGUARDED = 2, 3, 4, 5, 6
#: In `matrices`: T_i; R = (I + H_iT_i)⁻¹; Q⁻¹, by which the trigger measures gains; and V, the
#: covariance of r.
SPREAD, REST, SHARED, INFORMATION = 2, 3, 4, 5
#: In `counters`: the trace, whether T_i or τ_i² is not 0, τ_i² of effects, the client's choice
#: among `ALONE` for θ and for effects (0: none), and the numbers that it sends: s, f and whether it
#: learns alone, for θ and for effects; and whether its part was taken from the shared model.
TRACE, DIFFERS, WIDTH, GUARD, GUARD_EFFECTS, STATISTICS, APART = 3, 8, 9, 10, 11, 12, 18
#: The number of the numbers that it sends.
SENT = 6
#: A client linearises at most this much, and the length of the shared θ, away from it; and its
#: effects as far from the shared ones. So what it sends has a bound.
REACH = 8.0
#: A client whose own evidence for it is large enough learns alone: its prior has one of these
#: variances around 0. Its effects' τ² grows by one of them.
ALONE = (4.0, 1.0, 0.25, 0.0625)
#: What is left of a client's Hessian without effects is nothing below this share of it.
ROUNDING = 1e-10
#: Further steps in the model are shortened, as in `parts.global_update.one_exchange`.
FAR = 1.79


@kernel
def sum_at(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    anchor: FloatArray,
    functions: IntArray,
    gradient: FloatArray,
    hessian: FloatArray,
    merged: Merged,
    i: int,
    table: FloatArray,
    buckets: float,
    at_zero: float,
) -> None:
    """Add a client's derivatives at its anchor, over all rows; `weights` as in `sum_own`."""
    if weights.size == 0:
        add_model_sums(
            X, y, X.shape[0], anchor, functions, gradient, hessian, merged, i, table, buckets,
            at_zero,
        )  # fmt: skip
        return
    scratch = np.empty((SCRATCH_ROWS + anchor.shape[0], BLOCK))
    add_blocks(
        X, y, weights, anchor, functions, gradient, hessian, True, scratch, table, buckets, at_zero
    )
    mirror(hessian)


@kernel
def sum_own(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    counts: IntArray,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    functions: IntArray,
    merged: Merged,
    at_zero: float,
    theta: FloatArray,
    known: FloatArray,
    gradients: FloatArray,
    hessians: FloatArray,
    tables: FloatArray,
    anchors: FloatArray,
    own_hessians: FloatArray,
    own_gradients: FloatArray,
    own_tables: FloatArray,
    test_hessians: FloatArray,
    test_gradients: FloatArray,
    test_tables: FloatArray,
) -> None:
    """Sum each client's samples at its own model, and write what it sends, at the shared θ.

    `known` is the shared model's rows of effects. Client i's first `counts`[i] samples count, each
    with its weight, which is in y already, or 1 where there are no `weights`. Kept for the
    adoption: `anchors`, `own_hessians`, `own_gradients` and `own_tables`. A client that learns
    alone is summed at its `UNGUARDED` model, too: at its own, the quadratic that stands for its
    likelihood is lower at the others' model than the likelihood is, so that it would never come
    back.
    """
    d, none = theta.shape[0], np.empty(0)
    for i in range(counts.shape[0]):
        n, anchor, table = counts[i], anchors[i], own_tables[i]
        for j in range(d):
            anchor[j] = vectors[i, THETA, j] - theta[j]
        within = min(1.0, (REACH + norm(theta)) / max(norm(anchor), REACH))
        for j in range(d):
            anchor[j] = theta[j] + within * anchor[j]
            own_gradients[i, j] = 0.0
            for k in range(d):
                own_hessians[i, j, k] = 0.0
        state = counters[i]
        buckets = state[BUCKET_COUNT] if table.size > 0 else 1.0
        if table.size > 0:
            copy_anchors(state, anchor, True, table)
            keep_near(known, d, table)
        own_X, own_y = X[i, :n], y[i, :n]
        own_weights = weights[i, :n] if weights.size > 0 else none
        sum_at(
            own_X, own_y, own_weights, anchor, functions, own_gradients[i], own_hessians[i],
            merged, i, table, buckets, at_zero,
        )  # fmt: skip
        if state[GUARD] != 0.0 or state[GUARD_EFFECTS] != 0.0:
            test = test_tables[i]
            for j in range(d):
                test_gradients[i, j] = 0.0
                for k in range(d):
                    test_hessians[i, j, k] = 0.0
            if test.size > 0:
                copy_anchors(state, anchor, True, test)
                for row in range(int(test[COUNT])):
                    at = ROWS + row * (d + CROSS)
                    test[at + EFFECT] = effect_in(known, d, test[at])
            sum_at(
                own_X, own_y, own_weights, vectors[i, UNGUARDED], functions, test_gradients[i],
                test_hessians[i], merged, i, test, buckets, at_zero,
            )  # fmt: skip
        to_send(
            own_hessians[i], own_gradients[i], table, anchor, matrices[i, SPREAD], state[WIDTH],
            state[DIFFERS], theta, known, gradients[i],
            hessians[i], tables[i],
        )  # fmt: skip


@kernel
def keep_near(known: FloatArray, d: int, table: FloatArray) -> None:
    """Keep the effects of a table of sums within `REACH` of the shared ones."""
    largest = 0.0
    for first in range(0, known.shape[0], d + 3):
        largest = max(largest, abs(known[first + 2]))
    for row in range(int(table[COUNT])):
        at = ROWS + row * (d + CROSS)
        u = effect_in(known, d, table[at])
        away = min(max(table[at + EFFECT] - u, -REACH - largest), REACH + largest)
        table[at + EFFECT] = u + away


@kernel
def copy_anchors(state: FloatArray, theta: FloatArray, at_theta: bool, table: FloatArray) -> None:
    """Begin a table of sums: the arms of a state's table, with their effects at θ or as noted."""
    width, source = theta.shape[0] + CROSS, state[TABLE:]
    rows = int(source[COUNT])
    table[COUNT] = float(rows)
    for row in range(rows):
        at = ROWS + row * width
        for j in range(width):
            table[at + j] = 0.0
        table[at], table[at + EFFECT] = source[at], source[at + EFFECT]
        if not at_theta:
            continue
        u = source[at + TARGET]
        for j in range(theta.shape[0]):
            u -= source[at + CROSS + j] * theta[j]
        table[at + EFFECT] = u / source[at + PRECISION]


@kernel
def to_send(
    own_hessian: FloatArray,
    own_gradient: FloatArray,
    own_table: FloatArray,
    anchor: FloatArray,
    T: FloatArray,
    wider: float,
    differs: float,
    theta: FloatArray,
    known: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    table: FloatArray,
) -> None:
    """Write what a client sends: its arrow for the shared (θ, u), as gradient and Hessian there.

    Without a spread these are its sums, moved from its anchor to θ.
    """
    d, width = theta.shape[0], theta.shape[0] + CROSS
    for j in range(used(own_table, width)):
        table[j] = own_table[j]
    q = np.empty(d)
    if table.size > 0 or differs > 0.0:
        own_arrow(own_hessian, own_gradient, table, anchor, hessian, q)
        if differs > 0.0:
            rest = np.empty((d, d))
            less_own(hessian, T, rest)
            spread_arrow(hessian, q, table, T, wider, rest)
    else:
        for i in range(d):
            for j in range(d):
                hessian[i, j] = own_hessian[i, j]
        matvec(hessian, anchor, q)
        add_to(q, own_gradient, -1.0)
    matvec(hessian, theta, gradient)
    add_to(gradient, q, -1.0)
    rows = int(table[COUNT]) if table.size > 0 else 0
    for row in range(rows):
        at = ROWS + row * width
        D, b = table[at + PRECISION], table[at + CROSS : at + width]
        if D <= 0.0:
            continue
        u = effect_in(known, d, table[at])
        g = D * u + dot(b, theta) - table[at + TARGET]
        add_to(gradient, b, g / D)
        add_scaled(hessian, b, b, 1.0 / D)
        table[at + TARGET] = g
    even(hessian)


@kernel
def evidence(
    S: FloatArray,
    q: FloatArray,
    C: FloatArray,
    mean: FloatArray,
    phi: float,
    rest: FloatArray,
    r: FloatArray,
) -> float:
    """Return the log evidence of the prior N(mean, φC) for a client's S and q, up to a constant.

    (I + S C)⁻¹ is written to `rest`, and that times q − S·mean to r.
    """
    d = q.shape[0]
    a, moved = np.empty(d), np.empty(d)
    log_det = less_own(S, C, rest)
    matvec(S, mean, moved)
    for j in range(d):
        a[j] = q[j] - moved[j]
    fit = dot(q, mean) - 0.5 * dot(mean, moved)
    matvec(rest, a, r)
    matvec(C, r, moved)
    return (fit + 0.5 * dot(a, moved)) / phi - 0.5 * log_det


@kernel
def preferred(values: FloatArray, base: float, penalty: float) -> int:
    """Return which of some log evidences is the largest, from 1; 0 if their mean is not enough.

    The log of the mean evidence has to exceed `base` by more than `penalty`.
    """
    best, total = 0, 0.0
    for k in range(values.shape[0]):
        if values[k] > values[best]:
            best = k
    for k in range(values.shape[0]):
        total += math.exp(values[k] - values[best])
    gain = values[best] + math.log(total / values.shape[0]) - base
    return best + 1 if gain > penalty else 0


@kernel
def widen(mean: FloatArray, T: FloatArray, phi: float, C: FloatArray) -> None:
    """Widen a client's prior, above all along its mean, where clients have little in common.

    The clients farthest from the others are those opposite to what clients have in common: with T
    alone they would lose by it.
    """
    d = mean.shape[0]
    squared, along = dot(mean, mean), d * phi * quadratic(T, mean)
    if along <= squared * squared:
        return
    share = 1.0 - (squared * squared / along) ** 2
    add_scaled(C, mean, mean, d * share / phi)
    for i in range(d):
        for j in range(d):
            C[i, j] += share * T[i, j]


@kernel
def take_others(
    vectors: FloatArray,
    counters: FloatArray,
    P: FloatArray,
    theta: FloatArray,
    effects: FloatArray,
    takes_part: bool,
    sent_gradient: FloatArray,
    sent_hessian: FloatArray,
    sent_table: FloatArray,
    sent_at: FloatArray,
    known: FloatArray,
    S: FloatArray,
    q: FloatArray,
) -> None:
    """Write the others' model: the shared one less what this client sent; its rows to the table.

    `sent_at` and `known` are θ and effects of the model at which it was sent.
    """
    d, named = theta.shape[0], effects.shape[0] > 0
    width, table, sent_info = d + CROSS, counters[TABLE:], np.empty(d)
    for i in range(d):
        for j in range(d):
            S[i, j] = P[i, j]
    matvec(P, theta, q)
    if named:
        ridge = effects[0]
        counters[EFFECT_RIDGE], counters[BUCKET_COUNT] = ridge, effects[1]
        table[COUNT] = 0.0
        for first in range(2, effects.shape[0], d + 3):
            D, u, b = effects[first + 1], effects[first + 2], effects[first + 3 : first + 3 + d]
            at = row_of(table, width, effects[first], D)
            p = D * u + dot(b, theta)
            table[at + TARGET] = p
            for j in range(d):
                table[at + CROSS + j] = b[j]
            add_scaled(S, b, b, 1.0 / D)
            add_to(q, b, p / D)
    if takes_part:
        matvec(sent_hessian, sent_at, sent_info)
        for i in range(d):
            q[i] -= sent_info[i] - sent_gradient[i]
            for j in range(d):
                S[i, j] -= sent_hessian[i, j]
        rows = int(sent_table[COUNT]) if named else 0
        for row in range(rows):
            source = ROWS + row * width
            h, b = sent_table[source + PRECISION], sent_table[source + CROSS : source + width]
            if h <= 0.0:
                continue
            u = effect_in(known, d, sent_table[source])
            add_to(q, b, -u)
            at = find_row(table, width, bucket(sent_table[source], effects[1]))
            if at >= 0:
                table[at + PRECISION] = max(table[at + PRECISION] - h, effects[0])
                table[at + TARGET] -= h * u + dot(b, sent_at) - sent_table[source + TARGET]
                for j in range(d):
                    table[at + CROSS + j] -= b[j]
    if named:
        for row in range(int(table[COUNT])):
            at = ROWS + row * width
            D, b = table[at + PRECISION], table[at + CROSS : at + width]
            add_scaled(S, b, b, -1.0 / D)
            add_to(q, b, -table[at + TARGET] / D)
    even(S)


@kernel
def effects_evidence(
    counters: FloatArray,
    own: FloatArray,
    before: FloatArray,
    rest: FloatArray,
    info: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    phi: float,
    wider: float,
    derivative: FloatArray,
) -> float:
    """Return the log evidence of τ² = `wider` for a client's effects, up to a constant.

    The table has the others' rows, `own` the client's; `before` is T R, `rest` R and `info` T R q
    of `spread_arrow`. θ_i has `mean` and `covariance`. Twice its derivative and twice the expected
    square of that are written to `derivative`: s and f. Arms that nobody else has played say
    nothing of a difference.
    """
    d = mean.shape[0]
    width, table = d + CROSS, counters[TABLE:]
    x, y, away = np.empty(d), np.empty(d), np.empty(d)
    total = 0.0
    derivative[0] = derivative[1] = 0.0
    for row in range(int(own[COUNT])):
        source = ROWS + row * width
        h = own[source + PRECISION]
        at = find_row(table, width, bucket(own[source], counters[BUCKET_COUNT]))
        if h <= 0.0 or at < 0:
            continue
        D = table[at + PRECISION]
        if 1.001 * counters[EFFECT_RIDGE] >= D:
            continue
        for j in range(d):
            x[j] = table[at + CROSS + j] / D
        matvec(rest, x, y)
        for j in range(d):
            away[j] = own[source + CROSS + j] / h - y[j]
        error = own[source + TARGET] / h - table[at + TARGET] / D
        error += dot(x, info) - dot(away, mean)
        variance = 1.0 / h + 1.0 / D + wider + max(quadratic(before, x), 0.0)
        variance += max(quadratic(covariance, away), 0.0)
        square = error * error / (phi * variance)
        total -= 0.5 * (math.log(variance) + square)
        derivative[0] += (square - 1.0) / variance
        derivative[1] += 1.0 / (variance * variance)
    return total


@kernel
def theta_statistics(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    own_S: FloatArray,
    own_q: FloatArray,
    C: FloatArray,
    mean: FloatArray,
    phi: float,
    penalty: float,
) -> None:
    """Write r, V, s and f of samples under the prior N(mean, φC), and choose the client's guard."""
    d, r, V = mean.shape[0], vectors[RESIDUAL], matrices[INFORMATION]
    rest, alone = np.empty((d, d)), np.empty((d, d))
    zero, scratch, values = np.zeros(d), np.empty(d), np.empty(len(ALONE))
    base = evidence(own_S, own_q, C, mean, phi, rest, r)
    product(rest, own_S, V)
    even(V)
    s, f = dot(r, r) / phi, 0.0
    for i in range(d):
        s -= V[i, i]
        for j in range(d):
            f += V[i, j] * V[j, i]
    counters[GUARD] = 0.0
    if s > 0.0 and s * s > 4.0 * f:  # else no prior gains much
        for k in range(len(ALONE)):
            for i in range(d):
                for j in range(d):
                    alone[i, j] = ALONE[k] if i == j else 0.0
            values[k] = evidence(own_S, own_q, alone, zero, phi, rest, scratch)
        counters[GUARD] = float(preferred(values, base, penalty))
    counters[STATISTICS], counters[STATISTICS + 1] = s, f
    counters[STATISTICS + 2] = 1.0 if counters[GUARD] != 0.0 else 0.0
    matvec(C, r, vectors[UNGUARDED])
    add_to(vectors[UNGUARDED], mean, 1.0)


@kernel
def effects_statistics(
    counters: FloatArray,
    own: FloatArray,
    before: FloatArray,
    rest: FloatArray,
    info: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    phi: float,
    wider: float,
    penalty: float,
) -> None:
    """Write s and f of a client's effects, and choose their guard."""
    found, values = counters[STATISTICS + 3 : STATISTICS + 5], np.empty(len(ALONE))
    base = effects_evidence(
        counters, own, before, rest, info, mean, covariance, phi, wider, found
    )  # fmt: skip
    counters[GUARD_EFFECTS] = 0.0
    if found[0] > 0.0 and found[0] * found[0] > 4.0 * found[1]:
        for k in range(len(ALONE)):
            values[k] = effects_evidence(
                counters, own, before, rest, info, mean, covariance, phi, wider + ALONE[k],
                np.empty(2),
            )  # fmt: skip
        counters[GUARD_EFFECTS] = float(preferred(values, base, penalty))
    counters[STATISTICS + 5] = 1.0 if counters[GUARD_EFFECTS] != 0.0 else 0.0


@kernel
def take_prior(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    P: FloatArray,
    theta: FloatArray,
    effects: FloatArray,
    T: FloatArray,
    gain: FloatArray,
    numbers: FloatArray,
    takes_part: bool,
    sent_gradient: FloatArray,
    sent_hessian: FloatArray,
    sent_table: FloatArray,
    sent_at: FloatArray,
    known: FloatArray,
    anchor: FloatArray,
    own_hessian: FloatArray,
    own_gradient: FloatArray,
    own_table: FloatArray,
    test_hessian: FloatArray,
    test_gradient: FloatArray,
    test_table: FloatArray,
) -> None:
    """Replace a state by its prior: the others' model (P, θ, effects), spread by T and τ².

    `numbers` are τ² of effects, whether s and f count (1) or the model is that of a shortened step
    (0), φ, and what learning alone has to gain in log evidence; `gain` is Q⁻¹. What the client sent
    is left out of the shared model. Its own samples say by s and f how far T and τ² are from the
    truth, and whether it learns alone: those at `UNGUARDED`, if it has done so.
    """
    d, named = theta.shape[0], effects.shape[0] > 0
    wider, counts, phi = numbers[0], numbers[1] > 0.0 and takes_part, numbers[2]
    penalty = numbers[3]
    S, q, C, own_S = np.empty((d, d)), np.empty(d), np.empty((d, d)), np.empty((d, d))
    mean, own_q, rest = np.empty(d), np.empty(d), np.empty((d, d))
    width, table = d + CROSS, counters[TABLE:]
    take_others(
        vectors, counters, P, theta, effects, takes_part, sent_gradient, sent_hessian, sent_table,
        sent_at, known, S, q,
    )  # fmt: skip
    if not invert(S, C):  # the coordinator has other sums of this client
        counts = False
        take_others(
            vectors, counters, P, theta, effects, False, sent_gradient, sent_hessian, sent_table,
            sent_at, known, S, q,
        )  # fmt: skip
        invert(S, C)
    matvec(C, q, mean)
    guarded = counters[GUARD] != 0.0 or counters[GUARD_EFFECTS] != 0.0
    said = test_table if guarded else own_table
    own = np.empty(used(said, width))
    for j in range(own.shape[0]):
        own[j] = said[j]
    widened = matrices[SPREAD]
    for i in range(d):
        for j in range(d):
            widened[i, j] = T[i, j]
            C[i, j] += T[i, j]
    for k in range(SENT):
        counters[STATISTICS + k] = 0.0
    V = matrices[INFORMATION]
    for i in range(d):
        vectors[RESIDUAL, i] = 0.0
        for j in range(d):
            V[i, j] = 0.0
    if counts:
        if guarded:
            own_arrow(test_hessian, test_gradient, own, vectors[UNGUARDED], own_S, own_q)
        else:
            own_arrow(own_hessian, own_gradient, own, anchor, own_S, own_q)
        every, left = 0.0, 0.0
        for j in range(d):
            every += test_hessian[j, j] if guarded else own_hessian[j, j]
            left += own_S[j, j]
        if left <= ROUNDING * every:  # all samples are explained by their arms' effects
            for i in range(d):
                own_q[i] = 0.0
                for j in range(d):
                    own_S[i, j] = 0.0
        theta_statistics(vectors, matrices, counters, own_S, own_q, C, mean, phi, penalty)
    guard = int(counters[GUARD])
    if guard != 0:
        for j in range(d):
            widened[j, j] += ALONE[0]
            C[j, j] += ALONE[0]
    differs = guard != 0
    for i in range(d):
        for j in range(d):
            differs = differs or T[i, j] != 0.0
    if differs and guard == 0:
        widen(mean, T, phi, C)
    # the prior of θ_i
    precision, info = matrices[MATRIX], np.zeros(d)
    if differs:
        less_own(S, widened, rest)
        before = np.empty((d, d))
        product(widened, rest, before)
        even(before)
        w = np.empty(d)
        matvec(rest, q, w)
        matvec(widened, w, info)
        invert(C, precision)
    else:
        before = np.zeros((d, d))
        for i in range(d):
            for j in range(d):
                precision[i, j] = S[i, j]
                rest[i, j] = 1.0 if i == j else 0.0
    if guard != 0:
        for i in range(d):
            mean[i] = 0.0
            for j in range(d):
                precision[i, j] = 1.0 / ALONE[guard - 1] if i == j else 0.0
    if named:
        if counts:
            after, covariance = np.empty((d, d)), np.empty((d, d))
            after_mean, after_info = np.empty(d), np.empty(d)
            matvec(precision, mean, after_info)
            for i in range(d):
                after_info[i] += own_q[i]
                for j in range(d):
                    after[i, j] = precision[i, j] + own_S[i, j]
            invert(after, covariance)
            matvec(covariance, after_info, after_mean)
            effects_statistics(
                counters, own, before, rest, info, after_mean, covariance, phi, wider, penalty
            )
        if counters[GUARD_EFFECTS] > 0.0:
            wider += ALONE[int(counters[GUARD_EFFECTS]) - 1]
        if differs or wider > 0.0:
            spread_rows(table, rest, before, info, wider)
            counters[EFFECT_RIDGE] = 1.0 / (1.0 / counters[EFFECT_RIDGE] + wider)
        for row in range(int(own_table[COUNT]) if takes_part else 0):
            source = ROWS + row * width
            if own_table[source + PRECISION] > 0.0:
                key = bucket(own_table[source], counters[BUCKET_COUNT])
                at = row_of(table, width, key, counters[EFFECT_RIDGE])
                table[at + EFFECT] = own_table[source + EFFECT]
    counters[WIDTH] = wider
    counters[DIFFERS] = 1.0 if differs or wider > 0.0 else 0.0
    counters[APART] = 1.0 if takes_part else 0.0
    for i in range(d):
        vectors[ANCHOR, i] = anchor[i] if takes_part else vectors[THETA, i]
        vectors[THETA, i] = mean[i]
        for j in range(d):
            matrices[SHARED, i, j] = gain[i, j]


@kernel
def with_own(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    own_hessian: FloatArray,
    own_gradient: FloatArray,
    own_table: FloatArray,
    n: int,
    concordance: float,
) -> None:
    """Turn the prior of `take_prior` into the posterior, with a client's sums at its anchor.

    A long step from there is shortened, as the coordinator's are. From now on samples are
    linearised at the posterior's mean.
    """
    d = vectors.shape[1]
    width, named = d + CROSS, own_table.shape[0] > 0
    S, q = matrices[MATRIX], np.empty(d)
    theta, anchor, table = vectors[THETA], vectors[ANCHOR], counters[TABLE:]
    own_S, own_q = np.zeros((d, d)), np.zeros(d)
    own = np.empty(used(own_table, width))
    for j in range(own.shape[0]):
        own[j] = own_table[j]
    matvec(S, theta, q)
    if n > 0:
        own_arrow(own_hessian, own_gradient, own, anchor, own_S, own_q)
    if counters[DIFFERS] > 0.0:
        less_own(own_S, matrices[SPREAD], matrices[REST])
    for i in range(d):
        q[i] += own_q[i]
        for j in range(d):
            S[i, j] += own_S[i, j]
    if named and n > 0:
        for row in range(int(own[COUNT])):
            source = ROWS + row * width
            h = own[source + PRECISION]
            if h <= 0.0:
                continue
            at = find_row(table, width, bucket(own[source], counters[BUCKET_COUNT]))
            if at < 0:
                continue
            D, p = table[at + PRECISION], table[at + TARGET]
            # what an arm's two rows say of θ_i together: their difference
            difference, weight = own[source + TARGET] / h - p / D, h * D / (h + D)
            away = own[source + CROSS : source + width]
            for j in range(d):
                x = table[at + CROSS + j]
                table[at + CROSS + j] = x + away[j]
                away[j] = away[j] / h - x / D
            add_scaled(S, away, away, weight)
            add_to(q, away, weight * difference)
            table[at + PRECISION], table[at + TARGET] = D + h, p + own[source + TARGET]
    even(S)
    invert(S, matrices[INVERSE])
    matvec(matrices[INVERSE], q, theta)
    if n > 0:
        shorten(vectors, counters, own_table, concordance)
    weight = 0.0
    if named:
        for row in range(int(table[COUNT])):
            at = ROWS + row * width
            D, b = table[at + PRECISION], table[at + CROSS : at + width]
            weight += max(D - counters[EFFECT_RIDGE], 0.0)
            table[at + EFFECT] = (table[at + TARGET] - dot(b, theta)) / D
        counters[WEIGHT] = weight
    for j in range(d):
        vectors[CENTRE, j] = anchor[j] = theta[j]
        vectors[GRADIENT, j] = vectors[DIRECTION, j] = 0.0
    counters[TRACE] = counters[LOG_GAIN] = counters[UPDATES] = 0.0


@kernel
def complete(
    X: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    covered: int,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    functions: IntArray,
    merged: Merged,
    at_zero: float,
    hessian: FloatArray,
    gradient: FloatArray,
    table: FloatArray,
    at_hand: bool,
    concordance: float,
) -> None:
    """Do as `with_own` does with a client's first samples; sum them, if not `at_hand`."""
    covered = covered if counters[APART] > 0.0 else 0
    if covered > 0 and not at_hand:
        anchor, buckets = vectors[ANCHOR], 1.0
        for j in range(anchor.shape[0]):
            gradient[j] = 0.0
            for k in range(anchor.shape[0]):
                hessian[j, k] = 0.0
        if table.shape[0] > 0:
            buckets = counters[BUCKET_COUNT]
            copy_anchors(counters, anchor, False, table)
        sum_at(
            X[:covered], y[:covered], weights, anchor, functions, gradient, hessian, merged, 0,
            table, buckets, at_zero,
        )  # fmt: skip
    with_own(vectors, matrices, counters, hessian, gradient, table, covered, concordance)


@kernel
def shorten(
    vectors: FloatArray, counters: FloatArray, own_table: FloatArray, concordance: float
) -> None:
    """Take only part of a long step of θ_i and its effects, as for the shared model."""
    d = vectors.shape[1]
    width, table, theta, anchor = d + CROSS, counters[TABLE:], vectors[THETA], vectors[ANCHOR]
    moved, most = np.empty(d), 0.0
    for j in range(d):
        moved[j] = theta[j] - anchor[j]
    rows = int(own_table[COUNT]) if own_table.shape[0] > 0 else 0
    for row in range(rows):
        source = ROWS + row * width
        at = find_row(table, width, bucket(own_table[source], counters[BUCKET_COUNT]))
        if own_table[source + PRECISION] > 0.0 and at >= 0:
            b = table[at + CROSS : at + width]
            u = (table[at + TARGET] - dot(b, theta)) / table[at + PRECISION]
            most = max(most, abs(u - own_table[source + EFFECT]))
    drift = concordance * (norm(moved) + most)
    if drift <= FAR:
        return
    length = math.log1p(drift) / drift
    for row in range(rows):
        source = ROWS + row * width
        at = find_row(table, width, bucket(own_table[source], counters[BUCKET_COUNT]))
        if own_table[source + PRECISION] > 0.0 and at >= 0:
            b, before = table[at + CROSS : at + width], own_table[source + EFFECT]
            u = (table[at + TARGET] - dot(b, theta)) / table[at + PRECISION]
            target = table[at + PRECISION] * (before + length * (u - before))
            # at the shortened θ
            table[at + TARGET] = target + dot(b, anchor) + length * dot(b, moved)
    for j in range(d):
        theta[j] = anchor[j] + length * moved[j]


@kernel
def shared_gain(matrices: FloatArray, x: FloatArray, weight: float) -> float:
    """Return what a sample adds to log det of the shared model's Q, and keep R and Q⁻¹.

    Q = P + PTP: log det Q grows as that of the clients' prior shrinks. W_i grows by c v vᵀ,
    v = R x and c = weight/(1 + weight·xᵀTv).
    """
    d = x.shape[0]
    v, Tv, Qv = np.empty(d), np.empty(d), np.empty(d)
    rest, Q = matrices[REST], matrices[SHARED]
    matvec(rest, x, v)
    matvec(matrices[SPREAD], v, Tv)
    c = weight / (1.0 + weight * dot(x, Tv))
    matvec(Q, v, Qv)
    width = c * dot(v, Qv)
    add_scaled(rest, v, Tv, -c)
    add_scaled(Q, Qv, Qv, -c / (1.0 + width))
    return math.log1p(width)


@kernel
def adopt_all(
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    P: FloatArray,
    theta: FloatArray,
    effects: FloatArray,
    T: FloatArray,
    gain: FloatArray,
    numbers: FloatArray,
    counts: IntArray,
    sent_gradients: FloatArray,
    sent_hessians: FloatArray,
    sent_tables: FloatArray,
    sent_at: FloatArray,
    known: FloatArray,
    anchors: FloatArray,
    own_hessians: FloatArray,
    own_gradients: FloatArray,
    own_tables: FloatArray,
    test_hessians: FloatArray,
    test_gradients: FloatArray,
    test_tables: FloatArray,
    prior_only: bool,
    concordance: float,
) -> None:
    """Let each client adopt the model: `take_prior`, then `with_own`, over `counts`[i] samples."""
    for i in range(counts.shape[0]):
        take_prior(
            vectors[i], matrices[i], counters[i], P, theta, effects, T, gain, numbers,
            counts[i] > 0, sent_gradients[i], sent_hessians[i], sent_tables[i], sent_at, known,
            anchors[i], own_hessians[i], own_gradients[i], own_tables[i], test_hessians[i],
            test_gradients[i], test_tables[i],
        )  # fmt: skip
        if not prior_only:
            with_own(
                vectors[i], matrices[i], counters[i], own_hessians[i], own_gradients[i],
                own_tables[i], counts[i], concordance,
            )  # fmt: skip
