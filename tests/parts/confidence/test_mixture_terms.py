"""Theorems M and L, term by term, on random data: what is proven holds, and barely."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import exp, expm1, sqrt

import numpy as np
import pytest
from numpy.linalg import eigvalsh, inv, norm, slogdet
from numpy.testing import assert_allclose

from fedglb.parts.mixture import (
    component,
    global_set,
    local_terms,
)
from fedglb.parts.self_concordance import (
    heat_factor,
    lower_curvature,
    taylor_excess,
    upper_curvature,
)
from tests.parts.confidence.mixture_data import (
    IDENTITY,
    LOGISTIC,
    POISSON,
    Data,
    Local,
    Model,
    at,
    concordance,
    draw,
    evaluated,
    in_ball,
    log_evidence,
    newton_step,
    one_exchange,
    plain_problem,
    prior,
)
from tests.plain_mixture import component_radius

LINKS = [LOGISTIC, POISSON, IDENTITY]
EVERYWHERE = np.inf


def w_norm(x, W) -> float:
    return sqrt(x @ W @ x)


# Lemmas 1 to 3


@pytest.mark.parametrize("link", [LOGISTIC, POISSON], ids=lambda link: link.name)
def test_lemma_2(link):
    """E m(z + g) ≤ m(z) + ½T(v)μ′(z)v; with equality for the exponential."""
    xi = np.linspace(-14.0, 14.0, 2001)
    weight = np.exp(-0.5 * xi**2)
    weight /= weight.sum()
    gaps = []
    for z in np.linspace(-12.0, 8.0, 41):
        for v in (1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 12.0):
            mean = weight @ link.cumulant(z + sqrt(v) * xi) - link.cumulant(z)
            gaps.append(0.5 * heat_factor(v) * v * link.variance(z) / mean - 1.0)
    if link is POISSON:
        assert_allclose(gaps, 0.0, atol=1e-11)
    assert min(gaps) > -1e-11
    assert min(gaps) < 1e-4


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
@pytest.mark.parametrize("S", [1.0, 3.0, 10.0])
def test_lemma_3(link, S):
    """The loss lies between two parabolas, and the Hessian turns by e^r at most."""
    rng = np.random.default_rng(31)
    for _ in range(150):
        dim = rng.integers(1, 5)
        data = draw(rng, link, in_ball(rng, min(S, 3.0), dim), rng.integers(1, 30))
        theta, end = in_ball(rng, S, dim), in_ball(rng, S, dim)
        move, H = end - theta, data.hessian(theta)
        r = concordance(link, S) * np.abs(data.X @ move).max()
        excess = data.loss(end) - data.loss(theta) - data.gradient(theta) @ move
        square = 0.5 * move @ H @ move
        slack = 1e-10 * (1.0 + abs(data.loss(end)) + abs(data.loss(theta)))
        assert lower_curvature(r) * square - slack <= excess
        assert excess <= upper_curvature(r) * square + slack
        turned = data.hessian(end)
        assert eigvalsh(exp(r) * H - turned).min() >= -1e-9 * exp(r) * np.trace(H)
        assert eigvalsh(turned - exp(-r) * H).min() >= -1e-9 * np.trace(H)


def test_lemma_3_is_an_equality_for_one_count():
    for move in (-2.0, -0.3, 0.3, 2.0):
        data = Data(POISSON, np.ones((1, 1)), np.array([3.0]))
        start, end = np.array([0.4]), np.array([0.4 + move])
        excess = data.loss(end) - data.loss(start) - data.gradient(start)[0] * move
        curvature = lower_curvature(-move) if move < 0.0 else upper_curvature(move)
        assert_allclose(excess, 0.5 * curvature * move**2 * exp(0.4), rtol=1e-12)


def arm_after(past, dim) -> np.ndarray:
    """An arm that depends on all rewards so far."""
    angle = 1.7 * len(past) + sum((k + 1.3) * y for k, y in enumerate(past))
    return np.array([np.cos(angle), np.sin(angle)])[:dim]


def bernoulli(mean):
    return {0.0: 1.0 - mean, 1.0: mean}


def three_valued(mean):
    """A law on {0, ½, 1} with this mean."""
    middle = min(mean, 1.0 - mean)
    return {0.0: 1.0 - mean - middle / 2.0, 0.5: middle, 1.0: mean - middle / 2.0}


def mean_of_mixture(law, star, component, steps) -> float:
    """E Z after some steps, over all paths of rewards, Z an integral over the prior."""
    dim = len(star)
    u, v, _ = prior(component, dim, 1.5)
    axis = np.linspace(-9.0, 9.0, 61)
    xi = np.array(list(product(axis, repeat=dim)))
    weight = np.exp(-0.5 * (xi**2).sum(axis=1))
    weight /= weight.sum()
    theta = star * (v > 0.0) + xi / sqrt(u)
    values = list(law(0.5))
    total = 0.0
    for path in product(values, repeat=steps):
        probability, X = 1.0, []
        for k in range(steps):
            X.append(arm_after(path[:k], dim))
            probability *= law(LOGISTIC.mean(float(X[k] @ star)))[path[k]]
        data = Data(LOGISTIC, np.array(X), np.array(path))
        total += probability * (weight @ np.exp(data.loss(star) - data.loss(theta)))
    return total


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("component", [0, 1, 2])
def test_the_mixture_of_bernoulli_rewards_has_mean_1(dim, component):
    star = np.array([0.8, -1.1])[:dim]
    assert_allclose(mean_of_mixture(bernoulli, star, component, 5), 1.0, rtol=1e-12)


@pytest.mark.parametrize("component", [0, 1])
def test_the_mixture_of_other_rewards_in_the_unit_interval_has_a_smaller_mean(component):
    star = np.array([0.8, -1.1])
    assert 0.2 < mean_of_mixture(three_valued, star, component, 4) < 1.0 - 1e-3


def test_the_weights_sum_to_1():
    """1/(j(j+1)) telescopes: the weights up to j sum to 1 − 1/(2(j+1)), as the kernel has them."""
    weights = [exp(-0.5 * component(j, 3, 1.0)[3]) for j in range(61)]
    assert_allclose(sum(weights), 1.0 - 0.5 / 61.0, rtol=1e-12)


# Fitted models, and the residual of one exchange


def random_case(rng, link, S, dim, kind):
    """Samples, a model of one kind, and a θ* that the samples need not have come from."""
    far = {"logistic": 4.0, "poisson": 1.2, "identity": 1.5}[link.name]
    source = in_ball(rng, rng.choice([0.5, far]) * S, dim)
    data = draw(rng, link, source, rng.integers(1, 60))
    ridge, steps = rng.choice([0.05, 1.0, 5.0]), rng.integers(1, 6)
    if kind == "one exchange":
        model = one_exchange(data, ridge, S, steps)
    elif kind == "evaluated":
        model = evaluated(data, ridge, S, steps)
    elif kind == "any point":
        model = at(data, in_ball(rng, S, dim), ridge + rng.choice([0.0, 3.0]))
    else:  # a Hessian that is as wrong as q allows
        model = evaluated(data, ridge, S, steps)
        q = rng.choice([0.1, 0.7, 1.5])
        model = replace(model, H=exp(rng.choice([-q, q])) * model.H, drift=q)
    nearest = source * min(1.0, S / norm(source))
    star = nearest if rng.uniform() < 0.5 else in_ball(rng, S, dim)
    if data.loss(star) - data.loss(nearest) > 300.0:  # so that a float holds the likelihood ratio
        star = nearest
    return data, model, star


KINDS = ["one exchange", "evaluated", "any point", "turned Hessian"]


def test_the_residual_of_one_count_meets_its_bound():
    data = Data(POISSON, np.ones((1, 1)), np.array([5.0]))
    theta, nu = newton_step(data, np.zeros(1), 0.3, 100.0)
    assert nu == 0.0
    assert theta[0] > 1.0
    e = data.gradient(theta)[0] + 0.3 * theta[0]
    assert_allclose(e, taylor_excess(theta[0]) * theta[0], rtol=1e-12)


# Theorem M


def log_mixture(data, star, S, j) -> float:
    """log Z_j: the event of component j ends where it is log(1/(w_jδ))."""
    u, v, _ = prior(j, len(star), S)
    return log_evidence(data, star * (v > 0.0), u, star)


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_theorem_m_against_quadrature(link, kind):
    """At the end of its event every component still has θ* in its ellipsoid."""
    rng = np.random.default_rng([7, LINKS.index(link), KINDS.index(kind)])
    ratios, on_sphere = [], 0
    for case in range(60):
        dim, S = 1 + case % 2, rng.choice([0.5, 1.0, 3.0])
        data, model, star = random_case(rng, link, S, dim, kind)
        on_sphere += norm(model.theta) > S * (1.0 - 1e-12)
        gap = star - model.theta
        r = concordance(link, S) * norm(gap)
        for j in range(5):
            W = lower_curvature(r) * exp(-model.drift) * model.H
            own = prior(j, dim, S)
            W = W + (model.ell - own.v) * np.eye(dim)
            if eigvalsh(W)[0] < 1e-9:
                continue
            log_z = log_mixture(data, star, S, j)
            rho, _ = component_radius(plain_problem(link, S), model.plain, own, r, log_z)
            ratios.append(w_norm(gap, W) / rho)
    assert len(ratios) > 100
    assert 10 <= on_sphere <= 50
    assert max(ratios) <= 1.0 + 1e-9
    assert max(ratios) > (0.7 if kind == "any point" else 0.95)  # the bound is nearly met


# Theorem L


def usable(model, j) -> bool:
    """Whether component j has an ellipsoid."""
    return model.fit.eigenvalues[0] + model.ell - j.v >= 1e-9


def own_samples(rng, data, S, dim) -> Data:
    """More samples of one client, often none."""
    return draw(rng, data.link, in_ball(rng, S, dim), rng.choice([0, 1, 3, 20]))


def local_ratios(found, star):
    """‖θ* − θ_i‖ over its bound, in the norm of W and in that of the intervals, P_i⁻¹."""
    D = star - found.theta
    if not D.any():  # the set may be this point
        return ()
    return w_norm(D, found.W) / found.X, w_norm(D, inv(found.P)) / found.radius


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_theorem_l_against_quadrature(link, kind):
    rng = np.random.default_rng([8, LINKS.index(link), KINDS.index(kind)])
    ratios = []
    for case in range(60):
        dim, S = 1 + case % 2, rng.choice([0.5, 1.0, 3.0])
        data, model, star = random_case(rng, link, S, dim, kind)
        local = Local(model, own_samples(rng, data, S, dim))
        r = concordance(link, S) * norm(star - model.theta)
        for j in range(5):
            if usable(model, prior(j, dim, S)):
                log_z = log_mixture(data + local.own, star, S, j)
                ratios += local_ratios(local.plain_set(S, r, prior(j, dim, S), log_z), star)
    assert len(ratios) > 200
    assert max(ratios) <= 1.0 + 1e-9
    assert max(ratios) > (0.6 if kind == "any point" else 0.8)


def likelihood_term(local, data, j, star) -> float:
    """log(1/(w_jδ′)) at which θ* just meets the likelihood inequality of Theorem L's proof."""
    fit = local.model.fit
    dim = len(star)
    c = heat_factor(1.0 / (j.u + fit.eigenvalues[0])) / j.u
    turn = concordance(data.link, EVERYWHERE) * norm(local.u) + fit.drift
    rest = slogdet(np.eye(dim) + c * local.H)[1] + dim * expm1(turn)
    rest += j.u * norm(local.theta - star * (j.v > 0.0)) ** 2
    every = data + local.own
    return every.loss(star) - every.loss(local.theta) - 0.5 * rest


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_every_parameter_that_is_likely_enough_is_in_theorem_l(link, kind):
    """Over the whole ball, with the largest δ′ that lets θ pass the likelihood inequality."""
    rng = np.random.default_rng([9, LINKS.index(link), KINDS.index(kind)])
    ratios = []
    for _ in range(60):
        dim, S = rng.integers(1, 6), rng.choice([0.5, 1.0, 3.0])
        data, model, star = random_case(rng, link, S, dim, kind)
        local = Local(model, own_samples(rng, data, S, dim))
        for theta in [star, *(in_ball(rng, S, dim) for _ in range(10))]:
            r = concordance(link, S) * norm(theta - model.theta)
            for j in (prior(k, dim, S) for k in (0, 1, 3)):
                if usable(model, j):
                    log_term = likelihood_term(local, data, j, theta)
                    if abs(log_term) < 690.0:  # so that a float holds δ′
                        ratios += local_ratios(local.plain_set(S, r, j, log_term), theta)
    assert len(ratios) > 1000
    assert max(ratios) <= 1.0 + 1e-9
    assert max(ratios) > (0.8 if kind == "any point" else 0.9)


