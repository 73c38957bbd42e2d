"""DisLinUCB's radius, term by term, before every choice of real runs."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from numpy.linalg import norm
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.parts.confidence.linear import linear_radius
from tests.parts.confidence import formulas
from tests.parts.confidence.traces import CASES, Case, dual_norm, ellipsoid_norm, trace

DELTA = 0.05


@pytest.mark.some(2)
@pytest.mark.parametrize("ridge", [1.0, 0.01])
@pytest.mark.parametrize("threshold", [0.0, 2.0, np.inf])
def test_every_inequality_before_every_choice(threshold, ridge):
    algorithm = fg.dislinucb(threshold, ridge=ridge, delta=DELTA)
    tightest, epochs = 0.0, set()
    for given in CASES:
        for m in trace(algorithm, Case("identity", **given)).moments:
            s = m.setting
            X, y = np.concatenate([m.old_X, m.X]), np.concatenate([m.old_y, m.y])
            A = ridge * np.eye(len(m.star)) + X.T @ X
            xi = X.T @ m.noise(X, y)
            # exactly, and then bounded term by term
            assert_allclose(m.state.centre - m.star, np.linalg.solve(A, xi - ridge * m.star),
                            rtol=1e-7, atol=1e-10)  # fmt: skip
            error = ellipsoid_norm(m.state.centre - m.star, A)
            prior = sqrt(ridge) * s.problem.S
            assert error <= (dual_norm(xi, A) + prior) * (1.0 + 1e-9)
            assert sqrt(ridge) * norm(m.star) <= prior * (1.0 + 1e-12)
            tightest = max(tightest, error / (dual_norm(xi, A) + prior))
            e = m.epoch
            log_ratio = formulas.log_det(A) - len(m.star) * log(ridge)
            union = 2.0 * log(s.clients * e * (e + 1) / DELTA)
            assert dual_norm(xi, A) <= s.problem.R * sqrt(log_ratio + union)
            expected = s.problem.R * sqrt(log_ratio + union) + prior
            assert_allclose(m.alpha, expected, rtol=1e-9)
            assert error <= m.alpha
            epochs.add(e)
    assert tightest > 1.0 - 1e-9  # before any data
    assert len(epochs) == 1 if threshold == np.inf else len(epochs) >= 4


def test_the_radius_is_where_the_mixture_reaches_the_share():
    """exp(α²/2R²)·√(λ^d/det A) = N·e(e+1)/δ without the prior's term; Σ 1/(e(e+1)) = 1."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        log_ratio, R = float(rng.exponential(5.0)), float(rng.uniform(0.1, 3.0))
        N, e, delta = int(rng.integers(1, 300)), int(rng.integers(1, 50)), float(rng.random())
        alpha = linear_radius(log_ratio, e, N, delta, R, 0.0, 1.0)
        reached = alpha**2 / (2.0 * R**2) - log_ratio / 2.0
        assert_allclose(reached, log(N * e * (e + 1) / delta), rtol=1e-9, atol=1e-9)
        assert_allclose(linear_radius(log_ratio, e, N, delta, R, 4.0, 3.0), alpha + 6.0)
