"""Seeds that are the same run are no replicates: results say so and have no interval."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest

import fedglb as fg
from fedglb.cli.sweep import _plain, _show, summarise
from fedglb.studies.report import write_report
from fedglb.studies.results.study import load_study
from fedglb.studies.run.fixed_models import fixed_models

PROBLEM = fg.Problem(dim=2)
UCB, RANDOM = fg.fedglb_ucb(1.0), fg.fedglb_auto(choice=fg.Thompson())
SAID = (
    "No replicates: arms and rewards are recorded and the algorithm draws nothing, so every seed "
    "gives the same run"
)
SEEDS = 5  # enough for intervals


def recording(seed=0):
    drawn = next(fg.Synthetic(PROBLEM, clients=2, arms=3).blocks(20, seed))
    return fg.Recorded(PROBLEM, drawn.arms, drawn.means, drawn.uniforms)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    algorithms = {"UCB": UCB, "random": RANDOM}
    for name, some in (("both", algorithms), ("same", {"UCB": UCB})):
        experiment = fg.Experiment.of(some, recording(), seeds=SEEDS, name=name)
        fg.sweep(experiment, folder / name, jobs=1)
    return folder


def test_what_draws_is_known():
    private = fg.fedglb_private(2, privacy=fg.GaussianMechanism(epsilon=1.0, delta=1e-6))
    assert [a.randomised for a in (UCB, RANDOM, private)] == [False, True, True]
    env = recording()
    assert not fg.simulate(UCB, env).parameters["randomised"]
    assert fg.simulate(RANDOM, env).parameters["randomised"]
    assert fg.simulate(UCB, fg.Synthetic(PROBLEM, 2, 3), 5).parameters["randomised"]


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_ties_make_seeds_replicates_where_there_are_any(engine):
    """In the first step all arms of norm 1 tie; propensities are kept up to the last tie."""
    drawn = next(fg.Synthetic(PROBLEM, clients=2, arms=3).blocks(20, 0))
    scaled = drawn.arms * np.array([1.0, 0.9, 0.8])[:, None]
    for arms, ties in ((drawn.arms, True), (scaled, False)):
        env = fg.Recorded(PROBLEM, arms, drawn.means, drawn.uniforms)
        runs = [fg.simulate(fg.fedglb_mix(1.0), env, seed=s, engine=engine) for s in range(9)]
        assert {run.parameters["randomised"] for run in runs} == {ties}
        assert (len({run.choices.tobytes() for run in runs}) > 1) == ties
        for run in runs:
            tied = np.flatnonzero((run.propensities < 1.0).any(axis=1)).tolist()
            assert tied[:1] == [0] * ties
            assert len(run.drawn) == max(tied, default=-1) + 1 < 20
            assert set(run.propensities[0]) == {1 / 3 if ties else 1.0}
            assert not run.propensity_errors.any()


def test_the_table_of_a_sweep(swept, capsys):
    result = fg.load_sweep(swept / "both")
    assert result.runs.height == 2 * SEEDS
    rows = {row["label"]: row for row in summarise(result.runs).to_dicts()}
    assert (rows["UCB"]["seeds"], rows["random"]["seeds"]) == (1, SEEDS)
    assert rows["UCB"]["standard_error"] is None
    assert rows["random"]["standard_error"] > 0.0
    _show(result, summarise(result.runs), swept)
    said = " ".join(capsys.readouterr().out.split())
    assert f"{SAID} of UCB. It counts once, without an interval." in said
    assert _plain(result, summarise(result.runs), swept)["note"].startswith(f"{SAID} of UCB.")
    same = fg.load_sweep(swept / "same")
    _show(same, summarise(same.runs), swept)
    said = " ".join(capsys.readouterr().out.split())
    assert f"{SAID}. It counts" in said
    assert "s.e." not in said


def test_the_card_of_a_sweep(swept):
    html = fg.load_sweep(swept / "same")._repr_html_()
    assert SAID in html
    assert " ± " not in html.replace("regret ± s.e.", "")


def test_a_plot_of_a_sweep_and_of_runs(swept):
    one = "every seed gives the same run"
    runs = [run for seed in range(3) for run in fg.compare([UCB, RANDOM], recording(), seed=seed)]
    for given in (fg.load_sweep(swept / "both"), runs):
        (axes,) = fg.plot(given).axes
        assert len(axes.collections) == 1  # the band of the random one
        assert axes.texts[0].get_text().endswith(f"runs ± 1 standard error; no band: {one}")
    rules = fg.compare([fg.fedglb_auto(), RANDOM], recording())
    names = [text.get_text() for text in fg.plot(rules).legends[0].get_texts()]
    assert not any("randomised" in name for name in names)  # that follows from the rule
    for given in (fg.load_sweep(swept / "same"), runs[::2]):
        (axes,) = fg.plot(given).axes
        assert not axes.collections
        assert axes.texts[0].get_text() == f"{one}: no standard error"


def test_several_recordings_are_replicates_in_a_plot():
    runs = [fg.simulate(UCB, recording(seed), seed=seed) for seed in range(3)]
    (axes,) = fg.plot(runs).axes
    assert len(axes.collections) == 1
    assert axes.texts[0].get_text() == "mean of 3 runs ± 1 standard error"
    regrets = [run.regret for run in runs]
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(np.mean(regrets))


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("name", ["same", "both"])
def test_the_report(swept, name, tmp_path):
    report = write_report(load_study(swept / name), tmp_path)
    text = report.page.read_text(encoding="utf-8")
    assert SAID in text
    rows = {r["label"]: r for r in json.loads(report.summary.read_text())["table"]}
    for key in ("error", "median", "stuck", "low", "high"):
        assert rows["UCB"][key] is None, key
    assert rows["UCB"]["seeds"] == 1
    assert not rows["UCB"]["randomised"]
    assert "± 0<" not in text
    if name == "same":
        assert report.headline.startswith("The same run at every seed, too few to judge: UCB")
        assert "95 % interval" not in text
        assert "from 5 seeds on" not in text  # there are 5
    else:
        assert rows["random"]["error"] > 0.0
        first = next(row for row in re.findall(r"<tr>.*?</tr>", text, re.S) if ">UCB" in row)
        assert re.findall(r">([^<>]*)</td>", first)[2:5] == ["–", "–", "–"]


def test_a_study_with_such_a_setting_has_no_verdict():
    from fedglb.studies.report.claims import check
    from tests.studies.report.made_study import good, numbers

    configs = [{**config, "randomised": i > 0} for i, config in enumerate(good())]
    claims = check(numbers(*configs))
    assert claims
    assert {claim.verdict for claim in claims} == {"too few seeds to judge"}
    assert {claim.verdict for claim in check(numbers(*good()))} != {"too few seeds to judge"}


def test_fixed_models_are_measured_once():
    found = fixed_models(recording(), 20, range(1, 4), jobs=1)
    assert found["seed"].unique().to_list() == [1]
    drawn = fixed_models(fg.Synthetic(PROBLEM, 2, 3), 20, range(1, 4), jobs=1)
    assert drawn.group_by("name").agg(pl.len())["len"].to_list() == [3, 3, 3]
