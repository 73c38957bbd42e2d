"""What a federation agrees on: every fact, exact, and comparable."""

from __future__ import annotations

import inspect
import math
import sys

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation.agreement import Agreement, AgreementTable, stored_name
from fedglb.federation.preload import preload
from fedglb.parts.choice import Choice
from fedglb.parts.confidence import Confidence
from fedglb.parts.global_update import GlobalUpdate, Refit
from fedglb.parts.local_update import LocalUpdate
from fedglb.parts.local_update.lazy_ons import LazyRate
from fedglb.parts.memory import Memory
from fedglb.parts.own import FunctionPart
from fedglb.parts.spread import Pooled
from fedglb.parts.trigger import Trigger
from fedglb.problem_table import ProblemTable
from tests.federation.helpers.lossy_network import agreed


def make(**more) -> Agreement:
    given = {"problem": fg.Problem(dim=3), "algorithm": fg.fedglb_ucb(1.0), "max_clients": 4}
    return Agreement(**{**given, **more})


#: Kept and sent by every member: another name is another part to them.
STORED_NAMES = {
    "problem": {"Problem"},
    "link": {"identity", "logistic", "poisson", "probit"},
    "algorithm": {"Algorithm"},
    "local_update": {
        "Anchored", "AsyncRidge", "Calibrated", "EcoLog", "Frozen", "FrozenHessian", "FrozenRidge",
        "HessianMle", "LazyOns", "Mle", "Ons", "Personal", "Ridge",
    },
    "global_update": {
        "AGD", "ClosedForm", "Exchange", "LBFGS", "Newton", "OneExchange", "OnePass", "OnsStep",
    },
    "trigger": {"Always", "Event", "Geometric", "Growth", "Never", "Schedule"},
    "confidence": {
        "AsyncLinUCB", "EcoLogSet", "FedGLBRadius", "FedLinUCB", "Fixed", "GlobalModel", "Iterate",
        "LazyOnsRadius", "Linear", "Mixture", "OfuGlbSet", "OnePassRadius", "OwnModel", "Posterior",
    },
    "choice": {
        "Bank", "Bayes", "EpsilonGreedy", "Greedy", "OptimisticThompson", "Sigma", "Thompson",
        "Ucb",
    },
    "ridge": {"Evidence"},
    "rate": {"LazyRate"},
    "privacy": {"Gaussian"},
    "memory": {"Adaptive", "Forever", "HalfLife"},
    "spread": {"Pooled"},
}  # fmt: skip


def test_stored_names_are_a_decision():
    axes = {
        "link": fg.Link, "local_update": LocalUpdate, "global_update": GlobalUpdate,
        "trigger": Trigger, "confidence": Confidence, "choice": Choice,
        "memory": Memory,
    }  # fmt: skip
    found = {axis: {_stored(kind) for kind in _concrete(base)} for axis, base in axes.items()}
    single = {"problem": fg.Problem, "algorithm": fg.Algorithm, "rate": LazyRate}
    single |= {"ridge": fg.Evidence, "privacy": fg.GaussianMechanism, "spread": Pooled}
    found |= {axis: {_stored(kind)} for axis, kind in single.items()}
    assert found == STORED_NAMES


def _concrete(base: type) -> set[type]:
    """Return the package's own classes of an axis."""
    below = {kind for each in base.__subclasses__() for kind in {each, *_concrete(each)}}
    own = {kind for kind in below if kind.__module__.startswith("fedglb.") and _public(kind)}
    own.discard(Refit)  # made around a solver by an update: no algorithm names it
    own -= {kind for kind in own if issubclass(kind, FunctionPart)}  # no agreement names a function
    own -= {kind for kind in own if issubclass(kind, LocalUpdate) and not hasattr(kind, "step")}
    return {kind for kind in own if not inspect.isabstract(kind)}


def _public(kind: type) -> bool:
    """Return whether a class is in its module: not one of an example, or of the warm-up."""
    found = getattr(sys.modules[kind.__module__], kind.__name__, None)
    return found is kind and not kind.__name__.startswith("_")


