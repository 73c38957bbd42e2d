"""The one-pass update's set, term by term, on random data: what is proven holds, and barely."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
import pytest
from numpy.linalg import eigvalsh, norm
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.parts.confidence import one_pass
from fedglb.parts.confidence.one_pass_set import _ellipsoid, smallest_set
from fedglb.parts.global_update import Passed
from fedglb.parts.mixture import component
from fedglb.parts.self_concordance import lower_curvature
from fedglb.privacy.fixed_point import unpack
from tests.parts.confidence.mixture_data import (
    IDENTITY,
    LOGISTIC,
    POISSON,
    Data,
    concordance,
    draw,
    in_ball,
    log_evidence,
)
from tests.privacy.packing import pack

LINKS = [LOGISTIC, POISSON, IDENTITY]
NOISE = 0.7  # R of the identity link


@dataclass(frozen=True)
class Case:
    """Batches, each with the model in force, and noise in the prefix sums; θ is any point."""

    link: fg.Link
    S: float
    batches: list[Data]
    thetas: list[np.ndarray]
    matrices: list[np.ndarray]  # N_1, …, N_b, of prefix sums
    vectors: list[np.ndarray]
    variance: float  # c̄ of whatever window
    theta: np.ndarray
    star: np.ndarray

    @property
    def s(self):
        return concordance(self.link, self.S)

    def sums(self, k):
        """v and Σ μ′xxᵀ of a batch, in units of the likelihood."""
        H = self.batches[k].hessian(self.thetas[k])
        return H @ self.thetas[k] - self.batches[k].gradient(self.thetas[k]), H

    def of(self, start) -> Data:
        """The samples of the batches after the first `start`."""
        return sum(self.batches[start + 1 :], self.batches[start])

    def path(self):
        unit, d = self.batches[0].dispersion, len(self.star)
        v, H, out = np.zeros(d), np.zeros((d, d)), []
        for k in range(len(self.batches)):
            own_v, own_H = self.sums(k)
            v, H = v + own_v, H + own_H
            noisy = unit * (v + self.vectors[k]), unit * (H + self.matrices[k])
            out.append(Passed(k + 1, 1, self.thetas[k], *noisy))
        return tuple(out)

    def difference(self, noise, start, last):
        return noise[last - 1] - (noise[start - 1] if start else 0.0)

    def fit(self, monkeypatch):
        """The batches seen from θ, with bounds on the noise that are its actual sizes."""
        case = self

        class Known:
            def __init__(self, setting, path):
                pass

            def matrix(self, start, last):
                return norm(case.difference(case.matrices, start, last), 2)

            def vector(self, start, last):
                return case.variance

        monkeypatch.setattr(one_pass, "_Noise", Known)
        noise = NOISE if self.link is IDENTITY else 1.0
        problem = fg.Problem(len(self.star), self.link, self.S, noise)
        setting = fg.fedglb_private(9).setting(problem, clients=3, horizon=100)
        return one_pass._Fit(setting, self.path(), self.theta)


def random_case(rng, link, S, dim, noisy) -> Case:
    far = {"logistic": 3.0, "poisson": 1.0, "identity": 1.5}[link.name]
    star = in_ball(rng, S, dim)
    source = star if rng.uniform() < 0.7 else in_ball(rng, far * S, dim)
    count = rng.integers(1, 5)
    batches = [draw(rng, link, source, rng.integers(1, 30), NOISE) for _ in range(count)]
    near = rng.choice([0.1, 0.5, 2.0])
    thetas = [clipped(star + near * rng.normal(size=dim), S) for _ in range(count)]
    scale = rng.choice([0.3, 2.0, 8.0]) if noisy else 0.0
    matrices, vectors = [], []
    for _ in range(count):
        E = rng.normal(size=(dim, dim)) * scale
        matrices.append((E + E.T) / 2.0)
        vectors.append(rng.normal(size=dim) * scale)
    variance = rng.choice([0.1, 1.0, 10.0]) * scale
    theta = clipped(star + rng.choice([0.05, 0.3, 1.0]) * rng.normal(size=dim), S)
    return Case(link, S, batches, thetas, matrices, vectors, variance, theta, star)


def clipped(point, S):
    return point * min(1.0, S / norm(point))


def cases(link, count, noisy, seed):
    rng = np.random.default_rng([seed, LINKS.index(link), noisy])
    for _ in range(count):
        S = rng.choice([0.5, 1.0, 2.0] if link is POISSON else [0.5, 1.0, 3.0])
        yield rng, random_case(rng, link, S, rng.integers(1, 3), noisy)


@dataclass(frozen=True)
class Tilted:
    """The loss with noise: L(θ) − ζᵀ(θ − θ*) + ½c̄‖θ − θ*‖²."""

    data: Data
    zeta: np.ndarray
    variance: float
    star: np.ndarray

    def loss(self, theta):
        away = theta - self.star
        return (
            self.data.loss(theta) - away @ self.zeta + 0.5 * self.variance * (away**2).sum(axis=-1)
        )

    def gradient(self, theta):
        return self.data.gradient(theta) - self.zeta + self.variance * (theta - self.star)

    def hessian(self, theta):
        return self.data.hessian(theta) + self.variance * np.eye(len(theta))


@pytest.mark.some(2)
@pytest.mark.parametrize("noisy", [False, True], ids=["exact", "noisy"])
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_the_theorem_against_quadrature(link, noisy, monkeypatch):
    """At the end of its event every window and component still has θ* in its ellipsoid."""
    checked, ratios = 0, []
    for rng, case in cases(link, 60, noisy, seed=21):
        fit, last, star = case.fit(monkeypatch), len(case.batches), case.star
        start = int(rng.integers(0, last))
        at, basis = fit.expansion(start)
        data = case.of(start)
        N = case.difference(case.matrices, start, last)
        zeta = case.difference(case.vectors, start, last) - N @ star
        tilted = Tilted(data, zeta, case.variance, star)
        r = case.s * np.abs(data.X @ (star - case.theta)).max()
        for j in (0, 1, 3):
            u, v, _, cost = component(j, len(star), case.S)
            log_z = log_evidence(tilted, star * (v > 0.0), u, star)
            delta = exp(0.5 * cost - log_z)  # so that log(1/(w_jδ)) is log Z_j
            for tau in (0.0, 0.2, 0.6):
                for ell in (0.0, 1.0, 30.0):
                    rho, a, shift, width, away = _ellipsoid(j, tau, ell, r, *at, case.S, delta)
                    if rho == np.inf:
                        continue
                    W = a * at.low + shift
                    move = (at.slope + ell * at.theta) / W
                    error = basis.T @ (star - case.theta) + move
                    inside = sqrt((W * error**2).sum())
                    assert inside <= rho * (1.0 + 1e-7) + 1e-7
                    assert norm(star - case.theta) <= away * (1.0 + 1e-7) + 1e-7
                    assert_allclose(width, rho * sqrt((1.0 / W).sum()), rtol=1e-12)
                    checked += 1
                    ratios.append(inside / rho)
    assert checked > 300
    assert max(ratios) > 0.95  # some constants cannot be smaller


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_hessians_and_the_remainder(link, monkeypatch):
    """Without noise: Σ w_jH_j ⪯ ∇²L(θ) ⪯ the upper bound, and |ϱᵀD| ≤ ε‖D‖ in the first's norm."""
    ratios = []
    for rng, case in cases(link, 150, noisy=False, seed=22):
        fit, last = case.fit(monkeypatch), len(case.batches)
        start = int(rng.integers(0, last))
        at, basis = fit.expansion(start)
        data = case.of(start)
        H, low = data.hessian(case.theta), (basis * at.low) @ basis.T
        slack = 1e-9 * (1.0 + norm(H))
        assert eigvalsh(H - low)[0] >= -slack
        assert np.all(eigvalsh(H) <= at.high + slack)
        remainder = data.gradient(case.theta) - basis @ at.slope
        D = rng.normal(size=len(case.star))
        bound = at.remainder * sqrt(max(D @ low @ D, 0.0))
        assert abs(remainder @ D) <= bound + 1e-8 * (1.0 + norm(data.gradient(case.theta)))
        if bound > 1e-6:
            ratios.append(abs(remainder @ D) / bound)
    if link is IDENTITY:
        assert not ratios  # there is no remainder
    else:
        assert max(ratios) > 0.5


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.name)
def test_the_loss_between_a_point_and_the_truth(link):
    """L(θ*) − L(θ + τD) ≥ (1 − τ)∇LᵀD + ½(κ(r) − τ²κ(τr))‖D‖², with equality for one parabola."""
    for rng, case in cases(link, 150, noisy=False, seed=23):
        data, D, tau = case.of(0), case.star - case.theta, rng.uniform()
        r = case.s * np.abs(data.X @ D).max()
        left = data.loss(case.star) - data.loss(case.theta + tau * D)
        curvature = lower_curvature(r) - tau**2 * lower_curvature(tau * r)
        square = D @ data.hessian(case.theta) @ D
        right = (1.0 - tau) * data.gradient(case.theta) @ D + 0.5 * curvature * square
        assert left >= right - 1e-9 * (1.0 + abs(left))
        if link is IDENTITY:
            assert_allclose(left, right, rtol=1e-7, atol=1e-9)


