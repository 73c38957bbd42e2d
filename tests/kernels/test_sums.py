"""A client's sums against NumPy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import DERIVATIVES
from fedglb.kernels.merge import MOST, Merged, merge
from fedglb.kernels.pointers import call_derivatives
from fedglb.kernels.sums import (
    BLOCK,
    LANES,
    add_derivatives,
    add_model_sums,
    sum_loss,
    sum_over_clients,
)
from tests.links.families import FAMILIES


def random_samples(name, n, d):
    rng = np.random.default_rng([n, d, len(name)])
    X = rng.standard_normal((n, d))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    theta = rng.standard_normal(d)
    y = FAMILIES[name].quantile(FAMILIES[name].mean(X @ theta), rng.uniform(0.01, 0.99, n))
    return X, y, theta


def derivatives(name, X, y, theta, *, with_hessian=True):
    link, d = FAMILIES[name].link, X.shape[1]
    gradient, hessian = np.zeros(d), np.zeros((d, d))
    add_derivatives(X, y, theta, link.compiled_functions, gradient, hessian, with_hessian)
    return gradient, hessian


def loss(name, X, y, theta):
    return sum_loss(X, y, np.empty(0), theta, FAMILIES[name].link.compiled_cumulant.address)


#: Whole blocks and lanes, a little more and a little less; odd and even numbers of features.
SHAPES = [
    (7, 1), (40, 3), (200, 8),
    *itertools.product([1, LANES - 1, LANES, BLOCK - 1, BLOCK, BLOCK + LANES + 3], [1, 2, 5, 8]),
]  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_against_numpy(name):
    for shape in SHAPES:
        X, y, theta = random_samples(name, *shape)
        family, z = FAMILIES[name], X @ theta
        gradient, hessian = derivatives(name, X, y, theta)
        # sums of n terms of order max(1, |y|), or of order max(1, μ′), in another order
        terms = 1e-15 * len(y)
        atol = terms * (1.0 + np.abs(y).max() + np.abs(family.mean(z)).max())
        assert_allclose(gradient, X.T @ (family.mean(z) - y), rtol=1e-13, atol=atol)
        weights = family.slope(z)
        atol_hessian = terms * max(1.0, weights.max())
        assert_allclose(hessian, (X.T * weights) @ X, rtol=1e-13, atol=atol_hessian)
        assert_array_equal(hessian, hessian.T)
        expected = math.fsum(family.cumulant(z) - y * z)
        assert_allclose(loss(name, X, y, theta), expected, rtol=1e-13, atol=atol)
        alone, untouched = derivatives(name, X, y, theta, with_hessian=False)
        assert_array_equal(alone, gradient)
        assert not untouched.any()


@pytest.mark.parametrize("name", FAMILIES)
def test_sums_are_added_to_what_is_there(name):
    X, y, theta = random_samples(name, 2 * BLOCK + 30, 4)
    link = FAMILIES[name].link
    whole = derivatives(name, X, y, theta)
    gradient, hessian = np.zeros(4), np.zeros((4, 4))
    for rows in (slice(0, BLOCK), slice(BLOCK, 2 * BLOCK), slice(2 * BLOCK, 2 * BLOCK + 30)):
        add_derivatives(X[rows], y[rows], theta, link.compiled_functions, gradient, hessian, True)
    assert_array_equal(gradient, whole[0])  # block by block, so to the bit
    assert_array_equal(hessian, whole[1])


@pytest.mark.parametrize("name", FAMILIES)
def test_many_derivatives_are_the_scalar_ones_to_the_bit(name):
    link = FAMILIES[name].link
    z = np.concatenate([np.linspace(-30.0, 30.0, 1003), [0.0, -0.0, 300.0, -300.0, 700.0, -700.0]])
    means, slopes = np.full((2, z.size), np.nan)
    function = link.compiled_functions[DERIVATIVES]
    by_address(function, z, means, slopes, link.compiled_functions, 1)
    assert_array_equal(means, [link.compiled_mean.call(v) for v in z])
    assert_array_equal(slopes, [link.compiled_variance.call(v) for v in z])
    only, untouched = np.full((2, z.size), np.nan)
    by_address(function, z, only, untouched, link.compiled_functions, 0)
    assert_array_equal(only, means)
    assert np.isnan(untouched).all()


@kernel
def by_address(function, z, means, slopes, functions, with_variances):
    return call_derivatives(function, z, means, slopes, functions, with_variances)


def test_a_link_with_a_mean_of_its_own_does_not_inherit_many_derivatives():
    class Damped(fg.Logistic):
        @staticmethod
        def scalar_mean(z):
            return 0.5 + 0.25 * math.tanh(z)

    link, z = Damped(), np.array([0.3, -2.0])
    means, slopes = np.empty((2, 2))
    by_address(link.compiled_functions[DERIVATIVES], z, means, slopes, link.compiled_functions, 0)
    assert_array_equal(means, [0.5 + 0.25 * math.tanh(v) for v in z])


def test_no_samples_no_sum():
    X, y = np.empty((0, 3)), np.empty(0)
    gradient, hessian = derivatives("poisson", X, y, np.ones(3))
    assert_array_equal(gradient, np.zeros(3))
    assert_array_equal(hessian, np.zeros((3, 3)))
    assert loss("poisson", X, y, np.ones(3)) == 0.0


# -- the sums with which a client answers ---------------------------------------------------------


def model_sums(name, X, y, theta, covered):
    link, d = FAMILIES[name].link, X.shape[1]
    gradient, hessian, none = np.zeros(d), np.zeros((d, d)), np.empty(0)
    add_model_sums(
        X, y, covered, theta, link.compiled_functions, gradient, hessian,
        Merged.empty(1, d), 0, none, 1.0, math.nan,
    )  # fmt: skip
    return gradient, hessian


@pytest.mark.parametrize("name", FAMILIES)
def test_sums_at_a_model_are_derivatives_there(name):
    X, y, theta = random_samples(name, 60, 4)
    whole = derivatives(name, X, y, theta)
    scale = 1.0 + np.abs(y).max() + np.abs(FAMILIES[name].mean(X @ theta)).max()
    for covered in (0, 1, 37, 60):
        made = model_sums(name, X, y, theta, covered)
        for one, two in zip(made, whole, strict=True):  # rows are added in another order
            assert_allclose(one, two, rtol=1e-13, atol=60 * 1e-15 * scale)
        assert_array_equal(made[1], made[1].T)
    for one, two in zip(model_sums(name, X, y, theta, 60), whole, strict=True):
        assert_array_equal(one, two)


# -- samples that repeat: what is kept of them, and sums over that ---------------------------------

D = 4


def repeated(n, different, seed=0):
    """n samples with a number of different features, each of which occurs."""
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
        X[None], y[None], np.empty((0, 0)), np.array([first]), np.array([len(X)]), merged,
        theta, FAMILIES[name].link.compiled_functions, gradient, hessian, with_hessian, True,
    )  # fmt: skip
    return gradient, hessian, loss


def over_samples(name, X, y, theta):
    return *derivatives(name, X, y, theta), loss(name, X, y, theta)


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
    expected = over_samples(name, X, y, theta)
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
    expected = over_samples(name, X, y, theta)
    for one, two in zip(sums(name, X, y, theta, Merged.empty(1, D)), expected, strict=True):
        assert_array_equal(one, two)


def test_a_pass_over_some_of_the_samples_takes_them_one_by_one():
    X, y, theta = repeated(100, 3)
    merged = Merged.empty(1, D)
    found = sums("logistic", X, y, theta, merged, first=40)
    for one, two in zip(found, over_samples("logistic", X[40:], y[40:], theta), strict=True):
        assert_array_equal(one, two)
    assert merged.taken[0] == 0
