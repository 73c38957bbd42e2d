"""Rules of a user's own: the same choices as the package's, and nothing wrong is silent."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import fedglb as fg
from fedglb.kernels.compile import kernel
from fedglb.parts import own
from fedglb.parts.choice.base import KernelChoice
from fedglb.parts.own import NotCompiled
from tests.parts.choice.decisions import place, play

ENGINES = ("compiled", "reference")


@dataclass(frozen=True)
class Deviations(fg.Choice):
    """`Sigma`, from what the model says of the arms."""

    width: float

    def score(self, arms, model, t):
        return model.mean + self.width * model.sd


@dataclass(frozen=True)
class ByHand(fg.Choice):
    """`Sigma`, from the arms; it also changes what it was given."""

    width: float

    def score(self, arms, model, t):
        scores = arms @ model.theta
        for k in range(len(arms)):
            scores[k] += self.width * math.sqrt(arms[k] @ model.covariance @ arms[k])
        arms[:], model.theta[:], model.covariance[:], model.mean[:] = 7.0, 7.0, 7.0, 7.0
        return scores


def run(choice, engine="compiled", env=None, horizon=40, **more):
    env = fg.Synthetic(fg.Problem(dim=4), clients=3, arms=6) if env is None else env
    return fg.simulate(fg.fedglb_auto(choice=choice, **more), env, horizon, seed=2, engine=engine)


@pytest.mark.parametrize("rule", [Deviations, ByHand])
@pytest.mark.parametrize("arms", [4, 6])  # as many as features, too
def test_a_rule_like_one_of_the_package_plays_the_same_arms(rule, arms):
    env = fg.Synthetic(fg.Problem(dim=4), clients=3, arms=arms)
    expected = run(fg.Sigma(1.5), env=env)
    assert (expected.choices != run(fg.Greedy(), env=env).choices).any()
    for engine in ENGINES:
        found = run(rule(1.5), engine, env)
        assert_array_equal(found.choices, expected.choices)
        assert found.trace.equals(expected.trace)


@pytest.mark.parametrize("rule", [Deviations, ByHand])
def test_the_upper_confidence_bound_as_an_own_rule(rule):
    env = fg.Synthetic(fg.Problem(dim=4), clients=3, arms=6)

    def choices(alpha, choice, engine="compiled"):
        algorithm = fg.fedglb_ucb(0.5, fg.Newton(), confidence=fg.Fixed(alpha), choice=choice)
        return fg.simulate(algorithm, env, 40, seed=1, engine=engine).choices

    algorithm = fg.fedglb_ucb(0.5, fg.Newton())
    dispersion = algorithm.local_update.dispersion(algorithm.setting(env.problem, 3, 40))
    width, expected = 3.0 / math.sqrt(dispersion), choices(3.0, fg.Ucb())
    for other in (width, 3.0 * math.sqrt(dispersion)):
        assert (choices(other, fg.Ucb()) != expected).any()
    for engine in ENGINES:
        assert_array_equal(choices(3.0, rule(width), engine), expected)


@pytest.mark.parametrize(
    "around",
    [
        lambda rule: fg.EpsilonGreedy(0.4, rule),
        lambda rule: fg.Bank(rule, 1.0),
        lambda rule: fg.EpsilonGreedy(0.4, fg.Bank(rule, 1.0)),
    ],
)
def test_rules_around_it(around):
    mine, expected = around(Deviations(1.5)), around(fg.Sigma(1.5))
    assert mine.needs_sets == expected.needs_sets
    for engine in ENGINES:
        assert_array_equal(run(mine, engine).choices, run(expected).choices)
        assert_array_equal(run(mine, engine).propensities, run(expected).propensities)


def test_one_learner_for_all_and_a_client_by_itself():
    env = fg.Synthetic(fg.Problem(dim=4), clients=3, arms=6)
    choices = [
        fg.simulate(fg.one_ucb_glm(choice=rule), env, 20, engine=engine).choices
        for rule in (Deviations(2.0), fg.Sigma(2.0))
        for engine in ENGINES
    ]
    for each in choices[1:]:
        assert_array_equal(each, choices[0])
    clients = []
    for rule in (Deviations(2.0), fg.Sigma(2.0)):
        algorithm = fg.fedglb_auto(choice=rule)
        clients.append(fg.Client(0, algorithm, algorithm.setting(env.problem, 3, None)))
    arms = np.random.default_rng(0).standard_normal((9, 4)) / 4
    mine, expected = (client.decide(np.ascontiguousarray(arms.T), 3) for client in clients)
    assert (mine.arm, mine.propensity) == (expected.arm, expected.propensity)
    assert mine.score == pytest.approx(expected.score, rel=1e-12)
    assert mine.width == pytest.approx(expected.width, rel=1e-12)


def test_a_rule_needs_a_score():
    @dataclass(frozen=True)
    class Without(fg.Choice):
        pass

    with pytest.raises(TypeError, match=r"abstract.*score"):
        Without()
    with pytest.raises(NotImplementedError, match=r"Sigma\(width=2.0\).*fg.Choice"):
        fg.Sigma().score(None, None, 1)
    assert Deviations(2.0).caveats() == ("Deviations(width=2.0): nothing is proven",)


def test_a_score_in_a_rule_of_the_package_is_the_one_that_counts():
    @dataclass(frozen=True)
    class Mine(fg.Ucb):
        def score(self, arms, model, t):
            return model.mean

    assert not Mine().needs_sets
    assert_array_equal(run(Mine()).choices, run(fg.Greedy()).choices)


# -- what numba compiles, and what it does not ---------------------------------------------------


@kernel
def twice(x):
    return 2.0 * x


HALF = 0.5


@dataclass(frozen=True)
class Several(fg.Choice):
    """Numbers of all kinds."""

    steps: int
    positive: bool
    single: float = np.float32(0.75)
    named: str = "no number"
    shift: ClassVar[float] = 0.25

    @property
    def width(self):
        return self.shift + 0.5

    def score(self, arms, model, t):
        total = 0.0
        for _ in range(self.steps):
            total += twice(HALF) * self.width + self.shift
        if self.positive:
            total += self.single - 0.75
        return model.mean + total * model.sd


def test_numbers_of_a_rule_and_a_helper_that_is_a_kernel_are_compiled():
    for positive in (True, np.bool_(False)):  # a warning would be an error here
        found = run(Several(np.int64(2), positive)).choices
        assert_array_equal(found, run(fg.Sigma(2.0)).choices)


@dataclass(frozen=True)
class Listed(fg.Choice):
    """Reads fields that are no numbers."""

    widths: tuple[float, ...]
    by: str = "first"

    def score(self, arms, model, t):
        return model.mean + {"first": self.widths[0]}[self.by] * model.sd


def test_what_numba_cannot_compile_runs_as_plain_python_and_says_so_once():
    expected = run(fg.Sigma(1.5)).choices
    own._said.clear()
    with pytest.warns(NotCompiled, match=r"Listed\.score runs as plain Python.*widths") as told:
        assert_array_equal(run(Listed((1.5,))).choices, expected)
    assert len(told) == 1
    for engine in ENGINES:
        assert_array_equal(run(Listed((1.5, 2.0)), engine).choices, expected)
    algorithms = [fg.fedglb_auto(choice=Listed((width,))) for width in (0.5, 1.5, 2.5)]
    env = fg.Synthetic(fg.Problem(dim=4), clients=3, arms=6)
    assert_array_equal(fg.compare(algorithms, env, 40, seed=2)[1].choices, expected)


# -- what is refused -----------------------------------------------------------------------------


def none(self, arms, model, t):
    pass


def a_list(self, arms, model, t):
    return [1.0 for _ in range(len(arms))]


def one_number(self, arms, model, t):
    return model.mean.max()


def two_axes(self, arms, model, t):
    return model.mean.reshape(len(arms), 1)


def whole_numbers(self, arms, model, t):
    return np.arange(len(arms))


def per_feature(self, arms, model, t):
    return arms[0]


def not_all_written(self, arms, model, t):
    scores = np.empty(len(arms))
    for k in range(len(arms) - 1):
        scores[k] = 0.5
    return scores


def too_few_later(self, arms, model, t):
    return np.ones(len(arms) - (1 if t > 5 else 0))


def not_all_written_later(self, arms, model, t):
    scores = np.empty(len(arms))
    for k in range(len(arms) - (1 if t > 5 else 0)):
        scores[k] = model.mean[k]
    return scores


@dataclass(frozen=True)
class Mine(fg.Choice):
    """One score is not finite, from a step on."""

    value: float
    first: int = 1

    def score(self, arms, model, t):
        scores = model.mean
        if t >= self.first:
            scores[2] = self.value
        return scores


def made(score):
    return type("Mine", (fg.Choice,), {"score": score})()


SHAPE = "for arms of shape (K, d) = (6, 4)"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (made(none), f"t=1) = None: expected a float array of shape (K,) = (6,) {SHAPE}"),
        (made(a_list), "t=1) = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]: expected a float array"),
        (made(one_number), "= np.float64("),
        (made(two_axes), f"t=1).shape = (6, 1): expected (K,) = (6,) {SHAPE}"),
        (made(per_feature), f"t=1).shape = (4,): expected (K,) = (6,) {SHAPE}"),
        (made(too_few_later), "t=6).shape = (5,): expected (K,) = (6,)"),
        (made(whole_numbers), "t=1).dtype = 'int64': expected a float array"),
        (made(not_all_written), "t=1)[5] = nan: expected finite numbers"),
        (made(not_all_written_later), "t=6)[5] = nan: expected finite numbers"),
        (Mine(math.nan), "t=1)[2] = nan: expected finite numbers"),
        (Mine(math.inf), "t=1)[2] = inf: expected finite numbers"),
        (Mine(-math.inf), "t=1)[2] = -inf: expected finite numbers"),
        (Mine(math.nan, 5), "t=5)[2] = nan: expected finite numbers"),
        (fg.EpsilonGreedy(1.0, Mine(math.nan, 5)), "t=5)[2] = nan: expected finite numbers"),
        (fg.Bank(Mine(math.nan, 5), 1.0), "t=5)[2] = nan: expected finite numbers"),
    ],
)
def test_wrong_scores_are_refused_alike_by_both_engines(rule, said):
    for engine in ENGINES:
        with pytest.raises(fg.InvalidInput, match=re.escape(said)) as caught:
            run(rule, engine)
        assert str(caught.value).startswith("Mine.score(arms, model, t=")


def nan_once_learned(self, arms, model, t):
    return model.mean if np.all(model.theta == 0.0) else np.full(len(arms), np.nan)


def test_the_call_that_is_refused_is_that_of_the_client_that_acts():
    active = np.zeros((9, 2), dtype=bool)
    active[4:, 1] = True
    arms = np.random.default_rng(1).standard_normal((9, 2, 3, 2)) / 4
    means, uniforms = np.full((9, 2, 3), 0.5), np.zeros((9, 2))
    env = fg.Recorded(fg.Problem(2), arms, means, uniforms, active=active)
    for engine in ENGINES:
        for score, said in ((none, r"t=5\) = None"), (nan_once_learned, r"t=7\)\[0\] = nan")):
            algorithm = fg.n_ons_glm(choice=made(score))
            with pytest.raises(fg.InvalidInput, match=said):
                fg.simulate(algorithm, env, 9, engine=engine)


def raises(self, arms, model, t):
    raise KeyError("mine: 17")


def raises_later(self, arms, model, t):
    if t == 4:
        raise ValueError("mine: 17")
    return model.mean


def beyond(self, arms, model, t):
    scores = np.zeros(len(arms))
    for k in range(len(arms)):
        scores[k] = arms[0, k] if t == 3 else 0.0  # there are 4 features and 6 arms
    return scores


def other_arguments(self, arms):
    return arms[:, 0]


@pytest.mark.parametrize(
    ("score", "kind", "said"),
    [
        (raises, KeyError, "mine: 17"),
        (raises_later, ValueError, "mine: 17"),
        (beyond, IndexError, "out of bounds"),
        (other_arguments, TypeError, "other_arguments"),
    ],
)
def test_what_a_rule_raises_comes_out(score, kind, said):
    for engine in ENGINES:
        with pytest.raises(kind, match=said):
            run(made(score), engine)


def random(self, arms, model, t):
    return np.random.random(len(arms))  # noqa: NPY002


def by_a_global(self, arms, model, t):
    return model.mean + HALF * model.sd


def test_a_score_that_depends_on_anything_else_is_refused():
    for engine in ENGINES:
        with pytest.raises(fg.InvalidInput, match=r"Mine.score.*as in the call before.*random"):
            run(made(random), engine)
    widths = np.array([0.5])
    rule = made(lambda self, arms, model, t: model.mean + widths[0] * model.sd)
    assert_array_equal(run(rule).choices, run(fg.Sigma(0.5)).choices)
    widths[0] = 40.0  # machine code has the numbers in it
    with pytest.raises(fg.InvalidInput, match="no global variable that changes"):
        run(rule)


def test_a_name_that_is_given_another_value_makes_other_machine_code(monkeypatch):
    rule = made(by_a_global)
    assert_array_equal(run(rule).choices, run(fg.Sigma(0.5)).choices)
    monkeypatch.setitem(by_a_global.__globals__, "HALF", 40.0)
    for engine in ENGINES:
        assert_array_equal(run(rule, engine).choices, run(fg.Sigma(40.0)).choices)


def test_scores_that_are_finite_in_python_alone_are_refused():
    late = np.array([math.nan])
    rule = made(lambda self, arms, model, t: model.mean + (late[0] if t == 4 else 0.0))
    with pytest.raises(fg.InvalidInput, match=r"t=4\)\[0\] = nan"):
        run(rule)
    late[0] = 0.0
    for engine in ENGINES:
        with pytest.raises(fg.InvalidInput, match=r"Mine\(\) at t=4: \[0\] = nan.*written"):
            run(rule, engine)


def unknown_to_numba(self, arms, model, t):
    return model.mean * {"a": 1.0, 2: 2.0}["a"]


class Counts(fg.Choice):
    """No dataclass."""

    def __init__(self, width):
        self.width = width

    def score(self, arms, model, t):
        return model.mean + self.width * model.sd


@pytest.mark.filterwarnings("error::numba.NumbaWarning")
def test_numbas_own_warnings_stay_inside():
    with pytest.warns(NotCompiled, match=r"found for signature\)$"):
        run(made(unknown_to_numba))


def test_results_name_a_rule_that_is_no_dataclass_without_its_address():
    assert run(Counts(0.5)).caveats[-1] == "Counts(width=0.5): nothing is proven"
    assert_array_equal(run(Counts(0.5)).choices, run(fg.Sigma(0.5)).choices)


@pytest.mark.parametrize(
    "rule", [fg.Ucb(), fg.Greedy(), fg.Thompson(draws=3), fg.EpsilonGreedy(1.0)], ids=str
)
def test_scores_of_the_package_that_are_not_finite_are_refused_too(rule):
    at = place(0, 3, 5)
    at.vectors[:] = np.nan
    assert play(rule, at).arm == -1
    algorithm = fg.fedglb_auto(choice=rule)
    client = fg.Client(0, algorithm, algorithm.setting(fg.Problem(dim=3), 2, None))
    client.state.vectors[:] = np.nan
    with pytest.raises(fg.InvalidInput, match=r"scores of .*nan.*: expected finite numbers"):
        client.choose(np.eye(3))


def test_the_packages_rules_have_kernels():
    for rule in (fg.Ucb(), fg.Greedy(), fg.Sigma(), fg.Bayes(), fg.Thompson()):
        assert isinstance(rule, KernelChoice)
        assert not rule.has_score