# -- noise ---------------------------------------------------------------------------------------


def noise_of(privacy, updates, clients=7, d=3, S=1.5, path_length=None):
    problem = fg.Problem(d, radius=S)
    algorithm = fg.fedglb_private(updates, privacy=privacy)
    setting = algorithm.setting(problem, clients, horizon=1000)
    zero = np.zeros(d), np.zeros(d), np.zeros((d, d))
    path = tuple(Passed(k + 1, clients, *zero) for k in range(path_length or updates))
    return setting, one_pass._Noise(setting, path)


@pytest.mark.parametrize("place", ["sums", "silo"])
def test_the_noise_of_windows_is_that_of_their_prefix_sums(place):
    """Prefix sums are D·(releases): their differences have these variances."""
    B, clients, S = 9, 7, 1.5
    setting, noise = noise_of(fg.GaussianMechanism(1.0, 1e-6, noise=place), B, clients, S=S)
    plan = setting.noise
    F = plan.factors.decoder
    of_matrix = plan.matrix_share**2 * clients
    of_vector = plan.vector_share**2 * clients
    tail = sqrt(2.0 * 3) + sqrt(2.0 * log(2.0 * B * (B + 1) / setting.delta))
    for first in range(B):
        for last in range(first + 1, B + 1):
            row = F[last - 1] - (F[first - 1] if first else 0.0)
            square = row @ row
            assert_allclose(noise.matrix(first, last), sqrt(of_matrix * square) * tail, rtol=1e-9)
            both = (of_vector + of_matrix * S**2) * square
            assert_allclose(noise.vector(first, last), both, rtol=1e-9)


