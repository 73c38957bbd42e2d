"""Algorithms that must coincide, choice by choice, and what they must be equal to."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.parts.local_update import Ons
from fedglb.parts.trigger import Always

LINKS = {
    "logistic": fg.Problem(4, fg.Logistic()),
    "probit": fg.Problem(4, fg.Probit(), radius=1.5),
    "identity": fg.Problem(4, fg.Identity()),
    "poisson": fg.Problem(4, fg.Poisson(), noise=1.0),
}
#: Sets are soon inside the ball.
CLEAR = fg.Synthetic(fg.Problem(3, fg.Identity(), noise=0.1), clients=3, arms=6)
T = 60


def env(link: str, clients: int = 4) -> fg.Synthetic:
    return fg.Synthetic(LINKS[link], clients=clients, arms=8)


@pytest.mark.parametrize("link", LINKS)
def test_an_infinite_threshold_is_n_ons_glm(link):
    lonely = fg.simulate(fg.n_ons_glm(), env(link), T, seed=2)
    federated = fg.simulate(fg.fedglb_ucb(math.inf), env(link), T, seed=2)
    assert_array_equal(federated.choices, lonely.choices)
    assert federated.regret == lonely.regret
    assert (federated.syncs, federated.transfers) == (0, 0)
    other = fg.simulate(fg.fedglb_ucb(1.0), env(link), T, seed=2)
    assert (other.choices != lonely.choices).any()


@pytest.mark.parametrize("link", LINKS)
def test_a_zero_threshold_is_always(link):
    always = fg.Algorithm("always", Ons(), fg.Newton(), Always(), fg.fedglb_ucb(0.0).confidence)
    zero = fg.simulate(fg.fedglb_ucb(0.0, fg.Newton(), choice=fg.Ucb()), env(link), T, seed=3)
    every = fg.simulate(always, env(link), T, seed=3)
    assert_array_equal(zero.choices, every.choices)
    assert zero.updates.drop("theta_star_inside").equals(every.updates.drop("theta_star_inside"))
    assert zero.syncs == 4 * T  # 0 ≥ 0: it syncs after every interaction
    assert zero.updates["client"].to_list() == list(range(4)) * T


def test_a_tiny_threshold_syncs_once_a_step_at_the_first_client():
    run = fg.simulate(fg.fedglb_ucb(1e-12, fg.Newton()), env("logistic"), T, seed=3)
    assert run.updates["t"].to_list() == list(range(1, T + 1))
    assert set(run.updates["client"]) == {0}


@pytest.mark.parametrize("link", LINKS)
def test_one_client_alone_is_everybody_together(link):
    one = fg.simulate(fg.one_ucb_glm(), env(link, clients=1), T, seed=4)
    alone = fg.simulate(fg.n_ucb_glm(), env(link, clients=1), T, seed=4)
    assert_array_equal(one.choices, alone.choices)
    assert one.regret == alone.regret


@pytest.mark.parametrize("link", LINKS)
def test_with_one_client_a_zero_threshold_is_a_schedule_of_every_step(link):
    event = fg.simulate(fg.fedglb_ucb(0.0), env(link, clients=1), T, seed=5)
    schedule = fg.simulate(fg.fedglb_ucb_2(updates=T), env(link, clients=1), T, seed=5)
    assert_array_equal(event.choices, schedule.choices)
    assert event.updates.drop("client").equals(schedule.updates.drop("client"))


# -- past the paper ------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["logistic", "identity", "poisson"])
def test_a_zero_threshold_is_always_past_the_paper(link):
    for preset in (fg.fedglb_mix, fg.fedglb_auto):
        zero = preset(0.0)
        always = dataclasses.replace(zero, trigger=Always())
        one, two = (fg.simulate(a, env(link), 15, seed=3) for a in (zero, always))
        assert_array_equal(one.choices, two.choices)
        assert one.ledger.equals(two.ledger)
        assert one.syncs == 4 * 15


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


@pytest.mark.parametrize(
    "index", [fg.Ucb(), fg.Greedy(), fg.Sigma(2.0), fg.Bayes(), fg.Thompson(draws=3)], ids=str
)
def test_a_rich_bank_is_its_index(index):
    one, two = (
        fg.simulate(fg.fedglb_mix(0.5, rule), CLEAR, T, seed=7)
        for rule in (index, fg.Bank(index, credit=1e9))
    )
    same(one, two)


@pytest.mark.parametrize("index", [fg.Greedy(), fg.Bayes(), fg.Thompson(draws=3)], ids=str)
def test_a_poor_bank_is_ucb(index):
    """Without a credit and with C = 1: the sets are ellipsoids, so no two bounds are cut alike."""
    of_ucb, banked, alone = (
        fg.simulate(fg.fedglb_ucb(0.5, fg.Newton(), choice=rule), CLEAR, T, seed=7)
        for rule in (fg.Ucb(), fg.Bank(index, 1.0), index)
    )
    assert_array_equal(of_ucb.choices, banked.choices)
    assert of_ucb.trace.equals(banked.trace)
    assert (alone.choices != banked.choices).any()


def same(one: fg.Run, two: fg.Run) -> None:
    assert_array_equal(one.choices, two.choices)
    assert_array_equal(one.propensities, two.propensities)
    assert one.trace.equals(two.trace)
    assert one.updates.equals(two.updates)


# -- units ----------------------------------------------------------------------------------------


def scaled(by: float) -> fg.Recorded:
    """Rewards in another unit: they, R and S are `by` times as large."""
    rng = np.random.default_rng(11)
    arms = rng.standard_normal((T, 3, 6, 3))
    arms /= np.linalg.norm(arms, axis=3, keepdims=True)
    means = arms @ np.array([0.6, -0.3, 0.5])
    rewards = means + 0.5 * rng.standard_normal(means.shape)
    problem = fg.Problem(3, fg.Identity(), radius=by, noise=by * 0.5)
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


# -- the one-pass update without noise ------------------------------------------------------------

D, N, K, B = 3, 4, 5, 6
UNIT = 2.0**-30


def models(algorithm: fg.Algorithm, env: fg.Environment, seed: int = 1):
    """The samples of all clients, in arrays, and the model, after the last update."""
    seen = {}

    def watch(t, i, client):
        if client.state.base is not None:
            seen["model"], seen["t"] = client.state.base, client.state.base.t
        seen[i] = client

    fg.simulate(algorithm, env, T, seed, engine="reference", observer=watch)
    clients = [seen[i] for i in range(N)]
    return seen["model"], clients


@pytest.mark.parametrize("ridge", [1.0, 0.1])
@pytest.mark.parametrize("radius", [1.0, 50.0], ids=["a ball that is active", "a large ball"])
def test_with_the_identity_link_it_is_ridge_regression(ridge, radius):
    problem = fg.Problem(D, fg.Identity(), radius, noise=0.5)
    env = fg.Synthetic(problem, N, K)
    model, clients = models(fg.fedglb_private(B, ridge=ridge), env)
    taken = [client.batches.taken for client in clients]
    X = np.concatenate([c.samples.X[:n] for c, n in zip(clients, taken, strict=True)])
    y = np.concatenate([c.samples.y[:n] for c, n in zip(clients, taken, strict=True)])
    assert len(X) == sum(taken) > 50
    A, b = X.T @ X + ridge * np.eye(D), X.T @ y
    assert np.abs(model.matrix - A).max() <= len(X) * UNIT
    free = np.linalg.solve(A, b)
    if np.linalg.norm(free) <= radius:
        assert np.abs(model.theta - free).max() < 10 * len(X) * UNIT
    else:  # on the sphere, where b − Aθ points outwards
        assert np.linalg.norm(model.theta) == pytest.approx(radius, abs=1e-9)
        pull = b - A @ model.theta
        cosine = pull @ model.theta / np.linalg.norm(pull) / radius
        assert cosine == pytest.approx(1.0, abs=1e-6)
