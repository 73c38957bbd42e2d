"""After `fedglb warm-up` no process compiles anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedglb.kernels.cache import cache
from tests.kernels.cache_in_process import run
from tests.studies.tiny import toml

AGENT = """
import tempfile
import numpy as np
import fedglb as fg
schema = fg.Features(arm={"price": fg.Number([0.0, 1.0])})
with tempfile.TemporaryDirectory() as folder:
    for explore, d in ((0.0, 4), (0.2, 40)):
        with fg.Agent.open(f"{folder}/{explore}.db", fg.Problem(dim=d), explore=explore) as agent:
            for _ in range(3):
                agent.observe(agent.choose(np.eye(d)).id, 1.0)
            agent.preview(np.eye(d))
            agent.export()
    with fg.Agent.open(f"{folder}/records.db", features=schema) as agent:
        for k in range(60):
            arms = [{"price": 0.01 * k}, {"price": 0.5}]
            agent.observe(agent.choose(arms).id, k % 2)
        agent.preview(arms)
        assert agent.wait_for_model(1, 60.0)
"""
PRESETS = """
import fedglb as fg
from fedglb.algorithms.catalog import build, parameters
given = {"threshold": 1.0, "updates": 4}
algorithms = [
    build(name, {k: given[k] for k in parameters(name) if k in given}) for name in fg.ALGORITHMS
]
class Mine(fg.Choice):
    def score(self, arms, model, t):
        return model.mean + model.sd
algorithms.append(fg.fedglb_auto(choice=Mine()))
parts = lambda theta: theta, fg.Newton(), lambda total: total % 3 == 0, lambda samples: 0.3
algorithms.append(fg.Algorithm("functions", *parts, choice=lambda mean: mean))
algorithms.append(fg.fedglb_private(4, privacy=fg.GaussianMechanism(1.0, 1e-6, reward_limit=9.0)))
for algorithm in algorithms:
    for problem in (fg.Problem(dim=5), fg.Problem(dim=2, link=fg.Poisson(), noise=1.0)):
        for engine in ("compiled", "reference"):
            fg.simulate(algorithm, fg.Synthetic(problem, 3, 7), 20, engine=engine)
"""
FEDERATION = """
import fedglb as fg
from fedglb.federation.agreement import Agreement
from fedglb.federation.preload import preload
for algorithm in (fg.fedglb_ucb(1.0, fg.Newton()), fg.fedglb_mix(1.0), fg.fedglb_auto()):
    preload(Agreement(fg.Problem(dim=6), algorithm, 3))
"""
SWEEP = """
import fedglb as fg
fg.sweep(fg.read_experiment({!r}), {!r}, jobs=2)
"""


def warm_up(folder, *options):
    return subprocess.run(
        [sys.executable, "-m", "fedglb", "warm-up", *options], capture_output=True, text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)}, check=False,
    )  # fmt: skip


def test_a_presets_runs_use_every_kernel_that_other_runs_of_it_do():
    script = """
import fedglb as fg
from fedglb.kernels.cache import counts
from fedglb.warm_up import runs
for name, run in runs():
    if name.startswith("fedglb-ucb, "):
        run()
warm = counts.compiled + counts.loaded
for engine in ("compiled", "reference"):
    fg.simulate(fg.fedglb_ucb(1.0), fg.Synthetic(fg.Problem(dim=5), 3, 7), 20, engine=engine)
assert counts.compiled + counts.loaded == warm > 10
"""
    run(script, Path(cache().folder).parent)


@pytest.mark.slow
def test_after_it_nothing_is_left_to_compile(tmp_path):
    """One test: it takes 40 seconds of a processor to compile all."""
    folder = tmp_path / "kernels"
    said = json.loads(warm_up(folder, "--json").stdout)
    assert said["folder"].startswith(str(folder))
    assert said["compiled"] > 50
    assert said["bytes"] > 100_000
    files = sorted(folder.rglob("*"))
    sweep = SWEEP.format(toml(tmp_path), str(tmp_path / "out"))
    for script in (AGENT, FEDERATION, PRESETS, sweep):
        compiled, loaded, errors = run(script, folder)
        assert (compiled, loaded > 0 or script is sweep, errors) == (0, True, ""), script
    assert sorted(folder.rglob("*")) == files  # nor did the sweep's workers
    done = warm_up(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"all are there ({said['compiled']} in all)")
    assert str(folder) in done.stdout


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    done = warm_up(tmp_path / "file" / "folder")
    assert (done.returncode, done.stdout) == (2, "")
    assert "NUMBA_CACHE_DIR" in done.stderr
    assert "can write to" in done.stderr
