"""The reference engine against an independent re-derivation, choice by choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from tests import plain

TIGHT = 1e-14
ROUNDING = 1e-26  # as far as double precision goes
D, N, K, T = 3, 4, 6, 60

LINKS = {
    "logistic": fg.Logistic,
    "poisson": fg.Poisson,
    "identity": fg.Identity,
    "probit": fg.Probit,
}
SUPPORT = {"logistic": (0.0, 1.0), "probit": (0.0, 1.0), "identity": None, "poisson": None}


def stream(seed, problem: fg.Problem, T: int, N: int, K: int, absent: bool, length: float = 1.0):
    """A recorded environment with ‖θ*‖ = length·S; and its arms, rewards and who acts."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(problem.dim)
    theta *= length * problem.S / np.linalg.norm(theta)
    arms = rng.standard_normal((T, N, K, problem.dim))
    arms /= np.maximum(np.linalg.norm(arms, axis=-1, keepdims=True), 1.0)
    means = np.asarray(problem.link.mean(arms @ theta))
    u = np.broadcast_to(rng.random((T, N, 1)), means.shape)
    rewards = np.asarray(problem.link.sample(means, u, problem.R))
    active = rng.random((T, N)) < (0.6 if absent else 2.0)
    env = fg.Recorded(problem, arms, means, rewards=rewards, active=active, parameter=theta)
    return env, arms, rewards, active


@dataclass
class Case:
    problem: fg.Problem
    env: fg.Recorded
    plain: plain.Problem
    arms: np.ndarray
    rewards: np.ndarray
    active: np.ndarray | None


def make_case(
    link: str, seed: int, *, ridge: float = 1.0, delta: float = 0.05, radius: float = 1.0,
    exploration: float = 1.0, absent: bool = False,
) -> Case:  # fmt: skip
    problem = fg.Problem(D, LINKS[link](), radius, noise=0.5 if link == "poisson" else None)
    env, arms, rewards, active = stream([seed, len(link)], problem, T, N, K, absent)
    given = plain.Problem(
        link, radius, problem.R, problem.c_mu, ridge, delta, exploration=exploration
    )
    return Case(problem, env, given, arms, rewards, active)


def pair(name: str, link: str, plain_problem: plain.Problem, alpha: float | None, tolerance: float):
    """The package's algorithm, and the plain function's own arguments."""
    common = {
        "ridge": plain_problem.lam,
        "delta": plain_problem.delta,
        "exploration": plain_problem.exploration,
        "confidence": None if alpha is None else fg.Fixed(alpha),
    }
    own = OWN.get(name, {})
    if name in ("fedglb_ucb", "fedglb_ucb_1", "fedglb_ucb_2"):
        common["solver"] = fg.Newton(tolerance=tolerance)
    elif name in ("one_ucb_glm", "n_ucb_glm"):
        common["tolerance"] = tolerance
    elif name in OFUGLB:  # whose metric is off by the fourth root of the tolerance
        common["tolerance"] = ROUNDING
    algorithm = getattr(fg, name)(**own, **common)
    return algorithm, {**own, "y_range": SUPPORT[link]} if name == "fedglb_ucb_3" else own


#: What an algorithm needs beyond what all take.
OWN = {
    "fedglb_ucb": {"threshold": 2.0}, "fedglb_ucb_1": {"updates": 7},
    "fedglb_ucb_2": {"updates": 7}, "fedglb_ucb_3": {"updates": 7},
    "dislinucb": {"threshold": 2.0}, "fedlinucb": {"threshold": 0.7},
    "async_linucb": {"threshold": 0.7, "download": 2.0},
}  # fmt: skip
ALGORITHMS = [
    "fedglb_ucb", "fedglb_ucb_1", "fedglb_ucb_2", "fedglb_ucb_3",
    "one_ucb_glm", "n_ucb_glm", "n_ons_glm", "dislinucb",
    "fedlinucb", "async_linucb", "one_ecolog", "n_ecolog",
]  # fmt: skip
OFUGLB = ["one_ofuglb", "n_ofuglb"]
LIKELIHOODS = ["logistic", "poisson", "identity"]  # the links that OFUGLB takes
PAIRS = [(name, link) for name in ALGORITHMS for link in LINKS]
PAIRS += [(name, link) for name in OFUGLB for link in LIKELIHOODS]
VARIATIONS = {
    "lemma radius": {},
    "absent clients": {"absent": True},
    "small ridge, small radius": {"ridge": 0.01, "exploration": 0.05},
    "large ball": {"radius": 2.5, "ridge": 0.5, "exploration": 0.2},
}


