"""Studies with an axis, of the environment or of algorithms: from a file to a figure; estimates."""

from __future__ import annotations

import json

import polars as pl
import pytest
from typer.testing import CliRunner

import fedglb as fg
from fedglb.cli import app
from fedglb.studies.results import store
from fedglb.studies.results.study import load_study
from fedglb.studies.run.estimate import _Probe, estimate, shortened
from fedglb.studies.run.reproduce import reproduce
from fedglb.studies.spec.plan import read_plan
from tests.studies.spec.test_plan import FILE

VALUES = [0.0, 0.5, 2.0]
ALONG_ENVIRONMENT = {
    "name": "tiny", "title": "A tiny one", "horizon": 30, "seeds": 2, "problem": {"dim": 3},
    "environment": {"clients": 3, "arms": 4, "heterogeneity": [0.0, 0.5, 2]},
    "algorithm": [
        {"name": "fedglb-auto"},
        {"name": "n-ons-glm", "exploration": [0.1, 1.0]},
    ],
}  # fmt: skip
EPSILONS = [{"epsilon": 8.0, "delta": 1e-6}, {"epsilon": 1.0, "delta": 1e-6}]
ALONG_PARAMETER = {
    "name": "tiny", "title": "A tiny one", "horizon": 30, "seeds": 2, "problem": {"dim": 3},
    "environment": {"clients": 3, "arms": 4},
    "across": {"parameter": "epsilon", "against": "fedglb-ucb"},
    "panel": [{"title": "three"}, {"title": "six", "environment": {"clients": 6}}],
    "algorithm": [
        {"name": "fedglb-private", "label": "sums", "updates": 4, "privacy": EPSILONS},
        {"name": "fedglb-private", "label": "no noise", "updates": 4},
        {"name": "fedglb-ucb", "solver": "newton", "threshold": [0.1, 10.0]},
        {"name": "n-ons-glm", "exploration": [0.1, 1.0]},
        {"name": "n-ucb-glm"},
    ],
}  # fmt: skip
FILES = {"heterogeneity": ALONG_ENVIRONMENT, "epsilon": ALONG_PARAMETER}


