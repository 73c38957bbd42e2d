"""What is drawn: artists counted, and their places against the numbers."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from importlib import resources
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedglb.algorithms import ALGORITHMS
from fedglb.studies.report.along import crossings, panels
from fedglb.studies.report.figures import along, gains, over_time, parameters, tradeoff
from fedglb.studies.report.figures.parameters import varied
from fedglb.studies.report.figures.style import (
    COLUMN,
    LOOKS,
    PAGE,
    Medium,
    algorithm_looks,
    looks,
    setting_look,
)
from fedglb.studies.report.gains import gains as gained
from fedglb.studies.report.numerals import setting
from fedglb.studies.report.summary import summarise
from fedglb.studies.results.study import Study
from tests.studies.report.figures.texts import assert_readable
from tests.studies.report.made_study import config, good, numbers
from tests.studies.report.made_study import study as made_study

BASELINES = pl.DataFrame(
    {"name": ["random play", "best-fitting linear model"], "seed": [1, 1],
     "regret": [700.0, 150.0], "reward": [1.0, 2.0]}
)  # fmt: skip


def drawn(draw, *configs, **more):
    return draw(numbers(*configs, **more))


def one_seed():
    return [{**c, "regrets": c["regrets"][:1]} for c in good()]  # of 6


def horizontal(axes):
    return sorted(
        float(line.get_ydata()[0])
        for line in axes.lines
        if list(line.get_xdata()) == [0, 1] and len(set(line.get_ydata())) == 1
    )


def test_every_setting_has_an_error_bar_of_its_size():
    (axes,) = drawn(tradeoff.draw, *good()).axes
    assert len(axes.containers) == 4  # FedGLB-UCB, two variants, DisLinUCB
    tops = []
    for container in axes.containers:
        assert container.has_yerr
        (bars,) = container.lines[2]
        tops += [float(segment[1][1]) for segment in bars.get_segments()]
    rows = [r for c in numbers(*good()).curves for r in c.rows]
    assert tops == pytest.approx([r.regret + r.error for r in rows])
    (axes,) = drawn(tradeoff.draw, *one_seed()).axes
    assert not any(container.has_yerr for container in axes.containers)


def test_lines_across_where_the_numbers_are():
    (axes,) = drawn(tradeoff.draw, *good(), baselines=BASELINES).axes
    assert horizontal(axes) == [96.0, 150.0, 700.0]  # the others are out of range
    (axes,) = drawn(tradeoff.draw, *good()).axes
    assert horizontal(axes) == [96.0]


def test_one_ucb_glm_has_a_band():
    def bands(*configs):
        (axes,) = drawn(tradeoff.draw, *configs).axes
        return [(p.get_y(), p.get_y() + p.get_height()) for p in axes.patches]

    assert bands(*good()) == [pytest.approx((95.0, 97.0))]
    assert bands(*one_seed()) == []
    wild = [c for c in good() if c["algorithm"] != "one-ucb-glm"]
    ((low, high),) = bands(*wild, config("one-ucb-glm", 5000, [-800.0, 1000.0]))
    assert 0 < low < 100 < high  # within a logarithmic axis


def test_bands_and_units_over_time():
    figure = drawn(over_time.draw, *good())
    left, right, reward = figure.axes
    shown = over_time.selected(numbers(*good()))
    assert len(left.collections) == len(shown) == len(left.lines) == len(reward.lines)
    assert len(right.collections) == 0  # all seeds communicate the same
    first = left.collections[0].get_paths()[0].vertices
    last = first[np.isclose(first[:, 0], 80)][:, 1]
    assert (last.min(), last.max()) == pytest.approx((180.0, 220.0))
    assert [axes.get_xlabel() for axes in figure.axes] == ["step t"] * 3
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "reward lost, all clients (log)", "transfers so far (log)", "reward per interaction",
    ]  # fmt: skip
    rates = [float(line.get_ydata()[-1]) for line in reward.lines]
    assert rates == pytest.approx([r.reward / (80 * 4) for r in shown], abs=1 / 320)  # 80 steps
    left, _, _ = drawn(over_time.draw, *one_seed()).axes
    assert len(left.collections) == 0


# -- a sweep without a study's file ----------------------------------------------------------------


def own_sweep():
    """Two algorithms of the user's and one of the package; D is the same everywhere."""
    made = [
        config(
            "mine",
            10 * i,
            [50.0 / i, 60.0 / i],
            threshold=1.0,
            exploration=e,
            label=f"mine exploration={e}",
        )
        for i, e in ((1, 0.01), (2, 0.1), (3, 1.0))
    ]
    made += [config("fedglb-auto", 40, [20.0, 22.0], threshold=0.1)]
    made += [config("other", 5 * i, [30.0 + i, 33.0 + i], threshold=1.0, confidence=f"fixed={a}",
                    label=f"other confidence=fixed={a}")
             for i, a in ((1, 0.2), (2, 0.3))]  # fmt: skip
    return numbers(*made, own=True)


