"""Mixture sets, choice rules, one exchange and the evidence step against `tests.plain_mixture`."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from math import inf

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedglb as fg
from fedglb.parts.global_update.base import Course
from fedglb.parts.local_update import Anchored
from tests import plain, plain_mixture
from tests.plain_mixture import (
    Bank,
    Bayes,
    EpsilonGreedy,
    Greedy,
    MixtureOutcome,
    Rule,
    Sigma,
    Thompson,
    Ucb,
)
from tests.test_against_plain import LINKS, stream

# They agree to the bit (`tests/simulation/test_engines_agree.py`): one is enough for `make test`.
ENGINES = [pytest.param("reference", marks=pytest.mark.slow), "compiled"]


@dataclass(frozen=True)
class Case:
    """A recorded problem; everything in it follows from these numbers."""

    link: str = "logistic"
    S: float = 1.0
    R: float | None = None
    d: int = 3
    N: int = 3
    T: int = 50
    threshold: float | None = 0.5
    clock: str = "steps"
    ridge: float = 1.0
    delta: float = 0.05
    absent: bool = False
    length: float = 1.0  # of theta*, as a part of S
    K: int = 6
    seed: int = 1

    def problem(self) -> fg.Problem:
        noise = 0.5 if self.link == "poisson" else self.R
        return fg.Problem(self.d, LINKS[self.link](), self.S, noise=noise)

    def given(self) -> plain.Problem:
        p = self.problem()
        return plain.Problem(self.link, self.S, p.R, p.c_mu, self.ridge, self.delta)

    def data(self):
        """The environment, its arms and rewards, and who acts."""
        seed = [self.seed, len(self.link), self.d, self.N]
        return stream(seed, self.problem(), self.T, self.N, self.K, self.absent, self.length)

    def environment(self) -> fg.Recorded:
        return self.data()[0]


CASES = {
    "plain": Case(),
    "S = 3": Case(S=3.0, d=4, ridge=0.5),
    "S = 3, own samples": Case(S=3.0, d=2, N=4, clock="own samples", threshold=0.3),
    "absent clients": Case(absent=True, N=4, threshold=0.2),
    "absent clients, own samples": Case(absent=True, d=2, clock="own samples", threshold=1.0),
    "one client": Case(N=1, T=120, d=2, threshold=2.0),
    "often": Case(threshold=0.05, d=5, N=2, clock="own samples"),
    "seldom": Case(threshold=20.0, d=4, N=4),
    "ball active": Case(S=0.4, ridge=0.01, T=60, N=4, threshold=0.5),
    "ball active, S = 3": Case(S=3.0, ridge=0.001, d=2, N=2, T=40, threshold=0.5, seed=4),
    "large ridge": Case(ridge=40.0, threshold=0.02, N=4),
    "poisson": Case("poisson"),
    "poisson, S = 3": Case("poisson", S=3.0, d=4, N=2, ridge=0.3, threshold=1.0),
    "poisson, own samples": Case("poisson", d=5, clock="own samples", absent=True),
    "identity": Case("identity"),
    "identity, R = 0.3": Case("identity", R=0.3, d=4, N=4, ridge=0.2),
    "identity, R = 2.5, S = 3": Case("identity", S=3.0, R=2.5, d=2, clock="own samples"),
    "identity, ball active": Case("identity", S=0.5, R=0.7, ridge=0.001, threshold=0.2, N=2),
}
# Epochs so long that the local set is narrower than the global one: elsewhere it never decides.
LONG = {
    "never": Case(threshold=inf, d=2, N=1, T=400, delta=0.5),
    "never, S = 3": Case(threshold=inf, S=3.0, d=2, N=1, T=200, ridge=0.1),
    "never, poisson": Case("poisson", threshold=inf, d=2, N=1, T=200),
    "never, identity": Case("identity", R=0.5, threshold=inf, N=2, T=120),
    "long": Case(N=2, T=250, d=2, threshold=200.0),
    "long, S = 3": Case(S=3.0, N=1, T=300, d=2, threshold=400.0, ridge=0.5),
    "long, S = 3, own samples": Case(
        S=3.0, N=2, T=250, d=2, threshold=200.0, clock="own samples", seed=2
    ),
    "long, poisson": Case("poisson", N=2, T=300, d=2, threshold=500.0),
    "long, poisson, S = 3": Case("poisson", S=3.0, N=1, T=250, d=2, threshold=200.0),
    "long, poisson, small ridge": Case(
        "poisson", S=3.0, N=1, T=250, d=2, threshold=200.0, ridge=0.3
    ),
    "long, identity, R = 0.5": Case("identity", R=0.5, N=2, T=200, threshold=200.0),
    "long, identity, R = 2": Case("identity", S=3.0, R=2.0, N=2, T=200, d=2, threshold=100.0),
}
# So many arms that a change of a radius in its second digit already changes choices.
LONG = {name: replace(case, K=150) for name, case in LONG.items()}
CASES |= LONG

RULES: list[Rule] = [
    Ucb(),
    Greedy(),
    Sigma(2.0),
    Sigma(0.3),
    Bayes(),
    Thompson(1.0, 0),
    Thompson(0.4, 7),
    EpsilonGreedy(0.3),
    EpsilonGreedy(0.25, Ucb()),
    EpsilonGreedy(0.2, Bayes()),
    EpsilonGreedy(0.5, Thompson(1.0, 5)),
    EpsilonGreedy(1.0),
    Bank(Greedy(), 1.0),
    Bank(Sigma(2.0), 1.05),
    Bank(Bayes(), 1.0, 0.1),
    Bank(Thompson(1.0, 5), 1.0, 0.5),
    Bank(Greedy(), 8.0),
]
UNPROVEN = [rule for rule in RULES if not isinstance(rule, Ucb | Bank)]
UNPROVEN.remove(EpsilonGreedy(0.25, Ucb()))
SEED = 2**35 + 11  # both words of the stream's key


def translated(rule: Rule):
    """The package's rule of the same name and parameters, in the same order."""
    given = [getattr(rule, name) for name in rule.__dataclass_fields__]
    return getattr(fg, type(rule).__name__)(
        *(translated(v) if is_dataclass(v) else v for v in given)
    )


