"""Every part conforms: frozen, documented, exported, and an algorithm is a composition of them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import pickle

import pytest

import fedglb as fg
from fedglb.algorithms.exchange import Exchange
from fedglb.parts import choice, confidence, global_update, local_update, memory, trigger
from fedglb.parts.local_update.lazy_ons import LazyRate

RATE = LazyRate(3)
#: The modules: `fedglb.algorithms` has functions of these names.
async_linucb, ecolog, fedlinucb, ofuglb = (
    importlib.import_module(f"fedglb.algorithms.{name}")
    for name in ("async_linucb", "ecolog", "fedlinucb", "ofuglb")
)
PARTS = {
    local_update.LocalUpdate: [
        local_update.Ons(), local_update.Frozen(), local_update.Ridge(), local_update.Mle(),
        local_update.LazyOns(RATE), local_update.Anchored(), local_update.Calibrated(),
        fedlinucb.FrozenRidge(), ecolog.EcoLog(), async_linucb.AsyncRidge(), ofuglb.HessianMle(),
        local_update.FrozenHessian(), local_update.Personal(),
    ],
    global_update.GlobalUpdate: [
        global_update.AGD(), global_update.Newton(), global_update.LBFGS(),
        global_update.OnsStep(RATE), global_update.ClosedForm(), global_update.OneExchange(),
        Exchange(), global_update.OnePass(),
    ],
    trigger.Trigger: [
        trigger.Event(1.0), trigger.Growth(1.0), trigger.Schedule(3), trigger.Geometric(3),
        trigger.Always(), trigger.Never(),
    ],
    confidence.Confidence: [
        confidence.FedGLBRadius(), confidence.Fixed(1.0),
        confidence.GlobalModel(), confidence.OwnModel(), confidence.LazyOnsRadius(RATE),
        confidence.Linear(), confidence.Iterate(), confidence.Mixture(), confidence.Posterior(),
        fedlinucb.FedLinUCB(1.0), ecolog.EcoLogSet(), async_linucb.AsyncLinUCB(),
        ofuglb.OfuGlbSet(), confidence.OnePassRadius(),
    ],
    choice.Choice: [
        choice.Ucb(), choice.Greedy(), choice.Sigma(), choice.Bayes(), choice.Thompson(),
        choice.OptimisticThompson(), choice.Bank(choice.Bayes()), choice.EpsilonGreedy(0.1),
    ],
    memory.Memory: [memory.Forever(), memory.HalfLife(5.0), memory.Adaptive()],
}  # fmt: skip
MODULES = {
    local_update.LocalUpdate: local_update, global_update.GlobalUpdate: global_update,
    trigger.Trigger: trigger, confidence.Confidence: confidence,
    choice.Choice: choice, memory.Memory: memory,
}  # fmt: skip


def named(base: type) -> set[type]:
    """The package's own parts, each with a stored name; other tests make some, too."""
    found = set()
    for kind in base.__subclasses__():
        if kind.__module__.startswith("fedglb."):
            found |= named(kind) | ({kind} if "stored_name" in vars(kind) else set())
    return found


@pytest.mark.parametrize("base", PARTS, ids=lambda b: b.__name__)
def test_every_part_of_the_package_is_listed_here(base):
    ours = named(base)
    assert ours == {type(part) for part in PARTS[base]}
    for kind in ours:
        if kind.__module__.startswith("fedglb.parts."):  # not of one paper's file
            assert getattr(MODULES[base], kind.__name__) is kind


