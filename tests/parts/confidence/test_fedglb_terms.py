"""Lemma "FedGLB", term by term, before every choice of real runs."""

from __future__ import annotations

from itertools import pairwise
from math import log, sqrt

import numpy as np
import pytest
from numpy.linalg import norm
from numpy.testing import assert_allclose
from scipy.optimize import brentq

import fedglb as fg
from fedglb.parts.confidence.fedglb import REFINEMENTS, ons_regret_bound, prediction_error_bound
from tests import plain
from tests.parts.confidence import formulas
from tests.parts.confidence.traces import CASES, LINKS, PROVEN, Case, Moment, ellipsoid_norm, trace

DELTA = 0.05
ALGORITHMS = {
    "event": fg.fedglb_ucb(2.0, fg.Newton(), delta=DELTA),
    "event, small ridge": fg.fedglb_ucb(2.0, fg.Newton(), ridge=0.01, delta=DELTA),
    "event, loose": fg.fedglb_ucb(2.0, fg.AGD(stop="fixed", rounds=3), delta=DELTA),
    "schedule": fg.fedglb_ucb_2(4, fg.Newton(), delta=DELTA),
    "never": fg.n_ons_glm(delta=DELTA),
}


class Terms:
    """What the lemmas speak of at one moment, from the samples."""

    def __init__(self, m: Moment) -> None:
        s = m.setting
        self.m, self.c, self.d = m, s.problem.c_mu, len(m.star)
        self.prior = s.ridge / self.c
        self.last = np.zeros(self.d) if m.sync is None else m.sync.solution.theta
        self.A_last = self.prior * np.eye(self.d) + m.old_X.T @ m.old_X
        self.A = self.A_last + m.X.T @ m.X
        self.w = np.einsum("md,md->m", m.X, m.models - m.star)  # errors of the predictions
        self.eta = m.noise(m.X, m.y)

    def loss(self, z: np.ndarray) -> float:
        return float(np.sum(self.m.link.cumulant(z) - self.m.y * z))

    @property
    def regret(self) -> float:
        """Σ_local [l(xᵀθ_{s−1}) − l(xᵀθ*)]."""
        return self.loss(self.m.z) - self.loss(self.m.X @ self.m.star)

    @property
    def regret_bound(self) -> float:
        """The package's B₂, from its own sums, with the true distance of the model it began at."""
        return ons_regret_bound(self.m.state.gradient_norms, self.start_error, self.c)

    @property
    def start_error(self) -> float:
        return ellipsoid_norm(self.last - self.m.star, self.A_last)

    @property
    def start_radius(self) -> float:
        """r_g(δ/2), √(λ/c)S before the first update."""
        m = self.m
        if m.sync is None:
            return sqrt(self.prior) * m.setting.problem.S
        return formulas.sync_global_radius(m, m.sync, m.setting.delta / 2.0)

    @property
    def local_bound(self) -> float:
        """The package's β_local."""
        s, e = self.m.setting, self.m.epoch
        B2 = ons_regret_bound(self.m.state.gradient_norms, self.start_radius, self.c)
        split = s.delta / (2.0 * s.clients * e * (e + 1))
        return prediction_error_bound(B2, self.c, s.problem.R, split, REFINEMENTS)


def all_terms(algorithm: str, link: str) -> list[Terms]:
    return [
        Terms(m)
        for given in CASES
        for m in trace(ALGORITHMS[algorithm], Case(link, **given)).moments
    ]


def close(size: float) -> float:
    """What rounding may take from a sum of this size."""
    return 1e-10 * (1.0 + abs(size))


@pytest.mark.some(2)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_inequality_before_every_choice(algorithm, link):
    terms = all_terms(algorithm, link)
    for v in terms:
        m, c = v.m, v.c
        assert_allclose(
            m.state.gradient_norms, formulas.gradient_norms(m, v.A_last), rtol=1e-9, atol=1e-12
        )
        # Lemma 3, with what its telescoping sum leaves over.
        left = v.regret + c / 2.0 * ellipsoid_norm(m.state.theta - m.star, v.A) ** 2
        assert left <= v.regret_bound + close(v.regret_bound)
        # From losses to predictions, by strong convexity.
        squares = float(v.w @ v.w)
        right = 2.0 / c * (v.regret + float(v.eta @ v.w))
        assert squares <= right + close(right)
        # ‖z − Xθ*‖² is what the ellipsoid has to hold.
        identity(v)
        if link in PROVEN:  # each of these fails with a share of δ
            assert v.start_error <= v.start_radius * (1.0 + 1e-12)
            assert v.regret <= ons_regret_bound(m.state.gradient_norms, v.start_radius, c)
            assert squares <= v.local_bound
            old = float(np.sum((m.old_X @ (v.last - m.star)) ** 2))
            assert old <= v.start_radius**2
            assert ellipsoid_norm(m.state.centre - m.star, m.state.matrix) <= m.alpha
    # Epochs before and after updates, and steps that were projected onto the ball.
    if algorithm != "never":
        assert len({v.m.epoch for v in terms}) >= 4
        assert max(len(v.m.y) for v in terms if v.m.epoch > 1) >= 3
    radius = [norm(v.m.state.theta) / v.m.setting.problem.S for v in terms if len(v.m.y)]
    assert min(radius) < 0.9
    if algorithm in ("event, small ridge", "never"):
        assert max(radius) > 1.0 - 1e-12