def colours(figure):
    """The colour of each algorithm in the legend of a figure."""
    found = {}
    for text, line in zip(
        figure.legends[0].get_texts(), figure.legends[0].get_lines(), strict=True
    ):
        found.setdefault(text.get_text().split(" (")[0], set()).add(line.get_color())
    return found


def test_an_algorithm_has_one_colour_in_the_whole_report():
    found = own_sweep()
    figures = [tradeoff.draw(found), over_time.draw(found),
               parameters.draw(found.study, varied(found.rows))]  # fmt: skip
    every = [colours(figure) for figure in figures]
    assert set(every[1]) == {"mine", "FedGLB-Auto", "other"}
    assert set(every[2]) == {"mine", "other", "least regret of the curve"}
    for name, (colour,) in every[1].items():
        assert every[0][name] == {colour}
        assert every[2].get(name, {colour}) == {colour}
    assert len({colour for (colour,) in every[1].values()}) == 3


def test_a_setting_that_is_left_out_leaves_the_others_their_colours():
    made = [config("first", 7, [70.0, 71.0])]
    made += [config(name, 10 * i, [at + 10.0 * i, at + 10.0 * i + 1.0], exploration=float(i),
                    label=f"{name} exploration={i}")
             for name, at in (("second", 0.0), ("third", 70.0)) for i in range(1, 7)]  # fmt: skip
    found = numbers(*made, own=True)
    shown, every = colours(over_time.draw(found)), colours(tradeoff.draw(found))
    assert set(shown) == {"second", "third"}  # 12 of 13
    assert all(every[name] == shown[name] for name in shown)


def test_dots_are_labelled_by_what_varies():
    found = own_sweep()
    assert [row.title for row in found.rows] == [
        "mine (exploration=0.01)", "mine (exploration=0.1)", "mine (exploration=1)",
        "FedGLB-Auto", "other (fixed=0.2)", "other (fixed=0.3)",
    ]  # fmt: skip
    (axes,) = tradeoff.draw(found).axes
    beside = {text.get_text(): text.xy for text in axes.texts}
    assert beside == {
        setting(row.value): (row.transfers, row.regret) for row in found.rows if row.dial
    }
    assert set(beside) == {"0.01", "0.1", "1", "0.2", "0.3"}
    assert "with its exploration or fixed beside it" in tradeoff.caption(found)
    both = [config("mine", 10 * i, [50.0, 60.0], threshold=float(i), exploration=e,
                   label=f"mine D={i} exploration={e}")
            for i in (1, 2) for e in (0.1, 1.0)]  # fmt: skip
    titles = [row.title for row in numbers(*both, own=True).rows]
    assert titles[:2] == ["mine exploration=0.1 (D=1)", "mine exploration=1 (D=1)"]


