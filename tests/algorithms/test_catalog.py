"""Algorithms from names and numbers, as files and the command line give them."""

from __future__ import annotations

import pytest

import fedglb as fg
from fedglb.algorithms.catalog import all_parameters, build, parameters
from fedglb.parts.trigger import Event

CLOCKED = ("fedglb-ucb", "dislinucb", "fedglb-mix", "fedglb-auto", "fedglb-iterate")


@pytest.mark.parametrize("preset", CLOCKED)
def test_the_clock_by_name(preset):
    given = {"threshold": 0.5}
    default = "own samples" if preset in ("fedglb-auto", "fedglb-iterate") else "steps"
    most = 1.0 if preset == "fedglb-mix" else float("inf")
    assert build(preset, given).trigger == Event(0.5, default, most)
    assert build(preset, {**given, "clock": default}) == build(preset, given)
    for clock in ("steps", "own samples"):
        assert build(preset, {**given, "clock": clock}).trigger == Event(0.5, clock, most)
    with pytest.raises(fg.InvalidInput, match=r"clock = 'own': .*steps, own samples"):
        build(preset, {**given, "clock": "own"})


def test_only_event_triggers_have_a_clock():
    assert {preset for preset in fg.ALGORITHMS if "clock" in parameters(preset)} == set(CLOCKED)
    assert all_parameters()["clock"] is str
    with pytest.raises(fg.InvalidInput, match="clock"):
        build("fedglb-ucb-2", {"updates": 3, "clock": "steps"})


@pytest.mark.parametrize(
    ("preset", "given", "said"),
    [
        ("n-ons-glm", {"choice": "epsilon-greedy"}, r"choice\.epsilon = None.*epsilon-greedy:0\.1"),
        ("n-ons-glm", {"choice": "bank"}, r'choice\.index = None.*index = "bayes"'),
        ("fedglb-private", {"privacy": {"epsilon": 1.0}}, r"privacy\.delta = None.*delta = 1e-6"),
    ],
)
def test_an_option_that_is_missing_is_shown_with_an_example(preset, given, said):
    given = {"updates": 3, **given} if preset == "fedglb-private" else given
    with pytest.raises(fg.InvalidInput, match=said):
        build(preset, given)
