"""Plain functions as parts: what they may take and return, and what numba compiles of them."""

from __future__ import annotations

import math
import re
import types
from functools import partial

import cloudpickle
import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.federation.agreement import Agreement
from fedglb.parts import own
from fedglb.parts.choice import OwnChoice, as_choice
from fedglb.parts.local_update import Ons
from fedglb.parts.own import NotCompiled
from fedglb.parts.trigger import Always, Event, Never, as_trigger

ENGINES = ("compiled", "reference")
ENV = fg.Synthetic(fg.Problem(dim=4), clients=3, arms=6)


def run(engine="compiled", local=None, trigger=None, radius=None, choice=None, horizon=30):
    """Run an algorithm with these parts in place of plain ones."""
    parts = local or Ons(), fg.Newton(), trigger or Always(), radius or fg.Fixed(0.3)
    algorithm = fg.Algorithm("x", *parts, choice=choice or fg.Ucb())
    return fg.simulate(algorithm, ENV, horizon, seed=2, engine=engine)


def by_rule(choice, engine="compiled"):
    return fg.simulate(fg.fedglb_auto(choice=choice), ENV, 40, seed=2, engine=engine).choices


EXPECTED = {}


def sigma(width):
    if width not in EXPECTED:
        EXPECTED[width] = by_rule(fg.Sigma(width))
    return EXPECTED[width]


# -- what plays ------------------------------------------------------------------------------------


def test_a_rule_like_one_of_the_package_plays_the_same_arms():
    assert (sigma(1.5) != sigma(0.5)).any()
    for engine in ENGINES:
        assert_array_equal(by_rule(lambda mean, sd: mean + 1.5 * sd, engine), sigma(1.5))
    around = fg.EpsilonGreedy(0.3, lambda mean, sd: mean + 1.5 * sd)
    assert_array_equal(by_rule(around), by_rule(fg.EpsilonGreedy(0.3, fg.Sigma(1.5))))
    bank = fg.Bank(lambda mean, sd: mean + 1.5 * sd, 1.0)
    assert_array_equal(by_rule(bank), by_rule(fg.Bank(fg.Sigma(1.5), 1.0)))


def test_every_argument_of_a_rule_is_what_a_class_gets():
    def by_hand(t, covariance, theta, arms):
        scores = arms @ theta
        for k in range(len(arms)):
            scores[k] += 1.5 * math.sqrt(arms[k] @ covariance @ arms[k])
        arms[:], theta[:], covariance[:] = 7.0, 7.0, 7.0  # they are copies
        return scores + 0.0 * t

    for engine in ENGINES:
        assert_array_equal(by_rule(by_hand, engine), sigma(1.5))


def test_a_radius_a_trigger_and_a_step_like_those_of_the_package():
    expected = run(trigger=Always(), radius=fg.Fixed(0.3))
    for engine in ENGINES:
        found = run(engine, trigger=lambda: True, radius=lambda: 0.3)
        assert_array_equal(found.choices, expected.choices)
        assert found.trace.equals(expected.trace)
    event = run(trigger=Event(2.0), radius=fg.Fixed(0.3))
    same = run(trigger=lambda t, t_last, log_gain: (t - t_last) * log_gain >= 2.0)
    assert same.trace.equals(event.trace)
    assert 1 < event.syncs < expected.syncs


def test_a_trigger_gets_all_of_a_clients_samples():
    def fires(samples, total):
        return samples >= 4 + 0.5 * (total - samples)

    found = run(trigger=fires, horizon=60)
    assert found.trace.equals(run(trigger=Event(math.inf, share=0.5), horizon=60).trace)
    assert found.syncs > 2


def test_online_newton_steps_as_a_function():
    """θ is that of `Ons` as long as the ball is not active; so are A and its gain."""
    problem = fg.Problem(dim=3, radius=30.0, curvature=0.2)

    def step(theta, direction, predicted, y, curvature):
        return theta - (predicted - y) / curvature * direction

    states = []
    for local in (Ons(), step):
        algorithm = fg.Algorithm("x", local, None, Never(), fg.Fixed(0.3))
        client = fg.Client(0, algorithm, algorithm.setting(problem, 2, None))
        rng = np.random.default_rng(1)
        for t in range(1, 20):
            x = rng.standard_normal(3)
            client.observe(x / np.linalg.norm(x), float(rng.random() < 0.5), t)
        states.append(client.state)
    one, two = states
    assert_array_equal(one.matrix, two.matrix)
    assert_array_equal(one.inverse, two.inverse)
    assert (one.log_gain, one.updates) == (two.log_gain, two.updates)
    np.testing.assert_allclose(two.theta, one.theta, rtol=1e-12)
    assert_array_equal(two.centre, two.theta)


