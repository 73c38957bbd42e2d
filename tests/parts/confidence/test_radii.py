"""Radii around fits that are not exact, from the samples at every step; log-determinants.

`tests/test_against_plain.py` has all radii around exact fits.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.kernels.linalg import REFRESH_EVERY
from tests.parts.confidence import formulas
from tests.parts.confidence.traces import LINKS, Case, trace

DELTA, RIDGE = 0.05, 0.7
COMMON = {"ridge": RIDGE, "delta": DELTA}
LOOSE = {  # so that gradients and multipliers are not negligible
    "newton": fg.Newton(),
    "newton 1e-3": fg.Newton(tolerance=1e-3),
    "agd 1e-3": fg.AGD(tolerance=1e-3),
    "agd, 3 rounds": fg.AGD(stop="fixed", rounds=3),
    "lbfgs 1e-3": fg.LBFGS(tolerance=1e-3),
}
FAMILIES = {
    **{
        f"FedGLB, event, {name}": (fg.fedglb_ucb(2.0, solver, **COMMON), formulas.fedglb)
        for name, solver in LOOSE.items()
    },
    **{
        f"GlobalModel, {name}": (fg.fedglb_ucb_1(5, solver, **COMMON), formulas.global_model)
        for name, solver in LOOSE.items()
    },
}


def in_the_ball_or_out(link: str) -> Case:
    # θ* on the sphere: the constraint is active in many updates
    return Case(link, seed=2)


@pytest.mark.some(13)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_radius_from_the_samples(family, link):
    algorithm, formula = FAMILIES[family]
    run = trace(algorithm, in_the_ball_or_out(link))
    for m in run.moments:
        A, b, centre, alpha = formula(m)
        assert_allclose(m.state.matrix, A, rtol=1e-12, atol=1e-13)
        assert_allclose(m.state.inverse, np.linalg.inv(A), rtol=1e-9, atol=1e-12)
        assert_allclose(m.state.centre, centre, rtol=1e-9, atol=1e-11)
        if b is not None:
            assert_allclose(m.state.b, b, rtol=1e-9, atol=1e-11)
        assert_allclose(m.alpha, alpha, rtol=1e-9)
    assert len({m.alpha for m in run.moments}) > 4
    assert len(run.syncs) >= 4


# -- log-determinants --------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["logistic", "identity"])
@pytest.mark.parametrize(
    "algorithm",
    [
        fg.fedglb_ucb(2.0, fg.Newton(), **COMMON), fg.fedglb_ucb_3(5, **COMMON),
        fg.n_ucb_glm(**COMMON), fg.dislinucb(2.0, **COMMON),
    ],
    ids=lambda a: a.name,
)  # fmt: skip
def test_the_running_log_determinant(algorithm, link):
    """`log_gain` is log(det A / det A_last); so is what a radius adds to the last update's."""
    run = trace(algorithm, in_the_ball_or_out(link))
    for m in run.moments:
        prior = m.state.matrix - np.concatenate([m.old_X, m.X]).T @ np.concatenate([m.old_X, m.X])
        last = prior + m.old_X.T @ m.old_X
        gain = formulas.log_det(m.state.matrix) - formulas.log_det(last)
        assert_allclose(m.state.log_gain, gain, rtol=1e-9, atol=1e-13)
        if algorithm.name == "DisLinUCB" and m.sync is not None:
            total = m.state.base.radius_terms[0] + m.state.log_gain
            exact = formulas.log_det(m.state.matrix) - m.setting.problem.dim * np.log(RIDGE)
            assert_allclose(total, exact, rtol=1e-9)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "algorithm",
    [fg.n_ons_glm(ridge=1e-3), fg.n_ucb_glm(ridge=1e-3), fg.dislinucb(np.inf, ridge=1e-3)],
    ids=lambda a: a.name,
)
def test_the_log_determinant_of_many_samples(algorithm):
    """Rank-one updates, and the inverse that is refreshed in between, lose no digits."""
    case = Case("logistic", seed=5, dim=6, clients=1, arms=4, horizon=REFRESH_EVERY + 60)
    run = trace(algorithm, case)
    for m in run.moments[::40] + run.moments[-70:]:
        prior = algorithm.local_update.prior(m.setting)
        A = prior * np.eye(6) + m.X.T @ m.X
        exact = formulas.log_det(A) - 6 * np.log(prior)
        assert_allclose(m.state.log_gain, exact, rtol=1e-9, atol=1e-13)


# -- what the radius needs and who has it -----------------------------------------------------


def test_the_radius_before_any_data():
    """√(λ/c)S around zero for a client that only takes models; ‖θ*‖_A equals it on the sphere."""
    m = trace(fg.fedglb_ucb_1(5, fg.Newton(), **COMMON), in_the_ball_or_out("logistic")).moments[0]
    c = m.setting.problem.c_mu
    assert_allclose(m.alpha, np.sqrt(RIDGE / c))
    assert_allclose(np.sqrt(m.star @ m.state.matrix @ m.star), m.alpha)
