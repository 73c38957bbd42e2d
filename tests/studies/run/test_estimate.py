"""What a study would take, against what it takes where that can be counted."""

from __future__ import annotations

from fedglb.studies import read_experiment
from fedglb.studies.run.estimate import _Probe, estimate, shortened
from fedglb.studies.run.reproduce import reproduce
from tests.studies.spec.test_plan import FILE


def test_runs_and_interactions_are_counted(tmp_path):
    made = estimate(FILE, "full", jobs=3)
    assert (made.configurations, made.seeds, made.runs, made.interactions) == (2, 2, 4, 40)
    assert (made.search_runs, made.search_interactions) == (6, 40)  # 2 λ × 3 × 1 seed
    assert (made.jobs, made.probe_runs, made.profile) == (3, 2, "full")
    assert made.seconds > 0
    reproduce(FILE, "full", tmp_path, jobs=1)
    size = sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert size < made.bytes < 10 * size


def test_time_grows_with_a_power_of_the_horizon():
    probe = _Probe(runs=4, steps=100, took=2.0, power=1.5, bytes_per_point=9.0)
    assert probe.seconds(100) == 0.5
    assert probe.seconds(400) == 4.0


def test_a_shorter_study_can_be_run():
    tables = {
        **{k: v for k, v in FILE.items() if k not in ("search", "profile")}, "horizon": 1000,
        "algorithm": [{"name": "fedglb-ucb-1", "updates": [1, 2, 500, 1000]},
                      {"name": "fedglb-ucb-2", "updates": {"from": 1, "to": 1000, "points": 4}}],
    }  # fmt: skip
    short = shortened(tables, 10)
    assert [t["updates"] for t in short["algorithm"]] == [[1, 5, 10], [1, 10]]
    assert read_experiment(short).horizon == 10