def test_numbers_of_the_setting():
    seen = []

    def radius(dim, clients, ridge, delta, radius, noise, curvature):
        seen.append((dim, clients, ridge, delta, radius, noise, curvature))
        return 0.3

    problem = fg.Problem(dim=2, radius=2.0, noise=0.7, curvature=0.1)
    fg.fedglb_ucb(1.0, ridge=3.0, delta=0.1, confidence=radius).setting(problem, 5, 10)
    assert set(seen) == {(2, 5, 3.0, 0.1, 2.0, 0.7, 0.1)}
    poisson = fg.Problem(dim=2, link=fg.Poisson())  # R is not known, and not needed
    fg.fedglb_ucb(1.0, confidence=lambda dim: 0.1 * dim).setting(poisson, 5, 10)
    with pytest.raises(fg.InvalidInput, match="noise"):
        fg.fedglb_ucb(1.0, confidence=lambda noise: noise).setting(poisson, 5, 10)


# -- functions as parts ----------------------------------------------------------------------------


def growing(mean, sd, t, width=0.5, late=False):
    return mean + width * sd * (math.sqrt(t) if late else 1.0)


def closed(width):
    return lambda mean, sd: mean + width * sd


def test_numbers_of_its_own_are_no_constants_of_the_machine_code():
    for width in (0.5, 1.5):
        for rule in (
            partial(growing, width=width),
            partial(partial(growing, width=9), width=width),
        ):
            assert_array_equal(by_rule(rule), sigma(width))
        assert_array_equal(by_rule(closed(width)), sigma(width))
    made = [as_choice(partial(growing, width=width)) for width in (0.5, 1.5)]
    assert made[0].code.compiled is made[1].code.compiled
    assert as_choice(closed(0.5)).code.compiled is as_choice(closed(0.5)).code.compiled
    assert as_choice(closed(0.5)).code.compiled is not as_choice(closed(1.5)).code.compiled


def test_equal_functions_are_equal_parts_with_readable_names():
    one, two, other = (as_choice(partial(growing, width=width)) for width in (1.5, 1.5, 0.5))
    assert (one == two, one == other, hash(one) == hash(two)) == (True, False, True)
    assert repr(one) == "growing(width=1.5, late=False)"
    assert repr(as_choice(growing)) == "growing(width=0.5, late=False)"
    assert repr(as_choice(closed(2.0))) == "<lambda>(width=2.0)"
    assert repr(as_trigger(lambda t: t > 3)) == "<lambda>"
    again = cloudpickle.loads(cloudpickle.dumps(as_choice(closed(1.5))))
    assert isinstance(again, OwnChoice)
    assert_array_equal(by_rule(again), sigma(1.5))
    found = run(radius=lambda: 0.2, choice=growing).caveats
    assert found[-2:] == (
        "the radius is <lambda>: no coverage is claimed",
        "growing(width=0.5, late=False): nothing is proven",
    )


def test_a_function_that_numba_compiles_already_is_taken_as_it_was_written():
    assert_array_equal(by_rule(numba.njit(closed(1.5))), sigma(1.5))


