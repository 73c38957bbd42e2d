"""What notebooks show of runs and sweeps: well-formed, in the page's colours, with the numbers."""

from __future__ import annotations

from xml.etree import ElementTree

import polars as pl

import fedglb as fg
from fedglb.simulation.card import MOST, Curve, card, figure

ENV = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=3)


def parsed(text: str) -> ElementTree.Element:
    """Return the HTML as a tree: all of it is XML, too."""
    return ElementTree.fromstring(text)


def texts(tree: ElementTree.Element, tag: str) -> list[str]:
    return ["".join(each.itertext()) for each in tree.iter(tag)]


def test_a_run_shows_totals_and_a_curve():
    run = fg.simulate(fg.fedglb_auto(), ENV, 400, seed=3)
    tree = parsed(run._repr_html_())
    title = texts(tree, "strong")[0]
    assert title == "FedGLB-Auto on Synthetic: 2 clients, 3 arms, d = 3, T = 400, seed 3"
    cells = texts(tree, "td")
    assert cells[cells.index("syncs") + 1] == str(run.syncs)
    (curve,) = tree.iter("polyline")
    places = [place.split(",") for place in curve.attrib["points"].split()]
    assert len(places) == 160
    heights = [float(y) for _, y in places]
    assert heights == sorted(heights, reverse=True)  # regret rises
    assert texts(tree, "li") == list(run.caveats)


def test_a_sweep_shows_its_settings_the_best_first(tmp_path):
    tables = {
        "name": "example", "horizon": 30, "seeds": 2,
        "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
        "algorithm": [{"name": "fedglb-ucb", "threshold": [0.1 * k for k in range(1, 15)]}],
    }  # fmt: skip
    result = fg.sweep(tables, tmp_path / "results", jobs=1)
    tree = parsed(result._repr_html_())
    assert texts(tree, "strong") == ["example: 28 runs of 14 settings"]
    assert len(list(tree.iter("tr"))) == 1 + 12
    assert len(list(tree.iter("polyline"))) == MOST
    samples = [len(list(row.iter("line"))) for row in tree.iter("tr")]
    assert samples == [0, *[1] * MOST, *[0] * (12 - MOST)]
    means = result.runs.group_by("label", maintain_order=True).agg(pl.col("regret").mean())
    best = means.sort("regret", maintain_order=True)["label"].head(12).to_list()
    assert texts(tree, "td")[::5] == best
    assert texts(tree, "li") == [
        "2 more settings are in `result.runs`.",
        "The figure has the 6 settings of the lowest mean regret.",
    ]
    one = fg.sweep({**tables, "seeds": 1}, tmp_path / "one", jobs=1)
    assert "±" not in "".join(texts(parsed(one._repr_html_()), "td"))  # no error of one run


def test_nothing_is_told_by_a_colour_of_the_page():
    """Text and axes have the colour of the page around; no background is set."""
    tree = parsed(card("a", ["", "b"], [["<c>", "1"]], [Curve([1, 2], [0, 0])], "regret"))
    (drawing,) = tree.iter("svg")
    assert drawing.attrib["fill"] == "currentColor"
    assert not list(tree.iter("rect"))
    assert texts(tree, "td") == ["<c>", "1"]


def test_curves_of_nothing_and_below_nothing():
    assert "<polyline" not in figure([], "regret")
    assert "nan" not in figure([Curve([1.0], [0.0])], "regret")
    assert "-3" in figure([Curve([1, 2], [-3.0, -1.0])], "reward")
