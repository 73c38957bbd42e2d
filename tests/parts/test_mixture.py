"""The kernels of Theorems M and L against `tests.plain_mixture`, and where floats end."""

from __future__ import annotations

import math
from math import exp, log, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedglb.parts import mixture
from fedglb.parts.mixture import (
    Fit,
    GlobalSet,
    LocalTerms,
    ball_set,
    component,
    first_epoch_terms,
    global_set,
    left_out_cost,
    local_radius,
    local_terms,
)
from fedglb.parts.self_concordance import lower_curvature
from tests import plain_mixture
from tests.parts.confidence.mixture_data import (
    IDENTITY,
    LOGISTIC,
    POISSON,
    Local,
    Model,
    concordance,
    draw,
    in_ball,
    plain_problem,
    prior,
)

LINKS = [LOGISTIC, POISSON, IDENTITY]


def models(rng):
    """Models of all kinds: with and without the ball, one exchange and exact residuals."""
    for dim in (1, 2, 10):
        for S in (0.3, 1.0, 3.0):
            for size in (0.1, 10.0, 1e4):
                for one_exchange in (False, True):
                    h = np.sort(size * rng.uniform(0.05, 1.0, dim))
                    theta = rng.normal(size=dim)
                    theta *= S * sqrt(rng.choice([0.2, 1.0])) / np.linalg.norm(theta)
                    e = None if one_exchange else rng.normal(size=dim)
                    ell, q = rng.choice([0.1, 1.0, 30.0]), 0.3 * one_exchange
                    yield Model(theta, np.diag(h), ell, q, 0.4 * one_exchange, e), S


def radius(terms, dim, S, s_bar, delta, gain=0.0, step=0.0, m2=0.0, theta_square=0.0, trace=-1.0):
    return local_radius(gain, step, m2, theta_square, trace, dim, S, s_bar, delta, *terms[:-1])


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_the_global_set_is_theorem_m(link):
    for model, S in models(np.random.default_rng(5)):
        found = global_set(model.fit, S, concordance(link, S), 0.05)
        expected = plain_mixture.global_set(plain_problem(link, S), model.plain, 0.05)
        W = found.curvature * model.H + found.shift * np.eye(len(model.theta))
        assert_allclose(W, expected.W, rtol=1e-10)
        assert_allclose(found.radius, expected.rho, rtol=1e-10)
        assert_allclose((found.reach, found.width), (expected.r, expected.width), rtol=1e-10)


def test_components_are_at_most_half_of_the_smallest_eigenvalue():
    chosen = set()
    for model, S in models(np.random.default_rng(5)):
        found = global_set(model.fit, S, concordance(LOGISTIC, S), 0.05)
        v = model.fit.ell - found.shift
        assert v <= 0.5 * (found.curvature * model.fit.eigenvalues[0] + model.fit.ell)
        chosen.add(round(v))
    assert {0, 1, 64, 256} <= chosen


@pytest.mark.parametrize("steps", [1, 2, 1000])
def test_curvature_and_reach_are_of_the_same_step(monkeypatch, steps):
    """Also if the steps end before the reach has settled: both are valid, but not mixed."""
    monkeypatch.setattr(mixture, "_MAX_STEPS", steps)
    ended = 0
    for model, S in models(np.random.default_rng(5)):
        fit, s = model.fit, concordance(LOGISTIC, S)
        numbers = (fit.ell, fit.drift, fit.step_residual, fit.theta_square)
        python = mixture._global_set._function  # compiled code has its own _MAX_STEPS
        found = GlobalSet(*python(fit.eigenvalues, fit.residual, *numbers, S, s, 0.05))
        assert found.curvature == lower_curvature(found.reach) * exp(-fit.drift)
        ended += found.reach > global_set(fit, S, s, 0.05).reach
    assert (ended > 10) == (steps < 1000)


def test_the_exact_width_is_that_without_a_residual():
    for model, S in models(np.random.default_rng(5)):
        fit, s = model.fit, concordance(LOGISTIC, S)
        found = global_set(fit, S, s, 0.05)
        if fit.drift == 0.0 and fit.step_residual == 0.0:
            assert found.exact_width == found.width
        else:
            assert global_set(fit._replace(drift=0.0, step_residual=0.0), S, s, 0.05).width <= (
                found.exact_width
            ) < found.width  # fmt: skip


def steps(rng, S, count=3000):
    """Fits after one exchange, of many sizes, with the drift and the residual of a step."""
    for _ in range(count):
        dim = int(rng.integers(1, 12))
        h = np.sort(10.0 ** rng.uniform(-2, 4) * rng.uniform(0.0, 1.0, dim) ** 2)
        square = S * S * rng.choice([rng.uniform(), 1.0])
        ell = 10.0 ** rng.uniform(-2, 1.5)
        q, epsilon = 1.79 * rng.uniform() ** 4, 10.0 ** rng.uniform(-4, 1)
        yield Fit(h, ell, q, epsilon, np.zeros(dim), square)