def test_without_privacy_there_is_no_noise():
    _, noise = noise_of(None, 9)
    assert noise.matrix(2, 7) == noise.vector(0, 9) == 0.0


def test_the_noise_against_the_truth_has_at_most_this_variance():
    """hᵀ(n − Nθ*) has the variance σ_v²‖h‖² + ½σ_H²(‖h‖²‖θ*‖² + (hᵀθ*)²), from packed numbers."""
    rng, d, of_vector, of_matrix = np.random.default_rng(5), 4, 1.3, 0.8
    for case in range(50):
        star, h = rng.normal(size=(2, d))
        h = star * 0.4 if case == 0 else h
        # each of the m numbers has noise of its own: the derivative of hᵀ(n − Nθ*) by each
        m = d + d * (d + 1) // 2
        parts = [unpack(row * 2.0**30, d) for row in np.eye(m)]
        slopes = np.array([h @ (n - N @ star) for n, N in parts])
        sigma = np.array([of_vector] * d + [of_matrix] * (m - d))
        variance = ((slopes * sigma) ** 2).sum()
        square, length, along = h @ h, star @ star, h @ star
        exact = of_vector**2 * square + 0.5 * of_matrix**2 * (square * length + along**2)
        assert_allclose(variance, exact, rtol=1e-12)
        bound = (of_vector**2 + of_matrix**2 * length) * square
        assert variance <= bound * (1.0 + 1e-12)
        if case == 0:  # along θ* it is met
            assert_allclose(variance, bound, rtol=1e-12)


