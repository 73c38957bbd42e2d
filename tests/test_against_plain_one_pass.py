"""The one-pass update against an independent re-derivation, choice by choice."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.privacy import SimulatedNoise
from fedglb.protocol.messages import BatchSums
from fedglb.simulation.reference import ReferenceEngine
from tests import plain, plain_one_pass

D, N, K, T, B = 3, 4, 6, 40, 7
LINKS = {
    "logistic": fg.Logistic,
    "poisson": fg.Poisson,
    "identity": fg.Identity,
    "probit": fg.Probit,
}
PRIVACY = {
    "no noise": None,
    "sums": fg.GaussianMechanism(2.0, 1e-3, reward_limit=3.0),
    "silo": fg.GaussianMechanism(8.0, 1e-3, "silo", reward_limit=3.0),
    "replace": fg.GaussianMechanism(4.0, 1e-3, "sums", "replace", honest=0.5, reward_limit=2.0),
}


def stream(link: str, radius: float, absent: bool):
    problem = fg.Problem(
        D, LINKS[link](), radius, noise=0.5 if link in ("poisson", "identity") else None
    )
    rng = np.random.default_rng([7, len(link)])
    theta = rng.standard_normal(D)
    theta *= radius / np.linalg.norm(theta)
    arms = rng.standard_normal((T, N, K, D))
    arms /= np.maximum(np.linalg.norm(arms, axis=-1, keepdims=True), 1.0)
    means = problem.link.mean(arms @ theta)
    u = np.broadcast_to(rng.random((T, N, 1)), means.shape)
    rewards = np.asarray(problem.link.sample(means, u, problem.R))
    active = rng.random((T, N)) < 0.6 if absent else None
    env = fg.Recorded(problem, arms, means, rewards=rewards, active=active, parameter=theta)
    return env, arms, rewards, active


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
    (env, arms, rewards, active), seed = stream(link, radius, absent), 11
    algorithm = fg.fedglb_private(B, 2, PRIVACY[privacy], ridge=ridge, delta=0.05)
    engine = Listening(algorithm, env, T, seed)
    engine.run()
    run, plan, problem = engine.result(), engine.setting.noise, env.problem
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
        arms, rewards, set(run.updates["t"]), active, noise,
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
