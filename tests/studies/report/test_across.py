"""Where curves cross: by hand, on regrets that are made up."""

from __future__ import annotations

import polars as pl
import pytest

from fedglb.studies import SweepResult
from fedglb.studies.report.across import Across, crossings, curves, headline
from fedglb.studies.report.figures.across import draw


def study(values, regrets, *, noise=0.0, seeds=6, settings=()):
    """Federated and alone, with made regrets (one pair per value); more settings of "alone"."""
    results = []
    for k in range(len(values)):
        rows = []
        for seed in range(seeds):
            shift = noise * (-1) ** seed
            federated, alone = regrets[k]
            rows.append(("fedglb-ucb", "FedGLB-UCB D=1", seed, federated + shift, 10))
            rows.append(("n-ucb-glm", "N-UCB-GLM a", seed, alone, 0))
            rows += [("n-ucb-glm", f"N-UCB-GLM {s}", seed, r[k], 0) for s, r in settings]
        names = ("algorithm", "label", "seed", "regret", "transfers")
        frame = pl.DataFrame(rows, schema=names, orient="row", schema_overrides={"regret": float})
        results.append(SweepResult(frame, pl.DataFrame(), {}))
    return Across("x", "X", "", "delay", tuple(values), tuple(results))


def test_a_crossing_is_interpolated():
    made = study((0.0, 1.0, 2.0), [(50, 100), (90, 100), (130, 100)])
    (one,) = crossings(made, curves(made))
    assert (one.name, one.stops) == ("FedGLB-UCB", True)
    assert one.at == pytest.approx(1.25)
    said = headline(made, curves(made), [one])
    assert said.startswith("FedGLB-UCB stops paying at delay ≈ 1.2")
    assert said.endswith("against N-UCB-GLM.")


def test_values_that_are_drawn_evenly_cross_at_the_same_place():
    made = study((0.0, 0.001, 2.0), [(50, 100), (90, 100), (130, 100)])
    (one,) = crossings(made, curves(made))
    assert one.at == pytest.approx(0.001 + 0.25 * 1.999)


def test_the_interval_is_where_the_ends_cross():
    made = study((0.0, 1.0), [(50, 100), (150, 100)], noise=10.0)
    (one,) = crossings(made, curves(made))
    half = 2.570582 * 10.0 * (6 / 5) ** 0.5 / 6**0.5  # t of 5 degrees of freedom
    assert one.at == pytest.approx(0.5)
    assert one.low == pytest.approx(0.5 - half / 100, rel=1e-6)
    assert one.high == pytest.approx(0.5 + half / 100, rel=1e-6)


def test_few_seeds_give_no_interval():
    made = study((0.0, 1.0), [(50, 100), (150, 100)], noise=10.0, seeds=4)
    (one,) = crossings(made, curves(made))
    assert (one.low, one.high) == (None, None)


def test_the_other_way_round_and_back():
    made = study((0.0, 1.0, 2.0), [(150, 100), (50, 100), (150, 100)])
    begins, stops = crossings(made, curves(made))
    assert (begins.stops, begins.at, stops.stops, stops.at) == (False, 0.5, True, 1.5)
    assert "begins to pay" in headline(made, curves(made), [begins, stops])


def test_no_crossing_is_said_so():
    made = study((0.0, 1.0), [(50, 100), (60, 100)])
    assert crossings(made, curves(made)) == []
    assert "less regret than N-UCB-GLM at every delay" in headline(made, curves(made), [])
    made = study((0.0, 1.0), [(150, 100), (160, 100)])
    assert "no less regret" in headline(made, curves(made), [])


def test_the_best_setting_at_each_value_is_compared():
    made = study((0.0, 1.0), [(50, 100), (60, 100)], settings=[("b", (40.0, 200.0))])
    alone = curves(made)[1]
    assert alone.labels == ("N-UCB-GLM b", "N-UCB-GLM a")
    (one,) = crossings(made, curves(made))
    assert not one.stops
    assert one.at == pytest.approx(10 / 50)


@pytest.mark.parametrize("factor", [2.0, 100.0])  # an axis of plain and of logarithmic numbers
def test_words_about_crossings_are_above_the_curves(factor):
    made = study((0.0, 1.0, 2.0), [(50, 100), (90 * factor, 100), (60, 100 * factor)])
    found = crossings(made, curves(made))
    (axes,) = draw(made, curves(made), found).axes
    words = [text for text in axes.texts if "pay" in text.get_text()]
    assert len(words) == len(found) > 0
    lowest = min(text.get_window_extent().y0 for text in words)
    highest = max(curve.means.max() for curve in curves(made))
    assert axes.transData.transform((0.0, highest))[1] < lowest
