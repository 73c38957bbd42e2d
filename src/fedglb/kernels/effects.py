"""Effects of recurring arms: a table of rows, one per arm, beside a client's linear model.

An arm that recurs has an effect u of its own beside xᵀθ. The Hessian of (θ, u) is an arrow: the
block of θ, a diagonal for the effects, and one vector b per arm between them. So a client keeps the
Schur complement S of the block of θ, and one row per arm: the linear algebra is that of d features,
with the arm x̃ = x − b/D in place of x (docs/theory.md, section 7.12).

A table is a flat array: the number of its rows, and the rows [key, D, f, u, b…] in the order of
their keys. Where there is no room for another row, an arm shares the row of the key before its own.
"""

from __future__ import annotations

import numpy as np

from fedglb.kernels.compile import inlined_kernel, kernel
from fedglb.kernels.elementary import bits_of, small_number
from fedglb.kernels.layout import DEGREES, EXTRA, NAME, OFFSET, SHIFTED, TOTAL
from fedglb.typing import BoolArray, FloatArray, IntArray

#: In `counters`, where arms have effects: λ₂, the number of buckets, the weight μ′(0) of a sample
#: at z = 0, the weight of all samples in the table; and the table, behind the places of
#: `kernels.personal`.
EFFECT_RIDGE, BUCKET_COUNT, UNIT, WEIGHT = range(4, 8)
TABLE = 19
#: In a table: the number of rows, and the first row.
COUNT, ROWS = 0, 1
#: Places in a row, w being samples' weights: its key; D = λ₂ + Σw (a client's sums: Σw); f with
#: u = (f − bᵀθ)/D (sums: Σ(μ − y)); u of the shared model; b = Σwx.
PRECISION, TARGET, EFFECT, CROSS = range(1, 5)
#: Degrees of freedom of an effect's draw, in samples of weight μ′(0): 1, so many more per sample of
#: the arm, and so many times the squared number of arms per sample of all: heavy tails cost a few
#: plays per arm, which must be few of all, and pay where an arm is offered often.
PER_SAMPLE, PER_PAIR = 4.0, 0.5
#: Keys are whole numbers below this, and are taken modulo a table's number of buckets.
KEYS = 2**32
#: Buckets until a coordinator needs fewer.
BUCKETS = 2**16
#: A client counts in pairs of slots what it was offered; an arm without an id recurs once its count
#: is this. A slot has its arm's key and, below `COUNTS`, its count.
PAIRS, OFTEN, COUNTS = 2**11, 3, 2**20
#: Decisions that are all counted and, while no arm has recurred, one of how many is afterwards.
ALL, EVERY = 16, 8
#: The length of a client's counts.
OFFERS = 2 * PAIRS + 2

# Products of two words of 32 bits, in unsigned numbers of 64, as in `kernels.philox`.
_MULTIPLIER, _WORD, _SHIFT = np.uint64(0x9E3779B1), np.uint64(2**32 - 1), np.uint64(32)


@inlined_kernel
def mixed(hashed: np.uint64, word: np.uint64) -> np.uint64:
    """Return a hash of 32 bits with one more word of 32 bits in it."""
    product = (hashed ^ word) * _MULTIPLIER
    return (product ^ (product >> _SHIFT)) & _WORD


@kernel
def keys_of(arms: FloatArray, keys: FloatArray) -> None:
    """Write the keys of arms (d, K): hashes of their numbers. All arms at a time: it vectorises."""
    d, K = arms.shape
    hashed = np.empty(K, dtype=np.uint64)
    for k in range(K):
        hashed[k] = np.uint64(d)
    for j in range(d):
        for k in range(K):
            bits = bits_of(arms[j, k] + 0.0)  # −0 is 0
            hashed[k] = mixed(mixed(hashed[k], bits & _WORD), bits >> _SHIFT)
    for k in range(K):
        keys[k] = small_number(mixed(hashed[k], _WORD))


@kernel
def name_arms(arms: FloatArray, offers: IntArray, names: FloatArray) -> None:
    """Write the names of arms (d, K) to `names`, and count what is offered in `offers`.

    A name is the arm's key if it recurs, and −1 − key if it does not yet. Behind the slots are the
    number of decisions and whether an arm has recurred. As long as none has, only one of `EVERY`
    decisions is counted after the first `ALL`: in the others no arm has a key.
    """
    K, sometimes = arms.shape[1], offers[2 * PAIRS + 1] == 0
    offers[2 * PAIRS] += 1
    if sometimes and offers[2 * PAIRS] > ALL and offers[2 * PAIRS] % EVERY != 0:
        for k in range(K):
            names[k] = -1.0
        return
    keys_of(arms, names)
    for k in range(K):
        if counted(offers, int(names[k])) >= OFTEN:
            offers[2 * PAIRS + 1] = 1
        else:
            names[k] = -1.0 - names[k]


