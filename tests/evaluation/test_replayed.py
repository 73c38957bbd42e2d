"""Replayed logs against the truth: worlds whose mean rewards are known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg

D, K = 3, 4
PROBLEM = fg.Problem(D, radius=2.0)
THETA = np.array([1.2, -1.0, 0.9])
SEEDS = range(60)


@dataclass(frozen=True)
class LastFeature(fg.Choice):
    """Play the arm with the largest last feature, whatever was learned."""

    def score(self, arms, model, t):
        return arms[:, -1]


FIXED = fg.fedglb_auto(math.inf, LastFeature())
#: It plays another arm in a fifth of the decisions: its propensities are known.
EXPLORING = fg.fedglb_auto(math.inf, fg.EpsilonGreedy(0.2, LastFeature()))


def drawn(n, rng):
    """Arms, and their mean rewards."""
    arms = rng.standard_normal((n, K, D))
    arms /= np.linalg.norm(arms, axis=2, keepdims=True)
    return arms, PROBLEM.link.mean(arms @ THETA)


def logged(n, epsilon, seed):
    """A log of a policy that mostly plays the largest first feature; and the arms' means."""
    rng = np.random.default_rng(seed)
    arms, means = drawn(n, rng)
    own = arms[:, :, 0].argmax(axis=1)
    chosen = np.where(rng.random(n) < epsilon, rng.integers(0, K, n), own)
    p = epsilon / K + (1.0 - epsilon) * (chosen == own)
    rewards = rng.random(n) < means[np.arange(n), chosen]
    return fg.Logged(PROBLEM, arms, chosen, rewards, p), means


def truth(log, means, epsilon):
    """The mean reward of the policy in all decisions of the log, had it made them."""
    best = log.arms[:, :, -1].argmax(axis=1)
    own = means[np.arange(len(log)), best].mean()
    return epsilon * means.mean() + (1.0 - epsilon) * own


@pytest.mark.parametrize("algorithm", [FIXED, EXPLORING], ids=["fixed", "exploring"])
@pytest.mark.parametrize("epsilon", [1.0, 0.4], ids=["even log", "uneven log"])
@pytest.mark.parametrize("method", ["rejection", "weights"])
def test_the_value_of_a_policy(method, epsilon, algorithm):
    """Over many logs the estimates centre on the truth, as widely as their standard errors say."""
    n, off, squares, matches = 400, [], [], []
    for seed in SEEDS:
        log, means = logged(n, epsilon, seed)
        env = log.replay(clients=4, method=method)
        run = fg.simulate(algorithm, env, seed=seed)
        found = fg.replayed(run, env)
        off.append(found.value - truth(log, means, 0.2 * (algorithm is EXPLORING)))
        squares.append((off[-1] / found.standard_error) ** 2)
        matches.append((run.choices >= 0).sum())
        if method == "weights":
            assert found.samples == n
            assert found.value == pytest.approx(run.reward / n)
    assert abs(np.mean(off)) < 4.0 * np.std(off, ddof=1) / math.sqrt(len(SEEDS))
    # given the arms the estimates scatter a little less; the log's own policy would give 0.56
    assert 0.5 < np.mean(squares) < 1.0 + 4.0 * math.sqrt(2.0 / len(SEEDS))
    assert abs(np.mean(off)) < 0.03
    if method == "rejection":  # every decision is kept with probability p_min
        expected = n * epsilon / K
        assert abs(np.mean(matches) - expected) < 4.0 * math.sqrt(expected / len(SEEDS))