@cache
def expected_mix(case: Case, rule: Rule, solver: str) -> MixtureOutcome:
    _, arms, rewards, active = case.data()
    return plain_mixture.fedglb_mix(
        case.given(), arms, rewards, case.threshold, case.clock, rule,
        solver=solver, active=active, seed=SEED,
    )  # fmt: skip


@cache
def expected_auto(case: Case, rule: Rule, start: float | None, once: bool = True) -> MixtureOutcome:
    _, arms, rewards, active = case.data()
    return plain_mixture.fedglb_auto(
        case.given(), arms, rewards, case.threshold, case.clock, rule,
        start=start, once=once, active=active, seed=SEED,
    )  # fmt: skip


def simulated_mix(case: Case, rule: Rule, engine: str, **others) -> fg.Run:
    algorithm = fg.fedglb_mix(
        case.threshold,
        choice=translated(rule),
        clock=case.clock,
        ridge=case.ridge,
        delta=case.delta,
        **others,
    )
    return fg.simulate(algorithm, case.environment(), seed=SEED, engine=engine)


def simulated_auto(case: Case, rule: Rule, engine: str, ridge, once: bool = True) -> fg.Run:
    algorithm = fg.fedglb_auto(
        case.threshold, choice=translated(rule), clock=case.clock, ridge=ridge,
        solver=None if once else fg.OneExchange(within="deviation"),
    )  # fmt: skip
    # effects and weights of `Calibrated` are in `tests.plain_effects`
    algorithm = replace(algorithm, local_update=Anchored())
    return fg.simulate(algorithm, case.environment(), seed=SEED, engine=engine)


