"""A study across values of the environment: from a file to its figure, and what is refused."""

from __future__ import annotations

import json

import polars as pl
import pytest
from typer.testing import CliRunner

import fedglb as fg
from fedglb.cli import app
from fedglb.studies.report.across import Across
from fedglb.studies.reproduce import read_plan, reproduce
from fedglb.studies.reproduce.across import load_across
from fedglb.studies.reproduce.plan import ACROSS
from fedglb.studies.results import store

FILE = {
    "name": "tiny", "title": "A tiny one", "horizon": 30, "seeds": 2, "problem": {"dim": 3},
    "environment": {"clients": 3, "arms": 4, "heterogeneity": [0.0, 0.5, 2]},
    "algorithm": [
        {"name": "fedglb-auto"},
        {"name": "n-ons-glm", "exploration": [0.1, 1.0]},
    ],
}  # fmt: skip


def changed(**environment):
    return {**FILE, "environment": {"clients": 3, "arms": 4, **environment}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("across") / "out"
    reproduce(FILE, None, place, jobs=1)
    return place


def test_from_a_file_to_a_figure(folder):
    study = load_across(folder)
    assert isinstance(study, Across)
    assert (study.key, study.values) == ("heterogeneity", (0.0, 0.5, 2))
    assert [result.runs.height for result in study.results] == [6, 6, 6]
    said = json.loads((folder / "summary.json").read_text())
    assert [row["heterogeneity"] for row in said["table"]] == [0.0, 0.5, 2.0] * 2
    assert (folder / "figures" / "heterogeneity.png").stat().st_size > 10_000
    page = (folder / "report.html").read_text()
    assert said["headline"] in page
    assert "too few for intervals" in page
    for row in said["table"]:  # of several settings, the best at each value
        runs = study.results[[0.0, 0.5, 2].index(row["heterogeneity"])].runs
        own = runs.filter(algorithm=row["algorithm"]).group_by("label").agg(pl.col("regret").mean())
        assert row["regret"] == pytest.approx(own["regret"].min())


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
    again = tmp_path / "again"
    for name in ("report.html", "summary.json", "figures/heterogeneity.svg"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def test_a_damaged_folder_is_refused(folder, tmp_path):
    (tmp_path / "across.json").write_text("{}")
    with pytest.raises(fg.InvalidInput, match="damaged"):
        load_across(tmp_path)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (changed(delay=[0, 5], drift=[0.0, 0.1]), r"environment\.delay.*one key is varied"),
        (changed(delay=[5]), r"environment\.delay = \[5\].*at least two"),
        (changed(delay=[]), r"environment\.delay = \[\].*at least two"),
        (changed(delay=[5, 0]), "increasing order"),
        (changed(delay=[0, "x"]), r"environment\.delay\[1\] = 'x'"),
        (changed(participation=[0.5, 1.5]), r"environment\.participation = 1\.5"),
        ({**FILE, "search": {
            "seeds": [9], "exploration": [0.1], "algorithm": [{"name": "n-ons-glm"}],
        }, "algorithm": [{"name": "n-ons-glm"}]}, r"search.*no such table beside a list"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_before_anything_is_run(file, words, tmp_path):
    with pytest.raises(fg.InvalidInput, match=words):
        reproduce(file, "full", tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ACROSS)
def test_the_studies_of_the_package_are_as_promised(name):
    quick, full = read_plan(name, "quick"), read_plan(name, "full")
    assert full.name == name
    assert isinstance(full.tables["environment"][name], list)
    assert (full.tables["horizon"], full.tables["seeds"]) == (2000, 10)
    assert quick.tables["environment"]["clients"] < full.tables["environment"]["clients"]
    presets = {table["name"] for table in full.tables["algorithm"]}
    assert presets == {"fedglb-auto", "fedglb-ucb", "n-ucb-glm", "n-ons-glm"}


def test_a_quick_one_says_so_first(folder, tmp_path):
    assert "quick look" not in (folder / "report.html").read_text()
    quick = {**FILE, "profile": {"quick": {"horizon": 10}}}
    reproduce(quick, None, tmp_path / "out", jobs=1)
    page = (tmp_path / "out" / "report.html").read_text()
    first = page.index("This is a quick look")
    assert first < page.index("<h1>")
    assert "fedglb reproduce tiny --full" in page
    assert "With fewer than 5 seeds" in page
