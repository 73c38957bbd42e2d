"""Policies: probabilities as defined, and a client's as it plays."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.parts.choice import Choice

PROBLEM = fg.Problem(dim=3)
RNG = np.random.default_rng(4)
ARMS = RNG.normal(size=(50, 4, 3))
ARMS /= np.linalg.norm(ARMS, axis=2, keepdims=True)


def client_of(choice: Choice, seed: int = 0) -> fg.Client:
    """A client that has learned from 30 samples."""
    algorithm = fg.fedglb_auto(choice=choice)
    client = fg.Client(0, algorithm, algorithm.setting(PROBLEM, 1, None), seed=seed)
    rng = np.random.default_rng(5)
    for t in range(1, 31):
        x = rng.normal(size=3)
        client.observe(x / np.linalg.norm(x), float(rng.random() < 0.5 + 0.4 * x[0]), t)
    return client


def test_greedy_epsilon_greedy_and_softmax():
    theta = np.array([0.5, -1.0, 2.0])
    scores = ARMS @ theta
    greedy = fg.ModelPolicy(theta).probabilities(ARMS)
    np.testing.assert_array_equal(greedy.argmax(axis=1), scores.argmax(axis=1))
    assert set(np.unique(greedy)) == {0.0, 1.0}
    mixed = fg.ModelPolicy(theta, epsilon=0.2).probabilities(ARMS)
    np.testing.assert_allclose(mixed, 0.05 + 0.8 * greedy)
    soft = fg.ModelPolicy(theta, temperature=0.7).probabilities(ARMS)
    np.testing.assert_allclose(np.log(soft[:, 1] / soft[:, 0]), (scores[:, 1] - scores[:, 0]) / 0.7)
    cold = fg.ModelPolicy(theta, temperature=1e-300).probabilities(ARMS)  # nothing overflows
    np.testing.assert_array_equal(cold, greedy)
    assert fg.ModelPolicy(theta, epsilon=1.0).probabilities(ARMS) == pytest.approx(0.25)


def test_a_model_policy_keeps_a_copy():
    theta = np.array([1.0, 0.0, 0.0])
    policy = fg.ModelPolicy(theta)
    theta[:] = 0.0
    assert np.asarray(policy.theta)[0] == 1.0


@pytest.mark.parametrize("rule", [fg.Bayes(), fg.Sigma(1.0), fg.Greedy()], ids=str)
def test_a_client_plays_its_own_arm(rule):
    client = client_of(rule)
    found = fg.ClientPolicy(client).probabilities(ARMS)
    assert [client.choose(arms) for arms in ARMS] == found.argmax(axis=1).tolist()
    explores = fg.ClientPolicy(client_of(fg.EpsilonGreedy(0.4, rule))).probabilities(ARMS)
    np.testing.assert_allclose(explores, 0.1 + 0.6 * found)


def test_what_a_client_learns_later_does_not_count():
    client = client_of(fg.Bayes())
    policy = fg.ClientPolicy(client)
    before = policy.probabilities(ARMS)
    for t in range(31, 61):
        client.observe(ARMS[t - 31, 0], 0.0, t)
    np.testing.assert_array_equal(policy.probabilities(ARMS), before)
    assert (fg.ClientPolicy(client).probabilities(ARMS) != before).any()


def test_thompson_sampling_by_frequencies():
    client = client_of(fg.Thompson())
    found = fg.ClientPolicy(client, draws=4_000).probabilities(ARMS[:3])
    columns = np.ascontiguousarray(ARMS[1].T)
    again = [client.decide(columns, 31, number=10**6 + k).arm for k in range(4_000)]
    share = np.bincount(again, minlength=4) / 4_000
    assert found[1].min() < 0.9
    np.testing.assert_allclose(found[1], share, atol=0.05)
