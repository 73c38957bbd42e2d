"""Tables of effects, and which arms recur."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.testing import assert_array_equal

from fedglb.kernels.effects import (
    COUNT,
    OFTEN,
    PAIRS,
    PRECISION,
    ROWS,
    counted,
    find_row,
    key_of,
    name_arms,
    row_of,
)

WIDTH = 6


def table(rows):
    return np.zeros(ROWS + rows * WIDTH)


def slots():
    return np.zeros(2 * PAIRS, dtype=np.int64)


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
    keys = np.array([key_of(arms, 3, k) for k in range(40)])
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
    first, second, other = (key_of(arms, 2, k) for k in range(3))
    assert first == second != other
    assert 0.0 <= first < 2**32
