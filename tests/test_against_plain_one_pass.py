"""The one-pass update and its set against independent re-derivations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.privacy import SimulatedNoise
from fedglb.protocol.messages import BatchSums
from fedglb.simulation.reference import ReferenceEngine
from tests import plain, plain_one_pass
from tests.plain_one_pass_set import Given, OnePass, Release
from tests.test_against_plain import LINKS, stream

D, N, K, T, B = 3, 4, 6, 40, 7
PRIVACY = {
    "no noise": None,
    "sums": fg.GaussianMechanism(2.0, 1e-3, reward_limit=3.0),
    "silo": fg.GaussianMechanism(8.0, 1e-3, "silo", reward_limit=3.0),
    "replace": fg.GaussianMechanism(4.0, 1e-3, "sums", "replace", honest=0.5, reward_limit=2.0),
}


class Listening(ReferenceEngine):
    """The reference engine; all releases and all models are kept."""

    def __init__(self, *args):
        super().__init__(*args)
        self.releases: dict[int, dict[int, list[int]]] = {}
        self.models = []
        receive, finish = self.coordinator.receive, self.coordinator.finish_update

        def heard(message):
            if isinstance(message, BatchSums):
                sent = self.releases.setdefault(message.update, {})
                sent[message.client] = message.numbers.tolist()
            return receive(message)

        def finished():
            model, getting = finish()
            self.models.append(model)
            return model, getting

        self.coordinator.receive, self.coordinator.finish_update = heard, finished


@pytest.mark.pairs
@pytest.mark.parametrize("absent", [False, True], ids=["all act", "some act"])
@pytest.mark.parametrize(("radius", "ridge"), [(1.0, 1.0), (2.5, 0.2)], ids=["S = 1", "S = 2.5"])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("privacy", PRIVACY)
def test_the_same_releases_models_and_choices(privacy, link, radius, ridge, absent):
    noisy = 0.5 if link in ("poisson", "identity") else None
    problem, seed = fg.Problem(D, LINKS[link](), radius, noisy), 11
    env, arms, rewards, active = stream([7, len(link)], problem, T, N, K, absent)
    algorithm = fg.fedglb_private(B, 2, PRIVACY[privacy], ridge=ridge, delta=0.05)
    engine = Listening(algorithm, env, T, seed)
    engine.run()
    run, plan = engine.result(), engine.setting.noise
    noise = None
    if plan is not None:
        source = SimulatedNoise(seed)
        noise = plain_one_pass.Noise(
            plan.factors.encoder, plan.factors.decoder, plan.vector_share, plan.matrix_share,
            plan.rewards,
            lambda client, update: source.draw(client, update, plan),
        )  # fmt: skip
    expected = plain_one_pass.one_pass(
        plain.Problem(link, radius, problem.R, problem.c_mu, ridge, 0.05), problem.dispersion,
        arms, rewards, set(run.updates["t"]), seed, active, noise,
    )  # fmt: skip
    assert len(engine.models) == len(expected.thetas) == B
    for b, sent in enumerate(expected.releases, start=1):
        found = np.array([engine.releases[b][i] for i in range(N)], dtype=object)
        # one bit in an exp is one more unit in what is rounded, for a sample and a weight
        assert abs(found - np.array(sent, dtype=object)).max() <= 2 * T
    for model, theta, A in zip(engine.models, expected.thetas, expected.matrices, strict=True):
        assert plain_one_pass.distance(model.theta, theta) < 1e-9
        assert plain_one_pass.distance(model.matrix, A) < 1e-9
    assert_array_equal(run.choices, expected.choices)
    assert len(np.unique(run.choices)) > 2


# -- the set of `OnePassRadius`, from what clients released ---------------------------------------

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
CLIENTS, UPDATES, STEPS = 30, 6, 60


def played(problem, privacy):
    algorithm = fg.fedglb_private(
        UPDATES, first=3.0, privacy=privacy, confidence=fg.OnePassRadius(), delta=0.1
    )
    engine = ReferenceEngine(algorithm, fg.Synthetic(problem, CLIENTS, 4), STEPS, seed=5)
    engine.run()
    return engine


def given(engine) -> Given:
    problem, plan = engine.setting.problem, engine.setting.noise
    S = problem.S
    dispersion = problem.R**2 if problem.link.name == "identity" else 1.0
    known = Given(problem.dim, S, SKEWS[problem.link.name](S), dispersion, 1.0, 0.1)
    if plan is None:
        return known
    vector, matrix = (float(v) ** 0.5 * plain_one_pass.UNIT for v in plan.share_variance())
    return Given(*list(vars(known).values())[:6], plan.factors.decoder, vector, matrix)


@pytest.mark.some(2)
@pytest.mark.parametrize("case", CASES)
def test_the_set_after_the_last_update(case):
    engine = played(*CASES[case])
    sums = engine.coordinator.releases
    again = OnePass(given(engine), [Release(s.clients, s.numbers) for _, s in sorted(sums.items())])
    assert len(sums) == UPDATES
    model = engine.coordinator.model
    assert_allclose(model.theta, again.thetas[-1], atol=1e-9)
    rho, centre, W = again.set(UPDATES)
    d = len(centre)
    terms = model.radius_terms
    assert rho != 1.0  # it is not the ball
    assert_allclose(terms[0], rho, rtol=1e-7)
    assert_allclose(terms[1 : 1 + d], centre, atol=1e-7)
    assert_allclose(terms[1 + d :], W[np.tril_indices(d)], rtol=1e-7, atol=1e-7)
    error = engine.env.parameter(5) - centre
    assert np.sqrt(error @ W @ error) <= rho
