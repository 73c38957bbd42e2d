"""The rules as parts: what they refuse, what they say of themselves, what the kernel gets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedglb.errors import InvalidInput
from fedglb.parts.choice import (
    Bank,
    Bayes,
    Choice,
    EpsilonGreedy,
    Greedy,
    OptimisticThompson,
    Sigma,
    Thompson,
    Ucb,
    choice_params,
)
from tests.parts.choice.decisions import params, setting


@pytest.mark.parametrize(
    ("rule", "needs_sets", "randomised"),
    [
        (Ucb(), True, False),
        (Greedy(), False, False),
        (Sigma(), False, False),
        (Bayes(), False, False),
        (Thompson(), False, True),
        (Thompson(draws=0), False, True),
        (OptimisticThompson(), False, True),
        (EpsilonGreedy(0.1), False, True),
        (EpsilonGreedy(0.0), False, False),
        (EpsilonGreedy(0.1, Ucb()), True, True),
        (EpsilonGreedy(0.0, Bank(Thompson())), True, True),
        (Bank(Bayes()), True, False),
        (Bank(Thompson()), True, True),
    ],
)
def test_what_a_rule_needs(rule, needs_sets, randomised):
    assert (rule.needs_sets, rule.randomised) == (needs_sets, randomised)
    kernel = params(rule)
    assert kernel.with_bounds == needs_sets
    assert kernel.with_interval == (kernel.credit < math.inf) == (rule.bank is not None)


@pytest.mark.parametrize(
    ("rule", "caveats"),
    [
        (Ucb(), []),
        (Greedy(), ["Greedy()"]),
        (Sigma(), ["Sigma(width=2.0)"]),
        (Bayes(), ["Bayes()"]),
        (Thompson(), ["Thompson(scale=1.0, draws=100)"]),
        (OptimisticThompson(), ["OptimisticThompson(draws=0)"]),
        (Bank(Bayes()), []),
        (EpsilonGreedy(0.0, Ucb()), []),
        (EpsilonGreedy(0.1, Ucb()), ["EpsilonGreedy(epsilon=0.1, rule=Ucb(ties='random'))"]),
        (EpsilonGreedy(0.1), ["Greedy()", "EpsilonGreedy(epsilon=0.1, rule=Greedy())"]),
    ],
)
def test_what_is_not_proven(rule, caveats):
    said = rule.caveats()
    assert [each.partition(": ")[0] for each in said] == caveats
    assert all(each.partition(": ")[2] for each in said)


@pytest.mark.parametrize(
    ("make", "argument", "allowed"),
    [
        (lambda: Sigma(-1.0), "width", ">= 0"),
        (lambda: Sigma(math.inf), "width", "finite"),
        (lambda: Sigma("2"), "width", "finite"),
        (lambda: Ucb("last"), "ties", "random, first"),
        (lambda: Thompson(0.0), "scale", "> 0"),
        (lambda: Thompson(1.0, -1), "draws", ">= 0"),
        (lambda: Thompson(1.0, 2.0), "draws", "whole"),
        (lambda: Thompson(1.0, 10**7), "draws", "1000000"),
        (lambda: OptimisticThompson(-1), "draws", ">= 0"),
        (lambda: OptimisticThompson(10**7), "draws", "1000000"),
        (lambda: EpsilonGreedy(-0.1), "epsilon", "from 0 to 1"),
        (lambda: EpsilonGreedy(1.1), "epsilon", "from 0 to 1"),
        (lambda: EpsilonGreedy(math.nan), "epsilon", "from 0 to 1"),
        (lambda: EpsilonGreedy(0.1, Ucb), "rule", r"e\.g\. Ucb\(\)"),
        (lambda: EpsilonGreedy(0.1, EpsilonGreedy(0.0)), "rule", "other than EpsilonGreedy"),
        (lambda: Bank("bayes"), "index", r"e\.g\. Bayes\(\)"),
        (lambda: Bank(Bank(Bayes())), "index", "does not wrap another"),
        (lambda: Bank(EpsilonGreedy(0.1)), "index", r"EpsilonGreedy\(epsilon, Bank"),
        (lambda: Bank(Bayes(), 0.99), "factor", ">= 1"),
        (lambda: Bank(Bayes(), math.inf), "factor", "finite"),
        (lambda: Bank(Bayes(), credit=-0.1), "credit", ">= 0"),
        (lambda: Bank(Bayes(), credit=math.nan), "credit", "finite"),
    ],
)
def test_what_is_refused(make, argument, allowed):
    with pytest.raises(InvalidInput, match=allowed) as caught:
        make()
    assert caught.value.argument == argument


def test_epsilon_has_no_default():
    with pytest.raises(TypeError, match="epsilon"):
        EpsilonGreedy()


def test_the_base_class_is_no_rule():
    with pytest.raises(TypeError, match="abstract"):
        Choice()


@pytest.mark.parametrize(
    ("rule", "constants"),
    [
        (Ucb(), []),
        (Greedy(), [0.0, 0.0]),
        (Sigma(3.0), [6.0, 0.0]),
        (Bayes(), [0.0, 2.0]),
        (Thompson(0.5), [1.0]),
        (OptimisticThompson(), [2.0]),
        (Bank(Sigma(3.0)), [6.0, 0.0]),
        (EpsilonGreedy(0.2, Bank(Thompson(0.5))), [1.0]),
    ],
)
def test_deviations_are_the_dispersions_root(rule, constants):
    found = choice_params(rule, 0, np.empty(0), setting(), dispersion=4.0, seed=0)
    assert found.index_constants.tolist() == constants


def test_rules_around_others_hand_everything_on():
    kernel = params(EpsilonGreedy(0.25, Bank(Thompson(0.5, 7), 3, 2)))
    assert kernel[6:11] == (3.0, 2.0, False, 0.25, 7)
    assert kernel.index == params(Thompson()).index != 0
    # whole numbers would compile the kernel a second time
    assert type(kernel.factor) is type(kernel.credit) is type(kernel.epsilon) is float
    assert type(params(EpsilonGreedy(1)).epsilon) is float


@pytest.mark.parametrize(
    ("seed", "key"), [(0, 0), (-1, -1), (2**63, -(2**63)), (2**64 - 1, -1), (2**64 + 5, 5)]
)
def test_a_seed_is_taken_modulo_two_to_the_64(seed, key):
    assert params(Ucb(), seed=seed).key == key