def changed(**environment):
    return {**ALONG_ENVIRONMENT, "environment": {"clients": 3, "arms": 4, **environment}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    places = {axis: tmp_path_factory.mktemp(axis) / "out" for axis in FILES}
    for axis, place in places.items():
        reproduce(FILES[axis], None, place, jobs=1)
    return places


def test_along_a_key_of_the_environment(folders):
    folder = folders["heterogeneity"]
    study = load_study(folder)
    assert (study.axis, [cell.value for cell in study.cells]) == ("heterogeneity", VALUES)
    assert [cell.result.runs.height for cell in study.cells] == [6, 6, 6]
    summary = json.loads((folder / "summary.json").read_text())
    assert [row["heterogeneity"] for row in summary["table"]] == VALUES * 2
    assert (folder / "figures" / "heterogeneity.png").stat().st_size > 10_000
    page = (folder / "report.html").read_text()
    assert summary["headline"] in page
    assert "With fewer than 5 seeds there are no intervals" in page
    for row in summary["table"]:  # of several settings, the best at each value
        runs = study.cells[VALUES.index(row["heterogeneity"])].result.runs
        own = runs.filter(algorithm=row["algorithm"]).group_by("label").agg(pl.col("regret").mean())
        assert row["regret"] == pytest.approx(own["regret"].min())


def test_along_a_parameter_in_panels(folders):
    folder = folders["epsilon"]
    study = load_study(folder)
    assert [cell.panel for cell in study.cells] == ["three", "six"]
    assert [cell.result.manifest["clients"] for cell in study.cells] == [3, 6]
    summary = json.loads((folder / "summary.json").read_text())
    rows = [row for row in summary["table"] if row["panel"] == "six"]
    assert [(row["algorithm"], row["epsilon"]) for row in rows[:4]] == [
        ("sums", 1.0), ("sums", 8.0), ("no noise", None), ("fedglb-ucb", None),
    ]  # fmt: skip
    assert len(rows) == 5  # of the two that never communicate, the better one
    runs = study.cells[1].result.runs
    means = runs.group_by("algorithm", "label").agg(pl.col("regret").mean())
    alone = means.filter(pl.col("algorithm").is_in(["n-ons-glm", "n-ucb-glm"]))
    assert rows[4]["regret"] == pytest.approx(alone["regret"].min())
    least = means.filter(algorithm="fedglb-ucb")["regret"].min()
    assert rows[3]["regret"] == pytest.approx(least)
    assert rows[3]["ratio"] == 1.0
    own = runs.filter(pl.col("algorithm") == "sums", pl.col("epsilon") == 1.0)
    assert rows[0]["ratio"] == pytest.approx(own["regret"].mean() / least)
    assert rows[0]["median"] == pytest.approx(own["regret"].median())
    assert (folder / "figures" / "epsilon.png").stat().st_size > 10_000
    assert summary["headline"] in (folder / "report.html").read_text()


def test_panels_along_a_key_of_the_environment():
    both = {**ALONG_ENVIRONMENT, "panel": [{"title": "a"}, {"title": "b", "horizon": 9}]}
    cells = read_plan(both).cells
    assert [(cell.panel, cell.value) for cell in cells] == [(p, v) for p in "ab" for v in VALUES]
    assert [cell.tables["horizon"] for cell in cells] == [30] * 3 + [9] * 3
    assert cells[-1].tables["environment"]["heterogeneity"] == 2


@pytest.mark.parametrize("axis", [pytest.param("heterogeneity", marks=pytest.mark.slow), "epsilon"])
def test_a_second_time_nothing_is_run_and_the_report_is_the_same(
    axis, folders, tmp_path, monkeypatch
):
    before = {p: p.read_bytes() for p in folders[axis].rglob("*") if p.is_file()}
    monkeypatch.setattr(store.Store, "add", None)
    reproduce(FILES[axis], None, folders[axis], jobs=1)
    assert {p: p.read_bytes() for p in folders[axis].rglob("*") if p.is_file()} == before
    again = tmp_path / "again"
    result = CliRunner().invoke(app, ["report", str(folders[axis]), "--out", str(again)])
    assert result.exit_code == 0, result.output
    for name in ("report.html", "summary.json", f"figures/{axis}.svg", f"figures/{axis}.png"):
        assert (again / name).read_bytes() == (folders[axis] / name).read_bytes()


SEARCH = {
    "search": {"seeds": [9], "exploration": [0.1], "algorithm": [{"name": "n-ons-glm"}]},
    "algorithm": [{"name": "n-ons-glm"}],
}


def along(**changes):
    return {**ALONG_PARAMETER, **changes}


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (changed(delay=[0, 5], drift=[0.0, 0.1]), r"environment\.delay.*one axis"),
        (changed(delay=[5]), r"environment\.delay = \[5\].*at least two"),
        (changed(delay=[]), r"environment\.delay = \[\].*at least two"),
        (changed(delay=[5, 0]), "increasing order"),
        (changed(delay=[0, "x"]), r"environment\.delay\[1\] = 'x'"),
        (changed(participation=[0.5, 1.5]), r"environment\.participation = 1\.5"),
        ({**ALONG_ENVIRONMENT, **SEARCH}, r"search.*beside the axis heterogeneity"),
        (along(across={"parameter": "epsilno", "against": "fedglb-ucb"}),
         r"across\.parameter = 'epsilno'.*did you mean epsilon"),
        (along(across={"parameter": "exploration", "against": "n-ons-glm"}),
         r"across\.against = 'n-ons-glm'.*without exploration"),
        (along(across={"parameter": "epsilon", "against": "sums"}),
         r"across\.against = 'sums'.*without epsilon"),
        (along(across={"parameter": "epsilon"}), "against"),
        (along(environment={"clients": 3, "arms": 4, "delay": [0, 5]}),
         r"environment\.delay.*epsilon is on the axis"),
        (along(panel=[{"title": "a"}, {"title": "a"}]), r"panel\[1\]\.title = 'a'"),
        (along(panel=[{"environment": {"clients": 6}}]), r"panel\[0\]\.title = None"),
        (along(panel=[{"title": "a", "horizn": 6}]), "horizn"),
        (along(**SEARCH), r"search.*beside the axis epsilon"),
        ({k: v for k, v in ALONG_PARAMETER.items() if k != "across"}, "panel.*without an axis"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_before_anything_is_run(file, words, tmp_path):
    with pytest.raises(fg.InvalidInput, match=words):
        reproduce(file, "full", tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


def test_a_sweep_refuses_the_keys_of_a_study():
    rest = {key: value for key, value in ALONG_PARAMETER.items() if key not in ("title", "panel")}
    with pytest.raises(fg.InvalidInput, match=r"across.*only `fedglb reproduce"):
        fg.read_experiment(rest)


def test_a_quick_one_says_so_first(folders, tmp_path):
    assert "quick look" not in (folders["heterogeneity"] / "report.html").read_text()
    quick = {**ALONG_PARAMETER, "profile": {"quick": {"horizon": 10, "panel": [{"title": "one"}]}}}
    reproduce(quick, None, tmp_path / "out", jobs=1)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.index("This is a quick look") < page.index("<h1>")
    assert "The full study has 2 seeds, 30 steps, 3 clients, 8 configurations" in page
    assert "With fewer than 5 seeds" in page


NEW = {"groups": "group_spread", "outliers": "outliers", "jump": "jump"}


@pytest.mark.parametrize("name", ["heterogeneity", "drift", "delay", "participation", *NEW])
def test_the_studies_along_the_environment_are_as_promised(name):
    full = read_plan(name, "full")
    assert (full.name, full.axis) == (name, NEW.get(name, name))
    assert (full.tables["horizon"], full.tables["seeds"]) == (2000, 10)
    presets = {table["name"] for table in full.tables["algorithm"]}
    assert presets >= {"fedglb-auto", "n-ucb-glm"}
    if name not in NEW:
        assert presets >= {"fedglb-ucb", "n-ons-glm"}
    for cell in (*full.cells, *read_plan(name, "quick").cells):
        fg.read_experiment(cell.tables)


def test_the_study_of_privacy_is_as_promised():
    full = [fg.read_experiment(cell.tables) for cell in read_plan("privacy", "full").cells]
    sizes = [(read.env.clients, read.horizon, len(read.seeds)) for read in full]
    assert sizes == [(20, 2000, 20), (50, 1000, 20), (200, 2000, 20)]
    for each in (c for made in full for c in made.configurations):  # a label says what it is
        if (own := each.algorithm.privacy) is not None:
            assert own.epsilon in (0.1, 0.5, 1.0, 2.0, 8.0)
            assert own.delta == 1e-6
            place = {"sums": "secure sums", "silo": "silo noise"}[own.noise]
            assert each.preset == place + (", replace" if own.neighbours == "replace" else "")


# -- what a study would take, against what it takes where that can be counted ---------------------


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
    assert fg.read_experiment(short).horizon == 10


def test_an_estimate_counts_all_sweeps():
    made = estimate(ALONG_PARAMETER, jobs=1)
    assert (made.configurations, made.seeds, made.interactions) == (16, 2, 180)
    assert made.seconds > 0.0
    made = estimate(ALONG_ENVIRONMENT, jobs=1)
    assert (made.configurations, made.seeds, made.interactions) == (9, 2, 90)
