"""Quadratics over the ball against optimality conditions and a general-purpose solver.

`test_krylov` has projections, by both ways, against extended precision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from fedglb.kernels import ball
from fedglb.kernels.ball import minimise_quadratic

EPS = 2.0**-52


def random_matrix(rng, d):
    """Positive definite with a condition number of up to 1e10, and any scale."""
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    condition = 10.0 ** rng.uniform(0.0, 10.0)
    values = np.append(1.0, condition ** -rng.random(d - 1)) if d > 1 else np.ones(1)
    if d > 1:
        values[-1] = 1.0 / condition
    H = (Q * (values * 10.0 ** rng.uniform(-3.0, 3.0))) @ Q.T
    return 0.5 * (H + H.T)


def cases():
    """1,000 cases (H, w, S) with the free minimiser inside, near and far outside the ball."""
    rng = np.random.default_rng(17)
    for k in range(1000):
        d = 1 + k % 8
        H, S = random_matrix(rng, d), 10.0 ** rng.uniform(-1.0, 1.0)
        point = rng.standard_normal(d)
        point *= S * 10.0 ** rng.uniform(-1.0, 2.0) / np.linalg.norm(point)
        yield H, H @ point, S


def quadratic(H, w, theta):
    return 0.5 * float(theta @ H @ theta) - float(w @ theta)


def resolution(H, nu):
    """How well ν can be resolved, and with it ‖θ‖, which is then scaled to S.

    ν is added to H's diagonal, so it counts in ulps of ‖H + νI‖; ‖θ(ν)‖ changes by the condition
    number times as much. Objectives do not notice (the test below holds them to rounding).
    """
    return 8.0 * EPS * np.linalg.cond(H + nu * np.eye(len(H)))


def by_slsqp(H, w, S):
    """Scaled to the unit ball and to an objective of order 1."""
    scale = S * S * np.linalg.norm(H, 2) + S * np.linalg.norm(w)
    P, q = H * (S * S / scale), w * (S / scale)
    found = minimize(
        lambda v: 0.5 * v @ P @ v - q @ v,
        np.zeros(len(w)),
        jac=lambda v: P @ v - q,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: 1.0 - v @ v, "jac": lambda v: -2.0 * v},
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return S * found.x / max(1.0, np.linalg.norm(found.x))


def test_the_minimum():
    """(H + νI)θ = w with ν ≥ 0, and ν = 0 or ‖θ‖ = S: this alone makes θ the minimiser."""
    inside = 0
    for k, (H, w, S) in enumerate(cases()):
        d = len(w)
        theta = np.full(d, np.nan)
        nu = minimise_quadratic(H, w, S, theta)
        assert nu >= 0.0, k
        length = np.linalg.norm(theta)
        residual = np.linalg.norm((H + nu * np.eye(d)) @ theta - w)
        if nu > 0.0:
            assert abs(length - S) <= 2.0 * EPS * S, k
            assert residual <= resolution(H, nu) * np.linalg.norm(w), k
        else:
            inside += 1
            assert length <= S, k
            assert residual <= 4.0 * EPS * np.linalg.norm(H, 2) * S, k  # Cholesky is stable
            expected = np.linalg.solve(H, w)
            assert_allclose(theta, expected, rtol=0.0, atol=1e-15 * np.linalg.cond(H) * d * S)
        ours, theirs = quadratic(H, w, theta), quadratic(H, w, by_slsqp(H, w, S))
        # rounding of the two objectives themselves
        size = 0.5 * np.linalg.norm(H, 2) * S * S + np.linalg.norm(w) * S
        assert ours <= theirs + 8.0 * EPS * size, k
    assert 100 < inside < 800


def project(A, S, theta):
    return ball.project(A, np.linalg.inv(A), S, theta, ball.projection(len(theta)))


def test_points_inside_stay_bit_for_bit():
    rng = np.random.default_rng(18)
    for d in range(1, 9):
        point = rng.standard_normal(d)
        point *= rng.random() / np.linalg.norm(point)
        theta = point.copy()
        assert project(random_matrix(rng, d), 1.0, theta) == 0.0
        assert_array_equal(theta, point)


def test_a_point_of_the_sphere_is_inside():
    """The ball is closed."""
    theta = np.array([0.6, -0.8])
    assert math.hypot(*theta) == 1.0
    assert project(random_matrix(np.random.default_rng(19), 2), 1.0, theta) == 0.0
    assert_array_equal(theta, [0.6, -0.8])


def test_not_positive_definite_gives_nan():
    theta = np.zeros(2)
    assert math.isnan(minimise_quadratic(-np.eye(2), np.ones(2), 1.0, theta))


def test_no_force_no_motion():
    H, theta = random_matrix(np.random.default_rng(1), 3), np.full(3, np.nan)
    assert minimise_quadratic(H, np.zeros(3), 1.0, theta) == 0.0
    assert_array_equal(theta, np.zeros(3))
