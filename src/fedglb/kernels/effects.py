"""Effects of recurring arms: a table of rows, one per arm, beside a client's linear model.

An arm that recurs has an effect u of its own beside xᵀθ. The Hessian of (θ, u) is an arrow: the
block of θ, a diagonal for the effects, and one vector b per arm between them. So a client keeps the
Schur complement S of the block of θ, and one row per arm: the linear algebra is that of d features,
with the arm x̃ = x − b/D in place of x (docs/theory.md, section 7.12).

A table is a flat array of rows. A row is [key + 1, D, f, u, b…]; key + 1 = 0 is an empty row. Rows
are found by their keys: open addressing, and where there is no room left near an arm's place, it
shares the row at its place.
"""

from __future__ import annotations

import numpy as np

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.elementary import bits_of, small_number
from fedglb.kernels.layout import EXTRA, MEAN, NAME, OFFSET, SHIFTED, VARIANCE
from fedglb.kernels.linalg import dot
from fedglb.kernels.pointers import call1
from fedglb.kernels.sums import add_lower
from fedglb.typing import BoolArray, FloatArray, IntArray

#: In `counters`, where arms have effects: λ₂, the number of buckets, and the table behind them.
EFFECT_RIDGE, BUCKET_COUNT, TABLE = 4, 5, 6
#: Places in a row: its key + 1; D = λ₂ + Σμ′ (a client's sums: Σμ′); f with u = (f − bᵀθ)/D (sums:
#: Σ(μ − y)); u of the shared model; b = Σμ′x.
KEY, PRECISION, TARGET, EFFECT, CROSS = range(5)
#: Rows that are tried before a row is shared.
PROBES = 64
#: Keys are whole numbers below this, and are taken modulo a table's number of buckets.
KEYS = 2**32
#: Buckets until a coordinator needs fewer.
BUCKETS = 2**16
#: Slots in which a client counts what it was offered, and how often (and how many times more often
#: than all slots on average) that of an arm without an id must have been for it to recur.
SLOTS, OFTEN, TIMES = 2**14, 4, 8

# Products of two words of 32 bits, in unsigned numbers of 64, as in `kernels.philox`.
_MULTIPLIER, _WORD, _SHIFT = np.uint64(0x9E3779B1), np.uint64(2**32 - 1), np.uint64(32)


@inlined_kernel
def mixed(hashed: np.uint64, word: np.uint64) -> np.uint64:
    """Return a hash of 32 bits with one more word of 32 bits in it."""
    product = (hashed ^ word) * _MULTIPLIER
    return (product ^ (product >> _SHIFT)) & _WORD


@kernel
def key_of(arms: FloatArray, d: int, k: int) -> float:
    """Return the key of arm k, column k of `arms`: a hash of its numbers."""
    hashed = np.uint64(d)
    for j in range(d):
        bits = bits_of(arms[j, k] + 0.0)  # −0 is 0
        hashed = mixed(mixed(hashed, bits & _WORD), bits >> _SHIFT)
    return small_number(mixed(hashed, _WORD))


@kernel
def name_arms(arms: FloatArray, offers: IntArray, names: FloatArray) -> None:
    """Write the names of arms (d, K) to `names`, and count what is offered.

    A name is the arm's key if it recurs, and −1 − key if it does not yet. `offers` counts by slots;
    behind them is the sum.
    """
    d, K = arms.shape
    for k in range(K):
        names[k] = key_of(arms, d, k)
        offers[int(names[k]) % SLOTS] += 1
    offers[SLOTS] += K
    for k in range(K):
        count = offers[int(names[k]) % SLOTS]
        if count < OFTEN or count * SLOTS < TIMES * offers[SLOTS]:
            names[k] = -1.0 - names[k]


@kernel
def name_block(arms: FloatArray, offers: IntArray, active: BoolArray, names: FloatArray) -> None:
    """Do as `name_arms` does for each step s and client i that acts: `arms` is (s, N, d, K)."""
    for s in range(arms.shape[0]):
        for i in range(arms.shape[1]):
            if active.size == 0 or active[s, i]:
                name_arms(arms[s, i], offers[i], names[s, i])