@pytest.mark.parametrize("d", [2, 10])
def test_the_norm_of_the_noise_in_a_matrix(d):
    """λ_max is √(2d)σ at most on average, and exceeds it by tσ with probability ≤ e^{−t²/2}."""
    rng, runs = np.random.default_rng(11), 4000
    m = d + d * (d + 1) // 2
    draws = rng.normal(size=(runs, m)) * 2.0**30
    matrices = unpack(draws, d)[1]
    assert_allclose(pack(np.zeros((runs, d)), matrices)[:, d:] * 2.0**30, draws[:, d:])
    largest = np.linalg.eigvalsh(matrices)[:, -1]
    level = sqrt(2.0 * d)
    assert {2: 0.4, 10: 0.7}[d] * level < largest.mean() < level
    for t in (0.5, 1.0, 2.0):
        assert (largest > level + t).mean() <= exp(-0.5 * t * t)


# -- the search ----------------------------------------------------------------------------------


def test_the_smallest_set_is_not_far_from_the_best_of_a_fine_grid(monkeypatch):
    worst = 1.0
    for _rng, case in cases(LOGISTIC, 8, noisy=True, seed=24):
        fit = case.fit(monkeypatch)
        at, _ = fit.expansion(0)
        found = smallest_set(at, case.S, case.s, 0.01, 1.0 + at.error, 2.0 * case.s * case.S)
        assert found.reach <= 2.0 * case.s * case.S
        grid = [
            _ellipsoid(j, tau, ell, found.reach, *at, case.S, 0.01)[3]
            for j in range(8)
            for tau in np.linspace(0.0, 0.95, 39)
            for ell in np.geomspace(0.01, 1e5, 120)
        ]
        again = _ellipsoid(found.component, found.tau, found.ell, found.reach, *at, case.S, 0.01)
        assert again[:4] == (found.radius, found.curvature, found.shift, found.width)
        worst = max(worst, found.width / min(grid))
    assert worst < 1.02


def test_a_known_reach_is_used(monkeypatch):
    for _rng, case in cases(LOGISTIC, 5, noisy=False, seed=25):
        at, _ = case.fit(monkeypatch).expansion(0)
        near = case.s * norm(case.star - case.theta)
        wide = smallest_set(at, case.S, case.s, 0.01, 1.0, 2.0 * case.s * case.S)
        narrow = smallest_set(at, case.S, case.s, 0.01, 1.0, min(near, wide.reach))
        assert narrow.reach <= near
        assert narrow.width <= wide.width * (1.0 + 1e-9)


# -- probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "privacy", [None, fg.GaussianMechanism(1.0, 1e-6)], ids=["exact", "private"]
)
def test_the_shares_of_all_windows_add_up(privacy):
    """One event per window and update with noise, one per window's first batch without.

    With noise the other half of δ is for the norms of matrices.
    """
    B, d = 200, 2
    setting, _ = noise_of(privacy, B, d=d, path_length=1)
    shares: dict[object, float] = {}
    for b in range(1, B + 1):
        fit = object.__new__(one_pass._Fit)
        fit._setting, fit._last = setting, b
        for start in fit.starts():
            assert 0 <= start < b
            shares[start if privacy is None else (start, b)] = fit.share(start)
    most = setting.delta * (1.0 if privacy is None else 0.5)
    assert 0.8 * most < sum(shares.values()) <= most * (1.0 + 1e-12)
