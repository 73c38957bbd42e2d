"""One row per configuration, against the same by hand."""

from __future__ import annotations

import math
import statistics

import pytest

from fedglb.studies import pareto_front
from fedglb.studies.report.summary import reference, summarise, trade_offs
from tests.studies.report.made_study import config, good, study


def test_means_errors_and_intervals():
    regrets = [10.0, 14.0, 21.0, 12.0, 18.0]
    (row,) = summarise(study(config("fedglb-ucb", 30, regrets, threshold=0.5)))
    error = statistics.stdev(regrets) / math.sqrt(5)
    assert row.regret == pytest.approx(15.0)
    assert row.error == pytest.approx(error)
    assert row.high == pytest.approx(15.0 + 2.776445 * error)  # Student's t, 4 degrees of freedom
    assert row.low == pytest.approx(15.0 - 2.776445 * error)
    assert (row.transfers, row.scalars, row.syncs, row.rounds) == (30, 90, 30, 6)
    assert (row.parameter, row.title, row.seeds) == ("D=0.5", "FedGLB-UCB (D=0.5)", 5)
    assert row.reward == pytest.approx(985.0)


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_few_seeds_have_neither_error_nor_median(seeds):
    made = config("n-ons-glm", 0, [10.0, 12.0, 14.0, 16.0][:seeds], few=True)
    (row,) = summarise(study(made))
    assert (row.error, row.low, row.high, row.median, row.stuck) == (None,) * 5
    assert (row.parameter, row.value) == ("", None)


def test_median_and_stuck_runs():
    """A run is stuck above three times the median, 3 × 12; 36 itself is not."""
    (row,) = summarise(study(config("n-ons-glm", 0, [10.0, 11.0, 12.0, 36.0, 36.1])))
    assert (row.median, row.stuck) == (12.0, 1)
    assert row.regret == pytest.approx(21.02)
    (row,) = summarise(study(config("n-ons-glm", 0, [0.0, 0.0, 0.0, 0.0, 1e-12])))
    assert row.stuck == 0  # that is a rounding error


def test_names_of_algorithms_that_are_not_in_the_list():
    made = study(
        config("async-linucb", 10, [5.0], threshold=1.0, label="Async-LinUCB D=1"),
        config("mine", 20, [5.0], label="My own rule exploration=0.1", exploration=0.1),
        config("mine", 20, [6.0], label="My own rule exploration=0.2", exploration=0.2),
        config("fedglb-auto", 20, [5.0], threshold=0.1),
    )
    assert [row.title for row in summarise(made)] == [
        "Async-LinUCB (D=1)", "My own rule exploration=0.1", "My own rule exploration=0.2",
        "FedGLB-Auto (D=0.1)",
    ]  # fmt: skip


def test_front_starts_without_communication_and_regret_falls_along_it():
    rows = summarise(study(*good()))
    assert [r.label for r in rows if r.front] == [
        "FedGLB-UCB D=0.1", "FedGLB-UCB D=10", "FedGLB-UCB D=100", "FedGLB-UCB D=1000",
        "FedGLB-UCB2 B=200", "N-UCB-GLM",
    ]  # fmt: skip
    for row in rows:  # the definition, all pairs
        beaten = any(
            o.transfers <= row.transfers and o.regret <= row.regret
            and (o.transfers, o.regret) != (row.transfers, row.regret)
            for o in rows
        )  # fmt: skip
        assert row.front is not beaten


def test_of_equal_points_one_is_on_the_front():
    assert pareto_front([(1.0, 1.0), (1.0, 1.0), (0.0, 2.0), (3.0, 1.0)]) == [2, 0]
    assert pareto_front([]) == []


def test_solvers_are_curves_of_their_own():
    made = study(
        config("fedglb-ucb", 10, [5.0], threshold=1.0, solver="newton"),
        config("fedglb-ucb", 90, [5.0], threshold=1.0, solver="agd"),
        config("fedglb-ucb", 60, [9.0], threshold=9.0, solver="agd"),
        config("fedglb-ucb-1", 60, [9.0], updates=9, solver="agd"),
    )
    found = trade_offs(summarise(made), "transfers")
    assert [c.name for c in found] == ["FedGLB-UCB newton", "FedGLB-UCB agd", "FedGLB-UCB1"]
    assert [r.value for r in found[1].rows] == [9.0, 1.0]  # by rising communication


def test_reference_is_the_best_of_several():
    made = study(
        config("n-ons-glm", 0, [9.0], label="worse"), config("n-ons-glm", 0, [8.0], label="better")
    )
    rows = summarise(made)
    assert reference(rows, "n-ons-glm").label == "better"
    assert reference(rows, "one-ucb-glm") is None


def test_infinite_threshold_is_json_able():
    (row,) = summarise(study(config("fedglb-ucb", 0, [5.0], threshold=math.inf)))
    assert row.plain()["value"] == "inf"
