"""One decision, rule by rule, against the same in NumPy; certified arms; what is written."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, HIGH, INVERSE, LOW, SCORES, UPPER
from fedglb.kernels.philox import normals
from fedglb.parts.choice import Bayes, Certified, EpsilonGreedy, Greedy, Sigma, Thompson, Ucb
from tests.parts.choice.decisions import (
    DISPERSION,
    admissible,
    learned,
    params,
    place,
    plain_pick,
    play,
)

SIZES = [(1, 3), (2, 1), (3, 6), (5, 25), (10, 25), (13, 4)]
PLACES = [place(seed, d, K) for seed, (d, K) in enumerate(SIZES * 8)] + [
    learned(seed, d, K) for seed, (d, K) in enumerate(SIZES)
]
WILD = Thompson(20.0, 0)  # almost any arm
INDICES = [Ucb(), Greedy(), Sigma(), Sigma(0.5), Bayes(), Thompson(draws=0), WILD]


def drawn(at, scale, *, number, client, seed, draw=0):
    """The model that Thompson sampling draws, by NumPy's Cholesky factor."""
    z = np.empty(at.arms.shape[0])
    normals(seed, number, client, draw, z)
    factor = np.linalg.cholesky(at.matrices[INVERSE])
    return at.vectors[CENTRE] + scale * np.sqrt(DISPERSION) * factor @ z


def plain_scores(rule, at, alpha, t, *, number, client, seed, draw=0):
    sd = np.sqrt(DISPERSION) * at.norms
    match rule:
        case Ucb():
            return at.means + alpha * at.norms
        case Greedy():
            return at.means
        case Sigma(width=c):
            return at.means + c * sd
        case Bayes():
            return at.means + stats.norm.isf(1.0 / (t + 1)) * sd
        case Thompson(scale=scale):
            model = drawn(at, scale, number=number, client=client, seed=seed, draw=draw)
            return at.arms.T @ model
    raise AssertionError(rule)


@pytest.mark.parametrize("rule", INDICES, ids=str)
def test_scores_and_arm(rule):
    played = set()
    for n, at in enumerate(PLACES):
        alpha, t, where = 0.7, 5 + n, {"number": n, "client": 3, "seed": 11}
        decision = play(rule, at, alpha=alpha, t=t, **where)
        expected = plain_scores(rule, at, alpha, t, **where)
        written = decision.work[UPPER if rule == Ucb() else SCORES]
        assert_allclose(written, expected, rtol=1e-11, atol=1e-11)
        assert decision.arm == plain_pick(expected, **where)
        played.add(decision.arm)
    assert len(played) > 5


@pytest.mark.parametrize("t", [1, 2, 10, 10**6, 10**12])
def test_the_quantile_of_bayes_is_accurate_far_out(t):
    """The level 1 − 1/(t + 1) itself would be rounded: at t = 10¹² to five digits of the tail."""
    at = place(0, 3, 4)
    scores = play(Bayes(), at, t=t).work[SCORES]
    multiples = (scores - at.means) / (np.sqrt(DISPERSION) * at.norms)
    assert_allclose(multiples, stats.norm.isf(1.0 / (t + 1)), rtol=1e-11, atol=1e-14)


TIED = place(1, 3, 5)
TRIPLED = TIED._replace(arms=np.ascontiguousarray(np.tile(TIED.arms, 3)))


@pytest.mark.parametrize("wrapped", [lambda rule: rule, Certified, lambda r: EpsilonGreedy(0.0, r)])
def test_the_first_of_equal_scores_where_a_rule_says_so(wrapped):
    rule = wrapped(Ucb("first"))
    for number in range(20):
        assert play(rule, TRIPLED, number=number)[:3] == (play(rule, TIED).arm, 1.0, 0.0)


@pytest.mark.parametrize("rule", [*INDICES[:5], Certified(Bayes(), 1.0), Certified(Ucb())], ids=str)
def test_one_of_equal_scores_at_random(rule):
    """Each of the three as often as it says, whatever the seed, the step and the client."""
    best, counts = play(rule, TIED).arm, np.zeros(15)
    for seed in range(10):
        for number in range(10):
            for client in range(10):
                found = play(rule, TRIPLED, number=number, client=client, seed=seed)
                assert found[1:3] == (1.0 / 3.0, 0.0)
                counts[found.arm] += 1
    assert stats.chisquare(counts[best::5]).pvalue > 1e-3
    assert counts[best::5].sum() == 1000


