"""Ratios of mean regrets on the same seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedglb.studies.report.panels import ratio


def test_the_error_of_a_paired_ratio_is_that_of_many_repetitions():
    rng = np.random.default_rng(1)
    common = rng.gamma(20.0, 1.0, (4000, 30))  # what a seed does to both
    others = common + rng.normal(0.0, 1.0, common.shape)
    own = 1.3 * common + rng.normal(0.0, 2.0, common.shape)
    found = [ratio(a, b) for a, b in zip(own, others, strict=True)]
    shares, errors = np.array(found).T
    assert shares.mean() == pytest.approx(1.3, rel=0.01)
    assert errors.mean() == pytest.approx(shares.std(), rel=0.06)


def test_one_seed_has_no_error_and_nothing_has_no_ratio():
    assert ratio(np.array([3.0]), np.array([2.0])) == (1.5, None)
    share, error = ratio(np.array([3.0, 4.0]), np.zeros(2))
    assert math.isnan(share)
    assert error is None
