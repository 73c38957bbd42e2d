"""Every radius, recomputed from the samples at every step of runs with several updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.kernels.linalg import REFRESH_EVERY
from fedglb.parts.confidence import GlobalModel, LazyOnsRadius
from fedglb.parts.local_update.lazy_ons import LazyRate
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
RATE = LazyRate(5)

FAMILIES = {
    **{
        f"FedGLB, event, {name}": (fg.fedglb_ucb(2.0, solver, **COMMON), formulas.fedglb)
        for name, solver in LOOSE.items()
    },
    "FedGLB, schedule": (fg.fedglb_ucb_2(5, fg.Newton(), **COMMON), formulas.fedglb),
    "FedGLB, always": (fg.fedglb_ucb(0.0, fg.Newton(), **COMMON), formulas.fedglb),
    "FedGLB, never": (fg.n_ons_glm(**COMMON), formulas.fedglb),
    **{
        f"GlobalModel, {name}": (fg.fedglb_ucb_1(5, solver, **COMMON), formulas.global_model)
        for name, solver in LOOSE.items()
    },
    "OwnModel, one": (fg.one_ucb_glm(**COMMON), formulas.own_model),
    "OwnModel, each": (fg.n_ucb_glm(**COMMON), formulas.own_model),
    "OwnModel, loose": (fg.n_ucb_glm(tolerance=0.02, **COMMON), formulas.own_model),
    "LazyOnsRadius": (fg.fedglb_ucb_3(5, **COMMON), lambda m: formulas.lazy(m, RATE)),
    "Linear": (fg.dislinucb(2.0, **COMMON), formulas.linear),
}
ALONE = ("FedGLB, never", "OwnModel, one", "OwnModel, each", "OwnModel, loose")


def in_the_ball_or_out(link: str) -> Case:
    # θ* on the sphere: the constraint is active in many updates
    return Case(link, seed=2)


@pytest.mark.some(20)
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
    assert len(run.syncs) >= 4 or family in ALONE


@pytest.mark.some(7)
@pytest.mark.parametrize("family", FAMILIES)
def test_exploration_multiplies_the_radius(family):
    algorithm, formula = FAMILIES[family]
    run = trace(replace(algorithm, exploration=0.3), in_the_ball_or_out("logistic"))
    for m in run.moments:
        assert_allclose(m.alpha, 0.3 * formula(m)[3], rtol=1e-9)
    assert len(run.syncs) >= 3 or family in ALONE


@pytest.mark.some(20)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("exploration", [0.0, 0.3, 1.0, 5.0])
def test_exploration_never_multiplies_a_fixed_radius(family, exploration):
    algorithm = replace(FAMILIES[family][0], confidence=fg.Fixed(0.4), exploration=exploration)
    run = trace(algorithm, replace(in_the_ball_or_out("logistic"), horizon=10))
    assert {m.alpha for m in run.moments} == {0.4}


# -- log-determinants --------------------------------------------------------------------------


@pytest.mark.some(10)
@pytest.mark.parametrize("link", ["logistic", "identity"])
@pytest.mark.parametrize("family", [f for f in FAMILIES if "GlobalModel" not in f])
def test_the_running_log_determinant(family, link):
    """`log_gain` is log(det A / det A_last); so is what a radius adds to the last update's."""
    run = trace(FAMILIES[family][0], in_the_ball_or_out(link))
    for m in run.moments:
        prior = m.state.matrix - np.concatenate([m.old_X, m.X]).T @ np.concatenate([m.old_X, m.X])
        last = prior + m.old_X.T @ m.old_X
        gain = formulas.log_det(m.state.matrix) - formulas.log_det(last)
        assert_allclose(m.state.log_gain, gain, rtol=1e-9, atol=1e-13)
        if family == "Linear" and m.sync is not None:
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


@pytest.mark.parametrize("link", ["logistic", "probit", "identity"])
def test_lazy_gamma(link):
    """γ = c/(G² n_max), from the horizon and the schedule or from a given limit."""
    m = trace(fg.fedglb_ucb_3(7, **COMMON), in_the_ball_or_out(link)).moments[0]
    assert_allclose(LazyRate(7).gamma(m.setting), formulas.lazy_gamma(m, LazyRate(7)))
    G = formulas.residual_bound(m)
    assert_allclose(LazyRate(7, 50).gamma(m.setting), m.setting.problem.c_mu / (G**2 * 50))
    assert LazyOnsRadius(LazyRate(7)).radius(m.setting, m.state) == m.alpha


@pytest.mark.parametrize("family", ["FedGLB, event, newton", "GlobalModel, newton"])
def test_only_the_noise_term_depends_on_delta(family):
    """r_g(δ/2) for FedGLB, r_g(δ) for the global model: the two numbers of one update."""
    algorithm = FAMILIES[family][0]
    share = 1.0 if isinstance(algorithm.confidence, GlobalModel) else 0.5
    run = trace(algorithm, in_the_ball_or_out("logistic"))
    seen = 0
    for m in run.moments:
        if m.sync is not None:
            expected = formulas.sync_global_radius(m, m.sync, share * DELTA)
            assert_allclose(m.state.base.radius_terms[0], expected, rtol=1e-9)
            other = formulas.sync_global_radius(m, m.sync, DELTA * (1.5 - share))
            assert abs(other - expected) > 1e-3 * expected
            seen += 1
    assert seen > 20