def test_defaults_that_are_no_numbers_stay():
    def rule(mean, sd, by="first", *, width=1.5):
        return mean + width * sd if by == "first" else mean

    assert_array_equal(by_rule(rule), sigma(1.5))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            {"choice": lambda mean, std: mean},
            r"choice.std = '<lambda>\(mean, std\)'.*did you mean sd or",
        ),
        ({"choice": lambda mean, std: mean}, "any of arms, mean, sd, theta, covariance, t, and"),
        ({"choice": lambda *scores: scores}, "choice.scores"),
        ({"choice": lambda mean, /: mean}, "choice.mean"),
        ({"choice": partial(growing, None)}, "keywords only"),
        ({"choice": partial(growing, width="1")}, "choice.width = '1'.*a number"),
        ({"choice": partial(growing, wide=1.0)}, "choice.wide"),
        ({"choice": partial(growing, t=1.0)}, "choice.t"),
        ({"choice": fg.Ucb}, "choice = .*expected a Choice"),
        ({"choice": np.sin}, "choice = .*expected a Choice"),
        ({"radius": lambda sample: 1.0}, r"confidence.sample.*did you mean samples\?"),
        ({"radius": lambda t: 1.0}, "confidence.t = .*theta, centre, samples, log_gain, epoch"),
        ({"trigger": lambda n: True}, "trigger.n.*t, t_last, log_gain, samples, total"),
        ({"trigger": lambda dim: True}, "trigger.dim"),
        ({"local": lambda theta, z: theta}, "local_update.z.*predicted, slope, matrix, inverse"),
    ],
)
def test_other_parameters_are_refused_with_those_that_are_allowed(part, said):
    with pytest.raises(fg.InvalidInput, match=said):
        run(**part)


def test_a_trigger_that_needs_the_gain_needs_a_local_update_that_follows_it():
    with pytest.raises(fg.InvalidInput, match="follows no covariance"):
        fg.Algorithm("x", fg.fedglb_ucb_1(3).local_update, fg.Newton(), lambda log_gain: True,
                     fg.Fixed(0.3))  # fmt: skip
    fg.Algorithm("x", fg.fedglb_ucb_1(3).local_update, fg.Newton(), lambda t: True, fg.Fixed(0.3))


# -- helpers ---------------------------------------------------------------------------------------


def half(x):
    return 0.5 * x


def thrice_half(x):
    return half(x) + half(half(x)) + half(half(x)) + half(x)


def factorial(n):
    return 1.0 if n <= 1 else n * factorial(n - 1)


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


HELPERS = types.ModuleType("helpers_of_mine")
exec("def inner(x):\n    return 3.0 * x\ndef outer(x):\n    return 0.5 * inner(x)", vars(HELPERS))
HELPERS.SCALE = 0.25


def through_the_module(x):
    return HELPERS.SCALE * HELPERS.inner(x)


HELPERS.deeper, HELPERS.back = types.ModuleType("helpers_of_mine.deeper"), HELPERS
exec("def own(x):\n    return 1.5 * x", vars(HELPERS.deeper))


@pytest.mark.parametrize(
    "width",
    [
        lambda x: thrice_half(x),
        lambda x: factorial(3) * x / 4.0,
        lambda x: (2.5 if odd(7) else 1.0) * x - (x if even(8) else 0.0),
        lambda x: HELPERS.outer(x),
        lambda x: HELPERS.back.deeper.own(x),
        lambda x: through_the_module(x) + 0.5 * HELPERS.outer(x),  # other names of one module
        lambda x: (lambda z: half(z) * 3.0)(x),
    ],
)
def test_helpers_need_no_decorator(width):
    for engine in ENGINES:  # a warning would be an error here
        assert_array_equal(by_rule(lambda mean, sd: mean + width(1.0) * sd, engine), sigma(1.5))


def test_a_helper_that_is_written_again_counts_at_once(monkeypatch):
    def rule(mean, sd):
        return mean + half(3.0) * sd

    assert_array_equal(by_rule(rule), sigma(1.5))
    monkeypatch.setitem(globals(), "half", lambda x: x / 6.0)
    for engine in ENGINES:
        assert_array_equal(by_rule(rule, engine), sigma(0.5))


def test_an_index_beyond_an_array_raises_in_a_helper_too():
    def beyond(mean, t):
        return mean[len(mean) + t - 5] if t == 5 else 0.0

    for engine in ENGINES:
        with pytest.raises(IndexError):
            by_rule(lambda mean, t: mean + beyond(mean, t), engine)


def test_what_numba_cannot_compile_runs_as_plain_python_and_says_so_once():
    own._said.clear()
    widths = {"one": 1.5, 2: 3.0}

    def rule(mean, sd):
        return mean + widths["one"] * sd

    with pytest.warns(NotCompiled, match="rule runs as plain Python.*widths") as told:
        assert_array_equal(by_rule(rule), sigma(1.5))
    assert len(told) == 1
    for engine in ENGINES:
        assert_array_equal(by_rule(rule, engine), sigma(1.5))