def test_rejection_is_the_world_itself_for_a_learner():
    """Its mean reward is that online, where each client acts with probability 1/K."""
    algorithm, n, N, seeds = fg.fedglb_auto(), 800, 4, range(25)
    values = {"log": [], "world": []}
    for seed in seeds:
        log, _ = logged(n, 1.0, seed)
        env = log.replay(clients=N)
        values["log"].append(fg.replayed(fg.simulate(algorithm, env, seed=seed), env).value)
        rng = np.random.default_rng(10_000 + seed)
        arms, means = drawn(n, rng)
        shape = (n // N, N, K)
        world = fg.Recorded(
            PROBLEM, arms.reshape(*shape, D), means.reshape(shape), rng.random(shape[:2])
        )
        run = fg.simulate(algorithm, fg.Partial(world, 1.0 / K), seed=seed)
        values["world"].append(run.reward / (run.choices >= 0).sum())
    one, two = (np.array(values[name]) for name in values)
    error = math.sqrt((one.var(ddof=1) + two.var(ddof=1)) / len(seeds))
    assert abs(one.mean() - two.mean()) < 4.0 * error
    assert one.mean() - 0.5 > 6.0 * error  # it learned: random play earns 1/2


def test_regret_is_what_the_log_earned_minus_what_the_algorithm_earns():
    regrets, expected = [], []
    for seed in SEEDS:
        log, means = logged(400, 0.4, seed)
        env = log.replay(clients=4, method="weights")
        regrets.append(fg.simulate(FIXED, env, seed=seed).regret)
        expected.append(log.rewards.sum() - 400 * truth(log, means, 0.0))
    off = np.subtract(regrets, expected)
    error = off.std(ddof=1) / math.sqrt(len(SEEDS))
    assert abs(off.mean()) < 4.0 * error < 0.05 * 400
    assert np.mean(regrets) < 0.0  # this policy is better than the log's


def test_a_wrapped_log():
    log, _ = logged(2000, 1.0, 1)
    for method in ("rejection", "weights"):
        env = fg.Partial(fg.Delayed(log.replay(2, method), 3), 0.5)
        run = fg.simulate(fg.fedglb_auto(), env, seed=1)
        found = fg.replayed(run, env)
        assert abs(found.samples - 1000) < 4.0 * math.sqrt(500)
        assert abs(found.value - 0.7) < 0.2
        earned = found.value * (found.effective_samples if method == "rejection" else found.samples)
        assert earned == pytest.approx(run.reward)


def test_a_run_of_matches_is_a_log_itself_but_not_one_with_weights():
    log, _ = logged(2000, 1.0, 2)
    env = log.replay(clients=2)
    run = fg.simulate(EXPLORING, env, seed=1)
    again = fg.Logged.from_run(run, env)
    assert len(again) == (run.choices >= 0).sum()
    assert again.rewards.sum() == run.reward
    assert_array_equal(np.unique(again.propensities.round(12)), [0.05, 0.85])
    weighted = log.replay(clients=2, method="weights")
    run = fg.simulate(EXPLORING, weighted, seed=1)
    with pytest.raises(fg.InvalidInput, match='method="rejection"'):
        fg.Logged.from_run(run, weighted)


def test_what_speaks_against_an_estimate_is_said():
    log, _ = logged(400, 0.4, 3)
    rejected, weighted = (log.replay(2, method) for method in ("rejection", "weights"))
    one = fg.replayed(fg.simulate(FIXED, rejected, seed=1), rejected)
    assert "of 4" not in one.caveats[0]
    assert any("a learner saw" in note for note in one.caveats)
    assert any("too few for the normal law" in note for note in one.caveats)
    two = fg.replayed(fg.simulate(FIXED, weighted, seed=1), weighted)
    assert any("that match, only" in note for note in two.caveats)
    assert not any("1 is expected" in note for note in two.caveats)
    wrong = fg.Logged(PROBLEM, log.arms, log.chosen, log.rewards, [0.9] * 400)
    wrong = wrong.replay(method="weights")
    three = fg.replayed(fg.simulate(FIXED, wrong, seed=1), wrong)
    assert any("1 is expected" in note for note in three.caveats)
    wide = fg.replayed(fg.simulate(FIXED, weighted, seed=1), weighted, confidence=0.99)
    assert wide.interval[0] < two.interval[0] < two.value < two.interval[1] < wide.interval[1]


def test_what_is_refused():
    log, _ = logged(400, 1.0, 4)
    env, never = log.replay(2), (log.arms[:, :, -1].argmax(axis=1) + 1) % K
    run = fg.simulate(FIXED, env, horizon=100, seed=1)
    with pytest.raises(fg.InvalidInput, match="replays a log"):
        fg.replayed(run, fg.Synthetic(PROBLEM, 2, K))
    with pytest.raises(fg.InvalidInput, match=r"env\.clients"):
        fg.replayed(run, log.replay(3))
    other = fg.Logged(PROBLEM, log.arms, log.chosen, 1 - log.rewards, [0.25] * 400).replay(2)
    with pytest.raises(fg.InvalidInput, match="the rewards differ"):
        fg.replayed(run, other)
    with pytest.raises(fg.InvalidInput, match="confidence"):
        fg.replayed(run, env, confidence=1.0)
    other = fg.Replay(PROBLEM, log.arms, never, log.rewards)
    with pytest.raises(fg.InvalidInput, match="two or more decisions that match"):
        fg.replayed(fg.simulate(FIXED, other, seed=1), other)
    uneven = fg.Logged(PROBLEM, [*log.arms[:3], log.arms[3][:2]], [0] * 4, [1.0] * 4, [0.5] * 4)
    with pytest.raises(fg.InvalidInput, match="one number of arms in all decisions, not 2 to 4"):
        uneven.replay()