@pytest.mark.some(28)
@pytest.mark.parametrize(("name", "link"), PAIRS)
@pytest.mark.parametrize("variation", VARIATIONS)
def test_same_choices(name, link, variation):
    case = make_case(link, seed=3, **VARIATIONS[variation])
    check_same(name, link, case, alpha=None)


@pytest.mark.some(15)
@pytest.mark.parametrize(("name", "link"), PAIRS)
def test_same_choices_with_a_fixed_radius(name, link):
    check_same(name, link, make_case(link, seed=4), alpha=0.4)


def check_same(name, link, case, alpha):
    algorithm, own = pair(name, link, case.plain, alpha, TIGHT)
    expected = getattr(plain, name)(
        case.plain, case.arms, case.rewards, active=case.active, alpha=alpha, **own
    )
    run = fg.simulate(algorithm, case.env)
    assert_array_equal(run.choices, expected.choices)
    assert len(np.unique(run.choices)) > 2
    if not name.startswith(("one_", "n_")):
        syncs = [(t, -1 if i is None else i) for t, i in run.updates.select("t", "client").rows()]
        assert syncs == expected.syncs
        assert len(syncs) > 2
    if expected.transfers is not None:
        assert_array_equal(run.trace["transfers"], expected.transfers)

    # Radii and models too, once the solver's slack is out of the way.
    alphas = np.full(case.arms.shape[:2], np.nan)

    def watch(t, i, client):
        alphas[t - 1, i] = client.alpha

    exact = fg.simulate(
        pair(name, link, case.plain, alpha, ROUNDING)[0],
        case.env,
        engine="reference",
        observer=watch,
    )
    # 1e-6: where the ball is active, √(ν‖θ‖(S − ‖θ‖)) magnifies the last bit of ‖θ‖
    assert_allclose(alphas, expected.alphas, rtol=1e-6)
    if expected.thetas:
        assert exact.theta is not None
        assert_allclose(exact.theta, expected.thetas[-1], atol=1e-9)


@pytest.mark.parametrize("solver", [fg.AGD(TIGHT), fg.LBFGS(TIGHT)], ids=["agd", "lbfgs"])
@pytest.mark.parametrize("link", LINKS)
def test_every_solver_makes_the_same_choices(solver, link):
    case = make_case(link, seed=5)
    algorithm = fg.fedglb_ucb(2.0, solver, delta=case.plain.delta)
    run = fg.simulate(algorithm, case.env)
    expected = plain.fedglb_ucb(case.plain, case.arms, case.rewards, threshold=2.0)
    assert_array_equal(run.choices, expected.choices)
    assert [(t, i) for t, i in run.updates.select("t", "client").rows()] == expected.syncs


CERTIFIED = {"1/n²": None, "loose": 1e-2}


REFITTING = [(name, link) for name in ("one_ucb_glm", "n_ucb_glm") for link in LINKS]
REFITTING += [(name, link) for name in OFUGLB for link in LIKELIHOODS]


@pytest.mark.pairs
@pytest.mark.parametrize("tolerance", CERTIFIED)
@pytest.mark.parametrize(("name", "link"), REFITTING)
@pytest.mark.parametrize("variation", ["lemma radius", "small ridge, small radius", "large ball"])
def test_same_radii_of_fits_that_are_not_exact(name, link, variation, tolerance):
    """The learners that refit after every sample, and what their radius pays for the fit.

    OFUGLB pays for it twice: by its radius, and by a matrix below the Hessian.
    """
    case, epsilon = make_case(link, seed=6, **VARIATIONS[variation]), CERTIFIED[tolerance]
    common = {key: getattr(case.plain, key) for key in ("delta", "exploration")}
    algorithm = getattr(fg, name)(ridge=case.plain.lam, tolerance=epsilon, **common)
    alphas, paid, moved = np.full(case.arms.shape[:2], np.nan), [], []

    def watch(t, i, client):
        state = client.state
        alphas[t - 1, i] = client.alpha
        paid.append(state.residual / case.plain.c * case.plain.exploration / client.alpha)
        moved.append(np.linalg.norm(state.theta - state.anchor))

    run = fg.simulate(algorithm, case.env, engine="reference", observer=watch)
    expected = getattr(plain, name)(case.plain, case.arms, case.rewards, tolerance=epsilon)
    assert_array_equal(run.choices, expected.choices)
    # 1e-7: where the ball is active, √(ν‖θ‖(S − ‖θ‖)) magnifies the last bit of ‖θ‖
    assert_allclose(alphas, expected.alphas, rtol=1e-7)
    if name in OFUGLB:
        assert max(moved) > 0.05
    else:
        assert (max(paid) > 0.01) == (link != "identity")  # whose model is the loss itself
