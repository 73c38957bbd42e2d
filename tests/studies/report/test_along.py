"""Where curves cross, and ratios: by hand, on regrets that are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedglb.studies.report.along import crossings, headline, panels, rows
from fedglb.studies.report.figures.along import draw
from fedglb.studies.report.summary import paired_ratio
from fedglb.studies.results.study import Study
from tests.studies.report.made_study import config
from tests.studies.report.made_study import study as made_study


def study(values, regrets, *, noise=0.0, seeds=6, settings=()):
    """Federated and alone, with made regrets (one pair per value); more settings of "alone"."""
    cells = []
    for k, value in enumerate(values):
        federated, alone = regrets[k]
        noisy = [federated + noise * (-1) ** seed for seed in range(seeds)]
        made = [config("fedglb-ucb", 10, noisy, threshold=1.0)]
        for name, regret in (("a", alone), *((s, r[k]) for s, r in settings)):
            made.append(config("n-ucb-glm", 0, [regret] * seeds, label=f"N-UCB-GLM {name}"))
        cells.append(replace(made_study(*made, horizon=1).cells[0], value=value))
    return Study("x", "X", "", "transfers", tuple(cells), "delay")


def crossed(made):
    (panel,) = panels(made)
    return crossings(panel)


def line(made):
    found = panels(made)
    return headline(made, found, [crossings(panel) for panel in found])


def test_a_crossing_is_interpolated():
    made = study((0.0, 1.0, 2.0), [(50, 100), (90, 100), (130, 100)])
    (one,) = crossed(made)
    assert (one.name, one.stops) == ("FedGLB-UCB", True)
    assert one.at == pytest.approx(1.25)
    assert line(made).startswith("FedGLB-UCB stops paying at delay ≈ 1.2")
    assert line(made).endswith("against N-UCB-GLM.")


def test_values_that_are_drawn_evenly_cross_at_the_same_place():
    made = study((0.0, 0.001, 2.0), [(50, 100), (90, 100), (130, 100)])
    (one,) = crossed(made)
    assert one.at == pytest.approx(0.001 + 0.25 * 1.999)


def test_the_interval_is_where_the_ends_cross():
    made = study((0.0, 1.0), [(50, 100), (150, 100)], noise=10.0)
    (one,) = crossed(made)
    half = 2.570582 * 10.0 * (6 / 5) ** 0.5 / 6**0.5  # t of 5 degrees of freedom
    assert one.at == pytest.approx(0.5)
    assert one.low == pytest.approx(0.5 - half / 100, rel=1e-6)
    assert one.high == pytest.approx(0.5 + half / 100, rel=1e-6)


def test_few_seeds_give_no_interval():
    made = study((0.0, 1.0), [(50, 100), (150, 100)], noise=10.0, seeds=4)
    (one,) = crossed(made)
    assert (one.low, one.high) == (None, None)


def test_seeds_that_are_the_same_run_give_no_error_and_no_interval():
    made = study((0.0, 1.0), [(50, 100), (150, 100)], noise=10.0)
    cells = [
        replace(c, result=replace(c.result, runs=c.result.runs.with_columns(randomised=False)))
        for c in made.cells
    ]
    made = replace(made, cells=tuple(cells), against="n-ucb-glm")
    (one,) = crossed(made)
    assert (one.low, one.high) == (None, None)
    (panel,) = panels(made)
    for row in rows(made, panel):
        assert (row["error"], row["ratio_error"]) == (None, None)
        assert row["ratio"] is not None


def test_it_may_pay_in_between():
    made = study((0.0, 1.0, 2.0), [(150, 100), (50, 100), (150, 100)])
    begins, stops = crossed(made)
    assert (begins.stops, begins.at, stops.stops, stops.at) == (False, 0.5, True, 1.5)
    assert "begins to pay" in line(made)


def test_no_crossing_is_said_so():
    made = study((0.0, 1.0), [(50, 100), (60, 100)])
    assert crossed(made) == []
    assert "less regret than N-UCB-GLM at every value of delay" in line(made)
    made = study((0.0, 1.0), [(150, 100), (160, 100)])
    assert "no less regret" in line(made)


def test_the_headline_says_where_the_data_do_not_decide():
    made = study((0.0, 1.0), [(50, 100), (99, 100)], noise=10.0)
    assert line(made) == (
        "FedGLB-UCB has less regret than N-UCB-GLM at every value of delay by its means; the data "
        "decide 1 of 2 (paired t, 6 seeds, corrected for 2 comparisons)."
    )
    made = study((0.0, 1.0), [(50, 100), (60, 100)], noise=10.0)
    assert line(made).endswith(
        "at every value of delay (paired t, 6 seeds, corrected for 2 comparisons)."
    )
    assert "95 %" not in line(study((0.0, 1.0), [(50, 100), (150, 100)], seeds=4))
    made = study((0.0, 1.0), [(99, 100), (101, 100)], noise=10.0)
    assert "at delay ≈ 0.5 (95 %: the data do not decide where)" in line(made)
    made = study((0.0, 1.0), [(50, 100), (60, 100)], seeds=4)
    assert line(made) == (
        "4 seeds, too few to judge: FedGLB-UCB has less regret than N-UCB-GLM at every value of "
        "delay."
    )


def test_a_ratio_in_the_headline_has_its_error():
    made = study((0.0, 1.0), [(50, 100), (60, 100)], noise=10.0)
    (panel,) = panels(made)
    alone = replace(panel.lines[1], values=(None,), regrets=panel.lines[1].regrets[:1])
    ratios = replace(made, against="n-ucb-glm")
    text = headline(ratios, [replace(panel, lines=(panel.lines[0], alone))], [[]])
    assert text == (
        "FedGLB-UCB has 0.5 ± 0.045 times the regret of N-UCB-GLM at delay 0 and 0.6 ± 0.045 times "
        "the regret of N-UCB-GLM at delay 1."
    )


def test_the_best_setting_at_each_value_is_compared():
    made = study((0.0, 1.0), [(50, 100), (60, 100)], settings=[("b", (40.0, 200.0))])
    (panel,) = panels(made)
    assert panel.lines[1].labels == ("N-UCB-GLM b", "N-UCB-GLM a")
    (one,) = crossed(made)
    assert not one.stops
    assert one.at == pytest.approx(10 / 50)


@pytest.mark.parametrize("factor", [2.0, 100.0])  # an axis of plain and of logarithmic numbers
def test_crossings_are_marked_and_in_the_legend(factor):
    made = study((0.0, 1.0, 2.0), [(50, 100), (90 * factor, 100), (60, 100 * factor)])
    found = panels(made)
    own = [crossings(panel) for panel in found]
    figure = draw(made, found, own)
    (axes,) = figure.axes
    places = [each.get_xdata()[0] for each in axes.lines if list(each.get_ydata()) == [0, 1]]
    assert places == pytest.approx([each.at for each in own[0]])
    assert len(places) == 2
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sum("pay" in name for name in names) == 2


def test_the_error_of_a_paired_ratio_is_that_of_many_repetitions():
    rng = np.random.default_rng(1)
    common = rng.gamma(20.0, 1.0, (4000, 30))  # what a seed does to both
    others = common + rng.normal(0.0, 1.0, common.shape)
    own = 1.3 * common + rng.normal(0.0, 2.0, common.shape)
    found = [paired_ratio(a, b) for a, b in zip(own, others, strict=True)]
    shares, errors = np.array(found).T
    assert shares.mean() == pytest.approx(1.3, rel=0.01)
    assert errors.mean() == pytest.approx(shares.std(), rel=0.06)


def test_one_seed_has_no_error_and_nothing_has_no_ratio():
    assert paired_ratio(np.array([3.0]), np.array([2.0]), 2) == (1.5, None)
    assert paired_ratio(np.array([3.0, 4.0]), np.zeros(2), 2) == (None, None)
