"""The examples of strategies: each does what it is for."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fedglb as fg
from fedglb.studies.report.report import write_report
from fedglb.studies.results.study import study_of_sweep

FOLDER = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
PROBLEM = fg.Problem(dim=5, radius=3.0)
ENV = fg.Synthetic(PROBLEM, clients=6, arms=8)


def example(name: str) -> ModuleType:
    """Import an example."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def regrets(strategies: list[fg.Strategy], env: fg.Environment, horizon: int) -> np.ndarray:
    """Return the mean regret of each over three seeds."""
    every = [fg.compare(strategies, env, horizon, seed) for seed in (1, 2, 3)]
    return np.array([[run.regret for run in runs] for runs in every]).mean(axis=0)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_is_short(path):
    assert len(path.read_text().splitlines()) <= 80


def test_there_are_examples_of_four_kinds():
    assert [path.stem for path in SCRIPTS] == ["clustered", "fedavg", "median", "top_k"]


def test_averaging_helps_a_network_of_neurons():
    FedAvg = example("fedavg").FedAvg
    together, alone = regrets([FedAvg(), FedAvg(every=10**9)], ENV, 150)
    assert together < 0.5 * alone


def test_fedavg_in_a_sweep_of_20_seeds_on_two_processes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    tables = {
        "name": "fedavg", "horizon": 60, "seeds": 20,
        "problem": {"dim": 5, "radius": 3.0}, "environment": {"clients": 4, "arms": 6},
        "algorithm": [
            {"name": "fedavg:FedAvg", "every": [10, 30]}, {"name": "fedglb-auto", "label": "auto"},
        ],
    }  # fmt: skip
    result = fg.sweep(tables, tmp_path / "fedavg", jobs=2)
    runs = result.runs
    assert runs.height == 60
    assert runs["label"].unique(maintain_order=True).to_list() == [
        "FedAvg every=10", "FedAvg every=30", "auto",
    ]  # fmt: skip
    weights = 5 * 8 + 8 + 8
    fedavg = runs.filter(runs["label"] == "FedAvg every=10")
    assert set(fedavg["scalars"]) == {6 * 4 * (2 * weights + 1)}  # 6 averages; n with each upload
    again = fg.sweep(tables, tmp_path / "again", jobs=1)
    assert again.runs.equals(runs)
    report = write_report(study_of_sweep(tmp_path / "fedavg"), tmp_path / "report")
    assert "FedAvg" in report.page.read_text()


def test_compressed_gradients_have_few_bits_and_about_the_regret_of_whole_ones():
    TopK = example("top_k").TopK
    env = fg.Synthetic(fg.Problem(dim=10, radius=3.0), clients=6, arms=8)
    runs = [fg.compare([TopK(k=1), TopK(k=10)], env, 150, seed) for seed in (1, 2, 3)]
    up = [[run.ledger.filter(direction="up")["bits"][0] for run in each] for each in runs]
    assert up == [[450 * (16 + 32), 450 * 10 * (16 + 32)]] * 3  # an index and a value each
    few, whole = np.array([[run.regret for run in each] for each in runs]).mean(axis=0)
    assert few < 1.5 * whole


def test_clusters_are_found_where_there_are_groups():
    Clustered = example("clustered").Clustered
    env = fg.Grouped(ENV, groups=2, spread=3.0)
    found, together = regrets([Clustered(), Clustered(alpha=1e9)], env, 300)
    assert found < 0.5 * together


def test_a_median_withstands_a_client_that_lies():
    Median = example("median").Median
    robust, mean, honest = regrets(
        [Median(), Median(robust=False), Median(robust=False, liars=0)], ENV, 150
    )
    assert robust < 1.5 * honest < mean
