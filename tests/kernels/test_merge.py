"""Samples that repeat: what is kept of them, and sums over that."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedglb.kernels.merge import MOST, Merged, merge
from fedglb.kernels.sums import add_derivatives, sum_loss, sum_over_clients
from tests.links.families import FAMILIES

D = 4


def repeated(n, different, seed=0):
    """n samples of so many different features, each of which occurs."""
    rng = np.random.default_rng([n, different, seed])
    features = rng.standard_normal((different, D)) / 4
    which = np.concatenate([np.arange(different), rng.integers(0, different, n - different)])
    which = rng.permutation(which)
    return features[which], rng.integers(0, 2, n).astype(float), rng.standard_normal(D)


def tables(X, y, *ends):
    merged = Merged.empty(1, D)
    for end in (*ends, len(X)):
        merge(merged, 0, X[:end], y[:end])
    return merged


def sums(name, X, y, theta, merged, *, first=0, with_hessian=True):
    gradient, hessian = np.zeros(D), np.zeros((D, D))
    loss = sum_over_clients(
        X[None], y[None], np.array([first]), np.array([len(X)]), merged, theta,
        FAMILIES[name].link.compiled_functions, gradient, hessian, with_hessian, True,
    )  # fmt: skip
    return gradient, hessian, loss


def one_by_one(name, X, y, theta):
    link = FAMILIES[name].link
    gradient, hessian = np.zeros(D), np.zeros((D, D))
    add_derivatives(X, y, theta, link.compiled_functions, gradient, hessian, True)
    loss = sum_loss(X, y, np.empty(0), theta, link.compiled_cumulant.address)
    return gradient, hessian, loss


def test_each_is_kept_once_in_the_order_of_its_first_occurrence():
    X, y, _ = repeated(300, 7)
    merged = tables(X, y)
    first = np.sort(np.unique(X, axis=0, return_index=True)[1])
    assert (merged.different[0], merged.taken[0]) == (7, 300)
    assert_array_equal(merged.X[0, :7], X[first])
    for k in range(7):
        same = (X[first[k]] == X).all(axis=1)
        assert (merged.times[0, k], merged.y[0, k]) == (same.sum(), y[same].sum())


@pytest.mark.parametrize("different", [1, 7, MOST, MOST + 1, 200])
def test_it_does_not_matter_how_often_tables_are_brought_up_to_date(different):
    X, y, _ = repeated(300, different)
    at_once, often = tables(X, y), tables(X, y, 0, 1, 2, 50, 51, 51, 120, 299)
    assert at_once.different[0] == often.different[0] == (different if different <= MOST else -1)
    kept = max(at_once.different[0], 0)
    for one, two in zip(at_once[:3], often[:3], strict=True):
        assert one[0, :kept].tobytes() == two[0, :kept].tobytes()


@pytest.mark.parametrize("different", [1, 7, MOST, MOST + 1, 400])
@pytest.mark.parametrize("name", FAMILIES)
def test_sums_are_those_over_all_samples(name, different):
    X, y, theta = repeated(700, different)
    expected = one_by_one(name, X, y, theta)
    found = sums(name, X, y, theta, Merged.empty(1, D))
    for one, two in zip(found, expected, strict=True):
        assert_allclose(one, two, rtol=1e-12, atol=1e-12)
    gradient, _, loss = sums(name, X, y, theta, Merged.empty(1, D), with_hessian=False)
    assert_allclose(gradient, expected[0], rtol=1e-12, atol=1e-12)
    assert loss == found[2]


@pytest.mark.parametrize("n", [1, 9, MOST])
@pytest.mark.parametrize("name", FAMILIES)
def test_samples_that_do_not_repeat_have_the_bits_of_a_pass_over_samples(name, n):
    X, y, theta = repeated(n, n)
    expected = one_by_one(name, X, y, theta)
    for one, two in zip(sums(name, X, y, theta, Merged.empty(1, D)), expected, strict=True):
        assert_array_equal(one, two)


def test_a_pass_over_some_of_the_samples_takes_them_one_by_one():
    X, y, theta = repeated(100, 3)
    merged = Merged.empty(1, D)
    found = sums("logistic", X, y, theta, merged, first=40)
    for one, two in zip(found, one_by_one("logistic", X[40:], y[40:], theta), strict=True):
        assert_array_equal(one, two)
    assert merged.taken[0] == 0