def identity(v: Terms) -> None:
    """‖θ̂ − θ*‖²_A + ‖z‖² − θ̂ᵀb = ‖z − Xθ*‖² + (λ/c)‖θ*‖², from the client's own state."""
    m, state = v.m, v.m.state
    left = ellipsoid_norm(state.centre - m.star, state.matrix) ** 2
    left += state.squares - float(state.centre @ state.b)
    old = m.old_X @ (v.last - m.star)
    right = float(old @ old + v.w @ v.w) + v.prior * float(m.star @ m.star)
    assert_allclose(left, right, rtol=1e-9, atol=1e-10 * (1.0 + state.squares))


# -- where the inequalities are equalities ------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["event", "never"])
def test_the_regret_of_ons_is_exact_for_squares(algorithm):
    """Identity link, a ball so large that nothing is projected: Lemma 3 leaves nothing over."""
    run = trace(ALGORITHMS[algorithm], Case("identity", seed=6, radius=50.0, star=0.01))
    grown = 0
    for m in run.moments:
        v = Terms(m)
        left = v.regret + v.c / 2.0 * ellipsoid_norm(m.state.theta - m.star, v.A) ** 2
        assert norm(m.state.theta) < 49.0
        assert_allclose(left, v.regret_bound, rtol=1e-9, atol=1e-10)
        squares = float(v.w @ v.w)
        assert_allclose(squares, 2.0 * (v.regret + float(v.eta @ v.w)), rtol=1e-9, atol=1e-10)
        grown += squares > 0.1
    assert grown > 20


@pytest.mark.parametrize("link", ["logistic", "probit", "poisson"])
def test_c_is_the_right_curvature(link):
    """At the edge of the ball, where μ′ is smallest, strong convexity is an equality."""
    problem = fg.Problem(1, LINKS[link], 1.0, 0.5)
    functions = plain.LINKS[link]
    z = np.array([-1.0, -1.0 + 1e-4]) if link == "poisson" else np.array([1.0, 1.0 - 1e-4])
    star, guess = z
    for y in (0.0, 0.4, 1.0):
        difference = np.diff(functions.cumulant(z))[0] - y * (guess - star)
        eta = y - float(functions.mean(star))
        square = 2.0 / problem.c_mu * (difference + eta * (guess - star))
        assert_allclose(square, (guess - star) ** 2, rtol=1e-3)
        assert square >= (guess - star) ** 2 * (1.0 - 1e-6)


# -- from regret to prediction errors -----------------------------------------------------------


def solution(a: float, f: float, delta: float) -> float:
    """The largest q ≥ 1 with q² ≤ a + f q √log(q/δ)."""

    def excess(q: float) -> float:
        return q - a / q - f * sqrt(log(q / delta))

    high = 2.0
    while excess(high) <= 0.0 or high < 10.0 * (sqrt(a) + f):
        high *= 2.0
    grid = np.geomspace(1.0, high, 4000)
    below = np.flatnonzero([excess(q) <= 0.0 for q in grid])
    last = below[-1]  # excess(1) ≤ 0, as a ≥ 1
    return float(brentq(excess, grid[last], grid[last + 1], xtol=1e-13, rtol=1e-14))


def draws() -> list[tuple[float, float, float, float]]:
    """Random (B, c, R, δ'), orders of magnitude apart."""
    rng = np.random.default_rng(11)
    out = []
    for _ in range(150):
        B = float(10.0 ** rng.uniform(-3, 5)) * float(rng.random() > 0.1)
        c = float(10.0 ** rng.uniform(-3, 0))
        R = float(10.0 ** rng.uniform(-2, 1))
        delta = float(10.0 ** rng.uniform(-7, -0.1))
        out.append((B, c, R, delta))
    return out


@pytest.mark.parametrize(("B", "c", "R", "delta"), draws())
def test_prediction_error_bound(B, c, R, delta):
    a, f = 1.0 + 2.0 * B / c, 2.0 * sqrt(2.0) * R / c
    exact = solution(a, f, delta) ** 2 - 1.0
    bounds = [prediction_error_bound(B, c, R, delta, j) for j in range(REFINEMENTS + 1)]
    for before, after in pairwise(bounds):
        assert after <= before + 1e-12 * (1.0 + before)
    for bound in bounds:
        assert bound >= exact - 1e-10 * (1.0 + exact)
    assert bounds[1] < bounds[0]
    assert bounds[-1] <= exact * (1.0 + 1e-6) + 1e-9  # two steps leave next to nothing
    # In the limit it is the solution itself, so a and f are neither too large nor too small.
    limit = prediction_error_bound(B, c, R, delta, 200)
    assert_allclose(limit, exact, rtol=1e-8, atol=1e-9)
    start = 2.0 * a + f**2 * log(sqrt(4.0 * a + f**4 / (4.0 * delta**2)) / delta) - 1.0
    assert_allclose(bounds[0], start, rtol=1e-12)
