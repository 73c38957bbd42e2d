"""A link of the user's own works wherever a shipped one does.

The engines' tests have one, too, with every algorithm and solver.
"""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.links import LINKS, base
from fedglb.links.base import check_link
from tests import plain
from tests.links.families import Bump, Dip, Hyperbolic, KnownHyperbolic, Positive

TOLERANCE = 1e-14
D, N, K, T = 3, 3, 5, 40


def algorithms(solver, **common):
    return {
        "fedglb_ucb": (fg.fedglb_ucb(2.0, solver, **common), {"threshold": 2.0}),
        "fedglb_ucb_1": (fg.fedglb_ucb_1(5, solver, **common), {"updates": 5}),
        "fedglb_ucb_2": (fg.fedglb_ucb_2(5, solver, **common), {"updates": 5}),
        "fedglb_ucb_3": (fg.fedglb_ucb_3(5, **common), {"updates": 5}),
        "one_ucb_glm": (fg.one_ucb_glm(tolerance=TOLERANCE, **common), {}),
        "n_ucb_glm": (fg.n_ucb_glm(tolerance=TOLERANCE, **common), {}),
        "n_ons_glm": (fg.n_ons_glm(**common), {}),
        "dislinucb": (fg.dislinucb(2.0, **common), {"threshold": 2.0}),
    }


NAMES = list(algorithms(None))


