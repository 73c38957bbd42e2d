"""From a file to a report, end to end, on a study of a moment."""

from __future__ import annotations

import copy
import importlib
import shutil
import tomllib
from dataclasses import asdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fedglb as fg
from fedglb.io.atomic import exclusive_lock
from fedglb.io.toml import to_toml
from fedglb.studies.report import write_report
from fedglb.studies.results import store
from fedglb.studies.results.study import load_study
from fedglb.studies.run.reproduce import reproduce
from fedglb.studies.run.search import candidates, searches
from fedglb.studies.spec.plan import read_plan
from tests.studies.report.made_study import undrawn
from tests.studies.spec.test_plan import FILE

module = importlib.import_module("fedglb.studies.run.reproduce")  # the function hides it


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "out"
    reproduce(FILE, "quick", folder, jobs=1)
    return folder


@pytest.fixture(scope="module", autouse=True)
def no_figures():
    """Figures take most of the time of a small study; `test_axis.py` and `report/` draw them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedglb.studies.report.report.drawn", undrawn)
        yield


@pytest.fixture
def study(finished, tmp_path):
    """The folder of a finished study, to be changed."""
    return shutil.copytree(finished, tmp_path / "out")


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_everything_is_there_and_says_the_same(study):
    about = load_study(study)
    assert about.profile == "quick"
    assert about.result.runs["exploration"].n_unique() == 1
    chosen = about.choice["chosen"]
    runs = about.result.runs
    if chosen["alpha"] is None:
        assert set(runs["exploration"]) == {chosen["exploration"]}
    else:
        assert set(runs["confidence"]) == {f"fixed={chosen['alpha']}"}
    assert set(runs["ridge"]) == {chosen["ridge"]}
    assert set(runs["seed"]) == {1, 2}
    assert set(about.baselines["seed"]) == {1, 2}
    assert set(about.baselines["name"]) == {
        "random play", "best-fitting logistic model", "best-fitting linear model",
    }  # fmt: skip
    assert "<html" in (study / "report.html").read_text()
    rows = [row["regrets"][0] for row in about.choice["tried"]]
    assert len(rows) == about.choice["candidates"] == 3
    # regrets below 1 count as 1, so that two of them are equally good
    assert max(about.choice["algorithms"][0]["regret_at_chosen"], 1.0) == max(min(rows), 1.0)


EACH = {
    **FILE,
    "algorithm": [
        {"name": "fedglb-ucb", "threshold": [0.1, 1.0]},
        {"name": "n-ons-glm"},
        {"name": "fedglb-auto", "ridge": 0.7, "defaults": False},
    ],
    "defaults": {"solver": "newton"},
    "search": {
        "choose": "for each", "seeds": [101, 102],
        "exploration": [0.05, 0.5, 5.0], "ridge": [0.5, 2.0],
        "algorithm": [{"name": "fedglb-ucb", "threshold": 1.0}, {"name": "n-ons-glm"}],
    },
}  # fmt: skip


def test_each_algorithm_has_the_setting_that_is_best_for_it_alone(tmp_path):
    reproduce(EACH, "full", tmp_path / "out", jobs=1)
    about = load_study(tmp_path / "out")
    runs = about.result.runs
    assert runs["label"].n_unique() == 4
    assert set(about.result.traces["label"]) == set(runs["label"])
    alone = {k: v for k, v in EACH.items() if k not in ("search", "profile", "defaults")}
    search = EACH["search"]
    for table in (
        {"name": "fedglb-ucb", "threshold": 1.0, "solver": "newton"},
        {"name": "n-ons-glm"},
    ):
        grid = {**table, "exploration": search["exploration"], "ridge": search["ridge"]}
        tables = {**alone, "seeds": search["seeds"], "algorithm": [grid]}
        tried = fg.sweep(tables, tmp_path / table["name"], jobs=1).runs
        means = tried.group_by("exploration", "ridge").agg(pl.col("regret").mean())
        regrets = {(e, r): max(regret, 1.0) for e, r, regret in means.iter_rows()}
        played = runs.filter(runs["algorithm"] == table["name"])
        (chosen,) = set(played["exploration", "ridge"].rows())
        assert regrets[chosen] == min(regrets.values())
    auto = runs.filter(runs["algorithm"] == "fedglb-auto")
    assert set(auto["ridge"]) == {0.7}
    assert set(auto["solver"]) != set(runs.filter(runs["algorithm"] == "fedglb-ucb")["solver"])
    assert "Each algorithm has its own setting" in (tmp_path / "out" / "report.html").read_text()


def test_what_takes_no_defaults_is_not_searched_for_either(tmp_path):
    joint = {**EACH, "search": {**EACH["search"], "choose": "jointly"}}
    reproduce(joint, "full", tmp_path / "out", jobs=1)
    runs = load_study(tmp_path / "out").result.runs
    assert set(runs.filter(runs["algorithm"] == "fedglb-auto")["ridge"]) == {0.7}
    tuned = runs.filter(runs["algorithm"] != "fedglb-auto")
    assert tuned["exploration", "ridge"].n_unique() == 1
    bad = {**EACH, "algorithm": [{"name": "n-ons-glm", "defaults": 1}]}
    with pytest.raises(fg.InvalidInput, match=r"algorithm\[0\].defaults = 1: .*false"):
        reproduce(bad, "full", tmp_path / "bad", jobs=1)


def test_a_second_time_nothing_is_run_again(study, monkeypatch):
    before = files(study)

    def refuse(*arguments):
        raise AssertionError("a sweep was run again")

    monkeypatch.setattr(store.Store, "add", refuse)
    monkeypatch.setattr(module, "fixed_models", refuse)
    reproduce(FILE, "quick", study, jobs=1)
    assert files(study) == before


def test_a_changed_line_is_another_question_in_the_same_folder(study):
    before = {path.name for path in (study / "sweeps").iterdir()}
    changed = copy.deepcopy(FILE)
    changed["algorithm"][0]["threshold"] = [0.2]
    report = reproduce(changed, "quick", study, jobs=1)
    after = {path.name for path in (study / "sweeps").iterdir()}
    assert len(after - before) == 1  # the sweep; the search is the same one
    assert before < after
    assert load_study(study).result.runs["threshold"].unique().to_list() == [0.2]
    longer = {**changed, "profile": {"quick": {**FILE["profile"]["quick"], "horizon": 10}}}
    short = load_study(study).baselines
    reproduce(longer, "quick", study, jobs=1)
    longer_too = load_study(study).baselines  # of the same horizon as the sweep
    assert (longer_too["regret"] > 1.2 * short["regret"]).to_list()[0]
    assert "0.2" in report.page.read_text()


SEARCHED = {
    **FILE, "horizon": 60,
    "search": {
        "seeds": [101, 102, 103], "exploration": [0.01, 0.1, 1.0, 10.0], "ridge": [0.1, 1.0],
        "algorithm": [{"name": "fedglb-ucb", "threshold": 1.0}, {"name": "n-ons-glm"}],
    },
}  # fmt: skip


def test_candidates_are_stopped_and_the_choice_is_that_of_the_full_search(tmp_path):
    reproduce(SEARCHED, "full", tmp_path / "out", jobs=1)
    choice = load_study(tmp_path / "out").choice
    plan = read_plan(SEARCHED, "full")
    every = candidates(plan.search)
    (tables,) = searches(plan, every, plan.search.seeds)
    runs = fg.sweep(tables, tmp_path / "full", jobs=1).runs
    regrets = runs["regret"].to_numpy().reshape(2, len(every), 3).mean(axis=2).T
    best = int(np.log(np.maximum(regrets, 1.0)).mean(axis=1).argmin())
    assert choice["chosen"] == asdict(every[best])
    assert choice["stopped"] > 0
    for row, full in zip(choice["tried"], regrets, strict=True):
        if row["steps"] == 180:
            assert row["regrets"] == pytest.approx(full, rel=1e-12)
        else:
            assert (np.array(row["regrets"]) <= full * (1 + 1e-12)).all()
    assert len(list((tmp_path / "out" / "races").iterdir())) == len(every) - 1
    page = (tmp_path / "out" / "report.html").read_text()
    assert "cannot win any more" in page
    assert "of these stopped early" in page


@pytest.mark.parametrize("moment", ["search, 3 of", "fixed models"])
def test_a_stopped_study_goes_on(tmp_path, moment):
    class Stop(Exception):
        pass

    def stop(text, status):
        if text.startswith(moment):
            raise Stop

    with pytest.raises(Stop):
        reproduce(SEARCHED, "full", tmp_path / "a", jobs=1, progress=stop)
    kept = files(tmp_path / "a" / "races")
    assert len(kept) == (3 if moment == "search, 3 of" else 7)
    assert not (tmp_path / "a" / "report.html").exists()
    reproduce(SEARCHED, "full", tmp_path / "a", jobs=1)
    reproduce(SEARCHED, "full", tmp_path / "b", jobs=1)
    assert kept.items() <= files(tmp_path / "a" / "races").items()
    a, b = load_study(tmp_path / "a"), load_study(tmp_path / "b")
    assert a.choice == b.choice
    assert a.result.runs.equals(b.result.runs)


def test_killed_between_two_files_the_study_is_still_one(study, monkeypatch):
    before = load_study(study)

    def killed(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.StudyFile, "to_json", killed)
    longer = {**FILE, "profile": {"quick": {**FILE["profile"]["quick"], "horizon": 10}}}
    with pytest.raises(KeyboardInterrupt):
        reproduce(longer, "quick", study, jobs=1)
    after = load_study(study)
    assert after.baselines.equals(before.baselines)
    assert after.result.runs.equals(before.result.runs)


def test_only_one_at_a_time(study):
    with exclusive_lock(study), pytest.raises(fg.InvalidInput, match=r"wait"):
        reproduce(FILE, "quick", study, jobs=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"algorithm": [{"name": "fedglb-ucb", "threshold": [0.1, "x"]}]}, r"threshold\[1\] = 'x'"),
        ({"problem": 5}, "problem = 5.*a table"),
        ({"search": {**FILE["search"], "seeds": [-1]}}, r"search.seeds\[0\] = -1"),
        (
            {"search": {**FILE["search"], "algorithm": [
                {"name": "n-ons-glm"}, {"name": "fedglb-ucb", "threshhold": 1.0},
            ]}},
            r"search.algorithm\[1\].threshhold",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_before_anything_is_run(change, said, tmp_path):
    with pytest.raises(fg.InvalidInput, match=said):
        reproduce({**FILE, **change}, "full", tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(fg.InvalidInput, match=r"folder = .*not a file"):
        reproduce(FILE, "quick", tmp_path / "out", jobs=1)
    assert (tmp_path / "out").read_text() == "mine"


def test_an_error_names_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\nhorizon = 5\nseeds = 1\n[problem]\ndim = 2\n'
        '[environment]\nclients = 1\narms = 2\n[[algorithm]]\nname = "fedglb-ucb"\n'
    )
    with pytest.raises(fg.InvalidInput, match=r"mine.toml: algorithm\[0\].threshold"):
        reproduce(path, "full", tmp_path / "out")


@pytest.mark.parametrize(
    ("preset", "measure"), [("n-ons-glm", "transfers"), ("dislinucb", "scalars")]
)
def test_a_plain_sweep_has_a_report_too(tmp_path, preset, measure):
    tables = {k: v for k, v in FILE.items() if k not in ("search", "profile")}
    table = {"name": preset} | ({"threshold": 1.0} if preset == "dislinucb" else {})
    fg.sweep({**tables, "algorithm": [table]}, tmp_path, jobs=1)
    about = load_study(tmp_path)
    assert (about.name, about.profile, about.measure, about.choice) == ("tiny", "", measure, None)
    assert about.baselines.is_empty()
    write_report(about, tmp_path)  # beside the sweep's own files
    assert load_study(tmp_path).result.runs.equals(about.result.runs)


@pytest.mark.parametrize("content", ["{", "{}", "[]", '{"name": 5}'])
def test_a_damaged_study_is_refused_by_name(study, content):
    (study / "study.json").write_text(content)
    with pytest.raises(fg.InvalidInput, match=r"study.json is damaged"):
        load_study(study)


def test_damaged_fixed_models_are_refused_and_measured_again(study):
    (path,) = (study / "fixed-models").iterdir()
    before = load_study(study).baselines
    for damage in (lambda: path.write_bytes(b"garbage"), path.unlink):
        damage()
        with pytest.raises(fg.InvalidInput, match=r"fixed-models/.* is damaged"):
            load_study(study)
        reproduce(FILE, "quick", study, jobs=1)
        assert load_study(study).baselines.equals(before)


def test_what_is_no_study_or_not_finished_is_refused(tmp_path):
    with pytest.raises(fg.InvalidInput, match=r"no manifest"):
        load_study(tmp_path / "nothing")
    (tmp_path / "stopped" / "sweeps").mkdir(parents=True)
    with pytest.raises(fg.InvalidInput, match=r"to resume"):
        load_study(tmp_path / "stopped")


@pytest.mark.parametrize("run", [reproduce, fg.sweep])
def test_the_file_is_parsed_once(run, tmp_path, monkeypatch):
    kept = ("name", "horizon", "seeds", "problem", "environment")
    text = to_toml({key: FILE[key] for key in kept})
    path = tmp_path / "tiny.toml"
    path.write_text(f'{text}\n[[algorithm]]\nname = "n-ons-glm"\nexploration = [0.1, 1.0]\n')
    parsed, loads = [], tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: parsed.append(text) or loads(text))
    run(path, folder=tmp_path / "out", jobs=1)
    assert parsed == [path.read_text()]
