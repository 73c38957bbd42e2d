"""Algorithms that must coincide, choice by choice."""

from __future__ import annotations

import math

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
    zero = fg.simulate(fg.fedglb_ucb(0.0, fg.Newton()), env(link), T, seed=3)
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
