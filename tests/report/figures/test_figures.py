"""What is drawn: artists counted, and their places against the numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from fedglb.report.claims import evidence
from fedglb.report.figures import over_time, tradeoff
from tests.report.made_study import config, good, study

BASELINES = pl.DataFrame(
    {"name": ["random play", "best-fitting linear model"], "seed": [1, 1],
     "regret": [700.0, 150.0], "reward": [1.0, 2.0]}
)  # fmt: skip


def drawn(draw, *configs, **more):
    made = study(*configs, **more)
    return draw(made, evidence(made))


def one_seed():
    return [{**c, "regrets": c["regrets"][:1]} for c in good()]


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
    rows = [r for c in evidence(study(*good())).curves for r in c.rows]
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


def test_bands_over_time():
    figure = drawn(over_time.draw, *good())
    left, right = figure.axes
    shown = over_time.selected(evidence(study(*good())))
    assert len(left.collections) == len(shown) == len(left.lines)
    assert len(right.collections) == 0  # all seeds communicate the same
    first = left.collections[0].get_paths()[0].vertices
    last = first[np.isclose(first[:, 0], 80)][:, 1]
    assert (last.min(), last.max()) == pytest.approx((180.0, 220.0))
    left, _ = drawn(over_time.draw, *one_seed()).axes
    assert len(left.collections) == 0