@pytest.mark.parametrize("link", [Positive(), Dip()], ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_runs(name, link):
    env = fg.Synthetic(fg.Problem(D, link), clients=N, arms=K)
    algorithm = algorithms(fg.Newton())[name][0]
    run = fg.simulate(algorithm, env, horizon=T, seed=2)
    assert run.choices.shape == (T, N)
    assert set(np.unique(run.choices)) == set(range(K))
    assert 0.0 < run.regret < 2.0 * N * T
    assert np.isfinite(run.reward)
    if run.theta is not None and name != "dislinucb":  # which does not project
        assert 0.0 < np.linalg.norm(run.theta) <= 1.0 + 1e-12
    again = fg.simulate(algorithm, env, horizon=T, seed=2)
    assert_array_equal(again.choices, run.choices)
    assert again.regret == run.regret


@pytest.mark.some(5)
@pytest.mark.parametrize("link", [Hyperbolic(), KnownHyperbolic()], ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_same_choices_as_the_plain_functions(name, link, monkeypatch):
    monkeypatch.setitem(
        plain.LINKS,
        "hyperbolic",
        plain.Link(
            lambda z: 0.5 * (z + np.sqrt(1.0 + z * z)),
            lambda z: 0.5 * (1.0 + z / np.sqrt(1.0 + z * z)),
            lambda z: 0.5 * (1.0 + z * z) ** -1.5,
        ),
    )
    problem = fg.Problem(D, link)
    assert_allclose(problem.c_mu, 2.0**-2.5, rtol=1e-15)
    rng = np.random.default_rng(11)
    theta = rng.standard_normal(D)
    theta /= np.linalg.norm(theta)
    arms = rng.standard_normal((T, N, K, D))
    arms /= np.maximum(np.linalg.norm(arms, axis=-1, keepdims=True), 1.0)
    means = link.mean(arms @ theta)
    rewards = np.asarray(link.sample(means, np.broadcast_to(rng.random((T, N, 1)), means.shape)))
    env = fg.Recorded(problem, arms, means, rewards=rewards, parameter=theta)

    common = {"ridge": 0.1, "delta": 0.05, "exploration": 0.1}
    algorithm, arguments = algorithms(fg.Newton(tolerance=TOLERANCE), **common)[name]
    if name == "fedglb_ucb_3":
        arguments["y_range"] = (0.0, 1.0)
    given = plain.Problem("hyperbolic", 1.0, 0.5, 2.0**-2.5, 0.1, 0.05, exploration=0.1)
    expected = getattr(plain, name)(given, arms, rewards, **arguments)
    run = fg.simulate(algorithm, env)
    assert_array_equal(run.choices, expected.choices)
    assert len(np.unique(run.choices)) > 2
    if run.theta is not None and expected.thetas:
        # a gap of 1e-14 in F, n ≤ 120, λ = 0.1: ‖θ − θ*‖ ≤ √(2·1e-14·120/0.1) < 5e-6
        assert_allclose(run.theta, expected.thetas[-1], atol=5e-6)


class Scaled(Hyperbolic):
    """A link with an attribute of its own."""

    def __init__(self, scale: float) -> None:
        self.scale = scale


def test_a_links_own_attributes_survive_a_process_boundary():
    link = Scaled(2.0)
    link.mean(0.3)
    again = pickle.loads(pickle.dumps(link))
    assert again.scale == 2.0
    assert again == link
    assert link != Scaled(3.0)
    assert again.mean(0.3) == link.mean(0.3)


def root(z):
    return math.sqrt(square(z) + 1.0)


def square(z):
    return z * z


def with_helpers(power):
    """`Hyperbolic`, with functions and numbers from outside, and no decorator."""

    class Helped(Hyperbolic):
        @staticmethod
        def scalar_cumulant(z):
            return 0.5 * (z + root(z))

        @staticmethod
        def scalar_mean(z):
            return 0.5 * (1.0 + z / root(z))

        @staticmethod
        def scalar_variance(z):
            return 0.5 / math.pow(root(z), power)

        def scalar_sampler(self):
            return lambda mean, u, noise: 1.0 if square(u) < square(mean) else 0.0

    return Helped()


def test_helpers_need_no_decorator():
    env, same = (
        fg.Synthetic(fg.Problem(D, link), N, K) for link in (with_helpers(3), Hyperbolic())
    )
    for engine in ("compiled", "reference"):
        found, expected = (
            fg.simulate(fg.fedglb_ucb(1.0, fg.Newton()), each, T, 2, engine) for each in (env, same)
        )
        assert_allclose(found.theta, expected.theta, rtol=1e-9)
        assert_array_equal(found.choices, expected.choices)
    with pytest.raises(fg.InvalidInput, match="scalar_variance"):
        fg.Problem(D, with_helpers(2))


class Broken(fg.Link):
    """μ has no value at 0, where every learner begins."""

    name = "broken"
    support = (0.0, 1.0)
    default_noise = 0.5

    @staticmethod
    def scalar_cumulant(z):
        return 0.5 * z + 0.125 * z * z

    @staticmethod
    def scalar_mean(z):
        return 0.5 + 0.25 * z + 0.0 / z

    @staticmethod
    def scalar_variance(z):
        return 0.25


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_link_without_a_value_is_told_not_printed(engine, capfd):
    env = fg.Synthetic(fg.Problem(D, Broken()), clients=N, arms=K)
    with pytest.raises(fg.InvalidInput, match="radius = nan"):
        fg.simulate(fg.n_ons_glm(), env, horizon=T, engine=engine)
    assert capfd.readouterr() == ("", "")


# -- functions that contradict each other ----------------------------------------------------------


class Wide(fg.Link):
    """A link that is right, with large numbers: m = 1000 + e^z."""

    name = "wide"
    default_noise = 1.0

    @staticmethod
    def scalar_cumulant(z):
        return 1000.0 + math.exp(z)

    @staticmethod
    def scalar_mean(z):
        return math.exp(z)

    @staticmethod
    def scalar_variance(z):
        return math.exp(z)


class Huber(fg.Link):
    """A link that is right, with a kink: μ(z) is z up to 1, and grows by a tenth from there."""

    name = "huber"
    default_noise = 1.0

    @staticmethod
    def scalar_cumulant(z):
        beyond = max(abs(z) - 1.0, 0.0)
        return 0.5 * z * z - 0.45 * beyond * beyond

    @staticmethod
    def scalar_mean(z):
        beyond = max(abs(z) - 1.0, 0.0)
        return z - math.copysign(0.9 * beyond, z)

    @staticmethod
    def scalar_variance(z):
        return 1.0 if abs(z) <= 1.0 else 0.1


@pytest.mark.parametrize("radius", [1e-3, 1.0, 2.0, 7.5, 100.0, 500.0])
@pytest.mark.parametrize(
    "kind",
    [*LINKS.values(), Hyperbolic, KnownHyperbolic, Positive, Dip, Bump, Wide, Huber],
    ids=lambda kind: kind.__name__,
)
def test_links_that_are_right_pass(kind, radius):
    check_link(kind, radius)


def wrong(base, **functions):
    return type("Wrong", (base,), {name: staticmethod(f) for name, f in functions.items()})()


MEAN = r"the derivative of scalar_cumulant is \S+, by differences, and scalar_mean is \S+"
SLOPE = r"the derivative of scalar_mean is \S+, by differences, and scalar_variance is \S+"


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ({"scalar_cumulant": lambda z: math.sqrt(1.0 + z * z)}, rf": at z = \S+ {MEAN}$"),
        ({"scalar_mean": lambda z: 0.5 * (1.0 + math.tanh(z))}, rf"{MEAN}; at z = \S+ {SLOPE}$"),
        ({"scalar_variance": lambda z: 0.5}, rf": at z = \S+ {SLOPE}$"),
        # by a thousandth
        ({"scalar_variance": lambda z: 0.5005 / math.pow(1.0 + z * z, 1.5)}, SLOPE),
        ({"scalar_variance": lambda z: math.nan}, "scalar_variance is nan$"),
        # only far out
        ({"scalar_variance": lambda z: 0.5 / math.pow(1.0 + z * z, 1.5) + 0.01 * (z > 1.9)}, SLOPE),
    ],
)
def test_functions_that_contradict_each_other_are_refused(functions, said):
    link = wrong(Hyperbolic, **functions)
    with pytest.raises(fg.InvalidInput, match=rf"link = 'Wrong': expected .*{said}"):
        fg.Problem(D, link, radius=2.0)


