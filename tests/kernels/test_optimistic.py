"""Student's t from the stream, and the ends between which scores are drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from fedglb.kernels.layout import (
    DEGREES,
    EXTRA,
    LEAST,
    MOST,
    NAME,
    OFFSET,
    SHIFTED,
    TOTAL,
    work_rows,
)
from fedglb.kernels.philox import t_number, two_normals
from fedglb.parts.choice.thompson import score_ends


@pytest.mark.parametrize("degrees", [1.0, 2.0, 5.0, 50.0])
def test_numbers_have_students_law(degrees):
    found = [t_number(7, number, 3, 1, 2**31 + 5, degrees) for number in range(50_000)]
    assert stats.kstest(found, stats.t(degrees).cdf).pvalue > 1e-3


def test_with_many_degrees_they_are_normal():
    for number in range(100):
        place = (1, number, 2, 0, 9)
        assert_allclose(t_number(*place, 1e5), two_normals(*place)[0], rtol=1e-4)


# -- ends --------------------------------------------------------------------------------------

#: Independent arms, each known by its effect alone: samples n_a of weight w, of n in all.
SAMPLES, W, MEANS = np.array([1.0, 4.0, 20.0, 75.0]), 0.2, np.array([0.3, -1.0, 0.0, 0.7])
NU, DEVIATION, ALL = np.array([1.0, 2.0, 30.0, 0.01]), 1.5, W * SAMPLES.sum()


def ends(names, total=ALL, effects=True):
    """What `score_ends` says and writes."""
    d, K = 2, len(SAMPLES)
    work = np.full((work_rows(True, d), K), np.nan)
    work[OFFSET], work[EXTRA], work[NAME] = MEANS, 1.0 / (W * SAMPLES), names
    work[DEGREES], work[TOTAL], work[SHIFTED:] = NU, total, 0.0
    vectors, matrices = np.ones((3, d)), np.stack([np.eye(d)] * 2)
    if not effects:  # then the variance is that of features: 1/(w·n_a) along the first of them
        work[EXTRA], work[SHIFTED] = 0.0, 1.0 / np.sqrt(W * SAMPLES)
        vectors[:] = 0.0
    fresh = score_ends(np.ones((d, K)), vectors, matrices, DEVIATION, work)
    return fresh, work[LEAST], work[MOST]


def test_the_upper_end_is_the_quantile_of_an_arms_share():
    sd = DEVIATION / np.sqrt(W * SAMPLES)
    m = stats.norm.isf(1.0 / (1.0 + SAMPLES.sum() / SAMPLES))  # s = n/n_a
    fresh, least, most = ends([5.0, 6.0, -7.0, 8.0])
    assert not fresh
    assert_allclose(least, MEANS, rtol=1e-14)
    assert_allclose(most, MEANS + np.sqrt(NU * np.expm1(m**2 / NU)) * sd, rtol=1e-9)
    _, least, most = ends([5.0, 6.0, -7.0, 8.0], effects=False)
    assert_allclose(least, MEANS, rtol=1e-14)
    assert_allclose(most, MEANS + m * sd, rtol=1e-9)


def test_the_upper_end_is_the_mean_of_an_arm_with_all_samples():
    """Also of one with more: s is at least 1."""
    for n in (SAMPLES[0], 0.5):
        _, least, most = ends([5.0, 6.0, 7.0, 8.0], total=W * n)
        assert_allclose(most, least, rtol=0, atol=1e-14)


def test_a_rare_draw_of_a_heavy_tail_stays_finite():
    _, _, most = ends([1.0, 2.0, 3.0, 4.0], total=1e12)
    s = 1e12 / (W * SAMPLES)
    assert (stats.norm.isf(1 / (1 + s)) ** 2 / NU)[3] > 600.0
    assert_allclose(most[3], MEANS[3] + math.sqrt(0.01 * math.expm1(600)) * 1.5 / math.sqrt(15))


@pytest.mark.parametrize("total", [0.0, 20.0])
def test_there_is_no_upper_end_where_no_arm_recurs_or_nothing_is_known(total):
    fresh, least, most = ends([-1.0, -2.0, -3.0, -4.0], total)
    assert fresh
    assert_allclose(least, MEANS, rtol=1e-14)
    assert_array_equal(most, np.inf)
    fresh, _, most = ends([-1.0, -2.0, -3.0, 4.0], total)
    assert not fresh
    assert np.isinf(most).all() == (total == 0.0)


def test_there_is_no_upper_end_without_effects():
    work = np.full((work_rows(False, 2), 3), np.nan)
    arms, vectors = np.array([[1.0, 0.0, 0.6], [0.0, 1.0, 0.8]]), np.full((3, 2), 0.5)
    fresh = score_ends(arms, vectors, np.stack([np.eye(2)] * 2), 1.0, work)
    assert not fresh
    assert_allclose(work[LEAST], [0.5, 0.5, 0.7], rtol=1e-14)
    assert_array_equal(work[MOST], np.inf)
