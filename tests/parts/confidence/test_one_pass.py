"""`OnePassRadius` as a part: what it sends, what clients make of it, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.parts.confidence import OnePassRadius
from fedglb.parts.local_update import FrozenHessian
from fedglb.parts.trigger import Schedule
from fedglb.simulation.reference import ReferenceEngine

D, CLIENTS = 2, 40
PROBLEM = fg.Problem(D)
ENV = fg.Synthetic(PROBLEM, CLIENTS, 5)


def played(horizon=60, choice=None, privacy=None, seed=1):
    algorithm = fg.fedglb_private(
        6, first=4.0, privacy=privacy, confidence=OnePassRadius(), choice=choice
    )
    engine = ReferenceEngine(algorithm, ENV, horizon, seed)
    engine.run()
    return engine


def test_before_the_first_model_the_set_is_the_ball():
    algorithm = fg.fedglb_private(6, confidence=OnePassRadius())
    setting = algorithm.setting(fg.Problem(D, radius=2.0), CLIENTS, 60)
    state = FrozenHessian().begin(setting)
    confidence = algorithm.confidence
    terms = confidence.terms(setting, None)
    assert confidence.radius(setting, state) == 1.0
    assert_allclose(terms[1:], [0.0, 0.0, 4.0, 0.0, 0.0, 4.0])
    assert confidence.contains(setting, state, 1.0, np.array([0.0, 2.0]))
    assert not confidence.contains(setting, state, 1.0, np.array([0.1, 2.0]))


def test_where_noise_hides_everything_the_set_is_about_the_ball():
    """And not the ball itself, in which all arms of one length tie."""
    engine = played(privacy=fg.GaussianMechanism(0.01, 1e-6))
    rho, c1, c2, a, b, c = engine.coordinator.model.radius_terms
    assert_allclose([c1, c2, b * rho**-2], 0.0, atol=1e-2)
    assert_allclose([a * rho**-2, c * rho**-2], 1.0, rtol=1e-2)
    last = engine.result().choices[-1]
    assert len(np.unique(last)) > 1


def test_what_is_sent_is_the_ellipsoid_that_clients_use():
    engine = played()
    client, terms = engine.client(3), engine.coordinator.model.radius_terms
    rho, centre, (a, b, c) = terms[0], terms[1:3], terms[3:]
    W = np.array([[a, b], [b, c]])
    assert len(terms) == 1 + D + D * (D + 1) // 2
    assert rho != 1.0
    confidence, state, setting = client.algorithm.confidence, client.state, client.setting
    assert client.alpha == rho
    assert_allclose(confidence.centre(state), centre)
    derived = confidence.terms(setting, state.base)
    assert_allclose(derived[3:].reshape(2, 2), np.linalg.inv(W), rtol=1e-9)
    direction = np.array([0.6, -0.8])
    edge = direction * rho / np.sqrt(direction @ W @ direction)
    assert confidence.contains(setting, state, rho, centre + 0.999 * edge)
    assert not confidence.contains(setting, state, rho, centre + 1.001 * edge)


def test_a_bank_uses_its_intervals():
    """A poor one leaves nothing but the arm of the largest upper bound, cut at ±S‖x‖."""
    free = played(choice=fg.Bank(fg.Bayes(), 1e9)).result()
    index = fg.simulate(fg.fedglb_private(6, first=4.0), ENV, 60, seed=1)
    bound = played(choice=fg.Bank(fg.Greedy(), 1.0)).result()
    assert (free.choices == index.choices).all()
    assert (bound.choices != index.choices).any()


@pytest.mark.parametrize("terms", [[1.0], [1.0, 0.0, 0.0, 1.0, 0.0, -1.0]], ids=["few", "W"])
def test_terms_that_are_no_ellipsoid_are_refused(terms):
    engine = played()
    model = replace(engine.coordinator.model, radius_terms=np.array(terms))
    with pytest.raises(fg.InvalidInput, match="radius_terms"):
        OnePassRadius().terms(engine.setting, model)


def test_other_solvers_and_links_are_refused():
    with pytest.raises(fg.InvalidInput, match="OnePass"):
        fg.Algorithm("x", FrozenHessian(), fg.Newton(), Schedule(4), OnePassRadius())
    algorithm = fg.fedglb_private(6, confidence=OnePassRadius())
    with pytest.raises(fg.InvalidInput, match="likelihood"):
        algorithm.setting(fg.Problem(D, fg.Probit()), CLIENTS, 60)


def test_caveats():
    confidence = OnePassRadius()
    assert len(confidence.caveats(PROBLEM)) == 1
    assert "reward_limit" in confidence.caveats(fg.Problem(D, fg.Identity(), noise=1.0))[1]