def test_variations_look_the_same_in_all_figures():
    """Line and marker of a curve, and not only the colour of its algorithm."""
    made = [config("mine", 10 * i, [50.0 / i, 60.0 / i], threshold=float(i), solver=solver,
                   label=f"mine D={i} {solver}")
            for i in (1, 2) for solver in ("newton", "agd", "lbfgs")]  # fmt: skip
    found = numbers(*made, config("fedglb-auto", 40, [20.0, 22.0], threshold=0.1), own=True)
    drawn = {h.get_label(): h for h in figure_handles(tradeoff.draw(found))}
    over = {h.get_label(): h for h in figure_handles(over_time.draw(found))}
    for curve in ("mine newton", "mine agd", "mine lbfgs"):
        one, other = drawn[f"{curve} (D)"], over[f"{curve} (D=1)"]
        for read in ("get_color", "get_marker", "get_linestyle", "get_markerfacecolor"):
            assert getattr(one, read)() == getattr(other, read)(), (curve, read)
    assert len({(h.get_marker(), h.get_color(), str(h.get_markerfacecolor()), str(h._dash_pattern))
                for h in over.values()}) == 7  # fmt: skip


def figure_handles(figure):
    return figure.legends[0].legend_handles


def along_study():
    """Three algorithms at three delays, of which one is of the user's and one has settings."""
    cells = []
    for k, value in enumerate((0.0, 1.0, 2.0)):
        made = [
            config("fedglb-auto", 10, [50.0 + 30 * k, 52.0 + 30 * k], threshold=0.1),
            config("mine", 10, [60.0 + 9 * k, 62.0 + 9 * k], label="mine"),
            *(config("n-ucb-glm", 0, [100.0 + i, 103.0 + i], exploration=float(10**i),
                     label=f"N-UCB-GLM {i}") for i in range(3)),
        ]  # fmt: skip
        cells.append(replace(made_study(*made, horizon=1).cells[0], value=value))
    return Study("x", "X", "", "transfers", tuple(cells), "delay")


def along_figures(study, medium=COLUMN):
    found = panels(study)
    own = [crossings(panel) for panel in found]
    rows = summarise(replace(study, cells=study.cells[:1]))
    others = varied(rows, "delay 0", without="delay")
    return [
        along.draw(study, found, own, medium),
        gains.draw(study, [gain for panel in found for gain in gained(panel)], medium),
        parameters.draw(study, others, medium),
    ]


def test_an_algorithm_has_one_colour_in_a_report_along_an_axis():
    study = along_study()
    every = [colours(figure) for figure in along_figures(study, Medium())]
    own = {name: look.colour for name, look in algorithm_looks(study).items()}
    assert set(every[0]) >= {"FedGLB-Auto", "mine", "N-UCB-GLM, best of 3 settings"}
    assert every[0]["mine"] == every[1]["mine"] == {own["mine"]}
    assert every[0]["FedGLB-Auto"] == every[1]["FedGLB-Auto"] == {own["fedglb-auto"]}
    assert every[0]["N-UCB-GLM, best of 3 settings"] == every[2]["N-UCB-GLM"] == {"#000000"}


# -- regret against every varied parameter ---------------------------------------------------------


def test_regret_is_drawn_against_what_varies():
    found = own_sweep()
    figure = parameters.draw(found.study, varied(found.rows))
    exploration, fixed = figure.axes
    assert exploration.get_xlabel() == "exploration, log scale"
    assert fixed.get_xlabel() == "fixed"  # less than a decade
    ((line, _, (bars,)),) = (container.lines for container in exploration.containers)
    assert list(line.get_xdata()) == [-2.0, -1.0, 0.0]
    assert [text.get_text() for text in exploration.get_xticklabels()] == ["0.01", "0.1", "1"]
    rows = found.rows[:3]
    assert list(line.get_ydata()) == pytest.approx([row.regret for row in rows])
    tops = [segment[1][1] for segment in bars.get_segments()]
    assert tops == pytest.approx([row.regret + row.error for row in rows])
    ring = exploration.lines[-1]  # around the best value
    assert (ring.get_xdata(), ring.get_ydata()) == ([0.0], [pytest.approx(rows[2].regret)])
    ((line, *_),) = (container.lines for container in fixed.containers)
    assert list(line.get_xdata()) == [0.2, 0.3]


