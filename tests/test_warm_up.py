"""After `fedglb warm-up` no process compiles anything."""

from __future__ import annotations

import pytest

from tests.kernels.cache_in_process import run

WARM_UP = """
from fedglb.cli import app
try:
    app(["warm-up", "--json"])
except SystemExit as ended:
    assert not ended.code
"""
AGENT = """
import tempfile
import numpy as np
import fedglb as fg
with tempfile.TemporaryDirectory() as folder:
    for explore in (0.0, 0.2):
        with fg.Agent.open(f"{folder}/{explore}.db", fg.Problem(dim=4), explore=explore) as agent:
            for _ in range(3):
                agent.observe(agent.choose(np.eye(4)).id, 1.0)
            agent.export()
"""
PRESETS = """
import fedglb as fg
from fedglb.algorithms.catalog import build, parameters
given = {"threshold": 1.0, "updates": 4}
for name in fg.ALGORITHMS:
    algorithm = build(name, {k: given[k] for k in parameters(name) if k in given})
    for problem in (fg.Problem(dim=5), fg.Problem(dim=2, link=fg.Poisson(), noise=1.0)):
        for engine in ("compiled", "reference"):
            fg.simulate(algorithm, fg.Synthetic(problem, 3, 7), 20, engine=engine)
"""
FEDERATION = """
import fedglb as fg
from fedglb.federation.agreement import Agreement
from fedglb.federation.warm_up import warm_up
for algorithm in (fg.fedglb_ucb(1.0, fg.Newton()), fg.fedglb_mix(1.0), fg.fedglb_auto()):
    warm_up(Agreement(fg.Problem(dim=6), algorithm, 3))
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    compiled, _, _ = run(WARM_UP, folder)
    assert compiled > 50
    return folder


@pytest.mark.parametrize(
    "script", [AGENT, FEDERATION, PRESETS], ids=["agent", "federation", "presets"]
)
def test_nothing_is_left_to_compile(warm, script):
    compiled, loaded, said = run(script, warm)
    assert (compiled, said) == (0, "")
    assert loaded > 0


def test_a_second_one_says_that_all_are_there(warm):
    compiled, loaded, _ = run(WARM_UP, warm)
    assert (compiled, loaded > 50) == (0, True)
