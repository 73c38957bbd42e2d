"""OFUGLB: its matrix is below the Hessian, its set holds θ*, and regret levels off."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.algorithms.ofuglb import HessianMle
from fedglb.federation.agreement import Agreement
from fedglb.parts.confidence import OwnModel
from fedglb.parts.trigger import Always
from tests.links.families import FAMILIES, Hyperbolic
from tests.parts.confidence.coverage import CLIENTS, DELTA, DIM, LINKS, coverage, small_problem
from tests.parts.global_update.reference import draw

LIKELIHOODS = ("logistic", "poisson", "identity")
# (ridge, radius, strength of θ* in radii): the last has ‖θ*‖ twice the radius of the ball
SITUATIONS = {"inside": (1.0, 2.5, 0.3), "outside": (0.01, 1.0, 2.0)}


def client_of(problem, clients=1, **options):
    algorithm = fg.n_ofuglb(**options)
    return fg.Client(0, algorithm, algorithm.setting(problem, clients, None))


@pytest.mark.some(3)
@pytest.mark.parametrize("tolerance", [None, 0.1, 1e-12])
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_what_a_state_says_of_the_loss(name, situation, tolerance):
    """Beside sums from scratch: the matrix, the residual and the Lipschitz constant."""
    ridge, S, strength = SITUATIONS[situation]
    data = draw(
        np.random.default_rng(4), FAMILIES[name], n=120, dim=3, ridge=ridge, radius=S,
        strength=strength,
    )  # fmt: skip
    link, rng = data.family.link, np.random.default_rng(5)
    problem = fg.Problem(3, link, S, data.family.noise)
    client = client_of(problem, ridge=ridge, tolerance=tolerance)
    shift = (1.0 + link.self_concordance(S) * S) * ridge
    moved = 0.0
    for n in range(1, data.n + 1):
        client.observe(data.X[n - 1], data.y[n - 1], n)
        state, X, y = client.state, data.X[:n], data.y[:n]
        curvature = (X.T * link.variance(X @ state.theta)) @ X
        W = state.matrix - shift * np.eye(3)
        top = np.linalg.eigvalsh(curvature)[-1]
        assert np.linalg.eigvalsh(curvature - W)[0] >= -1e-12 * top
        distance = float(np.linalg.norm(state.theta - state.anchor))
        moved = max(moved, distance)
        factor = math.exp(2.0 * link.self_concordance(S) * distance)
        assert np.linalg.eigvalsh(factor * W - curvature)[0] >= -1e-12 * top
        assert_allclose(state.inverse @ state.matrix, np.eye(3), atol=1e-9)
        assert_array_equal(state.centre, state.theta)
        gradient = X.T @ (link.mean(X @ state.theta) - y) + (ridge + state.multiplier) * state.theta
        rounding = 1e-13 * n * (1.0 + np.abs(y).max())
        assert math.sqrt(gradient @ state.inverse @ gradient) <= state.residual + rounding
        for theta in rng.standard_normal((3, 3)):
            theta *= S / np.linalg.norm(theta)
            slope = np.linalg.norm(X.T @ (link.mean(X @ theta) - y))
            assert slope <= state.lipschitz * (1.0 + 1e-12)
    assert (moved > 0.05) or tolerance == 1e-12


@pytest.mark.parametrize("link", ["logistic", "identity"])
@pytest.mark.parametrize("preset", [fg.one_ofuglb, fg.n_ofuglb])
def test_coverage(preset, link):
    seen = coverage(preset(delta=DELTA), small_problem(link), 40, range(20))
    assert seen.lost == 0.0
    assert 0.0 < seen.median < 1.0
    narrow = coverage(preset(0.1, delta=DELTA), small_problem(link), 40, range(20), first=9)
    assert narrow.lost > 3 * DELTA


def test_coverage_of_poisson_and_of_loose_fits():
    poisson = fg.Synthetic(fg.Problem(DIM, fg.Poisson(), noise=1.0), CLIENTS, 5)
    for env, tolerance in ((poisson, None), (poisson, 0.1), (small_problem("logistic"), 0.1)):
        algorithm = fg.n_ofuglb(delta=DELTA, tolerance=tolerance)
        assert coverage(algorithm, env, 40, range(10)).lost == 0.0


def test_what_is_not_allowed():
    with pytest.raises(fg.InvalidInput, match="tolerance"):
        fg.one_ofuglb(tolerance=0.0)
    with pytest.raises(fg.InvalidInput, match="confidence"):
        fg.n_ofuglb(confidence=OwnModel())
    with pytest.raises(fg.InvalidInput, match="solver"):
        fg.Algorithm("x", HessianMle(), fg.Newton(), Always(), fg.Fixed(1.0))
    with pytest.raises(fg.InvalidInput, match="centralised"):
        Agreement(fg.Problem(dim=3), fg.one_ofuglb(), 3)
    assert Agreement(fg.Problem(dim=3), fg.n_ofuglb(), 3).facts()


@pytest.mark.parametrize("link", [LINKS["probit"], Hyperbolic()], ids=["probit", "user's own"])
def test_a_link_without_a_likelihood_is_refused_by_name(link):
    env = fg.Synthetic(fg.Problem(dim=2, link=link), clients=2, arms=3)
    for preset in (fg.one_ofuglb, fg.n_ofuglb):
        with pytest.raises(fg.InvalidInput, match="likelihood") as error:
            fg.simulate(preset(), env, 5)
        assert error.value.argument == "link"
    with pytest.raises(fg.InvalidInput, match="self_concordance"):
        fg.n_ofuglb(confidence=fg.Fixed(1.0)).setting(fg.Problem(2, Hyperbolic()), 2, None)


def test_caveats():
    assert "regret" in fg.n_ofuglb().caveats(fg.Problem(dim=2))[0]
    assert len(fg.n_ofuglb().caveats(fg.Problem(2, fg.Poisson(), noise=1.0))) == 1