@pytest.mark.parametrize("ties", ["random", "first"])
def test_an_arm_drawn_uniformly_may_be_one_of_the_equal_ones(ties):
    rule, best = EpsilonGreedy(0.6, Ucb(ties)), play(Ucb(), TIED).arm
    first = np.eye(15)[best] if ties == "first" else np.tile(np.eye(5)[best], 3) / 3
    expected, seen = 0.6 / 15 + 0.4 * first, set()
    for number in range(300):
        arm, propensity, error, _ = play(rule, TRIPLED, number=number)
        assert_allclose(propensity, expected[arm], rtol=1e-15)
        assert error == 0.0
        seen.add(arm)
    assert seen == set(range(15))


def test_each_draw_of_thompson_breaks_its_own_ties():
    """Three copies of one arm: further draws play each of them, though all have won."""
    at = TIED._replace(arms=np.ascontiguousarray(np.repeat(TIED.arms[:, :1], 3, axis=1)))
    shares = [play(Thompson(draws=2000), at, number=n).propensity for n in range(3)]
    assert_allclose(shares, 1 / 3, atol=0.04)


def test_thompson_survives_a_matrix_that_is_singular_to_rounding():
    at = place(2, 3, 6)
    at.matrices[INVERSE] = np.ones((3, 3)) - np.diag([0.0, 1e-18, 1e-15])
    decision = play(Thompson(draws=20), at)
    z = np.empty(3)
    normals(0, 7, 0, 20, z)  # the last draw: one direction is left
    model = at.vectors[CENTRE] + np.sqrt(DISPERSION) * z[0]
    others = np.arange(6) != decision.arm  # of the arm played, the score of its own draw is kept
    assert_allclose(decision.work[SCORES][others], (at.arms.T @ model)[others], rtol=1e-12)
    assert 0.0 < decision.propensity <= 1.0


def test_nothing_but_scratch_is_written():
    for rule in (*INDICES, Certified(Thompson(draws=5)), EpsilonGreedy(0.5, Ucb())):
        at = place(3, 4, 5)
        before = [array.copy() for array in at]
        play(rule, at)
        for array, copy in zip(at, before, strict=True):
            assert_array_equal(array, copy)


# -- certified arms ------------------------------------------------------------------------------


def interval(at, alpha):
    return at.means - alpha * at.norms, at.means + alpha * at.norms


def test_the_interval_is_the_ellipsoids():
    for at in PLACES:
        work = play(Certified(Greedy()), at, alpha=0.7).work
        low, high = interval(at, 0.7)
        assert_allclose(work[LOW], low, rtol=1e-12, atol=1e-13)
        assert_allclose(work[HIGH], high, rtol=1e-12, atol=1e-13)
        assert_array_equal(work[HIGH], work[UPPER])


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize(("slack", "alpha"), [(1.0, 0.5), (1.1, 0.5), (1.5, 0.5), (8.0, 0.05)])
def test_the_largest_index_among_admissible_arms(index, slack, alpha):
    left_out = changed = 0
    for n, at in enumerate(PLACES):
        t, where = 3, {"number": n, "client": 1, "seed": 5}
        decision = play(Certified(index, slack), at, alpha=alpha, t=t, **where)
        low, high = interval(at, alpha)
        allowed = admissible(low, high, slack)
        scores = plain_scores(index, at, alpha, t, **where)
        assert decision.arm == plain_pick(np.where(allowed, scores, -np.inf), **where)
        # the proposition: U − low ≤ 2C·w, for the arm that is played
        width = 0.5 * (high - low)[decision.arm]
        assert high.max() - low[decision.arm] <= 2.0 * slack * width + 1e-11
        left_out += (~allowed).sum()
        changed += decision.arm != plain_pick(scores, **where)
    assert left_out > 0
    if index == WILD:
        assert changed > 3


@pytest.mark.parametrize(("slack", "alpha"), [(1.0, 0.5), (2.0, 0.5), (8.0, 0.05)])
def test_the_regret_is_within_the_bound_whatever_the_index(slack, alpha):
    """For θ* anywhere in the set; without the certificate the same arms would break the bound."""
    rng = np.random.default_rng(0)
    broken = 0
    for at in PLACES:
        d = at.arms.shape[0]
        root = np.linalg.cholesky(at.matrices[INVERSE])
        for index in INDICES:
            arm, free = play(Certified(index, slack), at, alpha=alpha).arm, play(index, at).arm
            for _ in range(20):
                direction = rng.standard_normal(d)
                direction *= alpha / np.linalg.norm(direction)
                values = at.arms.T @ (at.vectors[CENTRE] + root @ direction)
                regret, bounds = values.max() - values, 2.0 * slack * alpha * at.norms
                assert regret[arm] <= bounds[arm] + 1e-11
                broken += regret[free] > bounds[free] + 1e-11
    assert broken > 0