def updates(run: fg.Run) -> list[tuple[int, int]]:
    return list(run.updates.select("t", "client").rows())


def check_same(run: fg.Run, expected: MixtureOutcome) -> None:
    assert_array_equal(run.choices, expected.choices)
    assert updates(run) == expected.syncs
    if expected.syncs:
        assert run.theta is not None
        assert_allclose(run.theta, expected.thetas[-1], atol=1e-8)


# ----------------------------------------------------- what the cases are for, without the package


@pytest.mark.slow
def test_the_cases_reach_what_they_are_named_after():
    runs = {name: expected_mix(case, Ucb(), "one exchange") for name, case in CASES.items()}
    for name, out in runs.items():
        assert bool(out.syncs) == ("never" not in name)
        assert len(np.unique(out.choices[out.choices >= 0])) > 3
        case = CASES[name]
        lam = case.ridge / plain_mixture.dispersion(case.given())
        pressed = [model.ridge > lam * (1 + 1e-9) for model in out.models]
        assert any(pressed) or "ball active" not in name
    rounds = [n for out in runs.values() for n in out.rounds]
    assert min(rounds.count(1), rounds.count(2)) > 20
    assert max(rounds) > 2


def upper_bounds(x: np.ndarray, M, L) -> tuple[np.ndarray, np.ndarray]:
    """Of the arms x, by the global and by the local set."""
    wide_m = np.sqrt(np.einsum("kd,de,ke->k", x, np.linalg.inv(M.W), x))
    wide_l = np.sqrt(np.einsum("kd,de,ke->k", x, L.P, x))
    return x @ M.theta + M.rho * wide_m, x @ L.theta + L.radius * wide_l


@pytest.mark.parametrize("name", LONG)
def test_the_local_set_decides_in_long_epochs(name):
    case = LONG[name]
    out = expected_mix(case, Ucb(), "one exchange")
    _, arms, _, active = case.data()
    other = 0
    interactions = zip(
        arms[active], out.choices[active], out.global_sets, out.local_sets, strict=True
    )
    for x, k, M, L in interactions:
        by_m, by_l = upper_bounds(x, M, L)
        assert np.minimum(by_m, by_l)[k] >= np.minimum(by_m, by_l).max() - 1e-9
        other += k != np.flatnonzero(by_m >= by_m.max() - 1e-12)[0]
    assert other > 1  # M alone would have chosen another arm


def test_both_kinds_of_component_serve_the_local_set():
    sets = [
        L for case in LONG.values() for L in expected_mix(case, Ucb(), "one exchange").local_sets
    ]
    around_truth = [L.radius > L.X * (1 + 1e-12) for L in sets]
    assert 0.1 < np.mean(around_truth) < 0.9


# ------------------------------------------------------------------------------- the mixture sets


@pytest.mark.some(14)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_the_proven_algorithm_makes_the_same_choices(name, engine):
    case = CASES[name]
    expected = expected_mix(case, Ucb(), "one exchange")
    run = simulated_mix(case, Ucb(), engine)
    check_same(run, expected)
    assert run.updates["rounds"].to_list() == expected.rounds
    assert_allclose(run.updates["alpha"].to_list(), expected.rhos, rtol=1e-8)


@pytest.mark.some(13)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "name",
    ["plain", "S = 3", "ball active", "poisson", "identity, R = 0.3", "long, S = 3, own samples"],
)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_each_rule_makes_the_same_choices(rule, name, engine):
    case = CASES[name]
    expected = expected_mix(case, rule, "one exchange")
    run = simulated_mix(case, rule, engine)
    check_same(run, expected)
    if isinstance(rule, EpsilonGreedy | Thompson):
        assert_allclose(run.propensities, expected.propensities, rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "case", [Case(d=2, N=4, T=80), Case(S=3.0, N=2, T=200, ridge=0.2)], ids=["S = 1", "S = 3"]
)
def test_the_default_threshold(case, engine):
    case = replace(case, threshold=None)
    run, expected = simulated_mix(case, Ucb(), engine), expected_mix(case, Ucb(), "one exchange")
    check_same(run, expected)
    assert 3 < len(expected.syncs) < case.T / 2