def _stored(kind: type) -> str:
    return stored_name(object.__new__(kind))


def test_the_facts_of_an_agreement_are_these():
    assert make(algorithm=fg.fedglb_ucb(1.0, fg.Newton()), reward_limit=0.1).facts() == {
        "max_clients": "4",
        "reward_limit": "0.1",
        "features": "None",
        "revision": "1",
        "problem": "Problem",
        "problem.dim": "3",
        "problem.link": "logistic",
        "problem.radius": "1",
        "problem.noise": "None",
        "problem.curvature": "None",
        "problem.blocks": "None",
        "algorithm": "Algorithm",
        "algorithm.name": "FedGLB-UCB",
        "algorithm.local_update": "Ons",
        "algorithm.global_update": "Newton",
        "algorithm.global_update.tolerance": "None",
        "algorithm.global_update.stop": "certificate",
        "algorithm.global_update.rounds": "None",
        "algorithm.trigger": "Event",
        "algorithm.trigger.threshold": "1",
        "algorithm.trigger.clock": "steps",
        "algorithm.trigger.max_gain": "inf",
        "algorithm.trigger.share": "inf",
        "algorithm.confidence": "FedGLBRadius",
        "algorithm.ridge": "1",
        "algorithm.delta": "0.01",
        "algorithm.exploration": "1",
        "algorithm.centralised": "False",
        "algorithm.choice": "Ucb",
        "algorithm.choice.ties": "first",
        "algorithm.privacy": "None",
        "algorithm.memory": "Forever",
        "algorithm.spread": "None",
    }


def test_the_triggers_clock_is_a_fact():
    steps = make(algorithm=fg.fedglb_ucb(1.0, clock="steps"))
    assert steps.facts() == make().facts()
    own = make(algorithm=fg.fedglb_ucb(1.0, clock="own samples"))
    assert own.facts() == make().facts() | {"algorithm.trigger.clock": "own samples"}
    table = {"name": "fedglb-ucb", "threshold": 1, "solver": "agd", "clock": "own samples"}
    assert AgreementTable(4, ProblemTable(3), table).build() == own


def test_the_facts_of_a_part_within_a_part():
    choice = fg.EpsilonGreedy(0.25, fg.Thompson())
    facts = make(algorithm=fg.fedglb_mix(1.0, choice=choice, ridge=fg.Evidence(0.5))).facts()
    own = {k: v for k, v in facts.items() if k.startswith(("algorithm.choice", "algorithm.ridge"))}
    assert own == {
        "algorithm.choice": "EpsilonGreedy",
        "algorithm.choice.epsilon": "0.25",
        "algorithm.choice.rule": "Thompson",
        "algorithm.choice.rule.scale": "1",
        "algorithm.choice.rule.draws": facts["algorithm.choice.rule.draws"],
        "algorithm.ridge": "Evidence",
        "algorithm.ridge.start": "0.5",
    }
    assert int(facts["algorithm.choice.rule.draws"]) == fg.Thompson().draws
    other = make(algorithm=fg.fedglb_mix(1.0, choice=choice)).facts()
    assert other["algorithm.ridge"] == "1"
    assert "algorithm.ridge.start" not in other


@pytest.mark.parametrize(
    ("preset", "solver"),
    [
        ("fedglb-ucb", fg.Newton()),
        ("fedglb-mix", fg.OneExchange()),
        ("fedglb-auto", fg.OneExchange(float("inf"), "deviation")),
    ],
)
def test_a_federation_solves_in_few_rounds_unless_told_otherwise(preset, solver):
    table = AgreementTable(4, ProblemTable(3), {"name": preset, "threshold": 1.0})
    assert table.build().algorithm.solver == solver
    told = AgreementTable(4, ProblemTable(3), {**table.algorithm, "solver": "agd"})
    assert told.build().algorithm.solver == fg.AGD()


