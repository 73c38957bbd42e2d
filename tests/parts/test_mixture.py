"""The kernels of Theorems M and L against their formulas, and where floats end."""

from __future__ import annotations

import math
from math import log, log1p, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedglb.parts.mixture import (
    Fit,
    LocalTerms,
    first_epoch_terms,
    global_set,
    local_radius,
    local_terms,
)
from tests.parts.mixture_formulas import (
    heat,
    kappa,
    plain_global_set,
    plain_radius,
    plain_terms,
    prior,
)


def fits():
    """Fits of all kinds: with and without the ball, one exchange and exact residuals."""
    rng = np.random.default_rng(5)
    for dim in (1, 2, 10):
        for S in (0.3, 1.0, 3.0):
            for size in (0.1, 10.0, 1e4):
                for one_exchange in (False, True):
                    h = np.sort(size * rng.uniform(0.05, 1.0, dim))
                    yield (
                        Fit(
                            h,
                            rng.choice([0.1, 1.0, 30.0]),
                            0.3 * one_exchange,
                            0.4 * one_exchange,
                            np.zeros(dim) if one_exchange else rng.normal(size=dim),
                            S**2 * rng.choice([0.2, 1.0]),
                        ),
                        S,
                    )


CASES = list(fits())


def radius(terms, dim, S, s_bar, delta, gain=0.0, step=0.0, m2=0.0, theta_square=0.0, trace=-1.0):
    return local_radius(gain, step, m2, theta_square, trace, dim, S, s_bar, delta, *terms[:-1])


@pytest.mark.parametrize("s", [0.0, 0.46, 1.0])
def test_the_global_set_is_theorem_m(s):
    for fit, S in CASES:
        assert_allclose(global_set(fit, S, s, 0.05), plain_global_set(fit, S, s, 0.05), rtol=1e-10)


@pytest.mark.parametrize("reach", [0.0, 0.2, 1.5])
def test_the_local_terms_are_those_of_the_component_that_starts_smallest(reach):
    chosen = set()
    for fit, S in CASES:
        dim, h = len(fit.eigenvalues), fit.eigenvalues
        found = {}
        for j in range(30):
            u, truth, _ = prior(j, dim, S)
            if h[0] + fit.ell - truth * u > 0.0:
                terms = plain_terms(j, fit, S, reach)
                X = plain_radius(0, 0, 0, fit.theta_square, -1.0, dim, S, 1.0, 0.01, terms)
                found[j] = (X * terms.widening, terms)
        j = min(found, key=lambda j: found[j][0])
        chosen.add(j)
        assert_allclose(local_terms(fit, S, 1.0, reach, 0.01), found[j][1], rtol=1e-10)
    assert 0 in chosen
    assert len(chosen) > 2


def test_the_local_radius_is_theorem_l():
    rng = np.random.default_rng(6)
    for fit, S in CASES:
        dim = len(fit.eigenvalues)
        terms = local_terms(fit, S, 1.0, 0.3, 0.01)
        for _ in range(5):
            gain, step, m2, theta_square = rng.uniform(0.0, [3.0, 1.5, 4.0, 2.0 * S**2])
            given = (gain, step, m2, theta_square, -1.0, dim, S, 1.0, 0.02)
            assert_allclose(local_radius(*given, *terms[:-1]), plain_radius(*given, terms))


@pytest.mark.parametrize("S", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("ridge", [0.01, 1.0, 50.0])
def test_the_first_epoch_starts_at_the_origin(S, ridge):
    dim, s = 4, math.tanh(S / 2.0)
    terms = first_epoch_terms(dim, S, s, ridge)
    c = heat(S**2 / dim) * S**2 / dim
    log_det = max(dim * log(c * ridge), 0.0)
    curvature = kappa(s * S)
    expected = (log_det, 2.0 * log(2.0), ridge, dim / S**2, curvature, 0.0, 0.0, 1.0, 1.0)
    assert_allclose(terms, expected, rtol=1e-10)
    for trace in (0.0, 0.3, 100.0):  # both of the two bounds are the smaller one somewhere
        given = (log1p(trace), 0.2, 0.1, 0.5, trace, dim, S, 1.0, 0.02)
        assert_allclose(local_radius(*given, *terms[:-1]), plain_radius(*given, terms), rtol=1e-10)


def test_a_lead_that_is_not_positive_bounds_nothing():
    terms = LocalTerms(1.0, 1.0, 1.0, 0.0, 0.5, 0.0, 0.0, 2.0, 1.0)
    assert radius(terms, 2, 1.0, 1.0, 0.1) == math.inf
    assert radius(terms._replace(stretch=1.99), 2, 1.0, 1.0, 0.1) < math.inf


@pytest.mark.parametrize("S", [0.01, 0.1, 1.0, 10.0, 30.0])
@pytest.mark.parametrize("smallest", [0.0, 1e-12, 1e-3, 1.0, 1e12])
@pytest.mark.parametrize("ell", [1e-6, 1.0, 1e6])
def test_no_fit_gives_nan(S, smallest, ell):
    for dim in (1, 3):
        for largest in (smallest, 1e12):
            for drift in (0.0, 2.0 * S):
                h = np.full(dim, smallest)
                h[1:] = largest
                fit = Fit(h, ell, drift, min(drift, 1.0), np.zeros(dim), S**2)
                found = global_set(fit, S, 1.0, 0.005)
                assert np.isfinite(found).all()
                assert found.curvature > 0.0
                assert found.curvature * smallest + found.shift > 0.0
                terms = local_terms(fit, S, 1.0, found.reach, 1e-6)
                assert np.isfinite(terms).all()
                assert radius(terms, dim, S, 1.0, 1e-6) < math.inf
                assert radius(terms, dim, S, 1.0, 1e-6, step=1e9, m2=1.0) == math.inf


def test_with_many_samples_the_radius_of_the_ball_is_forgotten():
    """e = 0, ν = 0 and a vanishing ridge: S is only in the origin component, which is not best."""
    h = np.array([1e7, 2e7, 5e7])
    for s in (0.0, 1.0):
        sets = [
            global_set(Fit(h, 1e-9, 0.0, 0.0, np.zeros(3), 0.5), S, s, 0.05)
            for S in (1.0, 3.0, 30.0, 300.0)
        ]
        for found in sets[1:]:
            assert_allclose(found.radius, sets[0].radius, rtol=1e-4)
            assert found.shift == sets[0].shift < 0.0
            assert_allclose(found.curvature, sets[0].curvature, rtol=1e-4)
        # Σ log(1 + h/v) + 2 log(1/(wδ)) is all that is left, up to T(1/h)
        j = round(log(-sets[0].shift, 4.0)) + 1
        expected = np.log1p(h / 4.0 ** (j - 1)).sum() + 2.0 * log(2.0 * j * (j + 1) / 0.05)
        assert_allclose(sets[0].radius, sqrt(expected), rtol=1e-6)


def test_the_same_set_in_any_layout_of_the_arrays():
    h, e = np.arange(1.0, 7.0), np.linspace(0.1, 0.6, 6)
    strided = Fit(np.repeat(h, 2)[::2], 1.0, 0.0, 0.0, np.repeat(e, 2)[::2], 0.5)
    assert global_set(strided, 1.0, 0.46, 0.05) == global_set(
        Fit(h, 1.0, 0.0, 0.0, e, 0.5), 1.0, 0.46, 0.05
    )
