"""Projections by products with A⁻¹ alone: against extended precision, and the factorising way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fedglb.kernels import ball
from fedglb.kernels.ball import SMALL
from fedglb.kernels.krylov import MOST_VECTORS, project_by_products
from fedglb.kernels.linalg import add_sample, invert
from tests.kernels.test_ball import EPS, resolution

LONG = np.longdouble


def project(A, inverse, S, theta):
    return ball.project(A, inverse, S, theta, ball.projection(len(theta)))


def matrix(rng, eigenvalues):
    """A positive definite matrix with these eigenvalues, and its inverse, both symmetric."""
    d = len(eigenvalues)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    A = (Q * eigenvalues) @ Q.T
    A = 0.5 * (A + A.T)
    inverse = np.empty((d, d))
    assert invert(A, inverse)
    return A, inverse


def outside(rng, d, length):
    point = rng.standard_normal(d)
    return point * (length / np.linalg.norm(point))


def exact(A, S, point):
    """θ and ν with 64 bits of mantissa: Newton's steps on ν, every solve refined to the end."""
    values, vectors = np.linalg.eigh(A)
    A, point = A.astype(LONG), point.astype(LONG)
    w, nu = A @ point, LONG(0.0)

    def solve(b, theta):
        for _ in range(40):
            rest = b - A @ theta - nu * theta
            size = float(np.max(np.abs(rest)))
            if size == 0.0:
                break
            change = vectors @ ((vectors.T @ (rest / size).astype(float)) / (values + float(nu)))
            theta = theta + change.astype(LONG) * size
            if np.linalg.norm(change) * size <= 1e-19 * np.linalg.norm(theta.astype(float)):
                break
        return theta

    theta = point
    for _ in range(60):
        theta = solve(w, theta)
        length = np.sqrt(theta @ theta)
        if abs(length - S) <= 1e-18 * S:
            break
        slope = theta @ solve(theta, np.zeros_like(theta))
        nu += length * length / slope * (length - S) / S
    return theta, nu


def check(A, S, point, theta, nu):
    """The conditions of `test_ball`: they alone make θ the projection. Then θ itself."""
    assert nu >= 0.0
    # of a sum of d squares
    assert abs(np.linalg.norm(theta) - S) <= 2.0 * EPS * S * max(1.0, np.sqrt(len(theta)) / 4.0)
    wide = resolution(A, nu)
    rest = A.astype(LONG) @ (theta.astype(LONG) - point) + LONG(nu) * theta
    norm = float(np.linalg.norm((A.astype(LONG) @ point).astype(float)))
    assert np.linalg.norm(rest.astype(float)) <= wide * norm
    true, _ = exact(A, S, point)
    assert np.linalg.norm((theta - true).astype(float)) <= 4.0 * wide * S


SLOW = [pytest.param(d, marks=pytest.mark.slow) for d in (2, 5, SMALL, 50, 100, 200)]
CONDITIONS = [1.0, 1e3, 1e6, 1e12]
LENGTHS = [1.0 + 2 * EPS, 1.0 + 1e-15, 1.0 + 1e-6, 1.5, 30.0, 1e8, 1e100]


@pytest.mark.parametrize("d", [1, 3, 8, 16, SMALL + 1, *SLOW])
def test_against_extended_precision(d):
    for condition, length in itertools.product(CONDITIONS, LENGTHS):
        rng = np.random.default_rng([d, int(np.log10(condition)), int(np.log10(length))])
        S = 10.0 ** rng.uniform(-3.0, 3.0)
        values = np.geomspace(1.0, condition, d) * 10.0 ** rng.uniform(-3.0, 3.0)
        A, inverse = matrix(rng, values)
        point = outside(rng, d, S * length)
        if np.linalg.norm(point) <= S:
            point *= 1.0 + 2.0 * EPS
        theta = point.copy()
        nu = project(A, inverse, S, theta)
        check(A, S, point, theta, nu)
        theta = point.copy()
        found = project_by_products(A, inverse, S, theta)
        if found < 0.0:  # refused, and left as it was: I + νA⁻¹ must be badly conditioned
            assert_array_equal(theta, point)
            assert nu > 10.0 * values[0]
        else:
            check(A, S, point, theta, found)


