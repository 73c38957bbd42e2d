"""Which arm is played, against plain NumPy; the rule for ties; arms as columns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedglb.kernels.scoring import TIE, into_columns, pick, tie_level, upper_bounds

ARMS = np.array([[1.0, 0.0], [0.0, -1.0], [0.6, 0.8]])


def first(scores) -> int:
    return pick(scores, tie_level(scores), 0)


def plain_scores(arms, centre, A_inv, alpha):
    """`arms` is (K, d) here."""
    return arms @ centre + alpha * np.sqrt(np.einsum("kd,de,ke->k", arms, A_inv, arms))


def random_case(rng, K, d):
    arms = rng.standard_normal((K, d))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    B = rng.standard_normal((d + 3, d))
    return arms, rng.standard_normal(d), np.linalg.inv(0.1 * np.eye(d) + B.T @ B)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 6, 8, 13, 20])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 10.0])
def test_scores_and_choice(d, alpha):
    rng = np.random.default_rng(d)
    played = set()
    for _ in range(200):
        K = int(rng.integers(1, 30))
        arms, centre, A_inv = random_case(rng, K, d)
        expected = plain_scores(arms, centre, A_inv, alpha)
        scores = np.full(K, np.nan)
        columns = np.ascontiguousarray(arms.T)
        upper_bounds(columns, centre, A_inv, alpha, scores, np.empty_like(scores))
        # sums of d² terms of at most max(A⁻¹) ≤ 10, under a root
        assert_allclose(scores, expected, rtol=1e-13, atol=1e-13 * (1.0 + alpha))
        arm = first(scores)
        if K == 1 or d > 1:  # with d = 1 and unit arms ties are the rule
            assert arm == int(np.argmax(expected))
        played.add(arm)
    assert len(played) > 1


def test_a_fresh_matrix_and_unit_arms_play_the_first():
    """All scores are α up to rounding; the lowest index must win, whatever the last bits say."""
    rng = np.random.default_rng(4)
    noisy = 0
    for _ in range(200):
        arms, _, _ = random_case(rng, 25, 10)
        columns = np.ascontiguousarray(arms.T)
        scores = np.empty(25)
        upper_bounds(columns, np.zeros(10), np.eye(10) / 0.7, 2.0, scores, np.empty_like(scores))
        noisy += int(np.argmax(scores)) != 0
        assert first(scores) == 0
    assert noisy > 100  # without the rule another arm would have been played


def test_ties():
    assert TIE == 1e-12
    for scores, expected in [
        ([1.0, 1.0, 1.0], 0),
        ([0.5, 1.0, 1.0], 1),
        ([1.0 - 0.9 * TIE, 1.0], 0),
        ([1.0 - 1.1 * TIE, 1.0], 1),
        ([0.0, 0.9 * TIE], 0),  # below 1 the tolerance is absolute
        ([0.0, 1.1 * TIE], 1),
        ([1e6 - 0.9 * TIE * 1e6, 1e6], 0),  # above it is relative
        ([1e6 - 1.2 * TIE * 1e6, 1e6], 1),
        ([-1e6 - 0.9 * TIE * 1e6, -1e6], 0),
        ([-1e6 - 1.2 * TIE * 1e6, -1e6], 1),
        ([-3.0, -2.0, -5.0], 1),
        ([7.0], 0),
        ([1.0, 1.0 - 0.5 * TIE, 1.0 + 0.4 * TIE], 0),
        # not transitive: only the distance to the best counts
        ([1.0 - 1.6 * TIE, 1.0 - 0.8 * TIE, 1.0], 1),
    ]:
        assert first(np.array(scores)) == expected, scores


def test_equal_scores_are_counted_from_the_first():
    scores = np.array([1.0, 0.0, 1.0 - 0.9 * TIE, 1.0 - 1.1 * TIE, 1.0])
    assert [pick(scores, tie_level(scores), which) for which in range(4)] == [0, 2, 4, -1]


def test_a_width_rounded_below_zero_counts_as_zero():
    """An inverse that is singular to rounding must not produce NaN."""
    columns = np.array([[1.0, 0.0], [-1.0, 0.5]])
    A_inv = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-16]]) - 1e-17
    scores = np.empty(2)
    upper_bounds(columns, np.zeros(2), A_inv, 1.0, scores, np.empty_like(scores))
    assert np.isfinite(scores).all()
    A_inv = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-10]])  # xᵀA⁻¹x = −1e-10 for the first arm
    upper_bounds(columns, np.zeros(2), A_inv, 1.0, scores, np.empty_like(scores))
    assert scores[0] == 0.0


def test_arms_become_columns_and_one_that_does_not_fit_is_noticed():
    columns = np.empty((2, 3))
    assert into_columns(ARMS, columns, 1.0 + 1e-9)
    assert_array_equal(columns, ARMS.T)
    for place in ((0, 0), (1, 1), (2, 0)):
        for bad in (1.1, -1.1, np.nan, np.inf, -np.inf, 1e200):
            arms = ARMS.copy()
            arms[place] = bad
            assert not into_columns(arms, columns, 1.0 + 1e-9)
            assert_array_equal(columns, arms.T)
