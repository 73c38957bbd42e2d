"""Paired differences against numbers by hand, and against many repetitions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from fedglb.studies.report.paired import differences, holm, resamples, steps_of_holm

FIVE = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
COMMON = np.array([30.0, 7.0, 100.0, 55.0, 2.0, 80.0, 41.0, 12.0, 66.0, 23.0])


def one(a, b, interval="t"):
    (found,) = differences([(np.asarray(a), np.asarray(b))], [1], interval)
    return found


def test_a_t_interval_by_hand():
    found = one(COMMON[:5] + FIVE, COMMON[:5])
    half = 2.776445 * math.sqrt(2.5 / 5)  # Student's t, 4 degrees of freedom
    assert (found.seeds, found.verdict) == (5, "higher")
    assert found.mean == pytest.approx(3.0)
    assert found.low == pytest.approx(3.0 - half, rel=1e-6)
    assert found.high == pytest.approx(3.0 + half, rel=1e-6)
    t = 3.0 / math.sqrt(2.5 / 5)
    share = t * t / (1 + t * t / 4)  # the distribution function of 4 degrees of freedom
    above = 0.5 - 0.375 * math.sqrt(share) * (1 - share / 12)
    assert found.p == pytest.approx(2 * above, rel=1e-9)
    assert found.adjusted == found.p


def test_several_are_corrected():
    """Intervals have Bonferroni's level for all that could have been compared."""
    pairs = [(COMMON[:5] + gap * FIVE, COMMON[:5]) for gap in (1.0, 2.0)]
    for each in differences(pairs, [6, 5], level=0.9):
        quantile = stats.t.ppf(1 - 0.1 / 6 / 2, 4)
        assert each.high - each.mean == pytest.approx(quantile * each.mean / 3 * math.sqrt(0.5))
    first, second = differences(pairs, [6, 5])
    assert first.p == pytest.approx(second.p)
    assert (first.verdict, second.verdict) == ("undecided", "undecided")  # 0.013 × 6
    assert first.adjusted == pytest.approx(6 * first.p)
    assert [each.verdict for each in differences(pairs, [2, 1])] == ["higher", "higher"]


def test_holm_by_the_book():
    p = [0.01, 0.04, 0.03, 0.005]
    assert holm(p, steps_of_holm(5, chosen=False)) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(p, steps_of_holm(5, chosen=True)) == pytest.approx([0.08, 0.18, 0.18, 0.05])
    assert holm([0.5, 0.9], [2, 1]) == [1.0, 1.0]
    assert holm([], []) == []


def test_an_interval_without_zero_always_decides():
    rng = np.random.default_rng(3)
    decided = 0
    for _ in range(200):
        pairs = [(rng.normal(gap, 1.0, 8), rng.normal(0.0, 1.0, 8)) for gap in (0, 1, 2, 3)]
        for each in differences(pairs, [4, 3, 2, 1]):
            sure = each.low > 0 or each.high < 0
            decided += each.verdict != "undecided"
            assert not sure or each.verdict == ("higher" if each.mean > 0 else "lower")
            assert (each.verdict != "undecided") == (each.adjusted <= 0.05)
    assert 0 < decided < 800


@pytest.mark.parametrize("interval", ["t", "bootstrap"])
def test_swapping_flips_sign_and_verdict(interval):
    rng = np.random.default_rng(5)
    flipped = {"lower": "higher", "higher": "lower"}
    found = set()
    for gap in (-3.0, 0.0, 0.4, 2.0):
        a, b = COMMON + rng.normal(gap, 1.0, 10), COMMON
        there, back = one(a, b, interval), one(b, a, interval)
        assert back.mean == pytest.approx(-there.mean)
        assert [back.low, back.high] == pytest.approx([-there.high, -there.low])
        assert back.p == pytest.approx(there.p)
        assert back.verdict == flipped.get(there.verdict, there.verdict)
        found.add(there.verdict)
    assert found == {"lower", "higher", "undecided"}


def test_the_bootstrap_has_p_of_all_signs_and_equal_numbers_each_time():
    gaps = np.array([0.5, -1.0, 2.0, 3.5, 0.1, 1.2, -0.3, 2.2])
    means = [np.mean(gaps * signs) for signs in itertools.product((1, -1), repeat=8)]
    found = one(COMMON[:8] + gaps, COMMON[:8], "bootstrap")
    assert found.p == pytest.approx(np.mean(np.abs(means) >= gaps.mean() - 1e-9))
    assert found.low < gaps.mean() < found.high
    assert one(COMMON[:8] + gaps, COMMON[:8], "bootstrap") == found
    # Five seeds have no p below 2/2⁵, however far apart they are.
    assert one(COMMON[:5] + 100 * FIVE, COMMON[:5], "bootstrap").p == 2 / 2**5
    assert resamples(1, 0.95) == 9_999
    assert resamples(990, 0.95) == pytest.approx(20 * 990 / 0.05, abs=1)


@pytest.mark.parametrize(("interval", "draws"), [("t", 400), ("bootstrap", 150)])
def test_an_interval_covers_as_often_as_it_says(interval, draws):
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(draws):
        common = rng.gamma(2.0, 50.0, 20)  # what a seed does to both
        found = one(common + rng.normal(3.0, 4.0, 20), common + rng.normal(0.0, 4.0, 20), interval)
        covered += found.low <= 3.0 <= found.high
    assert 0.90 <= covered / draws <= 0.98


def test_few_seeds_have_a_mean_and_nothing_else():
    for n in range(5):
        found = one(COMMON[:n] + FIVE[:n], COMMON[:n])
        assert (found.low, found.high, found.p, found.adjusted) == (None,) * 4
        assert (found.seeds, found.verdict) == (n, "too few seeds")
    assert found.mean == pytest.approx(2.5)


def test_equal_runs_are_equal_at_any_number_of_seeds():
    for n in (1, 5):
        found = one(COMMON[:n], COMMON[:n] * (1 + 1e-15))
        assert (found.mean, found.p, found.verdict) == (0.0, None, "equal")


def test_the_same_difference_at_every_seed_has_no_interval():
    for n, verdict in ((5, "undecided"), (6, "higher")):  # 2/2⁵ > 0.05 > 2/2⁶
        found = one(COMMON[:n] + 0.1, COMMON[:n])  # up to rounding
        assert found.mean == pytest.approx(0.1)
        assert (found.low, found.high, found.p, found.verdict) == (None, None, 2 / 2**n, verdict)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_decides_nothing(bad):
    a = COMMON.copy()
    a[3] = bad
    for other in (COMMON, a):
        found = one(a, other)
        assert not math.isfinite(found.mean)
        assert (found.low, found.p, found.verdict) == (None, None, "undecided")