NOT_FOR_NUMBA = {"slope": 1.0, 2: 2.0}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda z: NOT_FOR_NUMBA["slope"] * z, "Untyped global name 'NOT_FOR_NUMBA'"),
        (lambda z: None, "No conversion from none to float64"),
        (lambda z: 1.0 / (z - z), "scalar_variance is inf"),
    ],
)
def test_a_function_that_is_no_number_is_refused_in_one_line(function, said):
    with pytest.raises(fg.InvalidInput, match=said) as caught:
        fg.Problem(D, wrong(Hyperbolic, scalar_variance=function))
    assert "\n" not in str(caught.value)


def test_a_wrong_subclass_of_a_shipped_link_is_refused():
    link = wrong(fg.Logistic, scalar_mean=lambda z: 0.5 + 0.25 * math.tanh(z))
    with pytest.raises(fg.InvalidInput, match=MEAN):
        fg.Problem(D, link)


def test_the_place_and_the_numbers_are_right():
    with pytest.raises(fg.InvalidInput) as caught:
        fg.Problem(D, wrong(Hyperbolic, scalar_variance=lambda z: 0.5), radius=2.0)
    found = re.search(r"z = (\S+) .* is (\S+), by differences.* is (\S+)$", str(caught.value))
    z, slope, claimed = map(float, found.groups())
    assert abs(z) <= 2.0
    assert slope == pytest.approx(Hyperbolic().variance(z), rel=1e-2)
    assert claimed == 0.5


def test_a_class_is_checked_once(monkeypatch):
    link = wrong(Hyperbolic)
    fg.Problem(D, link)
    monkeypatch.setattr(base, "_elementwise", pytest.fail)  # a second check would call it
    monkeypatch.setattr(type(link), "c_mu", lambda self, radius: 0.1)
    fg.Problem(D, link)
    fg.Problem(D + 1, type(link)())
