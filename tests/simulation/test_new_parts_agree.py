"""The parts past the paper: both engines do the same with them, to the bit."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.parts.confidence import FedGLBRadius
from fedglb.parts.local_update import Ons
from fedglb.parts.trigger import Event
from tests.links.families import Hyperbolic
from tests.simulation.test_engines_agree import agree, play, recorded, same

N, K, D, T = 3, 5, 2, 18

LINKS = {
    "logistic": fg.Problem(D, radius=2.0),
    "Poisson": fg.Problem(D, fg.Poisson(), radius=1.5, noise=1.2),
    "identity": fg.Problem(D, fg.Identity(), noise=0.3),
    "probit": fg.Problem(D, fg.Probit()),
    "user's own": fg.Problem(D, Hyperbolic()),
}
RULES = {
    "Ucb": fg.Ucb(),
    "Greedy": fg.Greedy(),
    "Sigma": fg.Sigma(2.0),
    "Bayes": fg.Bayes(),
    "Thompson": fg.Thompson(draws=7),
    "Certified": fg.Certified(fg.Bayes(), 8.0),
    "Certified Thompson": fg.Certified(fg.Thompson(draws=3), 1.5),
    "EpsilonGreedy": fg.EpsilonGreedy(0.3),
    "EpsilonGreedy, Ucb": fg.EpsilonGreedy(0.3, fg.Ucb()),
    "EpsilonGreedy, Thompson": fg.EpsilonGreedy(0.3, fg.Thompson(draws=4)),
    "Thompson without an estimate": fg.Thompson(0.5, draws=0),
}
RANDOM = [name for name, rule in RULES.items() if rule.randomised]
SOLVERS = {
    "one exchange": None,
    "one exchange, strict": fg.OneExchange(slack=1e-6),
    "one exchange, free": fg.OneExchange(within="deviation"),
    "one exchange, always": fg.OneExchange(math.inf, "deviation"),
    "newton": fg.Newton(),
    "lbfgs": fg.LBFGS(),
    "agd": fg.AGD(),
}


def agree_in_all(algorithm, env, horizon=T, seed=3):
    """As `agree`; propensities and their errors too, bit by bit."""
    reference, compiled = play(algorithm, env, horizon, seed)
    run = agree(reference, compiled)
    other = compiled.result()
    same(
        {"p": run.propensities, "error": run.propensity_errors},
        {"p": other.propensities, "error": other.propensity_errors},
    )
    return run


def env(link, clients=N):
    return fg.Synthetic(LINKS[link], clients, K)


# -- each axis around one algorithm ---------------------------------------------------------------


@pytest.mark.some(17)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("link", ["logistic", "Poisson", "identity"])
def test_every_rule_with_proven_sets(rule, link):
    run = agree_in_all(fg.fedglb_mix(0.5, RULES[rule]), env(link))
    assert run.syncs > 0
    assert len(np.unique(run.choices)) > 1
    sure = (run.propensities == 1.0).all() and (run.propensity_errors == 0.0).all()
    assert sure == (not RULES[rule].randomised)


@pytest.mark.parametrize("rule", [name for name in RULES if "Certified" not in name])
@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_every_rule_with_the_posterior(rule, link):
    run = agree_in_all(fg.fedglb_auto(0.1, RULES[rule]), env(link))
    assert run.syncs > 0


@pytest.mark.parametrize("link", LINKS)
def test_the_preset_for_applications_with_every_link(link):
    assert agree_in_all(fg.fedglb_auto(), env(link), horizon=40).syncs > 0


@pytest.mark.parametrize("ridge", [1.0, fg.Evidence()], ids=["number", "rule"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver(solver, ridge):
    part = SOLVERS[solver]
    if part is not None and not part.in_ball:  # Theorem M needs ‖θ‖ ≤ S
        with pytest.raises(fg.InvalidInput, match="models lie in the ball"):
            fg.fedglb_mix(1.0, solver=part, ridge=ridge)
    else:
        mix = fg.fedglb_mix(1.0, solver=part, ridge=ridge)
        for link in ("logistic", "Poisson", "identity"):
            assert agree_in_all(mix, env(link)).syncs > 0
    auto = fg.fedglb_auto(0.5, solver=SOLVERS[solver], ridge=ridge)
    for link in ("logistic",) if solver == "one exchange, strict" else ("logistic", "probit"):
        assert agree_in_all(auto, env(link)).syncs > 0


@pytest.mark.parametrize("threshold", [0.0, 0.3, math.inf])
@pytest.mark.parametrize("clock", ["steps", "own samples"])
def test_every_clock_and_threshold(clock, threshold):
    for preset in (fg.fedglb_mix, fg.fedglb_auto, fg.dislinucb):
        run = agree_in_all(preset(threshold, clock=clock), env("identity"))
        assert {0.0: run.syncs == N * T, math.inf: run.syncs == 0}.get(threshold, run.syncs > 1)
    ons = agree_in_all(fg.fedglb_ucb(threshold, fg.Newton(), clock=clock), env("logistic"))
    assert (ons.syncs > 0) == (threshold < math.inf)


def test_the_clocks_differ():
    """Where clients act now and then, steps since the model are more than own samples."""
    few = recorded(rewards=True, active=True)
    steps, own = (
        agree_in_all(fg.fedglb_mix(6.0, clock=c), few, 36) for c in ("steps", "own samples")
    )
    assert steps.updates["t"][0] < own.updates["t"][0]


@pytest.mark.parametrize("rule", ["Ucb", *RANDOM])
def test_clients_that_do_not_always_act(rule, monkeypatch):
    monkeypatch.setattr("fedglb.environments.base.BLOCK_NUMBERS", 5 * 4 * 7 * 3)
    run = agree_in_all(fg.fedglb_mix(0.5, RULES[rule]), recorded(rewards=True, active=True), 36)
    assert_array_equal(np.isnan(run.propensities) & (run.choices != -1), (
        (run.choices != -1) & (RULES[rule].draws == 0)
    ))  # fmt: skip
    assert np.isnan(run.propensities[run.choices == -1]).all()


@pytest.mark.parametrize("solver", ["one exchange", "newton"])
def test_a_ball_that_is_active(solver):
    """S is half of what the rewards ask for, so that models lie on the sphere."""
    rng = np.random.default_rng(4)
    arms = np.tile(np.eye(D), (40, N, 1, 1))
    few = fg.Problem(D, radius=0.3)
    means = np.tile([0.9, 0.1], (40, N, 1))
    strong = fg.Recorded(few, arms, means, rewards=(rng.random((40, N, D)) < means).astype(float))
    for ridge in (1.0, fg.Evidence()):
        algorithm = fg.fedglb_mix(0.5, solver=SOLVERS[solver], ridge=ridge)
        run = agree_in_all(algorithm, strong, 40)
        assert run.updates["projected"].any()
        assert np.linalg.norm(run.theta) == pytest.approx(0.3, rel=1e-12)


def test_past_the_refresh_of_the_inverse():
    """More than 1,024 samples per client without an update."""
    for preset in (fg.fedglb_mix, fg.fedglb_auto):
        agree_in_all(preset(math.inf), fg.Synthetic(LINKS["logistic"], 2, 3), horizon=1100)


def test_small_sizes():
    for clients, arms, d, horizon in [(1, 1, 1, 3), (2, 1, 3, 5), (1, 4, 1, 6)]:
        small = fg.Synthetic(fg.Problem(d), clients, arms)
        for algorithm in (
            fg.fedglb_mix(0.1, fg.Thompson(draws=2)),
            fg.fedglb_mix(0.1, fg.Certified(fg.Greedy(), 1.0)),
            fg.fedglb_auto(),
        ):
            agree_in_all(algorithm, small, horizon)


# -- the ridge's rule with the algorithms of the paper --------------------------------------------


@pytest.mark.parametrize("solver", ["newton", "agd", "lbfgs"])
def test_the_rule_of_the_ridge_with_online_newton_steps(solver):
    fixed = fg.Algorithm("x", Ons(), SOLVERS[solver], Event(0.3), FedGLBRadius(), exploration=0.2)
    for link in ("logistic", "Poisson"):
        run = agree_in_all(dataclasses.replace(fixed, ridge=fg.Evidence()), env(link))
        assert run.syncs > 1
        other = fg.simulate(dataclasses.replace(fixed, ridge=1.0 / 64.0), env(link), T, 3)
        if link == "logistic":  # (Poisson's models lie on the sphere, whatever λ)
            assert np.abs(run.theta - other.theta).max() > 1e-3


def test_the_rule_of_the_ridge_in_ridge_regression():
    run = agree_in_all(dataclasses.replace(fg.dislinucb(0.3), ridge=fg.Evidence()), env("identity"))
    assert run.syncs > 1


def test_the_rule_of_the_ridge_needs_a_fit_of_all_samples():
    for algorithm in (fg.fedglb_ucb_3(5), fg.n_ons_glm(), fg.n_ucb_glm(), fg.one_ucb_glm()):
        with pytest.raises(fg.InvalidInput, match="fit all samples again") as error:
            dataclasses.replace(algorithm, ridge=fg.Evidence())
        assert error.value.argument == "ridge"


def test_rules_of_choice_with_the_algorithms_of_the_paper():
    for algorithm in (
        fg.fedglb_ucb(0.3, fg.Newton(), 0.2), fg.fedglb_ucb_1(4, fg.Newton()),
        fg.fedglb_ucb_3(4), fg.dislinucb(0.3), fg.one_ucb_glm(), fg.n_ucb_glm(),
    ):  # fmt: skip
        for rule in ("Bayes", "EpsilonGreedy, Thompson", "Certified"):
            agree_in_all(dataclasses.replace(algorithm, choice=RULES[rule]), env("identity"))


# -- streams ---------------------------------------------------------------------------------------


def test_compare_gives_what_single_runs_give():
    algorithms = [fg.fedglb_mix(0.5, rule) for rule in RULES.values()]
    algorithms += [fg.fedglb_auto(0.1, RULES[name]) for name in RANDOM if "Cert" not in name]
    together = fg.compare(algorithms, env("logistic"), T, 3)
    for algorithm, run in zip(algorithms, together, strict=True):
        alone = fg.simulate(algorithm, env("logistic"), T, 3)
        assert_array_equal(alone.choices, run.choices)
        assert alone.trace.equals(run.trace)
        assert alone.ledger.equals(run.ledger)
        same({"p": alone.propensities}, {"p": run.propensities})


def test_a_rule_draws_anew_with_another_seed_and_for_each_client():
    """All clients are offered the same, and nobody learns: only the streams tell them apart."""
    arms = np.tile(np.eye(3), (30, N, 1, 1))
    means, uniforms = np.full((30, N, 3), 0.5), np.zeros((30, N))
    still = fg.Recorded(fg.Problem(3), arms, means, uniforms)
    algorithm = fg.fedglb_mix(math.inf, fg.EpsilonGreedy(1.0))
    one, two = (fg.simulate(algorithm, still, 30, seed).choices for seed in (1, 2))
    assert (one != two).any()
    assert (one[:, 0] != one[:, 1]).any()
    assert (one[:-1, 0] != one[1:, 0]).any()


def test_propensities_are_those_of_the_rule():
    run = fg.simulate(fg.fedglb_mix(0.5, fg.EpsilonGreedy(0.3, fg.Ucb())), env("logistic"), 60, 1)
    low, high = 0.3 / K, 0.3 / K + 0.7
    assert set(np.unique(run.propensities)) == {low, high}
    assert (run.propensity_errors == 0.0).all()
    thompson = fg.simulate(fg.fedglb_mix(0.5, fg.Thompson(draws=9)), env("logistic"), 60, 1)
    p, error = thompson.propensities, thompson.propensity_errors
    assert_array_equal(np.unique(np.round(10 * p, 9) % 1.0), [0.0])
    assert p.min() >= 0.1  # the arm that was played won once
    np.testing.assert_allclose(error, np.sqrt(p * (1.0 - p) / 10.0), rtol=1e-12, atol=0.0)