@pytest.mark.parametrize("S", [0.5, 1.0, 3.0])
def test_an_accepted_set_is_as_narrow_as_lemma_23_says(S):
    s, delta, accepted, largest = concordance(LOGISTIC, S), 0.05, 0, 0.0
    for fit in steps(np.random.default_rng(11), S):
        found, h, d = global_set(fit, S, s, delta / 2), fit.eigenvalues, len(fit.eigenvalues)
        if found.width <= 1.2 * found.exact_width:
            accepted += 1
            growth = plain_mixture.widening(S * S / d) * S * S / d
            bound = np.sum(np.log1p(growth * h)) + 2 * log(4 / delta) + 3 * d
            bound += fit.ell * (S * S - fit.theta_square)
            W = found.curvature * h + found.shift
            scaled = found.radius**2 / W * (h + fit.ell) * lower_curvature(2 * S * s) / bound
            largest = max(largest, scaled.max())
    assert accepted > 1000
    assert 1.0 < largest < 18.0


@pytest.mark.parametrize("S", [0.5, 1.0, 3.0])
def test_a_small_step_is_accepted(S):
    """The bound on exchanges: such a step gains too little to count on."""
    s, delta, seen = concordance(LOGISTIC, S), 0.05, 0
    b, smallest = 2 * log(4 / delta), lower_curvature(2 * S * s)
    for fit in steps(np.random.default_rng(12), S):
        d, q = len(fit.eigenvalues), fit.drift
        residual = fit.step_residual * sqrt(2 * exp(q) / smallest)
        if q <= min(1, b / d) / 20 and residual <= 0.109 * sqrt(b):
            found = global_set(fit, S, s, delta / 2)
            assert found.width <= 1.2 * found.exact_width
            seen += 1
    assert seen > 300


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize("reach", [0.0, 0.2, 1.5])
def test_the_local_set_is_theorem_l_of_the_component_that_starts_smallest(link, reach):
    rng, chosen = np.random.default_rng(6), set()
    for model, S in models(rng):
        dim, p = len(model.theta), plain_problem(link, S)
        j = plain_mixture.local_component(p, model.plain, reach, delta=12 * 0.01, N=1)
        terms = local_terms(model.fit, S, concordance(link, math.inf), reach, 0.01)
        for count in (0, 1, 5, 20):
            local = Local(model, draw(rng, link, in_ball(rng, min(S, 1.0), dim), count))
            expected = local.plain_set(S, reach, j, log(1.0 / (0.02 * j.weight)))
            X = local.radius(S, 0.02, terms)
            found = (X, X * terms.widening)
            assert_allclose(found, (expected.X, expected.radius), rtol=1e-9)
        chosen.add(j.v)
    assert 0.0 in chosen
    assert len(chosen) > 2


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize("S", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("ridge", [0.01, 1.0, 50.0])
def test_the_first_epoch_starts_at_the_origin(link, S, ridge):
    rng, dim = np.random.default_rng(7), 4
    s = concordance(link, S)
    terms = first_epoch_terms(dim, S, s, ridge)
    assert (terms.ell, terms.drift, terms.residual, terms.stretch, terms.widening) == (
        ridge, 0.0, 0.0, 1.0, 1.0,
    )  # fmt: skip
    for count in (0, 1, 20, 400):  # both of the two bounds are the smaller one somewhere
        own = draw(rng, link, in_ball(rng, min(S, 1.0), dim), count)
        local = Local(Model(np.zeros(dim), np.zeros((dim, dim)), ridge), own)
        expected = local.plain_set(S, s * S, prior(0, dim, S), log(1.0 / (0.02 * 0.5)), first=True)
        assert_allclose(local.radius(S, 0.02, terms, first=True), expected.X, rtol=1e-9)


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


def test_the_weights_of_all_components_and_sets_of_clients_are_one_together():
    """Leaving clients out is paid for by the weight that no component has."""
    weights = [math.exp(-0.5 * component(j, 3, 1.0)[3]) for j in range(61)]
    for N in (1, 2, 7, 40):
        shares = [
            math.comb(N, k) * math.exp(-0.5 * left_out_cost(N, k)) if k else 1.0
            for k in range(N + 1)
        ]
        assert 0.99 < sum(weights) * sum(shares) <= 1.0


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_a_set_that_holds_the_ball_needs_no_probability(link):
    rng = np.random.default_rng(6)
    for model, S in models(rng):
        found, dim = ball_set(model.fit, S, concordance(link, S)), len(model.theta)
        W = found.curvature * model.H + found.shift * np.eye(dim)
        for truth in rng.normal(size=(20, dim)):
            error = S * truth / np.linalg.norm(truth) - model.theta
            assert error @ W @ error <= found.radius**2 * (1.0 + 1e-12)
        assert found.reach == 2.0 * S * concordance(link, S)