@pytest.mark.parametrize(
    "part", [p for parts in PARTS.values() for p in parts], ids=lambda p: type(p).__name__
)
def test_parts_are_frozen_documented_and_comparable(part):
    assert dataclasses.is_dataclass(part)
    assert inspect.getdoc(type(part))
    assert part == dataclasses.replace(part) == pickle.loads(pickle.dumps(part))
    assert len({part, pickle.loads(pickle.dumps(part))}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.anything = 1


#: The presets past the paper: nothing multiplies their radii.
UNSCALED = {"fedglb-mix": fg.fedglb_mix, "fedglb-auto": fg.fedglb_auto}
#: And the one on a schedule, which takes a radius, but nothing that multiplies it.
PRIVATE = "fedglb-private"
#: And the one for clients that differ.
PERSONAL = "fedglb-personal"
SCALED = {
    name: preset
    for name, preset in fg.ALGORITHMS.items()
    if name not in {*UNSCALED, PERSONAL, PRIVATE}
}


def test_the_contracts_names_and_defaults():
    assert len(SCALED) == len(fg.ALGORITHMS) - 4
    for name, preset in SCALED.items():
        defaults = {k: p.default for k, p in inspect.signature(preset).parameters.items()}
        assert defaults["exploration"] == 1.0
        assert defaults["ridge"] == 1.0
        assert defaults["delta"] == 0.01
        needed = {k: 3 for k, default in defaults.items() if default is inspect.Parameter.empty}
        published = name != "fedglb-iterate"  # which is one by its radius
        assert published == (preset(**needed).choice == fg.Ucb("first"))
        if published:
            assert defaults["confidence"] is None
        if "solver" in defaults:
            assert preset(**{next(iter(defaults)): 3}).solver == fg.AGD()
    for preset in UNSCALED.values():
        names = inspect.signature(preset).parameters
        assert "exploration" not in names
        assert names["confidence"].default is None
        assert preset(threshold=3.0).exploration == 1.0
    repaired = fg.fedglb_ucb(3.0, confidence=fg.Iterate(), clock="own samples", choice=fg.Ucb())
    assert fg.fedglb_iterate(3.0) == dataclasses.replace(repaired, name="FedGLB-Iterate")
    assert fg.fedglb_mix(3.0).choice == fg.Ucb()
    assert (fg.fedglb_mix(3.0).ridge, fg.fedglb_mix(3.0).delta) == (1.0, 0.01)
    assert fg.fedglb_mix(3.0).solver == fg.OneExchange()
    assert fg.fedglb_auto().choice == fg.OptimisticThompson()
    assert fg.fedglb_auto().ridge == fg.Evidence()
    assert fg.fedglb_auto().solver == fg.OneExchange(math.inf, "deviation")
    assert (fg.fedglb_mix(3.0).trigger.clock, fg.fedglb_auto().trigger.clock) == (
        "steps", "own samples",
    )  # fmt: skip
    for solver in (fg.AGD(), fg.Newton(), fg.LBFGS()):
        assert solver.tolerance is None
        assert solver.stop == "certificate"


def test_the_private_presets_names_and_defaults():
    names = inspect.signature(fg.ALGORITHMS[PRIVATE]).parameters
    defaults = {k: p.default for k, p in names.items()}
    assert list(names)[:3] == ["updates", "first", "privacy"]
    assert defaults["updates"] is inspect.Parameter.empty
    assert all(defaults[k] is None for k in ("first", "privacy", "growth", "confidence", "choice"))
    assert (defaults["ridge"], defaults["delta"]) == (1.0, 0.01)
    plain = fg.fedglb_private(7)
    assert plain.trigger == trigger.Geometric(7)
    assert (plain.privacy, plain.choice, plain.exploration) == (None, fg.Bayes(), 1.0)
    assert not plain.local_update.learns
    assert plain.max_updates is None  # without privacy nothing is used up
    private = fg.fedglb_private(7, privacy=fg.GaussianMechanism(1.0, 1e-6))
    assert private.max_updates == 7
    assert dataclasses.replace(private, privacy=None) == plain
    assert fg.fedglb_private(7, confidence=fg.Fixed(0.2)).choice == fg.Ucb()


def test_the_solver_has_one_name_for_users():
    solver = fg.Newton(tolerance=1e-9)
    algorithm = fg.fedglb_ucb(threshold=3.0, solver=solver)
    assert algorithm.solver is algorithm.global_update is solver
    with pytest.raises(fg.InvalidInput) as error:
        fg.fedglb_ucb(threshold=3.0, solver="newton")
    assert error.value.argument == "solver"
    with pytest.raises(fg.InvalidInput) as error:
        fg.fedglb_ucb(threshold=3.0, solver=global_update.ClosedForm())
    assert error.value.argument == "solver"
    with pytest.raises(fg.InvalidInput) as error:
        fg.Algorithm("x", local_update.Ons(), solver, trigger.Never(), fg.Fixed(1.0))
    assert error.value.argument == "solver"


FIXED = fg.Fixed(1.0)


@pytest.mark.parametrize(
    "parts",
    [
        (local_update.Frozen(), fg.Newton(), trigger.Event(1.0), FIXED),
        (local_update.Mle(), fg.Newton(), trigger.Always(), FIXED),
        (local_update.Ridge(), fg.Newton(), trigger.Always(), FIXED),
        (local_update.Ons(), global_update.ClosedForm(), trigger.Always(), FIXED),
        (local_update.Ons(), global_update.OnsStep(RATE), trigger.Always(), FIXED),
        (local_update.Ons(), fg.OneExchange(), trigger.Always(), FIXED),
        (local_update.Ons(), fg.Newton(), trigger.Always(), confidence.Mixture()),
        (local_update.Ons(), None, trigger.Always(), FIXED),
        (local_update.Ons(), fg.Newton(), trigger.Never(), FIXED),
        (
            local_update.Ridge(), global_update.ClosedForm(), trigger.Always(),
            confidence.FedGLBRadius(),
        ),
    ],
    ids=str,
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(parts):
    with pytest.raises(fg.InvalidInput):
        fg.Algorithm("x", *parts)


@pytest.mark.some(5)
@pytest.mark.parametrize("preset", list(fg.ALGORITHMS.values()), ids=list(fg.ALGORITHMS))
def test_fixed_fits_every_algorithm(preset):
    first = next(iter(inspect.signature(preset).parameters))
    needed = {first: 3} if first in ("threshold", "updates") else {}
    if not {"confidence", "exploration"} <= set(inspect.signature(preset).parameters):
        radius = {"confidence": fg.Fixed(0.4), "exploration": 0.1}
        algorithm = dataclasses.replace(preset(**needed), **radius)
    else:
        algorithm = preset(**needed, confidence=fg.Fixed(0.4), exploration=0.1)
    env = fg.Synthetic(fg.Problem(2), clients=2, arms=3)
    seen = set()
    fg.simulate(
        algorithm, env, 6, engine="reference", observer=lambda t, i, client: seen.add(client.alpha)
    )
    assert seen == {0.4}