class Nameless(fg.Fixed):
    """A part of a user's own, that nobody could agree on."""


class Named(fg.Fixed):
    """Its name is its own, and not that of its base."""

    stored_name = "example.org/named"


def test_a_part_of_ones_own_is_agreed_on_by_the_name_it_has():
    with pytest.raises(InvalidInput, match=r"stored_name = 'Nameless' in class Nameless") as caught:
        make(algorithm=fg.fedglb_ucb(1.0, confidence=Nameless(0.3)))
    assert caught.value.argument == "algorithm.confidence"
    facts = make(algorithm=fg.fedglb_ucb(1.0, confidence=Named(0.3))).facts()
    assert facts["algorithm.confidence"] == "example.org/named"
    assert facts["algorithm.confidence.alpha"] == "0.3"


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, 1e300, 1 + 2**-52, 123456789.5])
def test_numbers_are_exact(value):
    assert float(make(reward_limit=value).facts()["reward_limit"]) == value


@pytest.mark.parametrize(
    ("one", "other"),
    [(2, 2.0), (2.0, np.float64(2)), (0.5, np.float32(0.5)), (2, np.int64(2)), (10**17, 1e17)],
)
def test_equal_numbers_are_equal_facts_however_written(one, other):
    first, second = (make(problem=fg.Problem(dim=3, radius=r, curvature=0.1)) for r in (one, other))
    assert first.differences(second.facts()) == []
    text = first.facts()["problem.radius"]
    assert float(text) == one
    other = make(problem=fg.Problem(dim=3, radius=np.float32(0.75), curvature=0.1))
    assert first.differences(other.facts()) == [
        f"problem.radius: '0.75', the federation has {text!r}"
    ]


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"max_clients": 5}, "max_clients"),
        ({"reward_limit": 3.0}, "reward_limit"),
        ({"revision": 2}, "revision"),
        ({"problem": fg.Problem(dim=3, curvature=0.1)}, "problem.curvature"),
        ({"problem": fg.Problem(dim=3, noise=0.1)}, "problem.noise"),
        ({"algorithm": fg.fedglb_ucb(math.nextafter(1.0, 2.0))}, "algorithm.trigger.threshold"),
        ({"algorithm": fg.fedglb_ucb(1.0, ridge=2.0)}, "algorithm.ridge"),
    ],
)
def test_what_differs_is_named(changed, name):
    [words] = make().differences(make(**changed).facts())
    assert words.startswith(f"{name}: ")


def test_missing_and_unknown_facts_differ():
    ours = make()
    facts = ours.facts() | {"weather": "fine"}
    del facts["problem.dim"]
    assert ours.differences(facts) == [
        "problem.dim: None, the federation has '3'",
        "weather: 'fine', the federation has None",
    ]


def test_rewards_are_those_of_the_link_within_the_limit():
    ours = make(problem=fg.Problem(dim=3, link=fg.Identity()), reward_limit=2.5)
    assert ours.check_reward(-2.5) == -2.5
    for wrong in (2.5000001, -3, math.nan):
        with pytest.raises(InvalidInput, match="reward"):
            ours.check_reward(wrong)
    with pytest.raises(InvalidInput, match="logistic"):
        make(reward_limit=5.0).check_reward(2.0)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"problem": 3}, "problem"), ({"algorithm": "fedglb"}, "algorithm"),
        ({"max_clients": 0}, "max_clients"), ({"reward_limit": 0.0}, "reward_limit"),
        ({"reward_limit": math.inf}, "reward_limit"),
        ({"algorithm": fg.one_ucb_glm()}, "centralised"),
        ({"algorithm": fg.fedglb_mix(1.0, fg.Bank(fg.Bayes()))}, r"choice = Bank.*without a bank"),
        ({"algorithm": fg.fedglb_ucb_1(5)}, "horizon"),
        ({"algorithm": fg.fedglb_ucb_2(5)}, "horizon"),
        ({"algorithm": fg.fedglb_ucb_3(5)}, "updates fit all samples"),
        ({"problem": fg.Problem(dim=1401)}, "problem.dim"),
    ],
)  # fmt: skip
def test_what_no_federation_can_agree_on(wrong, name):
    with pytest.raises(InvalidInput, match=name):
        make(**wrong)