@kernel
def given_bounds(arms, vectors, matrices, counters, radius_terms, constants, alpha, both, work):
    """Upper bounds, low and high ends are the first three coordinates of the arms."""
    for k in range(arms.shape[1]):
        work[UPPER, k] = arms[0, k]
        if both != 0:
            work[LOW, k] = arms[1, k]
            work[HIGH, k] = arms[2, k]
    return 0


def offered(upper, low, high, prediction):
    """Arms with these bounds, by `given_bounds`, and these predictions."""
    at = place(0, 4, len(upper))
    vectors = np.zeros_like(at.vectors)
    vectors[CENTRE, 3] = 1.0
    return at._replace(arms=np.array([upper, low, high, prediction], dtype=float), vectors=vectors)


def test_a_confidence_brings_its_own_bounds():
    at = offered([1, 3, 2], [0.0, 0.5, 0.9], [1.0, 1.3, 1.2], [9, 8, 7])
    assert play(Ucb(), at, bounds=given_bounds).arm == 1
    assert play(Greedy(), at, bounds=given_bounds).arm == 0
    # U = 1.3: U − low = 1.3, 0.8, 0.4 and high − low = 1, 0.8, 0.3
    assert play(Certified(Greedy(), 1.0), at, bounds=given_bounds).arm == 1
    assert play(Certified(Greedy(), 1.29), at, bounds=given_bounds).arm == 1
    assert play(Certified(Greedy(), 1.31), at, bounds=given_bounds).arm == 0
    assert np.isnan(play(Ucb(), at, bounds=given_bounds).work[HIGH]).all()
    assert params(Ucb(), bounds=given_bounds).bounds != params(Ucb()).bounds


def test_if_the_sets_contradict_each_other_the_upper_bounds_decide():
    """Empty intervals: no arm is admissible."""
    at = offered([1, 2, 5, 4], [3, 3, 3, 3], [2, 1, 0, 1], [9, 8, 7, 6])
    for index in (Greedy(), Ucb(), Thompson(draws=10)):
        decision = play(Certified(index, 2.0), at, bounds=given_bounds)
        assert decision[:3] == (2, 1.0, 0.0)


def test_an_interval_of_no_width_is_admissible_if_it_is_the_best():
    at = offered([1, 1, 1], [0.5, 1.0, 0.2], [0.5, 1.0, 0.9], [9, 8, 7])
    assert play(Certified(Greedy()), at, bounds=given_bounds).arm == 1


# -- uniform exploration, and the place in the stream -------------------------------------------


RULES = [
    *INDICES, Thompson(), Certified(Thompson(), 8.0), EpsilonGreedy(0.4),
    EpsilonGreedy(0.4, Certified(Thompson(0.5, 10))),
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_decision_depends_on_its_place_alone(rule):
    at = place(5, 3, 6)
    places = [(n, client) for n in range(12) for client in range(3)]

    def decided(where, seed=9):
        return play(rule, at, t=4, number=where[0], client=where[1], seed=seed)[:3]

    first = {where: decided(where) for where in places}
    for k in np.random.default_rng(1).permutation(len(places)):
        assert_array_equal(decided(places[k]), first[places[k]])
    several = len({arm for arm, *_ in first.values()}) > 1
    assert several == rule.randomised
    if rule.randomised:
        assert any(first[0, 0][0] != first[n, 0][0] for n in range(12))
        assert any(first[n, 0][0] != first[n, 1][0] for n in range(12))
        assert any(first[n, 0][0] != decided((n, 0), seed=10)[0] for n in range(12))


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
@pytest.mark.parametrize("slack", [1.5, np.inf])
def test_the_estimate_counts_the_draws_that_play_the_arm(epsilon, slack):
    """The first draw is one of them, won or not: an arm drawn uniformly need not have won it."""
    at, m, thompson = place(7, 3, 5), 6, Thompson(1.5, 6)
    rule = EpsilonGreedy(epsilon, Certified(thompson, slack))
    allowed = admissible(*interval(at, 0.4), slack) if slack < np.inf else np.full(5, True)
    assert allowed.all() == (slack == np.inf)
    lost = 0
    for number in range(60):
        where = {"number": number, "client": 2, "seed": 8}
        decision = play(rule, at, alpha=0.4, **where)
        scores = [plain_scores(thompson, at, 0.4, 7, **where, draw=k) for k in range(m + 1)]
        winners = [
            plain_pick(np.where(allowed, each, -np.inf), **where, draw=k)
            for k, each in enumerate(scores)
        ]
        share = winners.count(decision.arm) / (m + 1)
        assert_allclose(decision.propensity, epsilon / 5 + (1 - epsilon) * share, rtol=1e-14)
        error = (1 - epsilon) * np.sqrt(share * (1 - share) / (m + 1))
        assert_allclose(decision.error, error, rtol=1e-12)
        lost += decision.arm != winners[0]
    assert lost > 10 if epsilon > 0.0 else lost == 0