@pytest.mark.some(5)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("slack", [0.0005, 0.5])
@pytest.mark.parametrize(
    "name", ["plain", "S = 3", "poisson", "ball active", "long, S = 3", "long, poisson, S = 3"]
)
def test_the_slack_of_one_exchange(name, slack, engine):
    case = CASES[name]
    _, arms, rewards, active = case.data()
    expected = plain_mixture.fedglb_mix(
        case.given(), arms, rewards, case.threshold, case.clock,
        slack=slack, active=active, seed=SEED,
    )  # fmt: skip
    run = simulated_mix(case, Ucb(), engine, solver=fg.OneExchange(slack=slack))
    check_same(run, expected)
    assert run.updates["rounds"].to_list() == expected.rounds


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "name",
    [
        *("plain", "S = 3, own samples", "ball active", "poisson", "identity, R = 0.3"),
        *("long, S = 3", "long, poisson", "long, identity, R = 2"),
    ],
)
def test_the_mixture_sets_at_an_exact_fit(name, engine):
    """With a residual that is evaluated, and as small as rounding lets it be."""
    case = CASES[name]
    run = simulated_mix(case, Ucb(), engine, solver=fg.Newton(tolerance=1e-26))
    check_same(run, expected_mix(case, Ucb(), "exact"))


# --------------------------------------------------------------------------- clients left out


def two_of_them(asking: int) -> set[int]:
    """Who is left out of an update that this client asks for: nobody, one or two clients."""
    return {(asking + k) % 4 for k in range(1, 1 + asking % 3)}


class Without(Course):
    """Updates without some clients, which still get the model."""

    def participants(self, clients, asked_by):
        return [client for client in clients if client not in two_of_them(asked_by)]


@dataclass(frozen=True)
class LeavingOut(fg.OneExchange):
    """One exchange, and never another round: the compiled engine asks all clients for these."""

    slack: float | None = 1e3
    course = Without()


LEFT_OUT = {
    "plain": Case(N=4, threshold=0.2, T=60),
    "S = 3": Case(N=4, S=3.0, d=2, T=60, K=150, clock="own samples", threshold=3.0),
    "poisson": Case("poisson", N=4, d=2, threshold=2.0, K=150),
    "identity, R = 0.3": Case("identity", R=0.3, d=4, N=4, ridge=0.2),
}


@pytest.mark.parametrize("engine", ["reference", "compiled"])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_sets_pay_for_clients_that_an_update_leaves_out(name, engine):
    case = LEFT_OUT[name]
    _, arms, rewards, active = case.data()
    expected = plain_mixture.fedglb_mix(
        case.given(), arms, rewards, case.threshold, case.clock,
        slack=1e3, active=active, leaves_out=two_of_them, seed=SEED,
    )  # fmt: skip
    assert {0, 1, 2} <= set(expected.left_out)
    assert set(expected.rounds) == {1}
    run = simulated_mix(case, Ucb(), engine, solver=LeavingOut())
    check_same(run, expected)
    assert_allclose(run.updates["alpha"].to_list(), expected.rhos, rtol=1e-8)


# --------------------------------------------------------------------------- without any constant

AUTO = {
    "plain": Case(threshold=0.1, clock="own samples"),
    "S = 3": Case(S=3.0, d=5, N=2, threshold=0.1, clock="own samples"),
    "steps": Case(d=2, N=4, threshold=0.3, clock="steps"),
    "absent clients": Case(d=4, absent=True, threshold=0.1, clock="own samples"),
    "one client": Case(N=1, T=120, d=2, threshold=1.0, clock="own samples"),
    "never": Case(threshold=inf, T=40),
    "poisson": Case("poisson", threshold=0.1, clock="own samples"),
    "identity, R = 0.3": Case("identity", R=0.3, d=4, threshold=0.1, clock="own samples"),
    "identity, R = 2": Case("identity", R=2.0, S=3.0, d=2, threshold=1.0, clock="own samples"),
}