@kernel
def known_names(arms: FloatArray, offers: IntArray, names: FloatArray) -> None:
    """Write the names of arms by what was offered so far; count nothing."""
    keys_of(arms, names)
    for k in range(arms.shape[1]):
        at = slot_of(offers, int(names[k]))
        if at < 0 or offers[at] % COUNTS < OFTEN:
            names[k] = -1.0 - names[k]


@kernel
def slot_of(offers: IntArray, key: int) -> int:
    """Return the slot in which an arm is counted; −1: it has none."""
    first = 2 * (key % PAIRS)
    for at in (first, first + 1):
        if offers[at] // COUNTS == key and offers[at] % COUNTS > 0:
            return int(at)
    return -1


@kernel
def counted(offers: IntArray, key: int) -> int:
    """Count an arm once more; return its count.

    An arm that has no slot takes from the smaller count of its pair, and gets that slot once the
    count is gone: so slots are kept by the arms that come often.
    """
    at = slot_of(offers, key)
    if at >= 0:
        offers[at] += 1 if offers[at] % COUNTS < COUNTS - 1 else 0
        return int(offers[at] % COUNTS)
    first = 2 * (key % PAIRS)
    second = first + 1
    at = first if offers[first] % COUNTS <= offers[second] % COUNTS else second
    if offers[at] % COUNTS > 1:
        offers[at] -= 1
        return 0
    offers[at] = key * COUNTS + 1
    return 1


@kernel
def name_block(arms: FloatArray, offers: IntArray, active: BoolArray, names: FloatArray) -> None:
    """Do as `name_arms` does for each step s and client i that acts: `arms` is (s, N, d, K)."""
    for s in range(arms.shape[0]):
        for i in range(arms.shape[1]):
            if active.size == 0 or active[s, i]:
                name_arms(arms[s, i], offers[i], names[s, i])


@inlined_kernel
def bucket(key: float, buckets: float) -> float:
    """Return a key modulo the number of buckets, a power of two."""
    return float(int(key) & (int(buckets) - 1))


@kernel
def find_row(table: FloatArray, width: int, key: float) -> int:
    """Return where in a table a key's row begins; −1 − the place where it would, if it has none."""
    low, high = 0, int(table[COUNT])
    while low < high:
        middle = (low + high) // 2
        if table[ROWS + middle * width] < key:
            low = middle + 1
        else:
            high = middle
    at = ROWS + low * width
    if low < int(table[COUNT]) and table[at] == key:
        return at
    return -1 - at


@kernel
def own_or_shared(table: FloatArray, width: int, key: float) -> int:
    """Do as `find_row` does; where there is no room for another row, return the one before."""
    at = find_row(table, width, key)
    if at < 0 and ROWS + (int(table[COUNT]) + 1) * width > table.shape[0]:
        return max(-1 - at - width, ROWS)
    return at


@kernel
def row_of(table: FloatArray, width: int, key: float, precision: float) -> int:
    """Return where a key's row begins; if it has none, one is made, with D = `precision`."""
    at = own_or_shared(table, width, key)
    if at >= 0:
        return at
    at, end = -1 - at, ROWS + int(table[COUNT]) * width
    for place in range(end - 1, at - 1, -1):
        table[place + width] = table[place]
    for place in range(at, at + width):
        table[place] = 0.0
    table[at], table[at + PRECISION] = key, precision
    table[COUNT] += 1.0
    return at


@kernel
def fill_table(counters: FloatArray, model: FloatArray, theta: FloatArray) -> None:
    """Replace the table in `counters` by a shared model's effects.

    These are λ₂, the number of buckets, and key, D, u and b of each arm. f = Du + bᵀθ: at the
    model's θ, an effect is u.
    """
    d, table = theta.shape[0], counters[TABLE:]
    counters[EFFECT_RIDGE], counters[BUCKET_COUNT], counters[WEIGHT] = model[0], model[1], 0.0
    table[COUNT] = 0.0
    for first in range(2, model.shape[0], d + 3):
        D, u = model[first + 1], model[first + 2]
        counters[WEIGHT] += D - model[0]
        at = row_of(table, d + CROSS, model[first], D)
        target = D * u
        for j in range(d):
            table[at + CROSS + j] = model[first + 3 + j]
            target += model[first + 3 + j] * theta[j]
        table[at + TARGET], table[at + EFFECT] = target, u


@kernel
def empty_sums(model: FloatArray, d: int, tables: FloatArray) -> None:
    """Begin tables of sums, one per client: a shared model's arms with their effects u."""
    width = d + CROSS
    for i in range(tables.shape[0]):
        table = tables[i]
        table[COUNT] = 0.0
        for first in range(0, model.shape[0], d + 3):
            at = row_of(table, width, model[first], 0.0)
            table[at + EFFECT] = model[first + 2]


