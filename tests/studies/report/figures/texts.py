"""The texts of a figure: their sizes and places."""

from __future__ import annotations

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text


def assert_readable(figure: Figure, *, least: float = 7.0, apart: bool = True) -> None:
    """Assert that every text has a size, lies within the figure and covers no other text."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # a legend has its place only then
    width, height = figure.get_size_inches() * figure.dpi
    texts = set(figure.findobj(Text)) - _beyond(figure)
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    boxes = [(t.get_text(), t.get_window_extent(canvas.get_renderer())) for t in shown]
    assert len(boxes) > 5
    assert min(t.get_fontsize() for t in shown) >= least
    for text, box in boxes:
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= width + 1, text
        assert box.y1 <= height + 1, text
    for (one, a), (other, b) in combinations(boxes, 2):
        wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert not apart or min(wide, high) <= 2, (one, other)
    for axes in figure.axes:
        assert axes.get_window_extent().height > 0.3 * figure.dpi, "no room for the curves"


def _beyond(figure: Figure) -> set[Text]:
    """Return the numbers beyond the ends of an axis, which are not drawn."""
    found = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low <= tick.get_loc() <= high:
                    found |= {tick.label1, tick.label2}
    return found
