"""What `tests.plain_mixture` must satisfy by itself.

Theorems M and L are checked for the package, in `tests/parts/confidence/test_mixture_terms.py`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from math import exp, inf, sqrt

import numpy as np
import pytest
from numpy.linalg import eigvalsh, inv, norm, slogdet
from numpy.testing import assert_allclose, assert_array_equal

from tests import plain, plain_mixture
from tests.plain import LINKS, Problem
from tests.plain_mixture import (
    Bayes,
    Certified,
    EpsilonGreedy,
    Greedy,
    Samples,
    Sigma,
    Thompson,
    Ucb,
)

pytestmark = (
    pytest.mark.slow
)  # of the plain version alone; `make test` compares it with the package

CASES = {
    "logistic": Problem("logistic", S=1.0, R=0.5, c=0.19, lam=1.0, delta=0.5),
    "logistic, S = 3": Problem("logistic", S=3.0, R=0.5, c=0.045, lam=0.5, delta=0.5),
    "poisson": Problem("poisson", S=1.0, R=1.0, c=0.36, lam=1.0, delta=0.5),
    "identity": Problem("identity", S=1.0, R=0.3, c=1.0, lam=0.2, delta=0.5),
}


def recorded(p: Problem, seed: int, T: int = 40, N: int = 3, K: int = 5, d: int = 3):
    """theta* on the sphere, arms in the unit ball, rewards of the link's own distribution."""
    rng = np.random.default_rng([seed, len(p.link)])
    theta = rng.standard_normal(d)
    theta *= p.S / norm(theta)
    arms = rng.standard_normal((T, N, K, d))
    arms /= np.maximum(norm(arms, axis=-1, keepdims=True), 1.0)
    mean = LINKS[p.link].mean(arms @ theta)
    if p.link == "logistic":
        rewards = (rng.random(mean.shape) < mean).astype(float)
    elif p.link == "poisson":
        rewards = rng.poisson(mean).astype(float)
    else:
        rewards = mean + p.R * rng.standard_normal(mean.shape)
    return theta, arms, rewards


# --------------------------------------------------------------------------------- the functions


@pytest.mark.parametrize("r", [0.0, 1e-9, 1e-3, 0.5, 0.999999, 1.000001, 3.0, 12.0])
def test_functions_are_their_integrals(r):
    """kappa = 2 ∫(1-u)e^(-ru), kappa_plus the same with e^(ru), T = ∫e^(uv/2), phi = ∫e^(ru)-1."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    u, w = (nodes + 1) / 2, weights / 2
    pm = plain_mixture
    assert_allclose(pm.kappa(r), 2 * w @ ((1 - u) * np.exp(-r * u)), rtol=1e-13)
    assert_allclose(pm.kappa_plus(r), 2 * w @ ((1 - u) * np.exp(r * u)), rtol=1e-13)
    assert_allclose(pm.widening(r), w @ np.exp(r * u / 2), rtol=1e-13)
    assert_allclose(pm.phi(r), w @ np.expm1(r * u), rtol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_self_concordance_bounds_the_slope(name):
    """|d log mu'/dz| <= s on the ball, and s is reached at its edge."""
    p = CASES[name]
    z = np.linspace(-p.S, p.S, 4001)
    rate = np.abs(np.gradient(np.log(LINKS[p.link].slope(z)), z)).max()
    s = plain_mixture.self_concordance(p, p.S)
    assert s - 2e-3 <= rate <= s + 1e-9
    assert s <= plain_mixture.self_concordance(p, inf)


# ------------------------------------------------------------------------------------ the stream


def test_known_answers_of_the_stream():
    """The vectors that Salmon et al. publish with their code."""
    ones = 2**32 - 1
    words = plain_mixture.philox((0, 0, 0, 0), (0, 0))
    assert words == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    words = plain_mixture.philox((ones,) * 4, (ones,) * 2)
    assert words == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    pi_words = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    words = plain_mixture.philox(pi_words, (0xA4093822, 0x299F31D0))
    assert words == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


def test_the_stream_is_uniform_and_normal():
    """Moments over many steps, each within five standard errors."""
    n = 4000
    u = np.array([list(islice(plain_mixture.uniforms(7, t, 2, 0), 3)) for t in range(n)])
    z = np.array([plain_mixture.normals(7, t, 2, 1, 3) for t in range(n)])
    assert u.min() >= 0
    assert u.max() < 1
    assert_allclose(u.mean(axis=0), 0.5, atol=5 * sqrt(1 / 12 / n))
    assert_allclose(z.mean(axis=0), 0.0, atol=5 / sqrt(n))
    assert_allclose(np.cov(z.T), np.eye(3), atol=5 * sqrt(2 / n))
    assert len(np.unique(u)) == u.size


# ---------------------------------------------------------------------------- one Newton step


