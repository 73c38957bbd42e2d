"""`fg.plot`: which curves, and what they show."""

from __future__ import annotations

import re

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.studies.report.figures.style import LOOKS
from tests.studies.report.figures.texts import assert_readable

ENV = fg.Synthetic(fg.Problem(dim=3), clients=4, arms=5)
ALGORITHMS = [fg.fedglb_auto(), fg.fedglb_ucb(1.0), fg.fedglb_ucb(5.0), fg.n_ons_glm()]


@pytest.fixture(scope="module")
def runs():
    return [run for seed in range(3) for run in fg.compare(ALGORITHMS, ENV, 600, seed)]


def names(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_runs_that_differ_in_the_seed_alone_make_a_curve(runs):
    figure = fg.plot(runs)
    expected = ["FedGLB-Auto", "FedGLB-UCB: threshold 1", "FedGLB-UCB: threshold 5", "N-ONS-GLM"]
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


# -- for papers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("figsize", [(3.3, 2.3), (6.8, 2.5)])
@pytest.mark.parametrize("title", [None, "A title that is longer than a column of a paper is wide"])
def test_at_the_width_of_a_column_all_text_is_readable(runs, figsize, title):
    figure = fg.plot(runs, "scalars", title=title, figsize=figsize)
    assert tuple(figure.get_size_inches()) == figsize
    assert figure.axes[0].get_title() == ""
    assert bool(figure.axes[0].get_title(loc="left")) == bool(title)  # papers have captions
    assert_readable(figure)


def test_a_figure_without_room_for_its_legend_is_refused(runs):
    many = {f"setting {i} with a long name": run for i, run in enumerate(runs)}
    with pytest.raises(fg.InvalidInput, match=r"figsize = \(3.3, 2.3\).*a height of 3.. inches"):
        fg.plot(many, figsize=(3.3, 2.3))
    assert_readable(fg.plot(many, figsize=(3.3, 4.0)))
    assert_readable(fg.plot(many))  # on a screen, the legend makes the figure higher


def test_letters_of_a_pdf_are_truetype_and_those_of_an_svg_curves(runs, tmp_path):
    figure = fg.plot(runs, figsize=(3.3, 2.3))
    figure.savefig(tmp_path / "a.pdf", metadata={"CreationDate": None})
    content = (tmp_path / "a.pdf").read_bytes()
    assert set(re.findall(rb"/Subtype /(\w*Type\w+)", content)) == {b"Type0", b"CIDFontType2"}
    figure.savefig(tmp_path / "a.svg")
    assert "<text" not in (tmp_path / "a.svg").read_text()  # letters are curves: no font is needed
    with matplotlib.rc_context({"svg.fonttype": "none", "pdf.use14corefonts": True}):  # theirs wins
        figure.savefig(tmp_path / "b.pdf")
        figure.savefig(tmp_path / "b.svg")
    assert b"CIDFontType2" not in (tmp_path / "b.pdf").read_bytes()
    assert "<text" in (tmp_path / "b.svg").read_text()


def test_what_the_user_has_set_wins(runs):
    before = matplotlib.rcParams.copy()
    theirs = {
        "font.family": ["serif"], "font.size": 15.0, "lines.linewidth": 3.5, "axes.labelsize": 20.0,
        "figure.figsize": (5.0, 4.0), "axes.facecolor": "#fafad2", "grid.linewidth": 2.0,
        "axes.prop_cycle": matplotlib.cycler(color=["#ff0000", "#00ff00"]),
    }  # fmt: skip
    with matplotlib.rc_context(theirs):
        figure = fg.plot(runs)
    assert matplotlib.rcParams.copy() == before
    (axes,) = figure.axes
    assert figure.get_size_inches()[0] == 5.0
    assert matplotlib.colors.to_hex(axes.get_facecolor()) == "#fafad2"
    assert [line.get_color() for line in axes.lines] == ["#ff0000", "#00ff00"] * 2
    assert {line.get_linewidth() for line in axes.lines} == {3.5}
    assert len({line.get_marker() for line in axes.lines}) == 4  # which the cycle does not say
    assert axes.xaxis.label.get_fontsize() == 20.0
    assert axes.get_xticklabels()[0].get_fontsize() == pytest.approx(0.833 * 15.0)
    assert axes.xaxis.label.get_fontfamily() == ["serif"]
    ours = fg.plot(runs).axes[0]
    assert [line.get_color() for line in ours.lines][::3] == [
        LOOKS["fedglb-auto"].colour, LOOKS["n-ons-glm"].colour,
    ]  # fmt: skip
    assert ours.xaxis.label.get_fontsize() == 9.2


def test_into_the_axes_of_ones_own_figure(runs):
    figure = Figure(figsize=(8, 3))
    left, right = figure.subplots(1, 2)
    assert fg.plot(runs, ax=left) is figure
    assert fg.plot(runs[0], "reward", ax=right, title="Reward") is figure
    assert fg.plot(runs[0], ax=figure.subfigures(1, 2)[0].subplots()) is figure
    assert [text.get_text() for text in left.get_legend().get_texts()] == names(fg.plot(runs))
    assert right.get_legend() is None
    assert (left.get_title(), right.get_title()) == ("", "Reward")
    assert (left.get_xlabel(), right.get_ylabel()) == ("step t", "reward")
    assert not figure.legends
    assert not left.texts
    assert {line.get_linewidth() for line in left.lines} == {1.5}  # matplotlib's own
    assert left.spines["top"].get_visible()
    fg.plot({"again": runs[3]}, ax=right)
    assert len(right.lines) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ax": 3}, "ax = 3: .*one pair of axes"), ({"figsize": 3}, "figsize = 3"),
        ({"figsize": (3.3, 0.0)}, "figsize = .*width and height"),
        ({"figsize": (3.3, np.nan)}, "figsize"), ({"figsize": ("a", 2)}, "figsize"),
        ({"figsize": (3.3, 2.3), "ax": Figure().subplots()}, "figsize.*where ax is given"),
    ],
)  # fmt: skip
def test_a_wrong_place_is_refused(runs, given, said):
    with pytest.raises(fg.InvalidInput, match=said):
        fg.plot(runs, **given)
