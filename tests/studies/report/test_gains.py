"""What joining gained each client: by hand, on regrets that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedglb.studies.report import write_report
from fedglb.studies.report.along import panels
from fedglb.studies.report.figures.gains import draw
from fedglb.studies.report.figures.style import Medium
from fedglb.studies.report.gains import gains, table
from fedglb.studies.results.study import Study
from tests.studies.report.made_study import config
from tests.studies.report.made_study import study as made_study

JOINED = {1: [1.0, 2.0, 3.0, 9.0], 2: [1.0, 1.0, 1.0, 1.0]}
ALONE = {1: [5.0, 5.0, 5.0, 5.0], 2: [0.0, 3.0, 4.0, 5.0]}


def study(values=(0.0, 1.0), titles=("",), alone=ALONE):
    cells = []
    for title in titles:
        for k, value in enumerate(values):
            made = made_study(
                config("fedglb-auto", 10, [15.0, 4.0], few=True, client_regret=JOINED),
                config("fedglb-mix", 10, [8.0, 8.0], few=True),
                config("n-ucb-glm", 0, [20.0, 12.0], few=True, client_regret=alone, label="a"),
                # the better one at the first value only
                config("n-ons-glm", 0, [99.0 * k, 0.0], few=True, label="b"),
                horizon=1,
            )
            cells.append(replace(made.cells[0], panel=title, value=value))
    return Study("x", "X", "", "transfers", tuple(cells), "delay")


def test_clients_are_paired_with_the_best_alone_at_each_value():
    (panel,) = panels(study())
    first, second, *mix = gains(panel)
    assert [g.name for g in (first, second, *mix)] == ["FedGLB-Auto"] * 2 + ["FedGLB-Mix"] * 2
    assert (first.value, first.alone, second.value, second.alone) == (
        0.0, "N-ONS-GLM", 1.0, "N-UCB-GLM",
    )  # fmt: skip
    assert first.clients.tolist() == [-9.0, -3.0, -2.0, -1.0, -1.0, -1.0, -1.0, -1.0]
    assert second.clients.tolist() == [-4.0, -1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
    assert (second.losing, second.least) == (0.25, -4.0)
    plain = second.plain()
    assert (plain["mean"], plain["median"]) == (13 / 8, 2.5)
    assert (plain["losing"], plain["least_tenth"]) == (0.25, -4.0)


def test_without_an_algorithm_alone_there_is_no_gain():
    made = study()
    cells = [
        replace(c, result=replace(c.result, runs=c.result.runs.filter(algorithm="fedglb-auto")))
        for c in made.cells
    ]
    (panel,) = panels(replace(made, cells=tuple(cells)))
    assert gains(panel) == []


def test_a_report_has_them(tmp_path):
    made = study(titles=("one", "two"))
    report = write_report(made, tmp_path)
    assert {path.name for path in report.figures} >= {"gains.png", "gains.svg"}
    page = report.page.read_text()
    assert "What joining gained each client" in page
    assert "two: FedGLB-Mix" in page
    rows = table(made, [g for panel in panels(made) for g in gains(panel)]).rows
    assert rows[1] == ["one: FedGLB-Auto", "1", "1.62", "2.5", "−4", "25 %"]


@pytest.mark.parametrize("medium", [Medium(), Medium(narrow=True)])
def test_a_figure_has_six_charts_at_most(medium):
    made = study(values=tuple(range(9)))
    figure = draw(made, [g for panel in panels(made) for g in gains(panel)], medium)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [f"delay {k}" for k in (0, 2, 3, 5, 6, 8)]
    sorted_ = next(line for line in figure.axes[1].lines if len(line.get_xdata()) > 2)
    assert sorted_.get_ydata().tolist() == [-4.0, -1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
    assert sorted_.get_xdata()[[0, -1]].tolist() == [6.25, 93.75]