# -- what is refused -------------------------------------------------------------------------------


def unwritten(theta):
    return np.empty(len(theta))


def partly_written(mean):
    scores = np.empty(len(mean))
    for k in range(1, len(mean)):
        scores[k] = mean[k]
    return scores


STEP = r"^<lambda>\(theta.*\) at sample 1"


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"choice": lambda mean: None}, r"^<lambda>\(mean\) = None: expected a float array"),
        ({"choice": lambda mean, t: mean[:3]}, r"^<lambda>\(mean, t=1\).shape = \(3,\)"),
        ({"choice": lambda arms: arms[:, 0] / 0.0 * 0.0}, r"^<lambda>\(arms\)\[0\] = nan"),
        ({"choice": lambda sd: sd > 0.0}, "dtype = 'bool'"),
        ({"choice": partly_written}, r"partly_written\(mean\)\[0\] = nan"),
        ({"radius": lambda: "1"}, r"^<lambda>\(\) = '1': expected a finite number >= 0"),
        ({"radius": lambda: -0.1}, "= -0.1: expected a finite number >= 0"),
        ({"radius": lambda: math.inf}, "= inf: expected a finite number >= 0"),
        ({"radius": lambda theta: theta}, "expected a finite number"),
        ({"radius": lambda samples: 1.0 if samples < 3 else -1.0}, r"<lambda>\(samples\) = -1.0"),
        ({"radius": lambda samples: 1.0 if samples < 3 else math.nan}, "= nan: expected a finite"),
        ({"trigger": lambda: 1}, r"^<lambda>\(\) = 1: expected True or False"),
        ({"trigger": lambda: None}, "= None: expected True or False"),
        ({"local": lambda theta: 1.0}, rf"{STEP} = 1.0: expected the next theta"),
        ({"local": lambda theta: theta[:2]}, rf"{STEP}, its shape = \(2,\): expected \(d,\) = \(4"),
        ({"local": lambda theta: theta > 0.0}, rf"{STEP}, its dtype = 'bool'"),
        ({"local": lambda theta: theta / 0.0}, r"at sample 1\[0\] = nan"),
        ({"local": unwritten}, r"^unwritten\(theta\) at sample 1\[0\] = nan"),
        ({"local": lambda theta, total: theta + (math.nan if total == 3 else 0.0)},
         r"^<lambda>\(theta, total\) at sample 3 of a client = 'not valid'"),
    ],
)  # fmt: skip
def test_what_is_no_score_radius_answer_or_theta_is_refused_alike_by_both_engines(part, said):
    trigger = part.get("trigger", Event(math.inf))
    for engine in ENGINES:
        with np.errstate(all="ignore"), pytest.raises(fg.InvalidInput, match=said):
            run(engine, **{**part, "trigger": trigger})


def draws(theta):
    return theta + np.random.random(len(theta))  # noqa: NPY002


def test_random_numbers_are_refused():
    for part in (
        {"choice": lambda mean: mean + np.random.random(len(mean))},  # noqa: NPY002
        {"radius": lambda: np.random.random()},  # noqa: NPY002
        {"local": draws},
    ):
        for engine in ENGINES:
            with pytest.raises(fg.InvalidInput, match=r"as in the call before.*no random"):
                run(engine, **part)


def test_what_a_function_raises_comes_out():
    def refuse(samples):
        if samples == 2:
            raise KeyError("mine: 17")
        return samples > 9

    def number(samples):
        return 1.0 if refuse(samples) else 0.0

    def step(theta, samples):
        return theta if refuse(samples) else 0.5 * theta

    for part in ({"trigger": refuse}, {"radius": number}, {"local": step}):
        part = {"trigger": Event(math.inf), **part}
        for engine in ENGINES:
            with pytest.raises(KeyError, match=re.escape("mine: 17")):
                run(engine, **part)


def test_an_agreement_needs_a_class_with_a_name():
    with pytest.raises(fg.InvalidInput, match=r"growing\(width.*a class with a stored name"):
        Agreement(fg.Problem(dim=2), fg.fedglb_auto(choice=growing), 3)
