"""Runs of the presets past the paper that must coincide, choice by choice."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.parts.trigger import Always, Event, Never

LINKS = {
    "logistic": fg.Problem(3, radius=2.0),
    "identity": fg.Problem(3, fg.Identity(), noise=0.5),
    "Poisson": fg.Problem(3, fg.Poisson(), noise=1.0),
    "clear": fg.Problem(3, fg.Identity(), noise=0.1),  # sets are soon inside the ball
}
T, N, K = 40, 3, 6


def env(link: str, clients: int = N) -> fg.Synthetic:
    return fg.Synthetic(LINKS[link], clients=clients, arms=K)


def alone(world: fg.Synthetic, i: int, seed: int) -> fg.Recorded:
    """What client i is offered in a world, as a world of its own."""
    blocks = list(world.blocks(T, seed))
    arms, means, uniforms = (
        np.concatenate([getattr(block, name) for block in blocks])[:, i : i + 1]
        for name in ("arms", "means", "uniforms")
    )
    return fg.Recorded(world.problem, arms, means, uniforms, parameter=world.parameter(seed))


# -- D = ∞ ----------------------------------------------------------------------------------------

#: Rules that do not look at the sets, so that neither δ nor N matters to them.
INDICES = [fg.Greedy(), fg.Sigma(2.0), fg.Bayes()]


@pytest.mark.parametrize("choice", INDICES, ids=str)
@pytest.mark.parametrize("link", LINKS)
def test_an_infinite_threshold_is_every_client_alone(link, choice):
    """Nothing is sent, and an index depends on the client's samples alone, not on N."""
    for algorithm in (fg.fedglb_mix(math.inf, choice), fg.fedglb_auto(math.inf, choice)):
        run = fg.simulate(algorithm, env(link), T, seed=2)
        assert (run.syncs, run.transfers) == (0, 0)
        for i in range(N):
            single = fg.simulate(algorithm, alone(env(link), i, 2), T, seed=2)
            assert_array_equal(run.choices[:, i], single.choices[:, 0])
        other = fg.simulate(dataclasses.replace(algorithm, trigger=Event(0.1)), env(link), T, 2)
        assert (other.choices != run.choices).any()


@pytest.mark.parametrize("link", ["identity", "Poisson", "clear"])
def test_upper_bounds_of_a_client_alone_have_its_share_of_delta(link):
    """Theorem L has δ/(2N·2) per client: N clients with Nδ are as many learners with δ each.

    Theorem M is the ball, whatever δ, before the first model.
    """
    delta = 0.04
    run = fg.simulate(fg.fedglb_mix(math.inf, delta=N * delta), env(link), T, seed=2)
    wide = fg.simulate(fg.fedglb_mix(math.inf, delta=1e-6), env(link), T, seed=2)
    for i in range(N):
        single = fg.simulate(fg.fedglb_mix(math.inf, delta=delta), alone(env(link), i, 2), T, 2)
        assert_array_equal(run.choices[:, i], single.choices[:, 0])
    assert (wide.choices != run.choices).any()  # δ does matter


def test_an_infinite_threshold_is_no_trigger():
    quiet = fg.fedglb_mix(math.inf)
    never = dataclasses.replace(quiet, trigger=Never(), global_update=None)
    one, two = (fg.simulate(a, env("logistic"), T, seed=3) for a in (quiet, never))
    assert_array_equal(one.choices, two.choices)
    assert one.regret == two.regret


# -- D = 0 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", LINKS)
def test_a_zero_threshold_is_always(link):
    for preset in (fg.fedglb_mix, fg.fedglb_auto):
        zero = preset(0.0)
        always = dataclasses.replace(zero, trigger=Always())
        one, two = (fg.simulate(a, env(link), 15, seed=3) for a in (zero, always))
        assert_array_equal(one.choices, two.choices)
        assert one.ledger.equals(two.ledger)
        assert one.syncs == N * 15


def test_one_client_of_ridge_regression_that_always_updates_learns_as_if_it_never_did():
    """N = 1, identity: an update fits what the client's own step had, up to rounding.

    The ball must not be active, as the local step knows none.
    """
    world = fg.Synthetic(fg.Problem(3, fg.Identity(), radius=50.0, noise=0.5), 1, K)
    with_updates = fg.simulate(fg.fedglb_mix(0.0, fg.Bayes()), world, T, seed=4)
    without = fg.simulate(fg.fedglb_mix(math.inf, fg.Bayes()), world, T, seed=4)
    assert with_updates.syncs == T
    assert not with_updates.updates["projected"].any()
    assert_array_equal(with_updates.choices, without.choices)
    logistic = fg.Synthetic(fg.Problem(3, radius=50.0), 1, K)
    one, two = (
        fg.simulate(fg.fedglb_mix(D, fg.Bayes(), ridge=0.1), logistic, 150, seed=4)
        for D in (0.0, math.inf)
    )
    assert (one.choices != two.choices).any()  # there the anchor moves


