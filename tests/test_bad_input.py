"""Bad input: one exception that names the argument, the value and what is allowed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.environments import Block

P = fg.Problem(2)
ENV = fg.Synthetic(P, clients=2, arms=3)
ARMS = np.full((4, 2, 3, 2), 0.5)
MEANS = np.full((4, 2, 3), 0.5)
UNIFORMS = np.full((4, 2), 0.5)


def client() -> fg.Client:
    algorithm = fg.n_ons_glm()
    return fg.Client(0, algorithm, algorithm.setting(P, 1, None))


def changed(array, where, value):
    out = array.copy()
    out[where] = value
    return out


# name: (what is called, what the message must say)
CASES = {
    "d = 0": (lambda: fg.Problem(0), ["dim = 0", ">= 1"]),
    "d not whole": (lambda: fg.Problem(2.5), ["dim = 2.5", "whole number"]),
    "S = 0": (lambda: fg.Problem(2, radius=0.0), ["radius = 0.0", "> 0"]),
    "S nan": (lambda: fg.Problem(2, radius=math.nan), ["radius = nan", "> 0"]),
    "S infinite": (lambda: fg.Problem(2, radius=math.inf), ["radius = inf", "finite"]),
    "R < 0": (lambda: fg.Problem(2, noise=-1.0), ["noise = -1.0", "> 0"]),
    "c = 0": (lambda: fg.Problem(2, curvature=0.0), ["curvature = 0.0", "> 0"]),
    "c underflows": (lambda: fg.Problem(2, radius=800.0), ["curvature = None", "underflows"]),
    "no noise for poisson": (
        lambda: fg.n_ucb_glm().setting(fg.Problem(2, fg.Poisson()), 1, None),
        ["noise = None", "poisson"],
    ),
    "link not a link": (lambda: fg.Problem(2, "logistic"), ["link = 'logistic'", "fg.Logistic()"]),
    "K = 0": (lambda: fg.Synthetic(P, clients=2, arms=0), ["arms = 0", ">= 1"]),
    "N = 0": (lambda: fg.Synthetic(P, clients=0, arms=2), ["clients = 0", ">= 1"]),
    "λ = 0": (lambda: fg.n_ons_glm(ridge=0.0), ["ridge = 0.0", "> 0"]),
    "λ < 0": (lambda: fg.dislinucb(1.0, ridge=-1.0), ["ridge = -1.0", "> 0"]),
    "δ = 0": (lambda: fg.n_ons_glm(delta=0.0), ["delta = 0.0", "> 0 and < 1"]),
    "δ = 1": (lambda: fg.one_ucb_glm(delta=1.0), ["delta = 1.0", "> 0 and < 1"]),
    "δ a string": (lambda: fg.n_ons_glm(delta="x"), ["delta = 'x'", "number"]),
    "exploration < 0": (lambda: fg.n_ons_glm(exploration=-0.1), ["exploration = -0.1", ">= 0"]),
    "D < 0": (lambda: fg.fedglb_ucb(-1.0), ["threshold = -1.0", ">= 0"]),
    "D nan": (lambda: fg.dislinucb(math.nan), ["threshold = nan", ">= 0"]),
    "B = 0": (lambda: fg.fedglb_ucb_1(0), ["updates = 0", ">= 1"]),
    "B > T": (
        lambda: fg.simulate(fg.fedglb_ucb_2(11), ENV, 10), ["updates = 11", "B = T = 10"],
    ),
    "λ too small": (
        lambda: fg.simulate(fg.n_ons_glm(ridge=1e-18), ENV, 5), ["ridge = 1e-18", "rounding"],
    ),
    "radius overflows": (
        lambda: fg.n_ons_glm().setting(fg.Problem(2, fg.Probit(), 30.0), 2, 5),
        ["curvature", "too large for a double"],
    ),
    "α < 0": (lambda: fg.Fixed(-1.0), ["alpha = -1.0", ">= 0"]),
    "solver a name": (
        lambda: fg.fedglb_ucb(1.0, "newton"), ["solver = 'newton'", "fg.Newton()"],
    ),
    "confidence a number": (
        lambda: fg.n_ons_glm(confidence=0.3), ["confidence = 0.3", "fg.Fixed(0.3)"],
    ),
    "tolerance 0": (lambda: fg.AGD(tolerance=0.0), ["tolerance = 0.0", "> 0"]),
    "tolerance 0 of an exact fit": (
        lambda: fg.one_ucb_glm(tolerance=0.0), ["tolerance = 0.0", "> 0"],
    ),
    "tolerance nan of an exact fit": (
        lambda: fg.n_ucb_glm(tolerance=np.nan), ["tolerance = nan", "finite"],
    ),
    "stop": (lambda: fg.AGD(stop="certficate"), ["stop = 'certficate'", "mean certificate"]),
    "bound is AGD's": (lambda: fg.Newton(stop="bound"), ["stop = 'bound'", "certificate, fixed"]),
    "rounds missing": (lambda: fg.AGD(stop="fixed"), ["rounds = None", ">= 1"]),
    "rounds in vain": (lambda: fg.AGD(rounds=3), ["rounds = 3", 'stop="fixed"']),
    "memory": (lambda: fg.LBFGS(memory=0), ["memory = 0", ">= 1"]),
    "T = 0": (lambda: fg.simulate(fg.n_ons_glm(), ENV, 0), ["horizon = 0", ">= 1"]),
    "T missing": (lambda: fg.simulate(fg.n_ons_glm(), ENV), ["horizon = None", "horizon=2000"]),
    "seed < 0": (lambda: fg.simulate(fg.n_ons_glm(), ENV, 5, seed=-1), ["seed = -1", ">= 0"]),
    "engine": (
        lambda: fg.simulate(fg.n_ons_glm(), ENV, 5, engine="refernce"),
        ["engine = 'refernce'", "did you mean reference"],
    ),
    "observer": (
        lambda: fg.simulate(fg.n_ons_glm(), ENV, 6, observer=lambda t, i, client: None),
        ["observer", "reference"],
    ),
    "algorithm": (lambda: fg.simulate("fedglb", ENV, 5), ["algorithm = 'fedglb'", "fedglb_ucb("]),
    "env": (lambda: fg.simulate(fg.n_ons_glm(), P, 5), ["env = ", "fg.Synthetic"]),
    "arms too long": (
        lambda: fg.Recorded(P, changed(ARMS, (3, 1, 2), 0.9), MEANS, UNIFORMS),
        ["norm of arms[3, 1, 2]", "norm <= 1"],
    ),
    "arms nan": (
        lambda: fg.Recorded(P, changed(ARMS, (3, 1, 2, 0), np.nan), MEANS, UNIFORMS),
        ["arms[3, 1, 2, 0] = nan", "finite"],
    ),
    "arms of another d": (
        lambda: fg.Recorded(P, np.zeros((4, 2, 3, 3)), MEANS, UNIFORMS),
        ["arms.shape = (4, 2, 3, 3)", "2)"],
    ),
    "no arms": (
        lambda: fg.Recorded(P, np.zeros((4, 2, 0, 2)), np.zeros((4, 2, 0)), UNIFORMS),
        ["arms.shape = (4, 2, 0, 2)"],
    ),
    "means of another shape": (
        lambda: fg.Recorded(P, ARMS, MEANS[:3], UNIFORMS), ["means.shape = (3, 2, 3)", "(4, 2, 3)"],
    ),
    "means outside": (
        lambda: fg.Recorded(P, ARMS, MEANS + 1.0, UNIFORMS), ["means[0, 0, 0] = 1.5", "[0, 1]"],
    ),
    "uniforms 1": (
        lambda: fg.Recorded(P, ARMS, MEANS, UNIFORMS + 0.5), ["uniforms[0, 0] = 1.0", "[0, 1)"],
    ),
    "uniforms outside": (
        lambda: fg.Recorded(P, ARMS, MEANS, UNIFORMS - 1.0), ["uniforms[0, 0] = -0.5", "[0, 1)"],
    ),
    "neither uniforms nor rewards": (lambda: fg.Recorded(P, ARMS, MEANS), ["exactly one"]),
    "rewards outside": (
        lambda: fg.Recorded(P, ARMS, MEANS, rewards=changed(MEANS, (1, 1, 1), 2.0)),
        ["rewards[1, 1, 1] = 2.0", "[0, 1]"],
    ),
    "rewards nan": (
        lambda: fg.Recorded(P, ARMS, MEANS, rewards=changed(MEANS, (1, 1, 1), np.nan)),
        ["rewards[1, 1, 1] = nan", "finite"],
    ),
    "active not bool": (
        lambda: fg.Recorded(P, ARMS, MEANS, UNIFORMS, active=np.ones((4, 2))), ["active", "bool"],
    ),
    "client: arms too long": (
        lambda: client().choose([[0.0, 1.0], [1.0, 1e-2]]), ["norm of arms[1]", "<= 1"],
    ),
    "client: ragged arms": (lambda: client().choose([[1.0], [0.0, 1.0]]), ["arms", "shape"]),
    "client: no arms": (lambda: client().choose(np.zeros((0, 2))), ["arms.shape = (0, 2)"]),
    "client: one arm flat": (lambda: client().choose([1.0, 0.0]), ["arms.shape = (2,)"]),
    "client: reward nan": (
        lambda: client().observe([1.0, 0.0], math.nan, 1), ["reward = nan", "finite"],
    ),
    "client: reward outside": (
        lambda: client().observe([1.0, 0.0], -1.0, 1), ["reward = -1.0", "[0, 1]", "logistic"],
    ),
    "client: t": (lambda: client().observe([1.0, 0.0], 1.0, 0), ["t = 0", ">= 1"]),
    "client: words for arms": (lambda: client().choose([["a", "b"]]), ["arms", "numbers"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name):
    call, parts = CASES[name]
    with pytest.raises(fg.InvalidInput) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    for part in parts:
        assert part in str(caught.value)


def test_a_norm_within_rounding_of_1_is_fine():
    assert client().choose([[1.0 + 1e-10, 0.0], [0.0, 0.5]]) == 0


def unit_arms_in_float32(*shape):
    """Of norm 1 as float32 has it; some are longer than `1 + 1e-9`."""
    arms = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    arms /= np.linalg.norm(arms, axis=-1, keepdims=True)
    norms = np.linalg.norm(arms.astype(np.float64), axis=-1)
    assert 1.0 + 1e-8 < norms.max() < 1.0 + 1e-6
    return arms, norms


def test_unit_arms_in_float32_are_scaled_into_the_ball():
    arms, norms = unit_arms_in_float32(4, 2, 3, 2)
    (block,) = fg.Recorded(P, arms, MEANS, UNIFORMS).blocks(4, 0)
    assert np.linalg.norm(block.arms, axis=-1).max() <= 1.0 + 1e-9
    fit = norms <= 1.0 + 1e-9
    assert_array_equal(block.arms[fit], arms[fit])  # to the bit
    assert_allclose(block.arms, arms, rtol=2e-7)
    env = Unchecked(Block(1, arms, MEANS, UNIFORMS))
    assert_array_equal(next(env.checked_blocks(4, 0)).arms, block.arms)
    with pytest.raises(fg.InvalidInput, match=r"norm of arms\[0, 0, 0\] = 1\.00001"):
        fg.Recorded(P, arms * np.float32(1.00001), MEANS, UNIFORMS)


def test_a_client_learns_arms_in_the_ball_too():
    arms, _ = unit_arms_in_float32(50, 2)
    absorbing, observing = client(), client()
    absorbing.absorb(arms, np.ones(50))
    assert observing.choose(arms) in range(50)
    for t, x in enumerate(arms):
        observing.observe(x, 1.0, t + 1)
    for one in (absorbing, observing):
        assert np.linalg.norm(one.samples.X, axis=1).max() <= 1.0 + 1e-9
    assert_array_equal(absorbing.samples.X, observing.samples.X)
    with pytest.raises(fg.InvalidInput, match="norm of x"):
        observing.observe(arms[0] * np.float32(1.00001), 1.0, 51)


def test_poisson_counts_below_zero_are_refused():
    problem = fg.Problem(2, fg.Poisson(), noise=1.0)
    with pytest.raises(fg.InvalidInput, match="poisson"):
        problem.check_reward(-1.0)
    assert problem.check_reward(17) == 17.0


class Unchecked(fg.Environment):
    """An environment of a user's own, which hands out whatever it was given."""

    def __init__(self, block):
        self.problem, self.clients, self.arms, self.block = P, 2, 3, block

    def parameter(self, seed):
        return None

    def blocks(self, horizon, seed):
        yield self.block


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arms": changed(ARMS, (0, 0, 0, 0), np.nan)}, "arms"),
        ({"arms": 12.0 * ARMS}, "norm of arms"),
        ({"rewards": 7.0 * np.ones((4, 2, 3)), "uniforms": None}, "rewards"),
        ({"uniforms": None}, "exactly one"),
        ({"means": MEANS[:, :1]}, "means"),
        ({"active": np.ones((4, 2))}, "active"),
    ],
)
def test_blocks_of_any_environment_are_checked(change, said):
    block = {"first": 1, "arms": ARMS, "means": MEANS, "uniforms": UNIFORMS}
    with pytest.raises(fg.InvalidInput, match=said):
        fg.simulate(fg.n_ons_glm(), Unchecked(Block(**(block | change))), 4)


def test_a_recording_is_the_environments_own():
    arms = ARMS.copy()
    env = fg.Recorded(P, arms, MEANS, UNIFORMS)
    arms[:] = np.nan
    assert fg.simulate(fg.n_ons_glm(), env).regret == 0.0


def test_a_tiny_delta_and_a_tiny_curvature_still_give_a_radius():
    env = fg.Synthetic(fg.Problem(2, curvature=1e-70), 2, 3)
    radii = set()
    fg.simulate(
        fg.n_ons_glm(delta=1e-300),
        env,
        3,
        engine="reference",
        observer=lambda t, i, c: radii.add(c.alpha),
    )
    assert all(0.0 < alpha < math.inf for alpha in radii)


def test_a_number_beyond_all_doubles():
    with pytest.raises(fg.InvalidInput, match="too many digits"):
        fg.fedglb_ucb(10**400)
