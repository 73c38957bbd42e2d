"""Lemma "lazy ONS" of variant 3, term by term, before every choice of real runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.linalg import norm
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.parts.confidence.fedglb import REFINEMENTS, prediction_error_bound
from fedglb.parts.confidence.lazy_ons import lazy_regret_bound
from fedglb.parts.local_update.lazy_ons import LazyRate, gradient_bound
from fedglb.setting import Setting
from tests import plain
from tests.parts.confidence import formulas
from tests.parts.confidence.traces import (
    CASES,
    LINKS,
    PROVEN,
    Case,
    Moment,
    dual_norm,
    ellipsoid_norm,
    trace,
)

DELTA = 0.05
SETTINGS = {  # updates B, ridge λ
    "few": (4, 1.0),
    "many": (10, 1.0),
    "few, small ridge": (4, 0.01),
    "every step": (20, 100.0),
}


class Terms:
    """What the lemma speaks of at one moment, from the samples."""

    def __init__(self, m: Moment, rate: LazyRate) -> None:
        self.m, self.rate = m, rate
        self.gamma = rate.gamma(m.setting)
        self.losses = formulas.lazy_losses(m)
        self.sums = formulas.lazy_sums(m)
        state = m.state
        # what the client and its last model hold of Σ‖∇F‖² and Σz²
        held = np.zeros(2) if state.base is None else state.base.radius_terms
        self.norms = state.gradient_norms + float(held[0])
        self.squares = state.squares + float(held[1])

    @property
    def A(self) -> np.ndarray:
        """λI + Σ ∇F ∇Fᵀ."""
        return self.sums[-1][1] if self.sums else self.m.setting.ridge * np.eye(len(self.m.star))

    def differences(self) -> list[float]:
        """F_p(θ_{p−1}) − F_p(θ*)."""
        link, star = self.m.link, self.m.star
        return [
            float(np.sum(link.cumulant(X @ at) - link.cumulant(X @ star) - y * (X @ (at - star))))
            for X, y, at in self.losses
        ]

    def residuals(self) -> np.ndarray:
        """|μ(xᵀθ_{p−1}) − y| of all samples."""
        parts = [np.abs(self.m.link.mean(X @ at) - y) for X, y, at in self.losses]
        return np.concatenate([np.zeros(0), *parts])

    @property
    def errors(self) -> np.ndarray:
        """xᵀ(θ_{p−1} − θ*) of all samples."""
        return np.concatenate([np.zeros(0), *(X @ (at - self.m.star) for X, _, at in self.losses)])

    @property
    def eta(self) -> np.ndarray:
        return np.concatenate([np.zeros(0), *(self.m.noise(X, y) for X, y, _ in self.losses)])


def all_terms(link: str, updates: int, ridge: float, cases=CASES) -> list[Terms]:
    algorithm = fg.fedglb_ucb_3(updates, ridge=ridge, delta=DELTA)
    return [
        Terms(m, LazyRate(updates))
        for given in cases
        for m in trace(algorithm, Case(link, horizon=20, **given)).moments
    ]


def close(size: float) -> float:
    return 1e-10 * (1.0 + abs(size))


@pytest.mark.some(3)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("name", SETTINGS)
def test_every_inequality_before_every_choice(name, link):
    updates, ridge = SETTINGS[name]
    # Poisson rewards have neither a G nor a sub-Gaussian parameter, bounded ones have both.
    cases = [{**c, "noise": "bounded"} for c in CASES] if link == "poisson" else CASES
    terms = all_terms(link, updates, ridge, cases)
    for v in terms:
        m, gamma = v.m, v.gamma
        c, S, R = (getattr(m.setting.problem, k) for k in ("c_mu", "S", "R"))
        assert_allclose(m.state.gradient_matrix, v.A, rtol=1e-9, atol=1e-10)
        # |μ(xᵀθ) − y| ≤ G: always for bounded rewards, in these runs for Gaussian ones
        residuals = v.residuals()
        assert np.all(residuals <= gradient_bound(m.setting) * (1.0 + 1e-12))
        # Strong convexity, batch by batch: (c/2)Σ(xᵀΔ)² ≥ (γ/2)(∇FᵀΔ)²
        for (X, y, at), (g, _) in zip(v.losses, v.sums, strict=True):
            gap = at - m.star
            curved = c / 2.0 * float(np.sum((X @ gap) ** 2))
            assert gamma / 2.0 * float(g @ gap) ** 2 <= curved + close(curved)
            z, z_star = X @ at, X @ m.star
            loss = m.link.cumulant(z) - m.link.cumulant(z_star) - y * (z - z_star)
            linear = float(g @ gap)
            assert float(np.sum(loss)) <= linear - curved + close(linear)
        # The regret, with what the telescoping sum leaves over.
        norms = sum(dual_norm(g, A) ** 2 for g, A in v.sums)
        assert_allclose(v.norms, norms, rtol=1e-9, atol=1e-12)
        regret = sum(v.differences())
        bound = lazy_regret_bound(v.norms, gamma, ridge, float(norm(m.star)))
        left = regret + gamma / 2.0 * ellipsoid_norm(m.state.theta - m.star, v.A) ** 2
        assert left <= bound + close(bound)
        assert bound <= lazy_regret_bound(v.norms, gamma, ridge, S) * (1.0 + 1e-12)
        # From losses to predictions.
        errors = float(v.errors @ v.errors)
        right = 2.0 / c * (regret + float(v.eta @ v.errors))
        assert errors <= right + close(right)
        # The ellipsoid's algebra, with V.
        left = ellipsoid_norm(m.state.centre - m.star, m.state.matrix) ** 2
        left += v.squares - float(m.state.centre @ m.state.b)
        right = errors + ridge * float(m.star @ m.star)
        assert_allclose(left, right, rtol=1e-9, atol=close(v.squares))
        # and what fails with a share of δ
        share = DELTA / (m.setting.clients * (updates + 1))
        B_P = lazy_regret_bound(v.norms, gamma, ridge, S)
        assert errors <= prediction_error_bound(B_P, c, R, share, REFINEMENTS)
        assert ellipsoid_norm(m.state.centre - m.star, m.state.matrix) <= m.alpha
    assert len({v.m.epoch for v in terms}) >= 4
    assert max(len(X) for v in terms for X, _, _ in v.losses) > 1


@pytest.mark.parametrize(("updates", "ridge"), [(4, 7e3), (20, 2e3)])
def test_the_regret_is_exact_without_projections(updates, ridge):
    """Σ ∇FᵀΔ − (γ/2)(∇FᵀΔ)² + (γ/2)‖θ_P − θ*‖²_A = (1/2γ)Σ‖∇F‖²_{A⁻¹} + (γ/2)λ‖θ*‖².

    So no constant of B_P can be smaller. A large ridge makes steps so short that none leaves
    the ball.
    """
    terms = all_terms("identity", updates, ridge, [{"seed": 6, "star": 0.5}])
    moved = 0.0
    for v in terms:
        m, gamma = v.m, v.gamma
        left = gamma / 2.0 * ellipsoid_norm(m.state.theta - m.star, v.A) ** 2
        for (_, _, at), (g, _) in zip(v.losses, v.sums, strict=True):
            slope = float(g @ (at - m.star))
            left += slope - gamma / 2.0 * slope**2
        right = lazy_regret_bound(v.norms, gamma, ridge, float(norm(m.star)))
        assert norm(m.state.theta) < 1.0
        assert_allclose(left, right, rtol=1e-9)
        moved = max(moved, v.norms / (2.0 * gamma) / right)
    assert 0.3 < moved < 0.8  # both terms count


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_gamma_cannot_be_larger(link):
    """A full batch of one and the same sample with the largest residual: an equality."""
    setting = Setting(fg.Problem(1, LINKS[link], 1.3), 4, 60, 1.0, DELTA)
    rate = LazyRate(5)
    n, G, c = 4 * 12, gradient_bound(setting), setting.problem.c_mu
    X, theta, star = np.ones((n, 1)), np.array([1.3]), np.array([0.2])
    y = np.zeros(n)
    assert_allclose(plain.LINKS[link].mean(1.3), G)  # attained
    g = X.T @ (plain.LINKS[link].mean(X @ theta) - y)
    gap = theta - star
    curved = c / 2.0 * float(np.sum((X @ gap) ** 2))
    assert_allclose(rate.gamma(setting) / 2.0 * float(g @ gap) ** 2, curved, rtol=1e-12)
    assert LazyRate(5, batch_limit=n).gamma(setting) == rate.gamma(setting)


@pytest.mark.parametrize("link", PROVEN)
def test_the_bound_on_residuals(link):
    """G over the whole ball, and over all rewards of a run with probability 1 − δ."""
    case = Case(link, radius=1.7)
    setting = Setting(case.problem, 3, 50, 1.0, DELTA)
    G, functions = gradient_bound(setting), plain.LINKS[link]
    z = np.linspace(-1.7, 1.7, 401)
    if link == "identity":
        rng = np.random.default_rng(0)
        noise = np.abs(rng.standard_normal((4000, 150))).max(axis=1)  # NT rewards per run
        failed = np.mean(2.0 * 1.7 + setting.problem.R * noise > G)
        assert 0.0 < failed <= DELTA
    else:
        largest = max(np.max(np.abs(functions.mean(z) - y)) for y in (0.0, 1.0))
        assert_allclose(G, largest, rtol=1e-12)


def test_a_given_limit_on_the_batch():
    """A smaller γ is valid too, and the radius follows it."""
    case = Case("logistic", seed=1)
    loose = trace(fg.fedglb_ucb_3(4, delta=DELTA, batch_limit=10_000), case).moments
    assert loose[0].setting.horizon == case.horizon
    rate = LazyRate(4, 10_000)
    for m in loose:
        v = Terms(m, rate)
        bound = lazy_regret_bound(v.norms, v.gamma, 1.0, 1.0)
        assert sum(v.differences()) <= bound + close(bound)
        assert ellipsoid_norm(m.state.centre - m.star, m.state.matrix) <= m.alpha
    tight = trace(fg.fedglb_ucb_3(4, delta=DELTA), replace(case)).moments
    assert loose[-1].alpha > 2.0 * tight[-1].alpha
