"""With the released models held fixed, one user changes nobody else's arm, not at the same client.

That is what makes a private model private for users: what another user is shown follows from the
released models and from that user's own arms alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedglb as fg
from fedglb.model import SharedModel
from fedglb.parts.local_update import Anchored
from fedglb.protocol.messages import NewModel, SumsRequest

D, K, T, B = 3, 8, 40, 4
UPDATES = (5, 12, 20, 30)
PRIVATE = fg.fedglb_private(B, 1, fg.GaussianMechanism(1.0, 1e-6), growth=2.0)
RULES = {
    "Bayes": PRIVATE,
    "Ucb": fg.fedglb_private(B, 1, PRIVATE.privacy, 2.0, confidence=fg.Fixed(0.5)),
    "Thompson": replace(PRIVATE, choice=fg.Thompson()),
    "EpsilonGreedy": replace(PRIVATE, choice=fg.EpsilonGreedy(0.3)),
}


def models() -> list[SharedModel]:
    """What was released: given, whatever the samples are."""
    rng = np.random.default_rng(1)
    out = []
    for t in UPDATES:
        root = rng.standard_normal((D, 3 * D)) * np.sqrt(t / 30)
        theta = rng.standard_normal(D)
        matrix = np.eye(D) + root @ root.T
        out.append(SharedModel(t, matrix, np.zeros(0), 0.8 * theta / np.linalg.norm(theta)))
    return out


def chosen(algorithm: fg.Algorithm, changed: int | None) -> list[int]:
    """The arms of all users of one client; user `changed` has other arms and another reward."""
    setting = algorithm.setting(fg.Problem(D), 5, None)
    client, released = fg.Client(0, algorithm, setting, seed=1), models()
    rng = np.random.default_rng(2)
    arms = rng.standard_normal((T, K, D))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    rewards = rng.integers(0, 2, T).astype(float)
    other = np.random.default_rng(3).standard_normal((K, D))
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    shown, done = [], 0
    for t in range(1, T + 1):
        offered, reward = arms[t - 1], rewards[t - 1]
        if t == changed:
            offered, reward = other, 1.0 - reward
        shown.append(client.choose(offered, t))
        client.observe(offered[shown[-1]], reward, t)
        if t in UPDATES:
            answers = client.receive(SumsRequest(0, done + 1, done))
            assert len(answers) == 1
            client.receive(NewModel(0, done + 1, 0, released[done]))
            done += 1
    return shown


def others_differ(algorithm: fg.Algorithm) -> bool:
    """Whether some user's change changes the arm of somebody else."""
    before = chosen(algorithm, None)
    assert len(set(before)) > 3
    return any(
        [a for t, a in enumerate(chosen(algorithm, user), 1) if t != user]
        != [a for t, a in enumerate(before, 1) if t != user]
        for user in (1, 4, 5, 6, 13, 20, 29, T)
    )


@pytest.mark.parametrize("rule", RULES)
def test_no_user_changes_anybody_elses_arm(rule):
    assert not others_differ(RULES[rule])
    assert not any("own samples" in note for note in PRIVATE.caveats(fg.Problem(D)))


@pytest.mark.parametrize("rule", RULES)
def test_where_clients_learn_by_themselves_it_does_not_hold_and_is_said(rule):
    algorithm = replace(RULES[rule], local_update=Anchored())
    assert others_differ(algorithm)
    assert any("not for users of the same client" in n for n in algorithm.caveats(fg.Problem(D)))
    run = fg.simulate(algorithm, fg.Synthetic(fg.Problem(D), 2, 4), 20)
    assert any("not for users of the same client" in note for note in run.caveats)


def test_what_a_client_sends_is_evaluated_at_the_shared_model_alone():
    """Else one sample would change what the others of its batch add."""
    algorithm = replace(PRIVATE, local_update=Anchored())
    setting = algorithm.setting(fg.Problem(D), 5, None)
    rng = np.random.default_rng(4)
    X = rng.standard_normal((30, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    sums = []
    for reward in (0.0, 1.0):
        client = fg.Client(0, algorithm, setting)
        client.receive(SumsRequest(0, 1, 0))
        client.receive(NewModel(0, 1, 0, models()[0]))
        for t, x in enumerate(X, start=1):
            client.observe(x, reward if t == 1 else float(t % 2), t)
        client.receive(SumsRequest(0, 2, 1))
        sums.append(client.batches.closed[2] * 2.0**-30)
    difference = sums[1] - sums[0]
    assert np.abs(difference[:D] - X[0]).max() < 1e-8  # x·(1 − 0)
    assert not difference[D:].any()  # and H does not depend on rewards
