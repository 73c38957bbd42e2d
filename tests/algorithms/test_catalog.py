"""Algorithms from names and numbers, as files and the command line give them."""

from __future__ import annotations

import pytest

import fedglb as fg
from fedglb.algorithms.catalog import all_parameters, build, parameters
from fedglb.parts.confidence import Iterate
from fedglb.parts.trigger import Event

CLOCKED = ("fedglb-ucb", "dislinucb", "fedglb-mix", "fedglb-auto", "fedglb-iterate")


@pytest.mark.parametrize("preset", CLOCKED)
def test_the_clock_by_name(preset):
    given = {"threshold": 0.5}
    default = "own samples" if preset in ("fedglb-auto", "fedglb-iterate") else "steps"
    assert build(preset, given).trigger == Event(0.5, default)
    assert build(preset, {**given, "clock": default}) == build(preset, given)
    for clock in ("steps", "own samples"):
        assert build(preset, {**given, "clock": clock}).trigger == Event(0.5, clock)
    with pytest.raises(fg.InvalidInput, match=r"clock = 'own': .* steps, own samples"):
        build(preset, {**given, "clock": "own"})


def test_only_event_triggers_have_a_clock():
    assert {preset for preset in fg.ALGORITHMS if "clock" in parameters(preset)} == set(CLOCKED)
    assert all_parameters()["clock"] is str
    with pytest.raises(fg.InvalidInput, match="clock"):
        build("fedglb-ucb-2", {"updates": 3, "clock": "steps"})


@pytest.mark.parametrize(
    ("preset", "given"),
    [("fedglb-ucb", {"threshold": 1.0}), ("fedglb-ucb-2", {"updates": 3}), ("n-ons-glm", {})],
)
def test_the_ellipsoid_around_the_iterate_by_name(preset, given):
    assert build(preset, {**given, "confidence": "iterate"}).confidence == Iterate()


def test_a_sweep_over_clocks():
    table = {
        "name": "clocks",
        "horizon": 10,
        "seeds": 1,
        "problem": {"dim": 2},
        "environment": {"clients": 2, "arms": 3},
        "algorithm": [
            {"name": "fedglb-ucb", "threshold": 1.0, "clock": ["steps", "own samples"]},
            {"name": "n-ons-glm", "confidence": ["lemma", "iterate"]},
        ],
    }
    made = fg.read_experiment(table).configurations
    assert [c.algorithm.trigger for c in made[:2]] == [Event(1.0), Event(1.0, "own samples")]
    assert [c.label for c in made] == [
        "FedGLB-UCB D=1 agd clock=steps",
        "FedGLB-UCB D=1 agd clock=own samples",
        "N-ONS-GLM confidence=lemma",
        "N-ONS-GLM confidence=iterate",
    ]