def test_of_two_varied_parameters_each_is_shown_with_the_best_of_the_other():
    regret = {(1.0, 0.1): 50.0, (1.0, 1.0): 40.0, (10.0, 0.1): 30.0, (10.0, 1.0): 60.0}
    made = [config("mine", 10, [r, r + 2.0], threshold=d, exploration=e, label=f"mine {d} {e}")
            for (d, e), r in regret.items()]  # fmt: skip
    found = numbers(*made)  # of a study's file, too
    threshold, exploration = varied(found.rows)
    assert (threshold.symbol, exploration.symbol) == ("D (threshold)", "exploration")
    shown = [[(value, row.regret) for value, row in each.curves["mine"]]
             for each in (threshold, exploration)]  # fmt: skip
    assert shown == [[(1.0, 41.0), (10.0, 31.0)], [(0.1, 31.0), (1.0, 41.0)]]
    said = parameters.caption([threshold, exploration])
    assert said.startswith("Mean regret over the seeds, bars are ± 1 standard error, against D")
    assert "the setting of all others with the least mean regret, chosen in hindsight" in said
    one = varied(numbers(*made[:2]).rows)
    assert "all else being equal" in parameters.caption(one)
    few = varied(numbers(*({**c, "regrets": c["regrets"][:2]} for c in made)).rows)
    assert "bars" not in parameters.caption(few)


def test_texts_are_categories_and_their_numbers_parameters():
    kinds = ["lemma", "fixed=0.1", "fixed=0.3", "fixed=inf", None]
    made = [config("mine", 10, [50.0 - i, 51.0 - i], confidence=kind, label=f"mine {i}")
            for i, kind in enumerate(kinds)]  # fmt: skip
    found = numbers(*made, config("other", 10, [48.0, 49.0], confidence="lemma"),
                    config("other", 10, [49.0, 49.0], confidence="iterate", label="o"))  # fmt: skip
    confidence, fixed = varied(found.rows)
    assert [value for value, _ in confidence.curves["mine"]] == ["lemma", "fixed", "none"]
    assert [value for value, _ in confidence.curves["other"]] == ["lemma", "iterate"]
    assert list(fixed.curves) == ["mine"]
    first, second = parameters.draw(found.study, [confidence, fixed]).axes
    names = ["lemma", "fixed", "none", "iterate"]
    assert [text.get_text() for text in first.get_xticklabels()] == names
    dots = [container.lines[0] for container in first.containers]
    assert {dot.get_linestyle() for dot in dots} == {"None"}  # no order, so no line
    places = [list(dot.get_xdata()) for dot in dots]
    assert np.allclose(places[0], [-0.06, 0.94, 1.94])
    assert np.allclose(places[1], [0.06, 3.06])  # beside each other
    assert [text.get_text() for text in second.get_xticklabels()] == ["0.1", "0.3", "∞"]


def test_a_parameter_that_is_the_same_within_each_algorithm_is_not_varied():
    made = [config("a", 10, [1.0, 2.0], threshold=1.0), config("b", 10, [1.0, 2.0], threshold=2.0)]
    assert varied(numbers(*made, own=True).rows) == ()


# -- what can be read ------------------------------------------------------------------------------

MEDIA = [Medium(narrow, dark) for narrow in (False, True) for dark in (False, True)]


@pytest.mark.some(1)
@pytest.mark.parametrize("medium", [COLUMN, PAGE, *MEDIA], ids=str)
def test_every_text_is_inside_the_figure(medium):
    """Titles, names of axes, legends: also with long names and many curves."""
    long = [config("fedglb-ucb", 10 * i, [5.0 * i, 6.0 * i], threshold=1.0, exploration=i / 7,
                   clock="own samples" if i % 2 else "steps", label=f"x{i}",
                   solver=f"a-name-without-spaces-{i % 7}")
            for i in range(1, 20)]  # fmt: skip
    title = "A title that says all there is to say about what was done, to whom, when and why"
    found = numbers(*good(), *long, baselines=BASELINES, title=title, own=True)
    figures = [tradeoff.draw(found, medium), over_time.draw(found, medium),
               parameters.draw(found.study, varied(found.rows), medium)]  # fmt: skip
    for figure in figures:
        assert figure.get_size_inches()[0] == medium.width
        assert_readable(figure, apart=figure is not figures[0])  # settings may be too many


