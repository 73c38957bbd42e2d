"""Propensities: exact ones against frequencies, estimated ones against a long simulation.

All seeds are fixed: a test fails only if the code changes.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import fedglb as fg
from fedglb.kernels.layout import CENTRE, INVERSE
from fedglb.parts.choice import Bank, Bayes, EpsilonGreedy, Greedy, Sigma, Thompson, Ucb
from tests.parts.choice.decisions import DISPERSION, place, play

AT = place(21, 3, 5)
K = 5
SCALE = 1.5


def simulated(at, n=400_000, allowed=None):
    """The probability of each arm under Thompson sampling, by NumPy's own random numbers."""
    rng = np.random.default_rng(0)
    factor = SCALE * math.sqrt(DISPERSION) * np.linalg.cholesky(at.matrices[INVERSE])
    models = at.vectors[CENTRE] + rng.standard_normal((n, at.arms.shape[0])) @ factor.T
    scores = models @ at.arms
    if allowed is not None:
        scores[:, ~allowed] = -np.inf
    return np.bincount(scores.argmax(axis=1), minlength=K) / n


def decisions(rule, n, at=AT, **options):
    found = [play(rule, at, number=number, **options) for number in range(1, n + 1)]
    return (
        np.array([each.arm for each in found]),
        np.array([each.propensity for each in found]),
        np.array([each.error for each in found]),
    )


def close(values, expected) -> bool:
    """Whether a mean is what it should be, up to four of its standard errors."""
    return abs(np.mean(values) - expected) <= 4.0 * np.std(values) / math.sqrt(len(values))


@pytest.mark.parametrize("rule", [Ucb(), Greedy(), Sigma(), Bayes(), Bank(Bayes())], ids=str)
def test_a_rule_without_randomness_plays_its_arm_for_sure(rule):
    assert play(rule, AT)[1:3] == (1.0, 0.0)


@pytest.mark.some(3)
@pytest.mark.parametrize("epsilon", [0.05, 0.4, 1.0])
@pytest.mark.parametrize("rule", [Greedy(), Ucb(), Bank(Sigma(), 1.0)], ids=str)
def test_epsilon_greedy_plays_as_often_as_it_says(epsilon, rule):
    n = 20_000
    arms, propensities, errors = decisions(EpsilonGreedy(epsilon, rule), n)
    assert not errors.any()
    expected = np.full(K, epsilon / K)
    expected[play(rule, AT).arm] += 1.0 - epsilon
    np.testing.assert_allclose(propensities, expected[arms], rtol=1e-15)
    counts = np.bincount(arms, minlength=K)
    assert stats.chisquare(counts, n * expected).pvalue > 1e-3


def test_thompson_plays_as_often_as_the_posterior_says():
    n = 20_000
    arms, *_ = decisions(Thompson(SCALE, draws=0), n)
    expected = simulated(AT)
    assert expected.min() > 0.01  # every arm has a share: the test sees all of them
    counts = np.bincount(arms, minlength=K)
    assert stats.chi2_contingency([counts, expected * 400_000]).pvalue > 1e-3


def test_the_estimate_is_right_within_its_error():
    """It is (1 + wins)/(m + 1): the further draws alone are unbiased."""
    m, n = 200, 1_500
    arms, propensities, errors = decisions(Thompson(SCALE, draws=m), n)
    truth = simulated(AT)
    np.testing.assert_allclose(errors, np.sqrt(propensities * (1 - propensities) / (m + 1)))
    for arm in range(K):
        own = propensities[arms == arm]
        assert len(own) > 20
        assert close((own * (m + 1) - 1) / m, truth[arm]), arm
    off = np.abs(propensities - truth[arms]) / errors
    assert 0.93 < np.mean(off < 2.0) < 0.98  # the normal law says 0.954
    assert np.mean(off < 1.0) < 0.75  # and 0.68: the error is not overstated either


@pytest.mark.parametrize("ids", [range(K), None], ids=["recurring", "fresh"])
def test_what_an_agent_logs_is_how_often_it_plays(ids):
    """Over many numbers of the stream, in one state; only for a log is it estimated."""
    algorithm = fg.fedglb_auto(1e9)
    client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(dim=3), 2, None))
    for t in range(1, 13):  # two arms are never played
        k, reward = t % 3, float(t % 3 == 0 or t // 3 % 2)
        client.observe(AT.arms[:, k], reward, t, id=None if ids is None else k)
    names, n, m = client.names(AT.arms, ids), 3_000, algorithm.choice.logged_draws
    assert math.isnan(client.decide(AT.arms, 20, 1, names=names).propensity)
    found = [client.decide(AT.arms, 20, k, names=names, logged=True) for k in range(n)]
    arms, p = (np.array([getattr(each, it) for each in found]) for it in ("arm", "propensity"))
    assert p.min() > 0.0
    assert p.max() <= 1.0
    total = 0.0
    assert np.count_nonzero(np.bincount(arms) > 500) == 2
    for arm in np.unique(arms):
        further, share = (p[arms == arm] * (m + 1) - 1) / m, np.mean(arms == arm)
        error = math.sqrt(further.var() / len(further) + share * (1 - share) / n)
        assert abs(further.mean() - share) <= 4.0 * error
        total += further.mean()
    assert abs(total - 1.0) < 0.02


# -- what propensities are for: how would another rule have done? -------------------------------


@pytest.mark.parametrize("m", [1, 4, 50])
def test_weighting_by_estimated_propensities_has_the_bias_that_is_documented(m):
    """E[1{arm = a}/p̂] = 1 − (1 − p)^(m + 1), as Σ_w C(m, w) pʷ(1 − p)^(m − w)·p(m + 1)/(w + 1)."""
    arms, propensities, _ = decisions(Thompson(SCALE, m), 6_000)
    truth = simulated(AT)
    for arm in range(K):
        assert close((arms == arm) / propensities, 1.0 - (1.0 - truth[arm]) ** (m + 1))
    rare = (arms == truth.argmin()) / propensities
    assert close(rare, 1.0) == (m == 50)  # with few draws the bias shows, with many it does not
