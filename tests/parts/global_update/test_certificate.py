"""Each certificate is an upper bound on F(θ) − min F, and cannot be much smaller.

Hundreds of random problems a link, at random points, at points near the minimum and at the
iterates of a solver; the minimum comes from `reference`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.parts.global_update import AGD, Newton, Objective
from fedglb.parts.global_update.certificate import (
    ball_curvature_bound,
    curvature_bound,
    gap,
    newton_bound,
    ridge_bound,
)
from fedglb.parts.global_update.evaluation import sphere_multiplier
from fedglb.setting import Setting
from tests.links.families import FAMILIES
from tests.parts.global_update.driving import drive
from tests.parts.global_update.reference import Data, Optimum, draw, point_in_ball

PROBLEMS = 200
# Without s of its own a link has no certificate (c); the rest it shares with its twin.
LINKS = [name for name in FAMILIES if name != "hyperbolic"]


@dataclass(frozen=True)
class Point:
    """A point of a problem, and how far from optimal it is: n(F(θ) − min F)."""

    data: Data
    theta: np.ndarray
    free: float  # against the minimum over everything
    ball: float  # against the minimum over the ball; nan outside it
    optimum: Optimum  # the minimiser over the ball
    near: bool  # within 0.03 of the minimum it is near to

    @property
    def inside(self) -> bool:
        return not math.isnan(self.ball)

    @property
    def multipliers(self) -> list[float]:
        """0, the one that solvers use, the minimiser's own, and an arbitrary one."""
        gradient = self.data.gradient(self.theta)
        guess = sphere_multiplier(self.theta, gradient, self.data.radius)
        odd = 0.3 * float(np.linalg.norm(gradient)) / self.data.radius
        return [0.0, guess, self.optimum.multiplier, odd]


def sphere(rng, dim, radius):
    direction = rng.standard_normal(dim)
    return direction * (radius / np.linalg.norm(direction))


@cache
def points(name: str, problems: int = 60) -> list[Point]:
    rng = np.random.default_rng([5, len(name)])
    family, found = FAMILIES[name], []
    for k in range(problems):
        # every fourth problem has fewer samples than features
        data = (
            draw(rng, family, n=int(rng.integers(1, 4)), dim=6) if k % 4 == 0 else draw(rng, family)
        )
        free, ball = data.minimise(ball=False), data.minimise(ball=True)
        d, S = data.dim, data.radius
        places = [(point_in_ball(rng, d, S), False), (sphere(rng, d, S), False)]
        places += [(sphere(rng, d, S * rng.uniform(1.0, 2.0)), False)]
        for optimum in (free, ball):
            beside = optimum.theta + 0.03 * point_in_ball(rng, d, 1.0)
            places.append((beside, True))
            places.append((beside * min(1.0, S / np.linalg.norm(beside)), True))
        if k % 2 == 0:
            for solver in (Newton(), AGD(stop="fixed", rounds=3)):
                _, queries = drive(solver, data)
                places += [(query.theta, False) for query in queries[:4]]
        for theta, near in places:
            inside = np.linalg.norm(theta) <= S * (1.0 + 1e-15)
            found.append(
                Point(
                    data,
                    theta,
                    data.gap(theta, free),
                    data.gap(theta, ball) if inside else math.nan,
                    ball,
                    near,
                )
            )
    return found


def arguments(point: Point):
    data = point.data
    return point.theta, data.gradient(point.theta), data.family.link, data.radius, data.ridge


# Each returns (gap, bound) pairs for a point, both times n.


def by_ridge(point):
    _, gradient, _, _, ridge = arguments(point)
    return [(point.free, point.data.n * ridge_bound(gradient, ridge, point.data.n))]


def by_curvature(point):
    theta, gradient, link, S, ridge = arguments(point)
    n = point.data.n
    bound = curvature_bound(theta, gradient, point.data.covariance, link, S, ridge, n)
    return [(point.free, n * bound)]


def by_ball_curvature(point, slope=1.0):
    if not point.inside:
        return []
    theta, gradient, link, S, ridge = arguments(point)
    M, n, c = point.data.covariance, point.data.n, slope * link.c_mu(S)
    return [
        (point.ball, n * ball_curvature_bound(theta, gradient, nu, M, c, S, ridge, n))
        for nu in point.multipliers
    ]


def by_newton(point):
    if not point.inside:
        return []
    theta, gradient, link, S, ridge = arguments(point)
    H, n = point.data.hessian(theta), point.data.n
    return [
        (point.ball, n * newton_bound(theta, gradient, nu, H, link, S, ridge, n))
        for nu in point.multipliers
    ]


CERTIFICATES = {
    "a": by_ridge,
    "b": by_curvature,
    "b on the ball": by_ball_curvature,
    "c": by_newton,
}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", LINKS)
def test_upper_bounds_and_half_of_them_is_not(name):
    """(a) and (b) are met where no sample tells anything, (c) near the minimum."""
    for certificate, pairs in CERTIFICATES.items():
        finite = bad = half = 0
        for point in points(name, PROBLEMS):
            floor = point.data.rounding(point.optimum)
            for true, bound in pairs(point):
                assert bound >= 0.0  # not nan
                finite += math.isfinite(bound)
                # 1e-11: the quadratic forms gᵀQ⁻¹g, with condition numbers of up to 1e4
                bad += true > bound * (1.0 + 1e-11) + floor
                half += true > 0.5 * bound + floor
        assert bad == 0, certificate
        assert half > 0, certificate
        assert finite > 2 * PROBLEMS, certificate


