"""The sets of `Mixture` hold θ* in all but a fraction δ of the runs; shrunk ones do not.

With δ = 0.5 and two features the radii are small, so that a wrong constant shows.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import binom

import fedglb as fg
from fedglb.parts.confidence import Mixture
from fedglb.parts.confidence.mixture import RADIUS, SET_INVERSE, WIDENING, own_radius

#: A correct set fails a test with at most this probability.
LEVEL = 1e-6
CLIENTS, ARMS, T = 3, 4, 40

LINKS = {
    "logistic": (fg.Logistic(), None),
    "Poisson": (fg.Poisson(), 1.0),
    "identity": (fg.Identity(), 0.6),
}
RULES = {"Ucb": fg.Ucb(), "Greedy": fg.Greedy()}


def env(link, S, clients=CLIENTS):
    function, noise = LINKS[link]
    return fg.Synthetic(fg.Problem(2, function, S, noise), clients, ARMS)


@dataclass(frozen=True)
class Shrunk(Mixture):
    """Both radii times a factor: no confidence sets."""

    stored_name = "shrunk in a test"

    of_model: float = 1.0
    of_client: float = 1.0

    def radius_terms(self, setting, objective, solution):
        terms = list(super().radius_terms(setting, objective, solution))
        terms[RADIUS] *= self.of_model
        terms[WIDENING] *= self.of_client
        return tuple(terms)


def shrunk(algorithm, of_model=1.0, of_client=1.0):
    return dataclasses.replace(algorithm, confidence=Shrunk(of_model, of_client))


def at_most(lost, runs, delta):
    """Whether so many losses are no evidence, at the level above, that there are more than δ."""
    return bool(binom.sf(lost - 1, runs, delta) > LEVEL)


def lost_at_updates(algorithms, world, seeds):
    """Per algorithm, the runs in which some model's sets had lost θ*."""
    lost = np.zeros(len(algorithms), dtype=int)
    for seed in seeds:
        for k, run in enumerate(fg.compare(algorithms, world, T, seed)):
            assert run.syncs > 0
            lost[k] += not run.updates["theta_star_inside"].all()
    return lost


@dataclass(frozen=True)
class Seen:
    """Per run, the largest ‖θ* − centre‖/radius of Theorem M's and of Theorem L's sets."""

    of_model: np.ndarray
    of_client: np.ndarray

    def lost(self, model=1.0, client=1.0):
        """Runs that lost θ*, had the radii been multiplied by these factors."""
        slack = 1.0 + 1e-9  # ‖θ*‖ = S: before any data it is on the boundary
        return int(((self.of_model > model * slack) | (self.of_client > client * slack)).sum())


def at_every_step(algorithm, world, seeds):
    of_model, of_client = [], []
    for seed in seeds:
        star, d = world.parameter(seed), world.problem.dim
        worst = np.zeros(2)

        def watch(t, i, client, star=star, worst=worst, d=d):
            confidence, state, setting = client.algorithm.confidence, client.state, client.setting
            terms = confidence.terms(setting, state.base)
            W = np.linalg.inv(terms[SET_INVERSE:].reshape(d, d))
            away, own = star - state.anchor, star - state.theta
            radius = own_radius(
                state.vectors, state.counters, terms, np.array(confidence.constants(setting))
            )
            model = math.sqrt(away @ W @ away) / client.alpha
            ours = math.sqrt(own @ state.matrix @ own) / radius
            inside = confidence.contains(setting, state, client.alpha, star)
            assert inside == (max(model, ours) <= 1.0 + 1e-9)
            if state.base is not None:  # before: the ball, and θ* is on its boundary
                worst[0] = max(worst[0], model)
            assert state.base is not None or model <= 1.0 + 1e-9
            worst[1] = max(worst[1], ours)

        fg.simulate(algorithm, world, T, seed, engine="reference", observer=watch)
        of_model.append(worst[0])
        of_client.append(worst[1])
    return Seen(np.array(of_model), np.array(of_client))


# -- at updates, many runs ------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("S", [1.0, 3.0])
@pytest.mark.parametrize("link", LINKS)
def test_the_check_fails_for_small_radii(link, S):
    """With either radius a third or a fifth of what is proven, far fewer runs are enough."""
    runs, deltas = 60, (0.5, 0.5, 0.05, 0.05)
    cases = [
        shrunk(fg.fedglb_mix(1.0, delta=0.5), of_model=0.3),
        shrunk(fg.fedglb_mix(1.0, fg.Greedy(), delta=0.5), of_client=0.15),
        shrunk(fg.fedglb_mix(1.0, delta=0.05), of_model=0.3),
        shrunk(fg.fedglb_mix(1.0, delta=0.05, ridge=fg.Evidence()), of_model=0.3),
    ]
    lost = lost_at_updates(cases, env(link, S), range(runs))
    for algorithm, count, delta in zip(cases, lost, deltas, strict=True):
        assert not at_most(count, runs, delta), (algorithm, count)


# -- before every choice, fewer runs --------------------------------------------------------------


def test_clients_alone_hold_the_truth():
    """No model is ever shared: Theorem L before the first, from 40 own samples."""
    runs, delta = 40, 0.5
    for link in LINKS:
        world = env(link, 1.0, clients=2)
        seen = at_every_step(fg.fedglb_mix(math.inf, delta=delta), world, range(runs))
        assert at_most(seen.lost(), runs, delta)
        assert not at_most(seen.lost(client=0.3), runs, delta)


# -- the full matrix ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [0.05, 1.0, fg.Evidence()], ids=str)
@pytest.mark.parametrize("S", [1.0, 3.0, 6.0])
@pytest.mark.parametrize("link", LINKS)
def test_models_hold_the_truth_in_many_runs(link, S, ridge, record_property):
    if link == "Poisson" and S > 3.0:
        pytest.skip("means of e⁶ per sample")
    runs, cases = 1200, {}
    for delta in (0.5, 0.05):
        for rule in RULES.values():
            cases[fg.fedglb_mix(0.3, rule, "own samples", ridge=ridge, delta=delta)] = delta
        cases[fg.fedglb_mix(1.0, solver=fg.Newton(tolerance=1e-3), ridge=ridge, delta=delta)] = (
            delta
        )
    lost = lost_at_updates(list(cases), env(link, S, clients=2), range(5000, 5000 + runs))
    record_property("lost", lost.tolist())
    for (algorithm, delta), count in zip(cases.items(), lost, strict=True):
        assert at_most(count, runs, delta), (algorithm, count)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("S", [1.0, 3.0])
@pytest.mark.parametrize("link", LINKS)
def test_every_client_holds_the_truth_in_many_runs(link, S, rule, record_property):
    runs = 1000
    for ridge in (1.0, fg.Evidence()):
        algorithm = fg.fedglb_mix(3.0, RULES[rule], ridge=ridge, delta=0.5)
        seen = at_every_step(algorithm, env(link, S), range(9000, 9000 + runs))
        record_property(f"lost, {ridge}", [seen.lost(), seen.lost(client=9.9), seen.lost(9.9)])
        assert at_most(seen.lost(), runs, 0.5)