@kernel
def sums_to_send(tables: FloatArray, d: int, ends: IntArray) -> FloatArray:
    """Return the clients' sums as they are sent: key, Σμ′, Σ(μ − y) and Σμ′x of each arm played.

    Those of client i end at `ends`[i].
    """
    width, size = d + CROSS, 0
    for i in range(tables.shape[0]):
        size += int(tables[i, COUNT]) * (d + 3)
    sent, end = np.empty(size), 0
    for i in range(tables.shape[0]):
        table = tables[i]
        for row in range(int(table[COUNT])):
            at = ROWS + row * width
            if table[at + PRECISION] != 0.0 or table[at + TARGET] != 0.0:
                sent[end], sent[end + 1], sent[end + 2] = (
                    table[at], table[at + PRECISION], table[at + TARGET],
                )  # fmt: skip
                for j in range(d):
                    sent[end + 3 + j] = table[at + CROSS + j]
                end += d + 3
        ends[i] = end
    return sent[:end]


@kernel
def add_sent(
    sent: FloatArray, theta: FloatArray, known: FloatArray, buckets: float, total: FloatArray
) -> None:
    """Add up what clients sent, in a table: D is Σμ′, f is p (`parts.effects`), u is Σμ′u.

    `known` is a table with the effects u of the last model, at which the sums were taken.
    """
    d = theta.shape[0]
    width = d + CROSS
    for first in range(0, sent.shape[0], d + 3):
        key, h, g = sent[first], sent[first + 1], sent[first + 2]
        place = find_row(known, width, key)
        u = known[place + EFFECT] if place >= 0 else 0.0
        at = row_of(total, width, bucket(key, buckets), 0.0)
        p = h * u - g
        for j in range(d):
            p += sent[first + 3 + j] * theta[j]
            total[at + CROSS + j] += sent[first + 3 + j]
        total[at + PRECISION] += h
        total[at + TARGET] += p
        total[at + EFFECT] += h * u


@kernel
def shift_arms(arms: FloatArray, names: FloatArray, counters: FloatArray, work: FloatArray) -> None:
    """Write the shifted arms x − b/D to `work`, what their effects add, and their names.

    An arm recurs if its name says so, or if the table has a row for it. The others get the name −1.
    """
    d, K = arms.shape
    table, width = counters[TABLE:], d + CROSS
    unit, total = counters[UNIT], max(counters[WEIGHT], counters[UNIT])
    fewest = 1.0 + PER_PAIR * (table[COUNT] + 1.0) ** 2 * unit / total
    for k in range(K):
        work[OFFSET, k], work[EXTRA, k], work[NAME, k] = 0.0, 0.0, max(names[k], -1.0)
        work[DEGREES, k], work[TOTAL, k] = fewest, counters[WEIGHT]
    for j in range(d):
        for k in range(K):
            work[SHIFTED + j, k] = arms[j, k]
    for k in range(K):
        name = names[k]
        if name < 0.0 and table[COUNT] == 0.0:
            continue
        if name >= 0.0:
            at = own_or_shared(table, width, bucket(name, counters[BUCKET_COUNT]))
        else:
            at = find_row(table, width, bucket(-1.0 - name, counters[BUCKET_COUNT]))
        if at >= 0:
            per = 1.0 / table[at + PRECISION]
            for j in range(d):
                work[SHIFTED + j, k] -= per * table[at + CROSS + j]
            work[OFFSET, k], work[EXTRA, k] = per * table[at + TARGET], per
            gained = table[at + PRECISION] - counters[EFFECT_RIDGE]
            work[DEGREES, k] += PER_SAMPLE * max(gained, 0.0) / unit
            work[NAME, k] = name if name >= 0.0 else -1.0 - name
        elif name >= 0.0:
            work[EXTRA, k] = 1.0 / counters[EFFECT_RIDGE]


@kernel
def add_effects(X: FloatArray, table: FloatArray, buckets: float, z: FloatArray) -> None:
    """Add the effect u of each row's arm to `z`; the last column of X has the names."""
    d = X.shape[1] - 1
    for s in range(X.shape[0]):
        if X[s, d] >= 0.0:
            z[s] += table[row_of(table, d + CROSS, bucket(X[s, d], buckets), 0.0) + EFFECT]


@kernel
def add_to_effects(
    X: FloatArray,
    residuals: FloatArray,
    weights: FloatArray,
    table: FloatArray,
    buckets: float,
) -> None:
    """Add each row's residual, weight and weighted features to the sums of its arm."""
    d = X.shape[1] - 1
    for s in range(X.shape[0]):
        if X[s, d] >= 0.0:
            at = row_of(table, d + CROSS, bucket(X[s, d], buckets), 0.0)
            add_to_row(table, at, X[s], residuals[s], weights[s])


@kernel
def add_to_row(table: FloatArray, at: int, x: FloatArray, residual: float, weight: float) -> None:
    """Add a sample's part to the sums in the row that begins at `at`."""
    table[at + PRECISION] += weight
    table[at + TARGET] += residual
    for j in range(x.shape[0] - 1):
        table[at + CROSS + j] += weight * x[j]
