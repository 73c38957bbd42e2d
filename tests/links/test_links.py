"""Every link against its own formulas: derivatives, constants, extremes, what it accepts."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from tests.links.families import FAMILIES, Bump, Dip, KnownHyperbolic, Positive

LINKS = {f.link.name: f.link for f in FAMILIES.values()} | {
    link.name: link for link in (Positive(), Dip(), Bump())
}
NAMED = list(LINKS)
RADII = [0.1, 0.5, 1.0, 2.5, 6.0]


def derivative(function, z, h=1e-3):
    """Central difference of fourth order; its error is h⁴/30 times a fifth derivative."""
    near = function(z + h) - function(z - h)
    far = function(z + 2 * h) - function(z - 2 * h)
    return (8.0 * near - far) / (12.0 * h)


@pytest.mark.parametrize("name", NAMED)
def test_each_function_is_the_derivative_of_the_one_before(name):
    link, z = LINKS[name], np.linspace(-8.0, 8.0, 1601)
    for function, slope in ((link.cumulant, link.mean), (link.mean, link.variance)):
        # 1e-11: truncation below h⁴ = 1e-12, rounding of m divided by h, both relative to m
        error = np.abs(derivative(function, z) - slope(z))
        assert (error <= 1e-11 * np.maximum(1.0, np.abs(function(z)))).all()
    assert (link.variance(z) > 0.0).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_functions_are_the_known_ones(name):
    family = FAMILIES[name]
    z = np.concatenate([np.linspace(-30.0, 30.0, 601), [0.0, -0.0, 1e-300, -1e-8]])
    # in the tails too: e^{−z²/2} magnifies an ulp of z by z² = 900, to 2e-13, here and in scipy
    for ours, theirs in (
        (family.link.mean, family.mean),
        (family.link.variance, family.slope),
    ):
        if "hyperbolic" in name:  # 1 + z/√(1 + z²) cancels for z → −∞ in both
            assert_allclose(ours(z), theirs(z), rtol=1e-13, atol=1e-16)
        else:
            assert_allclose(ours(z), theirs(z), rtol=5e-13)
    # m = zΦ + φ and (z + √(1+z²))/2 cancel to an absolute error of an ulp of z; the others do not
    atol = 0.0 if name in ("logistic", "poisson", "identity") else 1e-14
    assert_allclose(family.link.cumulant(z), family.cumulant(z), rtol=1e-13, atol=atol)
    for y in (0.0, 1.0, 0.25):
        expected = family.cumulant(z) - y * z
        assert_allclose(family.link.loss(z, y), expected, rtol=1e-13, atol=2e-14)


@pytest.mark.parametrize("name", NAMED)
def test_constants_against_a_fine_grid(name):
    link = LINKS[name]
    for radius in RADII:
        slopes = link.variance(np.linspace(-radius, radius, 200_001))
        # 1e-9: the grid misses an extremum inside by at most (radius/1e5)²/2 < 2e-9·(μ‴ < 1)
        assert_allclose(link.k_mu(radius), slopes.max(), rtol=2e-9)
        assert_allclose(link.c_mu(radius), slopes.min(), rtol=2e-9)
        assert link.k_mu(radius) >= slopes.max() * (1.0 - 1e-12)
        assert link.c_mu(radius) <= slopes.min() * (1.0 + 1e-12)


def test_constants_found_inside():
    # 1e-9: the search stops within 1e-5 of the extremum, where μ′ is quadratic
    assert_allclose(Dip().c_mu(1.0), 0.5, rtol=1e-9)
    assert_allclose(Bump().k_mu(1.0), 0.6, rtol=1e-9)
    assert_allclose(Bump().k_mu(0.5), 0.1 + 0.5 / 1.04, rtol=1e-12)


@pytest.mark.parametrize("name", NAMED)
def test_safe_for_huge_scores_and_increasing(name):
    link = LINKS[name]
    edge = np.array([700.0, 699.9, 650.0, 100.0, 50.0, 40.0, 38.0, 37.0, 20.0, 1e-5, 1e-160, 0.0])
    z = np.concatenate([edge, -edge, np.linspace(-700.0, 700.0, 4001)])
    with np.errstate(all="raise", under="ignore"):
        values = [link.cumulant(z), link.mean(z), link.variance(z)]
        values += [link.loss(z, y) for y in (0.0, 1.0)]
        if link.support[1] > 1.0:
            values.append(link.loss(z, 1e6))
        values += [np.array([link.loss(float(v), 1.0) for v in z])]
    assert all(np.isfinite(v).all() for v in values)
    assert (values[2] >= 0.0).all()
    assert (values[1] >= link.support[0]).all()
    assert (values[1] <= link.support[1]).all()
    assert (np.diff(link.mean(np.linspace(-5.0, 5.0, 2001))) > 0.0).all()


def test_poisson_is_exact_up_to_e_to_the_700():
    z = np.array([-700.0, 700.0])
    for function in (fg.Poisson().mean, fg.Poisson().variance, fg.Poisson().cumulant):
        assert_allclose(function(z), np.exp(z), rtol=1e-15)
    assert np.isfinite(fg.Poisson().mean(1e6))


@pytest.mark.parametrize("name", NAMED)
def test_scalars_and_arrays_agree_to_the_bit(name):
    link, rng = LINKS[name], np.random.default_rng(3)
    z = rng.standard_normal((7, 3)) * 4.0
    for function in (link.mean, link.variance, link.cumulant, lambda v: link.loss(v, 0.7)):
        expected = np.array([[function(float(v)) for v in row] for row in z])
        for given in (z, z.tolist(), np.asfortranarray(z), z[::-1][::-1]):
            assert_array_equal(function(given), expected)
        assert_array_equal(function(z[::2, 1]), expected[::2, 1])
        for scalar in (z[2, 1], np.array(z[2, 1])):
            assert type(function(scalar)) is float
            assert function(scalar) == expected[2, 1]
        assert function(2) == function(2.0) == function(np.int64(2))
        assert function(np.empty((0, 2))).shape == (0, 2)
    y = rng.random((7, 3))
    flat = [link.loss(float(a), float(b)) for a, b in zip(z.ravel(), y.ravel(), strict=True)]
    assert_array_equal(link.loss(z, y).ravel(), flat)


@pytest.mark.parametrize("name", ["logistic", "poisson", "identity", "probit", "known hyperbolic"])
def test_self_concordance_is_the_least_bound(name):
    """|μ″| ≤ sμ′ on |z| ≤ radius, and somewhere it is met; what both kinds of sets rest on."""
    link = LINKS[name]
    for radius in (0.1, 0.2, 0.5, 1.0, 2.5, 3.0, 5.0, 6.0, 8.0, 30.0):
        z, s = np.linspace(-radius, radius, 2001), link.self_concordance(radius)
        slope = link.variance(z)
        inside = slope > 1e-9 * link.variance(0.0)  # beyond, differences see rounding only
        ratio = np.abs(derivative(link.variance, z)[inside]) / slope[inside]
        # 1e-9: the difference's error is h⁴/30 · |μ⁗″/μ′|, which for probit is about |z|⁵ ≤ 3125
        assert ratio.max() <= (s + 1e-9 if radius <= 5.0 else s * (1.0 + 1e-5) + 1e-9)
        if name in ("logistic", "poisson", "identity"):
            assert ratio.max() >= s * (1.0 - 1e-5) - 1e-9
        elif (name, radius) in (("probit", 3.0), ("known hyperbolic", 2.5)):
            assert ratio.max() > 0.999 * s


def test_self_concordance_over_all_scores():
    assert fg.Logistic().self_concordance(np.inf) == 1.0
    assert fg.Poisson().self_concordance(np.inf) == 1.0
    assert fg.Identity().self_concordance(np.inf) == 0.0
    assert fg.Probit().self_concordance(np.inf) == np.inf
    for name in ("hyperbolic", "positive", "dip", "bump"):
        assert LINKS[name].self_concordance(1.0) is None
    assert KnownHyperbolic().self_concordance(np.inf) == 1.5


@pytest.mark.parametrize("name", NAMED)
def test_pickle(name):
    link = LINKS[name]
    link.mean(0.5)  # compiled functions do not travel
    again = pickle.loads(pickle.dumps(link))
    assert again == link
    assert hash(again) == hash(link)
    assert type(again) is type(link)
    assert [other for other in LINKS.values() if other == link] == [link]  # equality is by type
    assert again.mean(0.3) == link.mean(0.3)
    assert again.sample(0.4, 0.2, 1.0) == link.sample(0.4, 0.2, 1.0)


# -- what the likelihood-ratio sets rest on -------------------------------------------------------


@pytest.mark.parametrize("name", ["logistic", "poisson", "identity"])
def test_a_likelihood_has_small_exponential_moments(name):
    """E exp(hy − m(z + h) + m(z)) ≤ 1 for all h, with equality for the families themselves."""
    family = FAMILIES[name]
    assert family.link.likelihood
    for z in np.linspace(-2.0, 2.0, 9):
        for h in np.linspace(-2.0, 2.0, 9):
            assert moment(family, name, float(z), float(h)) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("name", NAMED)
def test_a_likelihood_has_a_small_third_derivative_of_the_mean(name):
    """μ‴ ≤ μ′, on which the mixtures' sets rest; probit's is (z² − 1)μ′."""
    link, z = LINKS[name], np.linspace(-4.0, 4.0, 801)
    third = (link.variance(z + 1e-3) - 2.0 * link.variance(z) + link.variance(z - 1e-3)) / 1e-6
    # 1e-6: an ulp of μ′ over h² is 1e-10, truncation h²/12 times a fifth derivative
    excess = float((third / link.variance(z)).max()) - 1.0
    if link.likelihood:
        assert excess <= 1e-6
    if name == "probit":
        assert excess > 10.0
        assert not link.likelihood


def moment(family, name, z, h):
    mean = float(family.mean(np.array(z)))
    if name == "poisson":
        moments = math.exp(mean * math.expm1(h))
    elif name == "identity":  # noise of variance 1
        moments = math.exp(h * mean + 0.5 * h * h)
    else:
        moments = 1.0 - mean + mean * math.exp(h)
    cumulant = family.cumulant(np.array([z, z + h]))
    return moments * math.exp(cumulant[0] - cumulant[1])


def test_only_the_identity_link_has_a_unit():
    for name in NAMED:
        expected = 0.49 if name == "identity" else 1.0
        assert LINKS[name].dispersion(0.7) == pytest.approx(expected)
    assert fg.Problem(2, fg.Identity(), noise=3.0).dispersion == 9.0
    assert fg.Problem(2, fg.Poisson(), noise=3.0).dispersion == 1.0