@pytest.mark.parametrize("S", [inf, 1.0, 0.2])
def test_quadratic_over_ball_satisfies_its_optimality_conditions(S):
    rng = np.random.default_rng(0)
    for _ in range(20):
        A = rng.standard_normal((4, 3))
        H, b, lam = A.T @ A, rng.standard_normal(3), 0.1
        theta, nu = plain_mixture.quadratic_over_ball(H, b, lam, S)
        assert_allclose((H + (lam + nu) * np.eye(3)) @ theta, b, atol=1e-12)
        assert nu >= 0
        assert norm(theta) <= S * (1 + 1e-14)
        assert nu == 0 or norm(theta) == pytest.approx(S, rel=1e-14)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ball", [True, False])
def test_the_residual_of_one_exchange_is_within_its_bound(name, ball):
    """|e|_(H^-1) <= phi(q)|step|_H and e^-q H <= the Hessian there <= e^q H."""
    p, reached = CASES[name], 0.0
    for seed in range(20):
        _, arms, rewards = recorded(p, seed, T=5 + 5 * seed, N=1, K=1)
        data = Samples(arms[:, 0, 0], rewards[:, 0, 0])
        S = p.S if ball else inf
        model, _ = plain_mixture.one_exchange(p, data, np.zeros(3), p.lam, S, lambda _: True)
        H = data.hessian(p, model.theta)
        e = data.gradient(p, model.theta) + model.ridge * model.theta
        size = sqrt(e @ inv(model.H) @ e)
        assert size <= model.bound * (1 + 1e-9) + 1e-9
        assert eigvalsh(exp(model.q) * model.H - H).min() >= -1e-9
        assert eigvalsh(H - exp(-model.q) * model.H).min() >= -1e-9
        reached = max(reached, size / model.bound if model.bound else 0.0)
    assert (reached > 0.02) == (p.link != "identity")  # the bound is not idle


# ------------------------------------------------------------------------------- the algorithms


def test_the_radius_falls_with_delta():
    p = CASES["logistic"]
    _, arms, rewards = recorded(p, 1)
    model = plain_mixture.fedglb_mix(p, arms, rewards, threshold=1.0).models[-1]
    widths = [plain_mixture.global_set(p, model, delta).width for delta in (0.5, 0.1, 0.01, 1e-4)]
    assert widths == sorted(widths)
    assert len(set(widths)) == 4