@pytest.mark.some(1)
@pytest.mark.parametrize("d", [SMALL + 1, 40, 118])
def test_an_inverse_from_rank_one_updates_will_do(d):
    """As in a run: ONS steps from a point inside, A⁻¹ with a thousand roundings in it."""
    rng = np.random.default_rng(d)
    A, inverse, direction = 0.4 * np.eye(d), np.eye(d) / 0.4, np.empty(d)
    theta, S, active = np.zeros(d), 0.5, 0
    for k in range(1000):
        x = outside(rng, d, 1.0)
        add_sample(A, inverse, x, 1.0, k, direction)
        theta += rng.standard_normal() * 4.0 * direction
        if np.linalg.norm(theta) <= S:
            continue
        active += 1
        point = theta.copy()
        nu = project_by_products(A, inverse, S, theta)
        assert nu > 0.0
        rest = A @ (theta - point) + nu * theta
        assert np.linalg.norm(rest) <= 1e-12 * np.linalg.norm(A @ point)
        if k % 50 == 0:
            check(A, S, point, theta, nu)
    assert active > 200


@pytest.mark.parametrize("d", [1, 2, 20, 200])
def test_a_basis_that_ends_early(d):
    """An eigenvector is a basis of its own; few eigenvalues, repeated, are a small one."""
    rng = np.random.default_rng(d)
    values = np.where(np.arange(d) < d // 2, 1.0, 4.0)
    A, inverse = matrix(rng, values)
    vector = np.linalg.eigh(A)[1][:, -1]
    theta = 3.0 * vector
    nu = project_by_products(A, inverse, 1.5, theta)
    assert_allclose(theta, 1.5 * vector, rtol=0.0, atol=1e-14)
    assert_allclose(nu, values[-1], rtol=1e-13)  # λ(3 − 1.5) = ν·1.5
    point = outside(rng, d, 5.0)
    theta = point.copy()
    nu = project_by_products(A, inverse, 0.1, theta)
    check(A, 0.1, point, theta, nu)
    theta = point.copy()
    nu = project_by_products(np.eye(d), np.eye(d), 0.1, theta)  # clipping
    assert_allclose(theta, point * (0.1 / 5.0), rtol=1e-14)
    assert_allclose(nu, 5.0 / 0.1 - 1.0, rtol=1e-13)


def test_coordinates_without_a_force_stay_zero():
    rng = np.random.default_rng(3)
    point = np.zeros(30)
    point[:4] = outside(rng, 4, 2.0)
    A = np.diag(np.arange(1.0, 31.0))
    theta = point.copy()
    assert project_by_products(A, np.diag(1.0 / np.diag(A)), 1.0, theta) > 0.0
    assert_array_equal(theta[4:], np.zeros(26))
    assert np.all(theta[:4] != 0.0)


@pytest.mark.parametrize("S", [1e-100, 1e-30, 1e30, 1e100])
def test_tiny_and_huge_balls(S):
    rng = np.random.default_rng(4)
    A, inverse = matrix(rng, np.geomspace(1.0, 50.0, SMALL + 2))
    point = outside(rng, SMALL + 2, 1.2)
    unit = point.copy()
    nu = project(A, inverse, 1.0, unit)
    theta = point * S
    assert_allclose(project(A, inverse, S, theta), nu, rtol=1e-12)
    assert_allclose(theta / S, unit, rtol=0.0, atol=1e-14)


def test_a_wrong_inverse_is_noticed_and_does_no_harm():
    rng = np.random.default_rng(5)
    A, inverse = matrix(rng, np.geomspace(1.0, 100.0, 40))
    point = outside(rng, 40, 2.0)
    expected = point.copy()
    nu = project(A, inverse, 1.0, expected)
    for wrong in (inverse * (1.0 + 1e-9), inverse + 1e-9, -inverse, np.full((40, 40), np.nan)):
        theta = point.copy()
        assert project_by_products(A, wrong, 1.0, theta) == -1.0
        assert_array_equal(theta, point)
    for wrong in (inverse * (1.0 + 1e-9), inverse + 1e-9):
        assert_allclose(project(A, wrong, 1.0, theta := point.copy()), nu, rtol=1e-12)
        assert_allclose(theta, expected, rtol=0.0, atol=1e-13)


def test_a_basis_that_would_be_too_large_is_refused():
    rng = np.random.default_rng(6)
    d = 3 * MOST_VECTORS
    A, inverse = matrix(rng, np.geomspace(1.0, 1e8, d))
    point = outside(rng, d, 100.0)
    theta = point.copy()
    assert project_by_products(A, inverse, 1.0, theta) == -1.0
    nu = project(A, inverse, 1.0, theta)
    check(A, 1.0, point, theta, nu)
