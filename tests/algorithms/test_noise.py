"""R of Poisson rewards: asked for by the algorithms that use it, and by no other."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fedglb as fg
from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.catalog import build, parameters

HORIZON = 12
NEEDLESS = {
    "fedglb-auto", "fedglb-mix", "fedglb-personal", "fedglb-private", "n-ecolog", "n-ofuglb",
    "one-ecolog", "one-ofuglb",
}  # fmt: skip


def algorithm(preset):
    """The preset, with values for what it requires."""
    empty = inspect.Parameter.empty
    return build(preset, {k: 2 for k, v in parameters(preset).items() if v is empty})


def run(preset, noise, engine="compiled"):
    env = fg.Synthetic(fg.Problem(3, fg.Poisson(), noise=noise), clients=2, arms=4)
    return fg.simulate(algorithm(preset), env, HORIZON, seed=1, engine=engine)


@pytest.mark.parametrize("preset", ALGORITHMS)
def test_who_does_not_ask_for_it_does_not_use_it(preset):
    if preset not in NEEDLESS:
        with pytest.raises(fg.InvalidInput, match=r"^noise = None: .* poisson rewards have no"):
            run(preset, None)
        return
    without = run(preset, None)
    assert without.parameters["noise"] is None
    for engine in ("compiled", "reference"):
        np.testing.assert_array_equal(run(preset, None, engine).choices, without.choices)
        np.testing.assert_array_equal(run(preset, 7.0, engine).choices, without.choices)


def test_a_part_that_needs_it_is_refused_also_in_an_algorithm_that_does_not():
    problem = fg.Problem(3, fg.Poisson())
    fg.fedglb_auto().setting(problem, 2, None)
    with pytest.raises(fg.InvalidInput, match="noise = None"):  # its dispersion is R²
        fg.dislinucb(1.0, confidence=fg.Fixed(0.3)).setting(problem, 2, None)


def test_an_agent_alone_with_counts(tmp_path):
    with fg.Agent.open(tmp_path / "agent.db", fg.Problem(3, fg.Poisson())) as agent:
        for count in (0.0, 3.0, 17.0):
            agent.observe(agent.choose(np.eye(3)).id, count)
        assert agent.status.samples == 3
