"""Rewards from uniforms, against scipy's quantile functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import pdtr, pdtrc
from scipy.stats import norm, poisson

import fedglb as fg
from tests.links.families import Dip, Hyperbolic, Positive

SMALLEST = 2.0**-53  # the spacing of the uniforms


@pytest.mark.parametrize("link", [fg.Logistic(), fg.Probit(), Hyperbolic()], ids=repr)
def test_bernoulli(link):
    rng = np.random.default_rng(1)
    mean, u = rng.random(20_000), rng.random(20_000)
    mean[:4], u[:4] = [0.0, 1.0, 0.5, 0.5], [0.0, 1.0 - SMALLEST, 0.5, 0.5 - SMALLEST]
    assert_array_equal(link.sample(mean, u), (u < mean).astype(float))
    assert_array_equal(link.sample(mean[:4], u[:4]), [0.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize("link", [fg.Identity(), Dip()], ids=repr)
def test_gaussian(link):
    rng = np.random.default_rng(2)
    tail = 10.0 ** -rng.uniform(0.0, 15.9, 50_000)
    u = np.concatenate([rng.random(100_000), tail, 1.0 - tail, [0.5, 0.25, SMALLEST]])
    z = norm.ppf(u)
    # an ulp of 8, the largest value there is
    assert_allclose(link.sample(np.zeros_like(u), u, 1.0), z, rtol=0.0, atol=1e-14)
    assert_allclose(link.sample(3.0, u, 0.1), 3.0 + 0.1 * z, rtol=0.0, atol=1e-14)
    assert_array_equal(link.sample(0.3, u), link.sample(0.3, u, 1.0))  # R = 1 by default


def test_gaussian_rewards_are_finite_symmetric_and_rising():
    u = np.array([0.0, 5e-324, SMALLEST, 1e-9, 0.3, 0.5, 0.7, 1.0 - 1e-9, 1.0 - SMALLEST, 1.0])
    z = fg.Identity().sample(0.0, u)
    assert np.isfinite(z).all()
    assert (np.diff(z) >= 0.0).all()
    assert -8.4 < z[0] < -8.2
    assert 8.2 < z[-1] < 8.4
    grid = np.linspace(1.0 / 1024, 1.0, 1023, endpoint=False)  # 1 − u is exact
    one, other = fg.Identity().sample(0.0, grid), fg.Identity().sample(0.0, 1.0 - grid)
    assert_array_equal(one[grid != 0.5], -other[grid != 0.5])


def test_poisson_against_scipy():
    rng = np.random.default_rng(4)
    mean = 10.0 ** rng.uniform(-3.0, math.log10(2000.0), 100_000)
    mean[:2000] = np.round(mean[:2000] + 0.5)
    u = rng.random(100_000)
    tail = 10.0 ** -rng.uniform(0.0, 6.0, 40_000)
    u[:20_000], u[20_000:40_000] = tail[:20_000], 1.0 - tail[20_000:]
    assert_array_equal(fg.Poisson().sample(mean, u), poisson.ppf(u, mean))


@pytest.mark.parametrize("mean", [1e-3, 0.2, 1.0, 3.7, 30.0, 500.0, 2000.0])
@pytest.mark.parametrize("side", ["lower", "upper"])
def test_poisson_far_into_the_tails(mean, side):
    """Down to, and up to, the last uniform there is: no count is rarer than that uniform.

    1e-11: the probability of the mode is the exponential of a difference of numbers near 1.5e4,
    so it is known to a few times 1e-12, and so is the distribution function.
    """
    rng = np.random.default_rng(5)
    tail = np.ceil(10.0 ** rng.uniform(-15.95, -3.0, 2000) / SMALLEST) * SMALLEST
    tail[0] = SMALLEST
    k = fg.Poisson().sample(mean, tail if side == "lower" else 1.0 - tail)
    below = np.where(k > 0.0, pdtr(np.maximum(k - 1.0, 0.0), mean), 0.0)  # P(Y < k)
    least = np.where(k > 0.0, pdtrc(np.maximum(k - 1.0, 0.0), mean), 1.0)  # P(Y ≥ k)
    if side == "lower":
        assert (pdtr(k, mean) >= tail - 1e-11).all()
        assert (below <= tail + 1e-11).all()
        assert (pdtr(k, mean) >= SMALLEST / 8.0).all()
    else:
        assert (pdtrc(k, mean) <= tail + 1e-11).all()
        assert (least >= tail - 1e-11).all()
        assert (least >= SMALLEST / 8.0).all()


def test_poisson_edges():
    assert fg.Poisson().sample(0.0, 0.7) == 0.0
    for mean in (1e-3, 1.0, 30.0, 2000.0):  # u = 0 stands for half the smallest uniform
        assert pdtr(fg.Poisson().sample(mean, 0.0), mean) >= SMALLEST / 8.0
        assert fg.Poisson().sample(mean, 0.0) <= fg.Poisson().sample(mean, SMALLEST)


def test_poisson_tiny_and_huge_means():
    rng = np.random.default_rng(7)
    u = rng.uniform(1e-9, 1.0 - 1e-9, 300)
    for mean in (1e-300, 1e-20, 1e-6):
        assert_array_equal(fg.Poisson().sample(mean, u), poisson.ppf(u, mean))
    for mean in (1e4, 1e6, 9e7, 1.1e8, 1e10):
        # a unit: rounding of log-probabilities near 1e9 moves the sums by 1e-7 from 1e6 on,
        # beyond 1e8 an expansion takes over
        k = fg.Poisson().sample(mean, u)
        assert np.abs(k - poisson.ppf(u, mean)).max() <= 1.0
        assert_array_equal(k, np.round(k))
    for mean in (1e15, 1e100, np.exp(700.0)):
        k = fg.Poisson().sample(mean, u)
        assert (np.abs(k - mean) <= 7.0 * np.sqrt(mean) + 1e-15 * mean).all()


def test_a_sampler_of_ones_own():
    u = np.linspace(0.0, 0.999, 100)
    assert_allclose(Positive().sample(2.0, u), -2.0 * np.log1p(-u), rtol=1e-14)


def test_a_support_without_a_sampler_is_refused():
    class Odd(Positive):
        name = "odd"

        def scalar_sampler(self):
            return fg.Link.scalar_sampler(self)

    with pytest.raises(fg.InvalidInput, match=r"Odd\.scalar_sampler"):
        Odd().sample(1.0, 0.5)


@pytest.mark.parametrize(
    "link", [fg.Logistic(), fg.Probit(), fg.Identity(), fg.Poisson(), Hyperbolic(), Positive()],
    ids=repr,
)  # fmt: skip
def test_scalars_and_arrays_agree_to_the_bit(link):
    rng = np.random.default_rng(6)
    mean, u = rng.random((50, 4)), rng.random((50, 4))
    for noise in (None, 0.3):
        flat = [link.sample(m, v, noise) for m, v in zip(mean.ravel(), u.ravel(), strict=True)]
        assert all(type(value) is float for value in flat)
        expected = np.reshape(flat, mean.shape)
        assert_array_equal(link.sample(mean, u, noise), expected)
        assert_array_equal(link.sample(mean.T, u.T, noise), expected.T)
        assert_array_equal(link.sample(mean[3], u[3, 0], noise)[0], expected[3, 0])
    # a column of means against a row of uniforms
    table = link.sample(mean[:, :1], u[:1])
    assert table.shape == (50, 4)
    assert table[7, 2] == link.sample(mean[7, 0], u[0, 2])
