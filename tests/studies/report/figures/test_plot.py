"""`fg.plot`: which curves, and what they show."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.studies.report.figures.style import LOOKS

ENV = fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5)
ALGORITHMS = [fg.fedglb_auto(), fg.fedglb_ucb(1.0), fg.fedglb_ucb(5.0), fg.n_ons_glm()]


@pytest.fixture(scope="module")
def runs():
    return [run for seed in range(3) for run in fg.compare(ALGORITHMS, ENV, 600, seed)]


def names(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_runs_that_differ_in_the_seed_alone_make_a_curve(runs):
    figure = fg.plot(runs)
    event = "FedGLB-UCB: trigger Event(threshold={}, clock='steps', max_gain=inf, share=inf)"
    expected = ["FedGLB-Auto", event.format("1.0"), event.format("5.0"), "N-ONS-GLM"]
    assert names(figure) == expected
    (axes,) = figure.axes
    regrets = np.array([run.trace["regret"].to_numpy() for run in runs[3::4]])
    line, band = axes.lines[3], axes.collections[3]
    t = line.get_xdata().astype(int)
    assert (t[0], t[-1], len(t)) == (1, 600, 500)
    assert_allclose(line.get_ydata(), regrets.mean(axis=0)[t - 1])
    error = regrets.std(axis=0, ddof=1)[-1] / np.sqrt(3)
    assert_allclose(band.get_paths()[0].vertices[:, 1].max(), regrets.mean(axis=0)[-1] + error)
    assert "mean of 3 runs ± 1 standard error" in [text.get_text() for text in axes.texts]
    assert axes.get_title(loc="left") == "Synthetic, logistic link, 4 clients, 5 arms, d = 3"


def test_curves_are_told_apart_by_more_than_colour(runs):
    axes = fg.plot({f"setting {i}": run for i, run in enumerate(runs)}).axes[0]
    looks = {(line.get_linestyle(), line.get_marker(), str(line.get_markerfacecolor()),
              str(line._dash_pattern)) for line in axes.lines}  # fmt: skip
    assert len(looks) == len(runs)


def test_one_run_and_groups_by_name(runs):
    figure = fg.plot(runs[0], "transfers")
    (axes,) = figure.axes
    assert axes.get_ylabel() == "messages with numbers"
    assert axes.get_title(loc="left").startswith("FedGLB-Auto, Synthetic")
    assert not figure.legends
    assert not axes.collections
    figure = fg.plot({"mine": runs[0::4], "alone": runs[3]}, title="Which?")
    assert names(figure) == ["mine", "alone"]
    assert figure.axes[0].get_title(loc="left") == "Which?"
    assert "mean of 1 to 3 runs" in figure.axes[0].texts[0].get_text()
    assert len(figure.axes[0].collections) == 1


def test_a_sweep(tmp_path):
    tables = {
        "name": "example", "horizon": 20, "seeds": 3,
        "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
        "algorithm": [{"name": "fedglb-ucb", "threshold": [0.1, 1.0]}, {"name": "n-ons-glm"}],
    }  # fmt: skip
    result = fg.sweep(tables, tmp_path / "results", jobs=1)
    figure = fg.plot(result)
    assert names(figure) == result.runs["label"].unique(maintain_order=True).to_list()
    last = [line.get_ydata()[-1] for line in figure.axes[0].lines]
    means = result.runs.group_by("label", maintain_order=True).agg(pl.col("regret").mean())[
        "regret"
    ]
    assert_allclose(last, means)


def test_notebooks_show_the_figure_and_presets_have_their_looks():
    presets = [fg.fedglb_ucb_1(3), fg.fedglb_ucb(1.0)]
    figure = fg.plot(fg.compare(presets, ENV, 20, seed=1))
    looks = [LOOKS["fedglb-ucb-1"], LOOKS["fedglb-ucb"]]
    assert [line.get_color() for line in figure.axes[0].lines] == [look.colour for look in looks]
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "runs = "), ({}, "runs = "), (3, "runs = 3"), ("abc", "runs = 'abc'"),
        ({"a": []}, r"runs\['a'\] = \[\]"), ([3], "runs = "),
    ],
)  # fmt: skip
def test_what_is_no_runs_is_refused(given, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.plot(given)


def test_runs_that_make_no_mean_are_refused(runs):
    short = fg.simulate(fg.n_ons_glm(), ENV, 10, seed=9)
    with pytest.raises(fg.InvalidInput, match="same length"):
        fg.plot({"a": [short, runs[3]]})
    with pytest.raises(fg.InvalidInput, match=r"runs of 'N-ONS-GLM' with seed = 0: .*once"):
        fg.plot([runs[3], runs[3]])
    with pytest.raises(fg.InvalidInput, match="one of regret, reward"):
        fg.plot(runs, "regrets")
