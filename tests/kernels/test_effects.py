"""Tables of effects, and which arms recur."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from fedglb.kernels.effects import (
    BUCKET_COUNT,
    BUCKETS,
    COUNT,
    CROSS,
    EFFECT_RIDGE,
    OFFERS,
    OFTEN,
    PAIRS,
    PRECISION,
    ROWS,
    TABLE,
    TARGET,
    UNIT,
    WEIGHT,
    counted,
    find_row,
    keys_of,
    name_arms,
    row_of,
    shift_arms,
)
from fedglb.kernels.layout import DEGREES, EXTRA, NAME, OFFSET, SHIFTED, TOTAL, work_rows
from fedglb.parts.effects import ArmSums

WIDTH = 6


def table(rows):
    return np.zeros(ROWS + rows * WIDTH)


def slots():
    return np.zeros(OFFERS, dtype=np.int64)


def test_rows_are_in_the_order_of_their_keys_whatever_came_first():
    keys = [3.0, 0.0, 70.0, 12.0]
    for order in permutations(keys):
        made = table(len(keys))
        for key in order:
            at = row_of(made, WIDTH, key, 1.0 + key)
            made[at + 2 : at + WIDTH] = key
            assert row_of(made, WIDTH, key, 9.0) == at  # there is no second one
        rows = made[ROWS:].reshape(-1, WIDTH)
        assert made[COUNT] == len(keys)
        assert rows[:, 0].tolist() == sorted(keys)
        assert_array_equal(rows[:, PRECISION], rows[:, 0] + 1.0)
        assert_array_equal(rows[:, 2:], np.repeat(rows[:, :1], WIDTH - 2, axis=1))


def test_a_key_without_a_row_is_not_found():
    made = table(3)
    assert find_row(made, WIDTH, 5.0) == -1 - ROWS
    row_of(made, WIDTH, 5.0, 1.0)
    assert find_row(made, WIDTH, 5.0) == ROWS
    assert find_row(made, WIDTH, 4.0) == -1 - ROWS
    assert find_row(made, WIDTH, 6.0) == -1 - ROWS - WIDTH


def test_a_full_table_stays_as_it_is():
    made = table(2)
    first, second = (row_of(made, WIDTH, key, 1.0) for key in (10.0, 20.0))
    before = made.copy()
    shared = [row_of(made, WIDTH, key, 1.0) for key in (5.0, 15.0, 25.0)]
    assert shared == [first, first, second]
    assert_array_equal(made, before)


def test_fixed_arms_recur_from_the_third_offer():
    arms, offers, names = np.random.default_rng(1).random((3, 40)), slots(), np.empty(40)
    keys = np.empty(40)
    keys_of(arms, keys)
    assert len(np.unique(keys % PAIRS)) == 40
    for offer in range(1, 8):
        name_arms(arms, offers, names)
        assert_array_equal(names, keys if offer >= OFTEN == 3 else -1.0 - keys)


def test_fresh_arms_never_recur():
    arms, names = np.random.default_rng(2).random((3, 100_000)), np.empty(100_000)
    name_arms(arms, slots(), names)
    assert names.max() < 0.0


def test_fixed_arms_recur_among_fresh_ones():
    """Fresh arms take from the counts of others, but seldom."""
    rng, offers, names = np.random.default_rng(3), slots(), np.empty(10)
    arms = rng.random((3, 10))
    for _ in range(2000):
        arms[:, 5:] = rng.random((3, 5))
        name_arms(arms, offers, names)
    assert (names[:5] >= 0.0).all()
    assert (names[5:] < 0.0).all()


def test_while_none_recurs_few_decisions_are_counted_and_late_ones_recur_all_the_same():
    rng, offers, names = np.random.default_rng(4), slots(), np.empty(4)
    keys, same = np.empty(4), rng.random((3, 4))
    keys_of(same, keys)
    for _ in range(99):
        name_arms(rng.random((3, 4)), offers, names)
    assert_array_equal(names, -1.0)  # the 99th is not looked at
    found = []
    for _ in range(40):
        name_arms(same, offers, names)
        found.append(names[0] >= 0.0)
    assert found.index(True) == 20  # at decision 120, after 104 and 112
    assert all(found[20:])
    assert_array_equal(names, keys)


def test_two_fixed_arms_in_one_pair_of_slots():
    offers = slots()
    found = [[counted(offers, key) for key in (7, 7 + PAIRS)] for _ in range(5)]
    assert found == [[n, n] for n in range(1, 6)]


def test_an_arm_without_a_slot_wears_down_the_smaller_count():
    offers = slots()
    for key in [7] * 3 + [7 + PAIRS] * 4:
        counted(offers, key)
    third = 7 + 2 * PAIRS
    assert [counted(offers, third) for _ in range(4)] == [0, 0, 1, 2]
    assert counted(offers, 7 + PAIRS) == 5


def test_minus_zero_is_zero():
    arms = np.array([[0.0, -0.0, 1.0], [1.0, 1.0, 0.0]])
    keys = np.empty(3)
    keys_of(arms, keys)
    first, second, other = keys
    assert first == second != other
    assert 0.0 <= first < 2**32


# -- what effects add to arms --------------------------------------------------------------------


def shifted(names, rows):
    """Arms e₁ with these names, where λ₂ = 2, μ′(0) = ¼, and all samples weigh 4.

    The rows of keys 4 and 9 have D = 5 and 3, f = 10 and −6, b = (1, 0) and (0, 1.5).
    """
    counters = np.zeros(TABLE + ROWS + rows * (2 + CROSS))
    counters[EFFECT_RIDGE], counters[BUCKET_COUNT] = 2.0, 16.0
    counters[UNIT], counters[WEIGHT] = 0.25, 4.0
    for key, D, f, b in ((4.0, 5.0, 10.0, (1.0, 0.0)), (9.0, 3.0, -6.0, (0.0, 1.5))):
        at = row_of(counters[TABLE:], 2 + CROSS, key, D)
        counters[TABLE + at + TARGET] = f
        counters[TABLE + at + CROSS : TABLE + at + CROSS + 2] = b
    arms = np.tile([[1.0], [0.0]], len(names))
    work = np.full((work_rows(True, 2), len(names)), np.nan)
    shift_arms(arms, np.array(names, dtype=float), counters, work)
    return work


def test_what_effects_add():
    """By key: 4 (by its bucket), 9 without its third offer, 7 with no row, 8 that is new."""
    work = shifted([20.0, -1.0 - 9.0, 7.0, -1.0 - 8.0], rows=3)
    assert_allclose(work[SHIFTED:], [[0.8, 1.0, 1.0, 1.0], [0.0, -0.5, 0.0, 0.0]])
    assert_allclose(work[OFFSET], [2.0, -2.0, 0.0, 0.0])
    assert_allclose(work[EXTRA], [1 / 5, 1 / 3, 1 / 2, 0.0])
    assert_array_equal(work[NAME], [20.0, 9.0, 7.0, -1.0])
    assert_array_equal(work[TOTAL], 4.0)
    few = 1 + 3**2 / 2 * 0.25 / 4  # two rows and one more, for all samples
    assert_allclose(work[DEGREES], [few + 4 * 12, few + 4 * 4, few, few])


def test_in_a_full_table_an_arm_has_the_row_of_the_key_before():
    work = shifted([7.0, 1.0, 11.0, -1.0 - 11.0], rows=2)
    assert_allclose(work[OFFSET], [2.0, 2.0, -2.0, 0.0])
    assert_allclose(work[EXTRA], [1 / 5, 1 / 5, 1 / 3, 0.0])
    assert_allclose(work[SHIFTED], [0.8, 0.8, 1.0, 1.0])
    assert_array_equal(work[NAME], [7.0, 1.0, 11.0, -1.0])


def test_arms_that_do_not_fit_share_buckets_and_nothing_is_lost():
    rng, d = np.random.default_rng(5), 2
    keys = np.arange(0, 100, 10.0)  # ten arms for four rows
    rows = np.column_stack([keys, rng.random(10), rng.normal(size=10), rng.normal(size=(10, d))])
    found = ArmSums.of([rows[:6].ravel(), rows[6:].ravel()], np.zeros(d), None, 4)
    assert len(found.keys) <= 4
    assert found.buckets < BUCKETS
    assert (found.keys < found.buckets).all()
    assert_allclose(found.h.sum(), rows[:, 1].sum())
    assert_allclose(found.p.sum(), -rows[:, 2].sum())
    assert_allclose(found.b.sum(axis=0), rows[:, 3:].sum(axis=0))
