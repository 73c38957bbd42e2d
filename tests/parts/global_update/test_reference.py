"""The tests' own reference solver, against two of scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import NonlinearConstraint, minimize

from tests.links.families import FAMILIES
from tests.parts.global_update.reference import draw, point_in_ball


@pytest.mark.parametrize("name", FAMILIES)
def test_minimum_over_the_ball(name):
    rng = np.random.default_rng(1)
    active = 0
    for _ in range(12):
        data = draw(rng, FAMILIES[name])
        found = data.minimise(ball=True)
        inside = NonlinearConstraint(
            lambda t: t @ t, -np.inf, data.radius**2, jac=lambda t: 2.0 * t[None, :]
        )
        other = minimize(
            data.value, np.zeros(data.dim), jac=data.gradient, method="SLSQP",
            constraints=[inside], options={"ftol": 1e-13, "maxiter": 500},
        )  # fmt: skip
        best = data.value(other.x / max(1.0, np.linalg.norm(other.x) / data.radius))
        scale = max(1.0, abs(best))
        assert data.value(found.theta) <= best + 1e-13 * scale
        assert best <= data.value(found.theta) + 1e-8 * scale  # SLSQP's accuracy
        active += found.active
    assert 0 < active < 12


@pytest.mark.parametrize("name", FAMILIES)
def test_minimum_over_everything(name):
    rng = np.random.default_rng(2)
    for _ in range(8):
        data = draw(rng, FAMILIES[name])
        found = data.minimise(ball=False)
        other = minimize(
            data.value, np.zeros(data.dim), jac=data.gradient, hess=data.hessian,
            method="trust-exact", options={"gtol": 1e-9},
        )  # fmt: skip
        assert_allclose(found.theta, other.x, atol=1e-9 / data.ridge)


@pytest.mark.parametrize("ball", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_gap_is_the_difference_of_values(name, ball):
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
