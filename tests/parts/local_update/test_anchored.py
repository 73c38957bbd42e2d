"""`Anchored` against direct solves: θ_i = θ_t − (H_i + ℓI)⁻¹G, after many samples too."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.model import SharedModel
from fedglb.parts.local_update import Anchored
from fedglb.samples import Samples
from fedglb.setting import Setting
from tests.links.families import FAMILIES

RIDGE = 0.4
LINKS = {
    "logistic": fg.Logistic(), "poisson": fg.Poisson(), "identity": fg.Identity(),
    "probit": fg.Probit(),
}  # fmt: skip


def setting(link, d):
    problem = fg.Problem(d, LINKS[link], radius=2.0, noise=0.8)
    return Setting(problem, clients=2, horizon=None, ridge=RIDGE, delta=0.05)


def draw(rng, link, d, n):
    X = rng.standard_normal((n, d))
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    truth = rng.standard_normal(d) / math.sqrt(d)
    family = FAMILIES[link]
    y = np.asarray(family.quantile(family.mean(X @ truth), rng.uniform(0.01, 0.99, n)), dtype=float)
    return Samples.over(X, y, n)


def model(rng, link, d):
    """A model as an update makes it: θ, H + ℓI with some H, and ℓ ≠ λ (the ball was active)."""
    X = rng.standard_normal((40, d)) / math.sqrt(d)
    theta = rng.standard_normal(d) / math.sqrt(d)
    H = (X.T * FAMILIES[link].slope(X @ theta)) @ X
    return SharedModel(
        t=9, matrix=H + 0.7 * np.eye(d), radius_terms=np.zeros(0), theta=theta, ridge=None
    )


def direct(link, start, matrix, samples):
    """θ_i, H_i + ℓI and G by one solve over all samples."""
    family, X, y = FAMILIES[link], samples.X, samples.y
    z = X @ start
    H = matrix + (X.T * family.slope(z)) @ X
    G = X.T @ (family.mean(z) - y)
    return start - np.linalg.solve(H, G), H, G


@pytest.mark.parametrize("size", [(1, 30), (3, 200), (20, 1500)])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("first", [True, False], ids=["before any model", "after a model"])
def test_the_recursion_is_a_direct_solve(link, size, first):
    d, n = size
    rng = np.random.default_rng([d, n])
    s, update, samples = setting(link, d), Anchored(), draw(rng, link, d, n)
    state = update.begin(s)
    start, matrix = np.zeros(d), RIDGE * np.eye(d)
    if not first:
        update.replay(s, state, draw(rng, link, d, 50), 0)  # what an adopted model replaces
        shared = model(rng, link, d)
        update.adopt(s, state, shared)
        start, matrix = shared.theta, shared.matrix
        assert_array_equal(state.theta, start)
        assert (state.log_gain, state.trace, state.updates) == (0.0, 0.0, 0)
    for index in range(n):
        update.observe(s, state, samples, index)
    theta, H, G = direct(link, start, matrix, samples)
    # relative to |G|: rounding of n sums, and of as many rank-one updates of the inverse
    assert_allclose(state.theta, theta, rtol=1e-9, atol=1e-11)
    assert_array_equal(state.centre, state.theta)
    assert_array_equal(state.anchor, start)
    assert_allclose(state.matrix, H, rtol=1e-12, atol=1e-11)
    assert_allclose(state.inverse, np.linalg.inv(H), rtol=1e-8, atol=1e-11)
    assert_allclose(state.gradient, G, rtol=1e-10, atol=1e-9)
    gain = np.linalg.slogdet(H)[1] - np.linalg.slogdet(matrix)[1]
    assert state.log_gain == pytest.approx(gain, rel=1e-10)
    assert state.trace == pytest.approx(np.trace(H - matrix), rel=1e-11)
    assert state.updates == n
    # the identity by which the radius has ‖u‖² in the norm of H_i + ℓI without a pass
    u = state.theta - state.anchor
    assert -u @ state.gradient == pytest.approx(u @ H @ u, rel=1e-8, abs=1e-11)
