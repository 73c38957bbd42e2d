"""One decision, rule by rule, against the same in NumPy; the bank; what is written."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from fedglb.kernels.compile import kernel
from fedglb.kernels.layout import CENTRE, HIGH, INVERSE, LOW, SCORES, UPPER
from fedglb.kernels.philox import normals
from fedglb.parts.choice import (
    Bank,
    Bayes,
    EpsilonGreedy,
    Greedy,
    OptimisticThompson,
    Sigma,
    Thompson,
    Ucb,
)
from tests.parts.choice.decisions import (
    DISPERSION,
    equals,
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
INDICES = [
    Ucb(), Greedy(), Sigma(), Sigma(0.5), Bayes(), Thompson(draws=0), WILD, OptimisticThompson(),
]  # fmt: skip


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
        case OptimisticThompson():  # there are no effects
            model = drawn(at, 1.0, number=number, client=client, seed=seed, draw=draw)
            return np.maximum(at.arms.T @ model, at.means)
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


@pytest.mark.parametrize("wrapped", [lambda rule: rule, Bank, lambda r: EpsilonGreedy(0.0, r)])
def test_the_first_of_equal_scores_where_a_rule_says_so(wrapped):
    rule = wrapped(Ucb("first"))
    for number in range(20):
        assert play(rule, TRIPLED, number=number)[:3] == (play(rule, TIED).arm, 1.0, 0.0)


@pytest.mark.parametrize("rule", [*INDICES[:5], Bank(Bayes(), 1.0), Bank(Ucb())], ids=str)
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
        arm, propensity, error, *_ = play(rule, TRIPLED, number=number)
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
    for rule in (*INDICES, Bank(Thompson(draws=5)), EpsilonGreedy(0.5, Ucb())):
        at = place(3, 4, 5)
        before = [array.copy() for array in at]
        play(rule, at)
        for array, copy in zip(at, before, strict=True):
            assert_array_equal(array, copy)


# -- the bank ------------------------------------------------------------------------------------


def interval(at, alpha):
    return at.means - alpha * at.norms, at.means + alpha * at.norms


def test_the_interval_is_the_ellipsoids():
    for at in PLACES:
        work = play(Bank(Greedy()), at, alpha=0.7).work
        low, high = interval(at, 0.7)
        assert_allclose(work[LOW], low, rtol=1e-12, atol=1e-13)
        assert_allclose(work[HIGH], high, rtol=1e-12, atol=1e-13)
        assert_array_equal(work[HIGH], work[UPPER])


def costs(low, high, factor):
    return high.max() - low - factor * (high - low)


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("left", [0.0, 0.02, 5.0])
def test_the_arm_of_the_index_if_the_bank_can_pay_for_it(index, left):
    """Else that of the largest bound: one of equal ones at random, and all of them must be paid."""
    factor, alpha, stopped = 1.0, 0.5, 0
    for n, at in enumerate(PLACES):
        t, where = 3, {"number": n, "client": 1, "seed": 5}
        decision = play(Bank(index, factor, 2.0), at, alpha=alpha, t=t, balance=2.0 - left, **where)
        low, high = interval(at, alpha)
        scores, cost = plain_scores(index, at, alpha, t, **where), costs(low, high, factor)
        stops = cost[equals(scores)].max() > left + 1e-12
        ranked = high if stops else scores
        assert decision.arm == plain_pick(ranked, **where)
        charge = min(cost[decision.arm], 0.0) if stops else cost[decision.arm]
        assert_allclose(decision.charge, charge, atol=1e-12)
        if not index.randomised:
            assert decision.propensity == 1.0 / len(equals(ranked))
        stopped += stops
    assert (stopped > 0) == (left < 5.0 and index != Ucb())


@pytest.mark.parametrize(("factor", "credit"), [(1.0, 0.0), (1.0, 0.4), (2.0, 0.0), (3.0, 0.5)])
def test_the_regret_is_within_the_bound_whatever_the_index(factor, credit):
    """For θ* anywhere in each set, after every step; without the bank the same rules break it."""
    rng, alpha, broken = np.random.default_rng(0), 0.05, 0
    for index in INDICES:
        balance = regret = width = free_regret = free_width = 0.0
        for n, at in enumerate(PLACES):
            decision = play(Bank(index, factor, credit), at, alpha=alpha, number=n, balance=balance)
            free = play(index, at, alpha=alpha, number=n).arm
            balance += decision.charge
            direction = rng.standard_normal(at.arms.shape[0])
            direction *= alpha / np.linalg.norm(direction)
            root = np.linalg.cholesky(at.matrices[INVERSE])
            values = at.arms.T @ (at.vectors[CENTRE] + root @ direction)
            widths = 2.0 * alpha * at.norms
            regret += values.max() - values[decision.arm]
            width += widths[decision.arm]
            free_regret += values.max() - values[free]
            free_width += widths[free]
            assert balance <= credit + 1e-12
            assert regret <= factor * width + credit + 1e-9
            broken += free_regret > factor * free_width + credit
    assert broken > 0


def test_an_arm_drawn_uniformly_is_not_charged():
    charges = {}
    for number in range(200):
        found = play(EpsilonGreedy(0.5, Bank(Greedy(), 1.0, 9.0)), TIED, number=number)
        charges.setdefault(found.arm, set()).add(found.charge)
    best = play(Greedy(), TIED).arm
    paid = play(Bank(Greedy(), 1.0, 9.0), TIED).charge
    assert paid > 0.0
    assert charges == {arm: {0.0, paid} if arm == best else {0.0} for arm in range(5)}


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
    # U = 1.3: g = U − low = 1.3, 0.8, 0.4 and w = high − low = 1, 0.8, 0.3
    assert play(Bank(Greedy(), 1.0), at, bounds=given_bounds).arm == 1
    assert play(Bank(Greedy(), 1.29), at, bounds=given_bounds).arm == 1
    assert play(Bank(Greedy(), 1.31), at, bounds=given_bounds).arm == 0
    assert play(Bank(Greedy(), 1.0, 0.29), at, bounds=given_bounds).arm == 1
    assert play(Bank(Greedy(), 1.0, 0.31), at, bounds=given_bounds).arm == 0
    assert play(Bank(Greedy(), 1.0), at, bounds=given_bounds, balance=-0.31).arm == 0
    assert np.isnan(play(Ucb(), at, bounds=given_bounds).work[HIGH]).all()
    assert params(Ucb(), bounds=given_bounds).bounds != params(Ucb()).bounds


def test_if_the_sets_contradict_each_other_the_upper_bounds_decide():
    """Empty intervals: no arm is paid for, and the bank does not fill."""
    at = offered([1, 2, 5, 4], [3, 3, 3, 3], [0, 2, 2, 1], [9, 8, 7, 6])
    for index in (Greedy(), Ucb(), Thompson(draws=10)):
        assert play(Bank(index, 2.0), at, bounds=given_bounds)[:4] == (2, 1.0, 0.0, 0.0)


def test_one_of_equal_arms_is_drawn_if_each_of_them_can_be_paid():
    at = offered([1, 2, 3], [0, 0, 0], [1, 2, 3], [9, 9, 0])  # they cost 2, 1 and 0
    for credit, expected in ((0.5, {2}), (1.5, {2}), (2.5, {0, 1})):
        rule = Bank(Greedy(), 1.0, credit)
        found = [play(rule, at, bounds=given_bounds, number=n) for n in range(20)]
        assert {each.arm for each in found} == expected
        assert {each.propensity for each in found} == {1.0 / len(expected)}


def test_of_equal_ends_that_are_cut_the_larger_bound_is_played():
    at = offered([1, 3, 2, 9], [0, 0, 0, 0], [1, 1, 1, 0.5], [0, 0, 0, 1])
    assert play(Bank(Greedy(), 1.0), at, bounds=given_bounds).arm == 1


def test_an_end_that_is_less_by_rounding_costs_nothing():
    at = offered([1, 2], [0, 0], [1, 1 + 1e-14], [1, 0])
    assert play(Bank(Greedy(), 1.0), at, bounds=given_bounds).arm == 0


# -- uniform exploration, and the place in the stream -------------------------------------------


RULES = [
    *INDICES, Thompson(), Bank(Thompson(), 8.0), EpsilonGreedy(0.4),
    EpsilonGreedy(0.4, Bank(Thompson(0.5, 10))),
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
@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_the_estimate_counts_the_draws_that_play_the_arm(epsilon, factor):
    """The first draw is one of them, won or not: an arm drawn uniformly need not have won it."""
    at, m, thompson = place(7, 3, 5), 6, Thompson(1.5, 6)
    rule, (low, high) = EpsilonGreedy(epsilon, Bank(thompson, factor)), interval(at, 0.4)
    paid = costs(low, high, factor) <= 0.0
    assert paid.sum() == {1.0: 1, 8.0: 5}[factor]
    lost = 0
    for number in range(60):
        where = {"number": number, "client": 2, "seed": 8}
        decision = play(rule, at, alpha=0.4, **where)
        scores = [plain_scores(thompson, at, 0.4, 7, **where, draw=k) for k in range(m + 1)]
        winners = [
            int(each.argmax()) if paid[each.argmax()] else int(high.argmax()) for each in scores
        ]
        share = winners.count(decision.arm) / (m + 1)
        assert_allclose(decision.propensity, epsilon / 5 + (1 - epsilon) * share, rtol=1e-14)
        error = (1 - epsilon) * np.sqrt(share * (1 - share) / (m + 1))
        assert_allclose(decision.error, error, rtol=1e-12)
        lost += decision.arm != winners[0]
    assert lost > 10 if epsilon > 0.0 else lost == 0