def test_one_client_makes_the_same_of_both_clocks():
    """N = 1: every step is an own sample."""
    for preset in (fg.fedglb_mix, fg.fedglb_auto):
        one, two = (
            fg.simulate(preset(0.5, clock=clock), env("logistic", 1), T, seed=5)
            for clock in ("steps", "own samples")
        )
        assert_array_equal(one.choices, two.choices)
        assert one.updates.equals(two.updates)
        assert one.syncs > 1


# -- rules of choice ------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [fg.Ucb(), *INDICES, fg.Thompson(draws=3)], ids=str)
def test_certified_with_an_infinite_slack_is_its_index(index):
    one, two = (
        fg.simulate(fg.fedglb_mix(0.5, rule), env("clear"), T, seed=7)
        for rule in (index, fg.Certified(index, math.inf))
    )
    same(one, two)


@pytest.mark.parametrize(
    "rule", [fg.Ucb(), fg.Bayes(), fg.Thompson(draws=3), fg.Certified(fg.Bayes(), 8.0)], ids=str
)
def test_exploring_never_is_the_rule(rule):
    one, two, other = (
        fg.simulate(fg.fedglb_mix(0.5, choice), env("logistic"), T, seed=8)
        for choice in (rule, fg.EpsilonGreedy(0.0, rule), fg.EpsilonGreedy(0.5, rule))
    )
    same(one, two)
    assert (one.choices != other.choices).any()


def test_no_deviation_is_greedy():
    for preset in (fg.fedglb_mix, fg.fedglb_auto):
        one, two, other = (
            fg.simulate(preset(0.5, rule), env("logistic"), T, seed=9)
            for rule in (fg.Greedy(), fg.Sigma(0.0), fg.Sigma(1.0))
        )
        same(one, two)
        assert (one.choices != other.choices).any()


def same(one: fg.Run, two: fg.Run) -> None:
    assert_array_equal(one.choices, two.choices)
    assert_array_equal(one.propensities, two.propensities)
    assert one.trace.equals(two.trace)
    assert one.updates.equals(two.updates)


# -- units ----------------------------------------------------------------------------------------


def scaled(by: float, S: float = 1.0) -> fg.Recorded:
    """Rewards in another unit: they, R and S are `by` times as large."""
    rng = np.random.default_rng(11)
    arms = rng.standard_normal((T, N, K, 3))
    arms /= np.linalg.norm(arms, axis=3, keepdims=True)
    means = arms @ np.array([0.6, -0.3, 0.5])
    rewards = means + 0.5 * rng.standard_normal(means.shape)
    problem = fg.Problem(3, fg.Identity(), radius=by * S, noise=by * 0.5)
    return fg.Recorded(problem, arms, by * means, rewards=by * rewards)


@pytest.mark.parametrize(
    "choice", [fg.Bayes(), fg.Sigma(2.0), fg.Thompson(draws=3), fg.Greedy()], ids=str
)
def test_the_unit_of_rewards_does_not_matter(choice):
    """Identity link: λ by its rule, deviations and θ follow the unit, a power of 2 to the bit."""
    one, two = (
        fg.simulate(fg.fedglb_auto(0.1, choice), scaled(by), T, seed=1) for by in (1.0, 8.0)
    )
    assert one.syncs > 2
    assert_array_equal(one.choices, two.choices)
    assert_array_equal(one.propensities, two.propensities)
    assert_array_equal(8.0 * one.theta, two.theta)
    assert one.updates["t"].equals(two.updates["t"])


def test_the_unit_matters_where_it_is_not_told():
    """The same rewards with another R: λ and deviations change, so that the test above can fail."""
    one = fg.simulate(fg.fedglb_auto(0.1), scaled(1.0), T, seed=1)
    louder = scaled(1.0)
    louder.problem = fg.Problem(3, fg.Identity(), radius=1.0, noise=4.0)
    two = fg.simulate(fg.fedglb_auto(0.1), louder, T, seed=1)
    assert (one.choices != two.choices).any()


def test_units_and_a_ball():
    """The fit over the ball follows the unit; the grid of priors of `Mixture` does not."""
    one, two = (
        fg.simulate(fg.fedglb_mix(0.5, fg.Greedy()), scaled(by, S=0.4), T, seed=1)
        for by in (1.0, 8.0)
    )
    assert one.updates["projected"].any()
    assert_array_equal(one.choices, two.choices)
    assert_allclose(8.0 * one.theta, two.theta, rtol=1e-12)