@pytest.mark.parametrize("medium", [COLUMN, PAGE])
def test_figures_for_papers_are_readable(medium):
    """No text is below 7 points, cut off, or over another; there are no titles."""
    found = numbers(*good(), baselines=BASELINES, title="A title")
    figures = [tradeoff.draw(found, medium), over_time.draw(found, medium),
               parameters.draw(found.study, varied(found.rows), medium),
               *along_figures(along_study(), medium)]  # fmt: skip
    for figure in figures:
        assert figure.get_size_inches()[0] == {COLUMN: 3.3, PAGE: 6.8}[medium]
        assert not figure.get_suptitle()
        assert_readable(figure)


# -- looks -----------------------------------------------------------------------------------------


def experiments():
    """The presets that each experiment of the package compares."""
    found = {}
    for file in (Path(str(resources.files("fedglb"))).parents[1] / "experiments").glob("*.toml"):
        tables = tomllib.loads(file.read_text())
        for profile in (tables, *tables.get("profile", {}).values()):
            names = {each["name"] for each in profile.get("algorithm", [])}
            found[f"{file.stem} {len(found)}"] = names & set(LOOKS)
    assert len(found) > 10
    return found


@pytest.mark.parametrize("dark", [False, True])
def test_algorithms_that_are_compared_have_other_colours(dark):
    """Also for readers who see no red or no green: after Machado et al. (2009), in CIELAB."""
    assert set(LOOKS) == set(ALGORITHMS)
    every = [(look.colour, look.marker, look.line) for look in LOOKS.values()]
    assert len(set(every)) == len(every)
    shown = {name: look.on(Medium(dark=dark)).colour for name, look in LOOKS.items()}
    together = {pair for names in experiments().values() for pair in combinations(names, 2)}
    assert len(together) > 50
    for one, other in together | {("one-ucb-glm", "fedglb-auto")}:
        for eye in EYES:
            distance = math.dist(lab(eye, shown[one]), lab(eye, shown[other]))
            assert distance > 15.0, (one, other, distance)


EYES = [
    np.eye(3),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
              [-0.011820, 0.042940, 0.968881]]),
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
              [-0.003882, -0.048116, 1.051998]]),
]  # fmt: skip


def linear(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return np.array([p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts])


def lab(eye, colour):
    """A colour as such an eye sees it, in CIELAB."""
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
                       [0.0193339, 0.1191920, 0.9503041]])  # fmt: skip
    xyz = to_xyz @ np.clip(eye @ linear(colour), 0.0, 1.0) / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("medium", MEDIA, ids=str)
def test_what_is_drawn_can_be_seen(medium):
    """Contrast with the page, as the WCAG define it: 3 for lines, 4.5 for small print."""

    def light(colour):
        return float(np.dot([0.2126, 0.7152, 0.0722], linear(colour)))

    def contrast(colour):
        page = light("#ffffff" if medium.paper == "white" else medium.paper)
        low, high = sorted((light(colour), page))
        return (high + 0.05) / (low + 0.05)

    assert contrast(medium.text) > 7
    assert contrast(medium.soft) > 4.5
    for own in LOOKS.values():
        assert contrast(medium.small(own.colour)) > 4.5
        assert contrast(medium.colour(own.colour)) > 2.2


def test_curves_differ_in_more_than_colour():
    known = [(own.marker, own.line) for own in LOOKS.values()]
    assert len(set(known)) == len(known)
    named = [(f"curve {i}", "n-ons-glm") for i in range(8)]
    named += [(f"other {i}", f"algorithm-{i}") for i in range(8)]
    made = looks(named)
    assert len({(own.marker, str(own.line)) for own in list(made.values())[:8]}) == 8
    assert len({(own.marker, str(own.line)) for own in list(made.values())[8:]}) == 8
    assert looks([("x", "FedGLB-Auto"), ("y", "mine")])["x"] == LOOKS["fedglb-auto"]  # a label
    settings = [setting_look(i) for i in range(12)]
    assert len({own.marker for own in settings}) == 12
