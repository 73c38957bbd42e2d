"""The set of `OnePassRadius` against `tests.plain_one_pass_set`, from what clients released."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.simulation.reference import ReferenceEngine
from tests.plain_one_pass import UNIT
from tests.plain_one_pass_set import Given, OnePass, Release

CASES = {
    "logistic": (fg.Problem(2), None),
    "logistic, private": (fg.Problem(2), fg.GaussianMechanism(8.0, 1e-3)),
    "logistic, silo": (fg.Problem(3, radius=2.0), fg.GaussianMechanism(40.0, 1e-3, noise="silo")),
    "poisson": (fg.Problem(2, fg.Poisson(), noise=1.0), None),
    "identity": (fg.Problem(2, fg.Identity(), noise=0.4), None),
    "identity, private": (
        fg.Problem(2, fg.Identity(), noise=0.4), fg.GaussianMechanism(8.0, 1e-3, reward_limit=3.0),
    ),
}  # fmt: skip
SKEWS = {"logistic": lambda S: np.tanh(S / 2), "poisson": lambda S: 1.0, "identity": lambda S: 0.0}
CLIENTS, UPDATES, T = 30, 6, 60


def played(problem, privacy):
    algorithm = fg.fedglb_private(
        UPDATES, first=3.0, privacy=privacy, confidence=fg.OnePassRadius(), delta=0.1
    )
    engine = ReferenceEngine(algorithm, fg.Synthetic(problem, CLIENTS, 4), T, seed=5)
    engine.run()
    return engine


def given(engine) -> Given:
    problem, plan = engine.setting.problem, engine.setting.noise
    S = problem.S
    dispersion = problem.R**2 if problem.link.name == "identity" else 1.0
    known = Given(problem.dim, S, SKEWS[problem.link.name](S), dispersion, 1.0, 0.1)
    if plan is None:
        return known
    vector, matrix = (float(v) ** 0.5 * UNIT for v in plan.share_variance())
    return Given(*list(vars(known).values())[:6], plan.factors.decoder, vector, matrix)


@pytest.mark.some(2)
@pytest.mark.parametrize("case", CASES)
def test_the_set_after_the_last_update(case):
    engine = played(*CASES[case])
    sums = engine.coordinator.releases
    plain = OnePass(given(engine), [Release(s.clients, s.numbers) for _, s in sorted(sums.items())])
    assert len(sums) == UPDATES
    model = engine.coordinator.model
    assert_allclose(model.theta, plain.thetas[-1], atol=1e-9)
    rho, centre, W = plain.set(UPDATES)
    d = len(centre)
    terms = model.radius_terms
    assert rho != 1.0  # it is not the ball
    assert_allclose(terms[0], rho, rtol=1e-7)
    assert_allclose(terms[1 : 1 + d], centre, atol=1e-7)
    assert_allclose(terms[1 + d :], W[np.tril_indices(d)], rtol=1e-7, atol=1e-7)
    inside = plain.given.S, engine.env.parameter(5) - centre
    assert np.sqrt(inside[1] @ W @ inside[1]) <= rho