@pytest.mark.some(1)
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_theorem_l_before_the_first_model(link):
    rng = np.random.default_rng([10, LINKS.index(link)])
    ratios, direct = [], 0
    for case in range(80):
        dim, S, ridge = 1 + case % 2, rng.choice([0.5, 1.0, 3.0]), rng.choice([0.05, 1.0, 5.0])
        s, source = concordance(link, S), in_ball(rng, S, dim)
        own = draw(rng, link, source, rng.choice([1, 10, 400]))
        local = Local(Model(np.zeros(dim), np.zeros((dim, dim)), ridge), own)
        star = source if case % 4 < 2 else in_ball(rng, S, dim)
        log_z = log_mixture(own, star, S, 0)
        at_once, later = (
            local.plain_set(S, s * S, prior(0, dim, S), log_z, first) for first in (True, False)
        )
        direct += later.X > at_once.X
        ratios += [*local_ratios(at_once, star), *local_ratios(later, star)]
    assert max(ratios) <= 1.0 + 1e-9
    assert max(ratios) > 0.8
    if link is not IDENTITY:  # where there is no curvature to miss, the two bounds are the same
        assert 0 < direct < 80


# Both, as they are used: with the component that they choose, and the reach that M finds


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_the_sets_that_are_chosen_hold_theta_at_the_end_of_their_event(link, kind):
    rng = np.random.default_rng([11, LINKS.index(link), KINDS.index(kind)])
    ratios = []
    for case in range(30):
        dim, S = (2 if case % 6 == 0 else 1), rng.choice([0.5, 1.0, 3.0])
        s, s_bar = concordance(link, S), concordance(link, EVERYWHERE)
        data, model, star = random_case(rng, link, S, dim, kind)
        local = Local(model, own_samples(rng, data, S, dim))

        def end(samples, star=star, S=S, dim=dim):
            """1/Z, Z = Σ w_j Z_j."""
            return 1.0 / sum(
                prior(j, dim, S)[2] * exp(log_mixture(samples, star, S, j)) for j in range(12)
            )

        found = global_set(model.fit, S, s, end(data))
        W = found.curvature * model.H + found.shift * np.eye(dim)
        gap, D = star - model.theta, star - local.theta
        delta = end(data + local.own)
        terms = local_terms(model.fit, S, s_bar, found.reach, delta)
        X = local.radius(S, delta, terms)
        ratios.append(w_norm(gap, W) / found.radius)
        ratios.append(w_norm(D, local.H + model.ell * np.eye(dim)) / (X * terms.widening))
        assert s * norm(gap) <= found.reach * (1.0 + 1e-9)
        assert_allclose(found.width, found.radius * sqrt(np.trace(inv(W))), rtol=1e-6)
    assert max(ratios) <= 1.0 + 1e-9
    assert max(ratios) > 0.6
