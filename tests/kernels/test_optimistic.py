"""Student's t from the stream, and the largest score that is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from fedglb.kernels.layout import DEGREES, EXTRA, LEAST, TOTAL, WIDTHS, work_rows
from fedglb.kernels.philox import t_number, two_normals
from fedglb.parts.choice.thompson import highest


@pytest.mark.parametrize("degrees", [1.0, 2.0, 5.0, 50.0])
def test_numbers_have_students_law(degrees):
    found = [t_number(7, number, 3, 1, 2**31 + 5, degrees) for number in range(50_000)]
    assert stats.kstest(found, stats.t(degrees).cdf).pvalue > 1e-3


def test_with_many_degrees_they_are_normal():
    for number in range(100):
        place = (1, number, 2, 0, 9)
        assert_allclose(t_number(*place, 1e5), two_normals(*place)[0], rtol=1e-4)


# -- the largest score ---------------------------------------------------------------------------

#: Independent arms, each known by its effect alone: samples n_a of weight w, of n in all.
SAMPLES, W, MEANS = np.array([1.0, 4.0, 20.0, 75.0]), 0.2, np.array([0.3, -1.0, 0.0, 0.7])
NU, DEVIATION, ALL = np.array([1.0, 2.0, 30.0, 1.5]), 1.5, W * SAMPLES.sum()
SD = DEVIATION / np.sqrt(W * SAMPLES)


def largest(total=ALL, effects=True):
    """What `highest` says of each arm."""
    work = np.full((work_rows(True, 2), len(SAMPLES)), np.nan)
    work[LEAST], work[WIDTHS], work[EXTRA] = MEANS, 1.0 / (W * SAMPLES), 1.0 if effects else 0.0
    work[DEGREES], work[TOTAL] = NU, total
    return [highest(work, k, DEVIATION) for k in range(len(SAMPLES))]


def test_the_largest_score_falls_with_an_arms_share():
    s = SAMPLES.sum() / SAMPLES
    assert_allclose(largest(effects=False), MEANS + np.sqrt(2 * np.log(s)) * SD, rtol=1e-12)
    assert_allclose(largest(), MEANS + np.sqrt(NU * (s ** (2 / NU) - 1)) * SD, rtol=1e-12)


def test_students_t_exceeds_it_as_rarely_as_its_radius_says():
    """With two degrees, P(√(t₁² + t₂²) > r) = (1 + r²/ν)^(−ν/2): 1/s at the largest score."""
    r = (largest()[1] - MEANS[1]) / SD[1]
    assert_allclose((1 + r**2 / NU[1]) ** (-NU[1] / 2), SAMPLES[1] / SAMPLES.sum(), rtol=1e-12)


def test_it_is_the_mean_of_an_arm_with_all_samples():
    """Also of one with more: s is at least 1."""
    for n in (SAMPLES[0], 0.5):
        assert_allclose(largest(total=W * n), MEANS, rtol=0, atol=1e-14)


def test_it_stays_finite():
    assert np.isfinite(largest(total=1e18)).all()