@kernel
def find_row(table: FloatArray, width: int, key: float) -> int:
    """Return where in a table a key's row begins; −1 − that place if the row is still empty."""
    rows = table.shape[0] // width
    home = int(key) % rows
    for probe in range(min(rows, PROBES)):
        at = ((home + probe) % rows) * width
        if table[at + KEY] == key + 1.0:
            return at
        if table[at + KEY] == 0.0:
            return -1 - at
    return home * width


@kernel
def row_of(table: FloatArray, width: int, key: float, precision: float) -> int:
    """Return where a key's row begins; an empty one is taken, with D = `precision`."""
    at = find_row(table, width, key)
    if at < 0:
        at = -1 - at
        table[at + KEY] = key + 1.0
        table[at + PRECISION] = precision
    return at


@kernel
def fill_table(table: FloatArray, model: FloatArray, theta: FloatArray) -> None:
    """Replace a table by a shared model's effects: key, D, u and b of each arm, in one row.

    f = Du + bᵀθ: at the model's θ, an effect is u.
    """
    d = theta.shape[0]
    for place in range(table.shape[0]):
        table[place] = 0.0
    for first in range(0, model.shape[0], d + 3):
        D, u = model[first + 1], model[first + 2]
        at = row_of(table, d + CROSS, model[first], D)
        target = D * u
        for j in range(d):
            table[at + CROSS + j] = model[first + 3 + j]
            target += model[first + 3 + j] * theta[j]
        table[at + TARGET], table[at + EFFECT] = target, u


@kernel
def shift_arms(arms: FloatArray, names: FloatArray, counters: FloatArray, work: FloatArray) -> None:
    """Write the shifted arms x − b/D to `work`, what their effects add, and their names.

    An arm recurs if its name says so, or if the table has a row for it.
    """
    d, K = arms.shape
    table, width = counters[TABLE:], d + CROSS
    for k in range(K):
        name = names[k]
        key = (name if name >= 0.0 else -1.0 - name) % counters[BUCKET_COUNT]
        at = find_row(table, width, key)
        work[OFFSET, k], work[EXTRA, k], work[NAME, k] = 0.0, 0.0, name
        if at < 0:
            for j in range(d):
                work[SHIFTED + j, k] = arms[j, k]
            if name >= 0.0:
                work[EXTRA, k] = 1.0 / counters[EFFECT_RIDGE]
        else:
            per = 1.0 / table[at + PRECISION]
            for j in range(d):
                work[SHIFTED + j, k] = arms[j, k] - per * table[at + CROSS + j]
            work[OFFSET, k], work[EXTRA, k] = per * table[at + TARGET], per
            work[NAME, k] = name if name >= 0.0 else -1.0 - name


@kernel
def add_effect_sums(
    X: FloatArray,
    y: FloatArray,
    theta: FloatArray,
    buckets: float,
    functions: IntArray,
    gradient: FloatArray,
    hessian: FloatArray,
    table: FloatArray,
) -> None:
    """Add samples' derivatives at θ and the effects u of `table`, whose rows get their parts.

    Of `hessian` the lower triangle only. Row by row: the sums do not depend on how X is split.
    """
    d = theta.shape[0]
    for s in range(X.shape[0]):
        x, name, z, at = X[s, :d], X[s, d], 0.0, -1
        if name >= 0.0:
            at = row_of(table, d + CROSS, name % buckets, 0.0)
            z = table[at + EFFECT]
        z += dot(x, theta)
        residual, weight = call1(functions[MEAN], z) - y[s], call1(functions[VARIANCE], z)
        for j in range(d):
            gradient[j] += residual * x[j]
        add_lower(hessian, x, weight)
        if at >= 0:
            table[at + PRECISION] += weight
            table[at + TARGET] += residual
            for j in range(d):
                table[at + CROSS + j] += weight * x[j]
