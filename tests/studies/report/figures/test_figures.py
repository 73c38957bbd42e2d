"""What is drawn: artists counted, and their places against the numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from fedglb.studies.report.figures import over_time, parameters, tradeoff
from fedglb.studies.report.figures.parameters import varied
from fedglb.studies.report.figures.style import LOOKS, Medium, looks, setting_look
from fedglb.studies.report.numerals import setting
from tests.studies.report.made_study import config, good, numbers

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
               parameters.draw(varied(found.rows, dials=True), found)]  # fmt: skip
    every = [colours(figure) for figure in figures]
    assert set(every[1]) == {"mine", "FedGLB-Auto", "other"}
    assert set(every[2]) == {"mine", "other"}
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


def test_regret_is_drawn_against_what_varies():
    found = own_sweep()
    figure = parameters.draw(varied(found.rows, dials=True), found)
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
    ((line, *_),) = (container.lines for container in fixed.containers)
    assert list(line.get_xdata()) == [0.2, 0.3]


MEDIA = [Medium(narrow, dark) for narrow in (False, True) for dark in (False, True)]


@pytest.mark.some(1)
@pytest.mark.parametrize("medium", MEDIA, ids=str)
def test_every_text_is_inside_the_figure(medium):
    """Titles, names of axes, legends: also with long names and many curves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    long = [config("fedglb-ucb", 10 * i, [5.0 * i, 6.0 * i], threshold=1.0, exploration=i / 7,
                   clock="own samples" if i % 2 else "steps", label=f"x{i}")
            for i in range(1, 20)]  # fmt: skip
    title = "A title that says all there is to say about what was done, to whom, when and why"
    found = numbers(*good(), *long, baselines=BASELINES, title=title, own=True)
    figures = [tradeoff.draw(found, medium), over_time.draw(found, medium),
               parameters.draw(varied(found.rows, dials=True), found, medium)]  # fmt: skip
    for figure in figures:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()  # a legend has its place only then
        renderer = canvas.get_renderer()
        width, height = figure.get_size_inches() * figure.dpi
        assert figure.get_size_inches()[0] == medium.width
        inside = [*figure.texts, *figure.legends[0].get_texts()]
        for axes in figure.axes:
            inside += [axes.xaxis.label, axes.yaxis.label, axes.title]
        for text in (text for text in inside if text.get_text()):
            box = text.get_window_extent(renderer)
            assert box.x0 >= -1, text.get_text()
            assert box.y0 >= -1, text.get_text()
            assert box.x1 <= width + 1, text.get_text()
            assert box.y1 <= height + 1, text.get_text()


@pytest.mark.parametrize("medium", MEDIA, ids=str)
def test_what_is_drawn_can_be_seen(medium):
    """Contrast with the page, as the WCAG define it: 3 for lines, 4.5 for small print."""

    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

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
    settings = [setting_look(i) for i in range(12)]
    assert len({own.marker for own in settings}) == 12