@pytest.mark.parametrize("name", ["logistic", "poisson", "probit", "known hyperbolic"])
def test_a_steeper_slope_than_the_infimum_is_not_valid(name):
    """(b) on the ball needs the infimum of μ′: with twice that it fails somewhere."""
    bad = 0
    for point in points(name):
        floor = point.data.rounding(point.optimum)
        bad += any(g > 1.001 * b + floor for g, b in by_ball_curvature(point, slope=2.0))
    assert bad > 0


@pytest.mark.parametrize("name", LINKS)
def test_newton_certificate_is_nearly_tight_near_the_minimum(name):
    ball = []
    for point in points(name):
        if not point.near or point.data.n < 5:
            continue
        if point.inside and point.ball < 1e-2 and not point.optimum.active:
            true, bound = by_newton(point)[0]
            ball.append(true / bound)
    assert len(ball) > 20
    assert np.median(ball) >= 0.9


def test_identity_is_exact():
    """Quadratic: (b) is the gap itself, and so is (c) at a minimum that the ball does not bind."""
    for point in points("identity"):
        pairs = by_curvature(point)
        if point.inside and not point.optimum.active:
            pairs += by_newton(point)[:1]
        for true, bound in pairs:
            assert_allclose(bound, true, rtol=1e-9, atol=1e-13)


def test_no_self_concordance_no_newton_certificate():
    data = draw(np.random.default_rng(1), FAMILIES["hyperbolic"])
    theta = np.zeros(data.dim)
    bound = newton_bound(
        theta, data.gradient(theta), 0.0, data.hessian(theta), data.family.link, data.radius,
        data.ridge, data.n,
    )  # fmt: skip
    assert bound == math.inf


@pytest.mark.parametrize("name", FAMILIES)
def test_gap_is_the_smallest_of_them(name):
    rng = np.random.default_rng(7)
    for _ in range(8):
        data = draw(rng, FAMILIES[name])
        objective, link = data.objective(), data.family.link
        theta = point_in_ball(rng, data.dim, data.radius)
        g, H, M = data.gradient(theta), data.hessian(theta), data.covariance
        S, ridge, n, nu = data.radius, data.ridge, data.n, 0.7
        free = [ridge_bound(g, ridge, n), curvature_bound(theta, g, M, link, S, ridge, n)]
        ball = [ball_curvature_bound(theta, g, nu, M, link.c_mu(S), S, ridge, n)]
        assert gap(objective, theta, g, 0.0, None, ball=False) == min(free)
        assert gap(objective, theta, g, nu, None, ball=True) == min(ball)
        ball.append(newton_bound(theta, g, nu, H, link, S, ridge, n))
        assert gap(objective, theta, g, nu, H, ball=True) == min(ball)


def test_a_given_curvature_plays_no_part():
    """Certificates rest on the link's own infimum, whatever c_μ the algorithm was given."""
    data = draw(np.random.default_rng(8), FAMILIES["logistic"], n=30, dim=3, radius=1.0)
    theta = np.array([0.3, -0.2, 0.1])
    bounds = set()
    for curvature in (None, 0.1, 0.25):
        problem = fg.Problem(3, fg.Logistic(), 1.0, curvature=curvature)
        setting = Setting(problem, 1, None, data.ridge, 0.05)
        objective = Objective(setting, data.n, data.covariance, np.eye(3), np.zeros(3))
        g, H = data.gradient(theta), data.hessian(theta)
        bounds.add(("free", gap(objective, theta, g, 0.0, None, ball=False)))
        for hessian in (None, H):
            bounds.add((hessian is None, gap(objective, theta, g, 0.0, hessian, ball=True)))
    assert len(bounds) == 3


@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_multiplier_of_a_point_on_the_sphere(radius):
    theta = sphere(np.random.default_rng(9), 4, radius)
    assert_allclose(sphere_multiplier(theta, -2.5 * theta, radius), 2.5, rtol=1e-14)
    assert sphere_multiplier(theta, 2.5 * theta, radius) == 0.0
    assert sphere_multiplier(0.9 * theta, -2.5 * theta, radius) == 0.0


@pytest.mark.parametrize("ball", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_reference_gap_is_the_difference_of_values(name, ball):
    rng = np.random.default_rng(3)
    for _ in range(20):
        data = draw(rng, FAMILIES[name])
        optimum = data.minimise(ball=ball)
        for length in (0.5, 0.1, 1e-2, 1e-4):  # both ways of computing it
            theta = optimum.theta + length * point_in_ball(rng, data.dim, 1.0)
            gap = data.gap(theta, optimum)
            plain = data.value(theta) - data.value(optimum.theta)
            scale = 1.0 + abs(data.value(theta)) + np.abs(data.y).sum()
            assert_allclose(gap, plain, rtol=1e-9, atol=1e-14 * scale)
            if ball and np.linalg.norm(theta) > data.radius:
                continue
            assert gap >= -data.rounding(optimum)
