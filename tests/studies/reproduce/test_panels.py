"""A study across values of a parameter: from a file to its figure, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import fedglb as fg
from fedglb.cli import app
from fedglb.studies import read_experiment
from fedglb.studies.reproduce import estimate, read_plan, reproduce
from fedglb.studies.reproduce.panels import each_panel, load_panels
from fedglb.studies.reproduce.plan import IN_PANELS
from fedglb.studies.results import store

EPSILONS = [{"epsilon": 8.0, "delta": 1e-6}, {"epsilon": 1.0, "delta": 1e-6}]
FILE = {
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("panels") / "out"
    reproduce(FILE, None, place, jobs=1)
    return place


def test_from_a_file_to_a_figure(folder):
    study = load_panels(folder)
    assert [panel.title for panel in study.panels] == ["three", "six"]
    assert [panel.result.manifest["clients"] for panel in study.panels] == [3, 6]
    said = json.loads((folder / "summary.json").read_text())
    rows = [row for row in said["table"] if row["panel"] == "six"]
    assert [(row["algorithm"], row["epsilon"]) for row in rows[:4]] == [
        ("sums", 1.0), ("sums", 8.0), ("no noise", None), ("fedglb-ucb", None),
    ]  # fmt: skip
    assert len(rows) == 5  # of the two that never communicate, the better one
    runs = study.panels[1].result.runs
    means = runs.group_by("algorithm", "label").agg(pl.col("regret").mean())
    alone = means.filter(pl.col("algorithm").is_in(["n-ons-glm", "n-ucb-glm"]))
    assert rows[4]["regret"] == pytest.approx(alone["regret"].min())
    least = means.filter(algorithm="fedglb-ucb")["regret"].min()
    assert rows[3]["regret"] == pytest.approx(least)
    assert rows[3]["ratio"] == 1.0
    own = runs.filter(pl.col("algorithm") == "sums", pl.col("epsilon") == 1.0)
    assert rows[0]["ratio"] == pytest.approx(own["regret"].mean() / least)
    assert rows[0]["median"] == pytest.approx(own["regret"].median())
    assert (folder / "figures" / "tiny.png").stat().st_size > 10_000
    page = (folder / "report.html").read_text()
    assert said["headline"] in page
    assert "too few for errors" in page


def test_a_second_time_nothing_is_run_again(folder, monkeypatch):
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def refuse(*arguments):
        raise AssertionError("a sweep was run again")

    monkeypatch.setattr(store.Store, "add", refuse)
    reproduce(FILE, None, folder, jobs=1)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


def test_the_report_again_from_what_is_there(folder, tmp_path):
    result = CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "again")])
    assert result.exit_code == 0, result.output
    for name in ("report.html", "summary.json", "figures/tiny.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_damaged_folder_is_refused(tmp_path):
    (tmp_path / "panels.json").write_text("{}")
    with pytest.raises(fg.InvalidInput, match="damaged"):
        load_panels(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"across": {"parameter": "epsilno", "against": "fedglb-ucb"}},
         r"across\.parameter = 'epsilno'.*did you mean epsilon"),
        ({"across": {"parameter": "exploration", "against": "n-ons-glm"}},
         r"across\.against = 'n-ons-glm'.*without exploration"),
        ({"across": {"parameter": "epsilon", "against": "sums"}},
         r"across\.against = 'sums'.*without epsilon"),
        ({"across": {"parameter": "epsilon"}}, "against"),
        ({"panel": [{"title": "a"}, {"title": "a"}]}, r"panel\[1\]\.title = 'a'"),
        ({"panel": [{"environment": {"clients": 6}}]}, r"panel\[0\]\.title = None"),
        ({"panel": [{"title": "a", "horizn": 6}]}, "horizn"),
        ({"search": {"seeds": [9], "exploration": [0.1], "algorithm": [{"name": "fedglb-ucb",
          "threshold": 1.0}]}, "algorithm": [FILE["algorithm"][2]]}, r"search.*beside \[across\]"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_before_anything_is_run(changes, words, tmp_path):
    with pytest.raises(fg.InvalidInput, match=words):
        reproduce({**FILE, **changes}, "full", tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


def test_panels_without_an_axis_are_refused(tmp_path):
    rest = {key: value for key, value in FILE.items() if key != "across"}
    with pytest.raises(fg.InvalidInput, match=r"panel.*without \[across\]"):
        reproduce(rest, "full", tmp_path / "out", jobs=1)


def test_a_sweep_refuses_the_keys_of_a_study():
    rest = {key: value for key, value in FILE.items() if key not in ("title", "panel")}
    with pytest.raises(fg.InvalidInput, match=r"across.*only `fedglb reproduce"):
        read_experiment(rest)


def test_an_estimate_counts_all_panels():
    made = estimate(FILE, jobs=1)
    assert (made.configurations, made.seeds, made.interactions) == (16, 2, 180)
    assert made.seconds > 0.0


def test_a_file_without_panels_is_one():
    rest = {key: value for key, value in FILE.items() if key != "panel"}
    assert list(each_panel(read_plan(rest, "full"))) == ["A tiny one"]


def test_a_quick_one_says_so_first(tmp_path):
    quick = {**FILE, "profile": {"quick": {"horizon": 10, "panel": [{"title": "one"}]}}}
    reproduce(quick, None, tmp_path / "out", jobs=1)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.index("This is a quick look") < page.index("<h1>")
    assert "fedglb reproduce tiny --full" in page


@pytest.mark.parametrize("name", IN_PANELS)
def test_the_studies_of_the_package_are_as_promised(name):
    quick, full = (each_panel(read_plan(name, profile)) for profile in ("quick", "full"))
    sizes = [
        (read.env.clients, read.horizon, len(read.seeds))
        for read in map(read_experiment, full.values())
    ]
    assert sizes == [(20, 2000, 20), (50, 1000, 20), (200, 2000, 20)]
    for tables in (*quick.values(), *full.values()):
        made = read_experiment(tables)
        private = [c.algorithm.privacy for c in made.configurations if c.algorithm.privacy]
        seen = {(p.noise, p.neighbours, p.epsilon, p.delta) for p in private}
        assert len(seen) == len(private) == 20
        assert np.unique([p.epsilon for p in private]).tolist() == [0.1, 0.5, 1.0, 2.0, 8.0]
        assert {p.delta for p in private} == {1e-6}
        for each in made.configurations:  # a label says what it is
            if (own := each.algorithm.privacy) is not None:
                place = {"sums": "secure sums", "silo": "silo noise"}[own.noise]
                ends = ", replace" if own.neighbours == "replace" else ""
                assert each.preset == place + ends
