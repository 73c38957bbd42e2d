from __future__ import annotations

import inspect
import math
import os
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import fedglb as fg
from fedglb.privacy.discrete_gaussian import _bernoulli, sample


def seeded(seed):
    return random.Random(seed).randbytes


def fits(draws, law, bound):
    """Return the p-value of a χ² test; what lies beyond ±bound is one class."""
    probabilities = np.array([law(k) for k in range(-bound, bound + 1)])
    inner = [k for k in draws if abs(k) <= bound]
    counts = np.bincount(np.array(inner) + bound, minlength=2 * bound + 1)
    observed = np.append(counts, len(draws) - len(inner))
    expected = len(draws) * np.append(probabilities, 1.0 - probabilities.sum())
    assert expected.min() > 5.0
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("variance", "bound"), [("1/4", 1), ("1", 3), ("7/2", 6), ("16", 12), ("100", 30)]
)
def test_the_law_of_small_noise(variance, bound):
    value = float(Fraction(variance))
    k = np.arange(-400, 401)
    total = np.exp(-(k**2) / (2.0 * value)).sum()
    draws = sample(Fraction(variance), 60_000, seeded(1))
    assert fits(draws, lambda k: math.exp(-k * k / (2.0 * value)) / total, bound) > 1e-9
    wrong = 1.1 * value  # the test sees a variance that is a tenth too large
    total = np.exp(-(k**2) / (2.0 * wrong)).sum()
    assert fits(draws, lambda k: math.exp(-k * k / (2.0 * wrong)) / total, bound) < 1e-9


def test_the_law_of_wide_noise():
    """At this width it is a normal law for every test of 20,000 numbers."""
    variance = Fraction(10**17 + 1, 3)
    scaled = np.array(sample(variance, 20_000, seeded(2)), dtype=float) / math.sqrt(variance)
    assert stats.kstest(scaled, "norm").pvalue > 1e-9
    assert np.mean(scaled**2) == pytest.approx(1.0, abs=6.0 * math.sqrt(2.0 / 20_000))


def test_a_coin_is_compared_word_by_word():
    third = 2**64 // 3  # every word of 1/3
    assert _bernoulli(iter([third - 1]), 1, 3) is True
    assert _bernoulli(iter([third + 1]), 1, 3) is False
    assert _bernoulli(iter([third, third, third - 1]), 1, 3) is True
    assert _bernoulli(iter([third, third, third + 1]), 1, 3) is False
    assert _bernoulli(iter([2**63]), 1, 2) is False  # exactly 1/2 is not below it
    assert _bernoulli(iter([2**63 - 1]), 1, 2) is True
    assert _bernoulli(iter([2**64 - 1]), 1, 1) is True
    assert _bernoulli(iter([0]), 0, 1) is False


def test_bytes_come_from_the_system_unless_a_test_says_otherwise():
    assert inspect.signature(sample).parameters["source"].default is os.urandom
    wide = Fraction(10**18)
    assert sample(wide, 5) != sample(wide, 5)
    assert sample(wide, 5, seeded(1)) == sample(wide, 5, seeded(1))


def test_draws_are_whole_numbers():
    assert all(type(k) is int for k in sample(Fraction(10**19, 7), 10))
    assert sample(Fraction(1), 0) == []


@pytest.mark.parametrize("variance", [0, Fraction(0), Fraction(-1), 2.5, "4", None])
def test_a_variance_that_is_no_fraction_is_refused(variance):
    with pytest.raises(fg.InvalidInput, match="variance"):
        sample(variance, 1)
