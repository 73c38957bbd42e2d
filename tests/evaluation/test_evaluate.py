"""Estimates by hand, their standard errors by the jackknife, and what caveats say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

import fedglb as fg
from fedglb.evaluation.evaluate import lower_bound
from fedglb.evaluation.reward_model import fit
from tests.parts.choice.decisions import place, play

PROBLEM = fg.Problem(dim=2)


def log_of(n: int, seed: int = 0, arms: int = 3, epsilon: float = 0.5) -> fg.Logged:
    """A log of ε-greedy play by a fixed model, drawn with NumPy."""
    rng = np.random.default_rng(seed)
    offers = rng.normal(size=(n, arms, 2))
    offers /= np.linalg.norm(offers, axis=2, keepdims=True)
    p = fg.ModelPolicy([0.0, 1.0], epsilon).probabilities(offers)
    chosen = np.array([rng.choice(arms, p=row) for row in p])
    played = offers[np.arange(n), chosen]
    rewards = (rng.random(n) < 1 / (1 + np.exp(-played @ [2.0, -1.0]))).astype(float)
    return fg.Logged(PROBLEM, offers, chosen, rewards, p[np.arange(n), chosen])


LOG = log_of(300)
POLICY = fg.ModelPolicy([1.0, 0.5], epsilon=0.1, temperature=0.5)


def without(log: fg.Logged, row: int) -> fg.Logged:
    keep = np.delete(np.arange(len(log)), row)
    return fg.Logged(
        log.problem, np.asarray(log.arms)[keep], log.chosen[keep], log.rewards[keep],
        log.propensities[keep],
    )  # fmt: skip


def test_four_decisions_by_hand():
    """Two arms; the policy plays arm 0 with 3/4; weights 3/2, 1/2, 1/2 · 5/2, 3/4 · 5/4."""
    log = fg.Logged(
        PROBLEM, np.broadcast_to(np.eye(2), (4, 2, 2)), [0, 1, 1, 0], [1, 1, 0, 1],
        [0.5, 0.5, 0.2, 0.8],
    )  # fmt: skip
    w = np.array([1.5, 0.5, 1.25, 0.9375])

    def policy(arms):
        return [0.75, 0.25]

    ips = fg.evaluate(log, policy, "ips")
    assert ips.value == pytest.approx((1.5 + 0.5 + 0.9375) / 4)
    terms = np.array([1.5, 0.5, 0.0, 0.9375])
    assert ips.standard_error == pytest.approx(terms.std(ddof=1) / 2)
    assert ips.interval[1] == pytest.approx(ips.value + 1.959964 * ips.standard_error)
    assert ips.effective_samples == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert fg.evaluate(log, policy, "snips").value == pytest.approx(2.9375 / w.sum())
    clipped = fg.evaluate(log, policy, "ips", clip=1.0)
    assert clipped.value == pytest.approx((1.0 + 0.5 + 0.9375) / 4)
    assert any("2 of 4 weights were clipped" in note for note in clipped.caveats)


@pytest.mark.parametrize("link", [fg.Logistic(), fg.Probit(), fg.Identity()], ids=lambda o: o.name)
def test_the_model_is_the_minimum_of_the_regularised_loss(link):
    """By SciPy, without derivatives of ours."""
    problem = fg.Problem(dim=2, link=link)
    X, y, ridge = LOG.played, LOG.rewards, 0.7

    def loss(theta):
        z = X @ theta
        return float((link.cumulant(z) - y * z).sum() + 0.5 * ridge * theta @ theta)

    best = optimize.minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9}).x
    np.testing.assert_allclose(fit(problem, X, y, ridge).theta, best, atol=1e-5)


@pytest.mark.parametrize("method", ["ips", "snips", "dm"])
def test_standard_errors_agree_with_the_jackknife(method):
    """It leaves out one decision at a time, and knows no formula."""
    left = [fg.evaluate(without(LOG, k), POLICY, method, ridge=0.5).value for k in range(len(LOG))]
    jackknife = math.sqrt((len(LOG) - 1) * np.var(left))
    found = fg.evaluate(LOG, POLICY, method, ridge=0.5).standard_error
    assert found == pytest.approx(jackknife, rel=0.03)


def test_offers_may_differ_in_number():
    small, large = log_of(40, seed=1), log_of(40, seed=2, arms=5)
    together = fg.Logged(
        PROBLEM, [*small.arms, *large.arms], [*small.chosen, *large.chosen],
        [*small.rewards, *large.rewards], [*small.propensities, *large.propensities],
    )  # fmt: skip
    values = [fg.evaluate(log, POLICY, "ips").value for log in (together, small, large)]
    assert values[0] == pytest.approx((values[1] + values[2]) / 2)
    assert math.isfinite(fg.evaluate(together, POLICY).value)
    assert len(together[30:50]) == 20


# -- caveats ------------------------------------------------------------------------------------


def says(estimate: fg.Estimate, words: str) -> bool:
    return any(words in note for note in estimate.caveats)


def test_a_log_without_chance_says_what_it_cannot_know():
    greedy = log_of(300, epsilon=0.0)
    assert (greedy.propensities == 1.0).all()
    for method in ("ips", "snips", "dr", "dm"):
        assert says(fg.evaluate(greedy, fg.UniformPolicy(), method), "66.7 % of what the policy")
    same = fg.evaluate(greedy, fg.ModelPolicy([0.0, 1.0]), "ips")
    assert same.value == greedy.rewards.mean()
    assert same.caveats == fg.evaluate(log_of(600), fg.UniformPolicy(), "ips").caveats
    assert len(same.caveats) == 1


def test_weights_that_do_not_average_to_one_are_reported():
    wrong = fg.Logged(PROBLEM, LOG.arms, LOG.chosen, LOG.rewards, 0.6 * LOG.propensities)
    assert says(fg.evaluate(wrong, POLICY), "where 1 is expected")
    assert not says(fg.evaluate(LOG, POLICY), "where 1 is expected")


def test_few_effective_samples_and_estimated_propensities_are_reported():
    few = "too few for the normal law"
    assert says(fg.evaluate(LOG[:30], POLICY), few)
    assert not says(fg.evaluate(log_of(1_000), POLICY), few)
    assert not says(fg.evaluate(LOG[:30], POLICY, "ips", interval="proven"), few)
    errors = np.full(len(LOG), 0.01)
    log = fg.Logged(PROBLEM, LOG.arms, LOG.chosen, LOG.rewards, LOG.propensities, errors)
    assert says(fg.evaluate(log, POLICY), "300 of 300 propensities are estimates")
    assert not says(fg.evaluate(log, POLICY, "dm"), "propensities")


def test_with_uniform_exploration_estimated_propensities_weigh_without_bias():
    """E[1{a played}/p̂] = 1 for every number of draws, as P(a played | draws) = p̂."""
    at, n = place(21, 3, 5), 6_000
    rule = fg.EpsilonGreedy(0.3, fg.Thompson(1.5, draws=1))
    found = [play(rule, at, number=number) for number in range(1, n + 1)]
    for arm in range(5):
        weights = np.array([(each.arm == arm) / each.propensity for each in found])
        assert abs(weights.mean() - 1.0) <= 4.0 * weights.std() / math.sqrt(n)


# -- the proven interval ------------------------------------------------------------------------


def test_the_lower_bound_once_more_in_a_loop():
    rng = np.random.default_rng(5)
    terms, alpha = rng.exponential(0.4, size=200), 0.05
    total, squares, top, bottom = 0.5, 0.25, 0.0, 0.0
    for t, x in enumerate(terms, start=1):
        guess, spread = min(total / t, 1.0), squares / t
        bet = min(math.sqrt(2 * math.log(1 / alpha) / (len(terms) * spread)), 0.5)
        top += bet * x - (x - guess) ** 2 * (-math.log(1 - bet) - bet)
        bottom += bet
        total += x
        squares += (x - min(total / (t + 1), 1.0)) ** 2
    assert lower_bound(terms, alpha) == pytest.approx((top - math.log(1 / alpha)) / bottom)


def test_the_lower_bound_fails_as_seldom_as_it_says_with_heavy_tails():
    """Weights of 50 in 1 of 50 decisions: 2,000 logs, of which 5 % may fail; 3σ = 1.5 %."""
    rng = np.random.default_rng(6)
    terms = 50.0 * (rng.random((2_000, 300)) < 0.02) * (rng.random((2_000, 300)) < 0.6)
    assert np.mean([lower_bound(each, 0.05) > 0.6 for each in terms]) <= 0.065


def test_the_proven_interval_has_no_caveat():
    """Its upper end rests on w(1 − r): where most rewards are 1 it may be the lower one."""
    log = log_of(2_000)
    normal = fg.evaluate(log, POLICY, "ips")
    proven = fg.evaluate(log, POLICY, "ips", interval="proven")
    assert (normal.value, proven.caveats) == (proven.value, ())
    assert 0.0 < proven.interval[0] < normal.interval[0]
    assert normal.value < proven.interval[1] < 1.0


# -- bad input ----------------------------------------------------------------------------------

BAD = {
    "method": (lambda: fg.evaluate(LOG, POLICY, "dr2"), ["method = 'dr2'", "did you mean dr"]),
    "confidence": (lambda: fg.evaluate(LOG, POLICY, confidence=1.0), ["confidence = 1.0"]),
    "clip": (lambda: fg.evaluate(LOG, POLICY, clip=0.0), ["clip = 0.0", "> 0"]),
    "clip with dm": (lambda: fg.evaluate(LOG, POLICY, "dm", clip=2.0), ['method="dm"']),
    "folds": (lambda: fg.evaluate(LOG, POLICY, folds=1), ["folds = 1", ">= 2"]),
    "ridge": (lambda: fg.evaluate(LOG, POLICY, ridge=0.0), ["ridge = 0.0"]),
    "proven with dr": (
        lambda: fg.evaluate(LOG, POLICY, "dr", interval="proven"), ["'proven'", 'method="ips"'],
    ),
    "one decision": (lambda: fg.evaluate(LOG[:1], POLICY), ["len(logged) = 1", "two"]),
    "policy no function": (lambda: fg.evaluate(LOG, 0.5), ["policy = 0.5", "ModelPolicy"]),
    "policy does not sum": (lambda: fg.evaluate(LOG, lambda _: [0.5, 0.4, 0.3]), ["sum to 1"]),
    "policy negative": (lambda: fg.evaluate(LOG, lambda _: [1.5, -0.5, 0.0]), [">= 0"]),
    "policy's shape": (lambda: fg.evaluate(LOG, lambda _: [0.5, 0.5]), ["policy(arms).shape"]),
    "theta's length": (lambda: fg.evaluate(LOG, fg.ModelPolicy([1.0])), ["theta.shape", "(2,)"]),
    "epsilon": (lambda: fg.ModelPolicy([1.0, 0.0], epsilon=1.5), ["epsilon = 1.5", "from 0 to 1"]),
    "no mass": (
        lambda: fg.evaluate(LOG[:2], lambda _: [0.0, 0.0, 1.0], "ips")
        if 2 not in LOG.chosen[:2]
        else fg.evaluate(LOG[:2], lambda _: [0.0, 1.0, 0.0], "ips"),
        ["at least one logged arm", 'method="dm"'],
    ),
    "logged": (lambda: fg.evaluate("log", POLICY), ["logged = 'log'", "Logged"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    call, said = BAD[case]
    with pytest.raises(fg.InvalidInput) as caught:
        call()
    for words in said:
        assert words in str(caught.value)