def situations(p: Problem, seeds: int):
    """A client's own samples, and a model from one exchange over others."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        truth, arms, rewards = recorded(p, seed, T=20 + 15 * (seed % 4), N=1, K=1)
        old = Samples(arms[:, 0, 0], rewards[:, 0, 0])
        _, arms, rewards = recorded(p, seed + 1000, T=1 + 8 * (seed % 3), N=1, K=1)
        own = Samples(arms[:, 0, 0], rewards[:, 0, 0])
        start = rng.standard_normal(len(truth))
        start *= 0.3 * p.S / norm(start)
        if seed % 2:  # a step that is short, and so has tight bounds
            start = 0.98 * plain._fit(p, old.x, old.y, start) + start / 30
        lam = p.lam / plain_mixture.dispersion(p)
        model, _ = plain_mixture.one_exchange(p, old, start, lam, p.S, lambda _: True)
        yield own, model


@pytest.mark.parametrize("name", CASES)
def test_the_local_recursion_gives_the_direct_solve(name):
    """Sherman-Morrison and the rank-one step against theta_t - P G."""
    p = CASES[name]
    link, d_phi = LINKS[p.link], plain_mixture.dispersion(p)
    for own, model in situations(p, 6):
        theta, P = model.theta.copy(), inv(model.H + model.ridge * np.eye(3))
        gain = 0.0
        for x, y in zip(*own, strict=True):
            z = x @ model.theta
            a, residual = link.slope(z) / d_phi, (link.mean(z) - y) / d_phi
            error = residual + a * (x @ (theta - model.theta))
            q = x @ P @ x
            gain += np.log1p(a * q)
            P = P - a * np.outer(P @ x, P @ x) / (1 + a * q)
            theta = theta - P @ x * error
        origin = plain_mixture.components(p, 3, below=0.0)[0]
        L = plain_mixture.local_set(p, model, own, origin, 0.0, 1.0, False)
        assert_allclose(theta, L.theta, atol=1e-11)
        assert_allclose(P, L.P, atol=1e-11)
        start = model.H + model.ridge * np.eye(3)
        assert_allclose(gain, slogdet(inv(L.P))[1] - slogdet(start)[1], atol=1e-11)


RULES = [Ucb(), Greedy(), Sigma(2.0), Bayes(), Thompson(1.0)]


@pytest.mark.some(11)
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("name", CASES)
def test_certified_between_the_index_and_the_upper_bound(name, rule):
    p = CASES[name]
    _, arms, rewards = recorded(p, 2)
    free = plain_mixture.fedglb_mix(p, arms, rewards, 1.0, choice=rule, seed=5)
    loose = plain_mixture.fedglb_mix(p, arms, rewards, 1.0, choice=Certified(rule, inf), seed=5)
    assert_array_equal(free.choices, loose.choices)


def test_propensities_are_frequencies():
    """EpsilonGreedy and Thompson, over many seeds in one situation."""
    n, K = 2000, 4
    rng = np.random.default_rng(3)
    x, P = rng.standard_normal((K, 2)) / 3, np.diag([0.5, 0.2])
    x /= np.maximum(norm(x, axis=1, keepdims=True), 1)
    empty = np.zeros(K)

    def play(rule):
        views = (
            plain_mixture.View(x, np.array([0.3, 0.1]), P, empty, empty, 1.0, seed, 4, 1)
            for seed in range(n)
        )
        return [plain_mixture.choose(rule, view) for view in views]

    for rule in (EpsilonGreedy(0.4), EpsilonGreedy(0.3, Sigma(2.0))):
        played = play(rule)
        for k in range(K):
            share = np.mean([arm == k for arm, _ in played])
            said = {propensity for arm, propensity in played if arm == k}
            assert len(said) == 1
            assert share == pytest.approx(said.pop(), abs=5 * sqrt(0.25 / n))
    # Weighted by the inverse propensity every arm counts once: 1 - (1 - p)^(m + 1) with m draws.
    shares = [np.mean([arm == k for arm, _ in play(Thompson(1.0))]) for k in range(K)]
    played = play(Thompson(1.0, draws=20))
    for k, share in enumerate(shares):
        weight = np.mean([(arm == k) / propensity for arm, propensity in played])
        assert weight == pytest.approx(1 - (1 - share) ** 21, abs=0.2)


def test_the_clocks_differ_and_infinity_never_updates():
    p = replace(CASES["logistic"], delta=0.05)
    _, arms, rewards = recorded(p, 4)
    steps = plain_mixture.fedglb_mix(p, arms, rewards, 0.5)
    own = plain_mixture.fedglb_mix(p, arms, rewards, 0.5, clock="own samples")
    assert steps.syncs != own.syncs
    assert len(own.syncs) > 2
    assert len(steps.syncs) > 2
    assert plain_mixture.fedglb_mix(p, arms, rewards, inf).syncs == []
    for function in (plain.fedglb_ucb, plain.dislinucb):
        clocks = [
            function(p, arms, rewards, threshold=0.5, clock=clock).syncs
            for clock in ("steps", "own samples")
        ]
        assert clocks[0] != clocks[1]
        assert min(map(len, clocks)) > 2


def test_one_exchange_and_the_exact_fit_agree_for_the_identity_link():
    """Its loss is its own quadratic model: nothing is left over after one step."""
    p = CASES["identity"]
    _, arms, rewards = recorded(p, 5)
    one = plain_mixture.fedglb_mix(p, arms, rewards, 1.0)
    other = plain_mixture.fedglb_mix(p, arms, rewards, 1.0, solver="exact")
    assert_array_equal(one.choices, other.choices)
    assert set(one.rounds) == {1}
    assert_allclose(one.rhos, other.rhos, rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_evidence_step_uses_the_ridge_in_force(name):
    p = CASES[name]
    _, arms, rewards = recorded(p, 6)
    out = plain_mixture.fedglb_auto(p, arms, rewards)
    fixed = plain_mixture.fedglb_auto(replace(p, lam=0.5), arms, rewards, start=None)
    assert len(set(out.lambdas)) == len(out.lambdas) > 2
    assert_allclose(fixed.lambdas, 0.5, rtol=1e-14)
    # No data pull the ridge further than this: 0 <= gamma <= d.
    assert all(0 < lam <= (3 + 1) / 64 for lam in out.lambdas)


@pytest.mark.parametrize("link", ["logistic", "identity"])
def test_the_iterate_ellipsoid_holds_the_truth(link):
    p = replace(CASES[link], R=0.5)
    lost = 0
    for seed in range(20):
        truth, arms, rewards = recorded(p, seed, T=30)
        out = plain.fedglb_ucb(p, arms, rewards, threshold=1.0, ellipsoid="iterate")
        lemma = plain.fedglb_ucb(p, arms, rewards, threshold=1.0)
        assert np.nanmedian(out.alphas) < np.nanmedian(lemma.alphas)
        model, A = out.thetas[-1], (p.lam / p.c) * np.eye(3)
        for t, i in out.syncs[-1:]:
            for (step, client), k in np.ndenumerate(out.choices):
                if (step + 1, client) <= (t, i):
                    x = arms[step, client, k]
                    A += np.outer(x, x)
        # Right after an update the radius is r_g of the model.
        lost += (truth - model) @ A @ (truth - model) > plain._r_g(p, A, p.delta / 2) ** 2
    assert lost <= 5