@pytest.mark.pairs
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("start", [1 / 64, 1.0, None], ids=["1/64", "1", "fixed ridge"])
@pytest.mark.parametrize("once", [True, False], ids=["one exchange", "several"])
@pytest.mark.parametrize("name", AUTO)
def test_the_algorithm_without_constants_makes_the_same_choices(name, once, start, engine):
    case = AUTO[name]
    expected = expected_auto(case, Bayes(), start, once)
    ridge = case.ridge if start is None else fg.Evidence(start=start)
    run = simulated_auto(case, Bayes(), engine, ridge, once)
    check_same(run, expected)
    assert run.updates["rounds"].to_list() == expected.rounds
    assert_allclose(run.updates["ridge"].to_list(), expected.lambdas, rtol=1e-9)


@pytest.mark.some(23)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["plain", "absent clients", "poisson", "identity, R = 0.3"])
@pytest.mark.parametrize("rule", UNPROVEN, ids=repr)
def test_each_rule_without_constants(rule, name, engine):
    case = AUTO[name]
    expected = expected_auto(case, rule, 1 / 64)
    run = simulated_auto(case, rule, engine, fg.Evidence())
    check_same(run, expected)
    if isinstance(rule, EpsilonGreedy | Thompson):
        assert_allclose(run.propensities, expected.propensities, rtol=1e-12)


# -------------------------------------------------------------------- the ONS family and its clocks

ONS = {
    "plain": Case(threshold=2.0, d=3, N=4),
    "S = 3": Case(S=3.0, threshold=1.0, d=2, ridge=0.5),
    "absent clients": Case(absent=True, threshold=0.5, d=4),
    "poisson": Case("poisson", threshold=1.0),
    "identity, R = 0.3": Case("identity", R=0.3, threshold=1.0, d=5),
}


@pytest.mark.pairs
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("exploration", [1.0, 0.1])
@pytest.mark.parametrize("clock", ["steps", "own samples"])
@pytest.mark.parametrize("ellipsoid", ["lemma", "iterate"])
@pytest.mark.parametrize("name", ONS)
def test_fedglb_ucb_with_both_clocks_and_both_ellipsoids(
    name, ellipsoid, clock, exploration, engine
):
    case = ONS[name]
    _, arms, rewards, active = case.data()
    given = plain.Problem(**{**case.given().__dict__, "exploration": exploration})
    expected = plain.fedglb_ucb(
        given, arms, rewards, case.threshold, active, clock=clock, ellipsoid=ellipsoid
    )
    algorithm = fg.fedglb_ucb(
        case.threshold,
        fg.Newton(tolerance=1e-26),
        exploration=exploration,
        ridge=case.ridge,
        delta=case.delta,
        confidence=fg.Iterate() if ellipsoid == "iterate" else None,
        clock=clock,
    )
    run = fg.simulate(algorithm, case.environment(), engine=engine)
    assert_array_equal(run.choices, expected.choices)
    assert updates(run) == expected.syncs
    assert len(expected.syncs) > 1
    assert_allclose(run.theta, expected.thetas[-1], atol=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ONS)
def test_dislinucb_with_the_clock_of_own_samples(name, engine):
    case = ONS[name]
    _, arms, rewards, active = case.data()
    expected = plain.dislinucb(
        case.given(), arms, rewards, case.threshold, active, clock="own samples"
    )
    algorithm = fg.dislinucb(
        case.threshold, ridge=case.ridge, delta=case.delta, clock="own samples"
    )
    run = fg.simulate(algorithm, case.environment(), engine=engine)
    assert_array_equal(run.choices, expected.choices)
    assert updates(run) == expected.syncs
    assert len(expected.syncs) > 1