def test_a_table_builds_the_same_agreement():
    table = AgreementTable(4, ProblemTable(3), {"name": "fedglb-ucb", "threshold": 1})
    assert table.build() == make(algorithm=fg.fedglb_ucb(1.0, fg.Newton()))
    assert table.build().facts() == make(algorithm=fg.fedglb_ucb(1.0, fg.Newton())).facts()
    wrong = AgreementTable(4, ProblemTable(3), {"name": "fedglb-ucb", "threshold": -1})
    with pytest.raises(InvalidInput, match=r"algorithm\.threshold"):
        wrong.build()
    with pytest.raises(InvalidInput, match=r"algorithm\.name"):
        AgreementTable(4, ProblemTable(3), {}).build()
    with pytest.raises(InvalidInput, match=r"problem\.link"):
        AgreementTable(4, ProblemTable(3, link="logit"), table.algorithm).build()


@pytest.mark.parametrize(
    "agreement",
    [
        agreed(),
        agreed(algorithm=fg.n_ons_glm()),
        agreed(algorithm=fg.n_ucb_glm()),
        make(problem=fg.Problem(3, fg.Identity()), algorithm=fg.dislinucb(1.0), reward_limit=0.01),
        make(problem=fg.Problem(3, fg.Poisson(), noise=1.0), reward_limit=0.5),
        make(problem=fg.Problem(1, fg.Probit())),
        make(algorithm=fg.fedglb_auto()),
        make(problem=fg.Problem(1, fg.Probit()), algorithm=fg.fedglb_auto()),
        make(algorithm=fg.fedglb_auto(choice=fg.EpsilonGreedy(0.1, fg.Thompson()))),
        make(algorithm=fg.fedglb_mix(1.0, ridge=fg.Evidence(), choice=fg.Bayes())),
        make(
            problem=fg.Problem(3, fg.Poisson(), noise=1.0),
            algorithm=fg.fedglb_mix(1.0),
            reward_limit=0.5,
        ),
    ],
)
def test_every_agreement_can_be_rehearsed(agreement):
    before = agreement.facts()
    preload(agreement)
    assert agreement.facts() == before


@pytest.mark.parametrize(
    "given",
    [
        {"choice": "os:mkdir"},
        {"choice": {"name": "os:mkdir", "path": "made"}},
        {"choice": {"name": "epsilon-greedy", "epsilon": 0.1, "rule": {"name": "os:mkdir"}}},
        {"solver": {"name": "os:mkdir", "path": "made"}},
        {"confidence": {"name": "os:mkdir", "path": "made"}},
    ],
)
def test_a_file_of_the_operator_runs_no_code_on_members_machines(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    table = AgreementTable(4, ProblemTable(3), {"name": "fedglb-private", "updates": 2, **given})
    with pytest.raises(InvalidInput, match=r"^algorithm\.(\w|\.)* = 'os:mkdir': .*name no code"):
        table.build()
    assert list(tmp_path.iterdir()) == []


def test_what_a_client_with_its_own_model_sends_has_no_privacy():
    """The refusals name the reason, not only the parameter."""
    problem = ProblemTable(3)
    private = {"name": "fedglb-personal", "privacy": {"epsilon": 1.0, "delta": 1e-6}}
    with pytest.raises(InvalidInput, match="its distance from the others"):
        AgreementTable(5, problem, private).build()
    with pytest.raises(InvalidInput, match="by subtraction; and clients with models of their own"):
        AgreementTable(5, problem, {"name": "fedglb-personal"}, minimum=3).build()
    built = AgreementTable(5, problem, {"name": "fedglb-personal", "effects": 7}).build()
    assert (built.effects, built.algorithm.spread) == (7, Pooled())
