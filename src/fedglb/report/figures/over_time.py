"""Regret and communication over time, for a few settings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fedglb.report.claims import Evidence
from fedglb.report.figures.style import Dashes, Look, looks, styled
from fedglb.report.study import Study
from fedglb.report.summary import REFERENCES, Row
from fedglb.report.text.numerals import amount, brief, setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (9.4, 4.7)
_SECOND: tuple[tuple[str, Dashes], ...] = (
    ("o", (0, (1, 0.8))), ("h", (0, (3, 0.8))), ("<", (0, (2, 2))), (">", (0, (6, 1))),
)  # fmt: skip
_WIDE = 5.0  # the axis is logarithmic if the final values differ by this factor


def draw(study: Study, evidence: Evidence) -> Figure:
    """Draw the figure."""
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=_SIZE)
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.085, right=0.975, top=0.91, bottom=0.285, wspace=0.24)
        shown = selected(evidence)
        drawn = _looks(evidence, shown)
        handles = _panel(left, evidence, shown, "regret", drawn)
        left.set_title("Regret", loc="left", fontsize=10.5, weight="bold")
        talking = [r for r in shown if r.algorithm not in REFERENCES]
        _panel(right, evidence, talking, study.measure, drawn)
        title = f"Communication ({study.measure})"
        right.set_title(title, loc="left", fontsize=10.5, weight="bold")
        figure.legend(
            handles=handles, loc="lower center", ncols=3, frameon=False, fontsize=8.5,
            handlelength=3.6, columnspacing=1.8, bbox_to_anchor=(0.5, 0.005),
        )  # fmt: skip
    return figure


def caption(evidence: Evidence) -> str:
    """Return what the figure shows, and how the settings were chosen."""
    bands = "bands are ± 1 standard error; " if max(r.seeds for r in evidence.rows) > 1 else ""
    return (
        f"Means over the seeds, {bands}settings chosen by rule: FedGLB-UCB with the D nearest to "
        "the geometric middle of its grid, and its setting with the most communication; of every "
        "other algorithm with D or B the setting whose communication is nearest, in the "
        "logarithm, to that of the middle one; One-UCB-GLM, N-UCB-GLM and N-ONS-GLM for regret."
    )


def selected(evidence: Evidence) -> list[Row]:
    """Choose the settings, by the rule of the caption."""
    chosen: list[Row] = []
    target: float | None = None
    ours = evidence.of("fedglb-ucb")
    for curve in ours:
        middle = _middle(curve.rows)
        frequent = max(curve.rows, key=lambda r: r.cost(evidence.measure))
        chosen += [middle] if middle is frequent else [middle, frequent]
        target = middle.cost(evidence.measure) if target is None else target
    for curve in evidence.curves:
        if curve not in ours:
            chosen.append(_nearest(curve.rows, target, evidence.measure))
    return chosen + [r for r in evidence.rows if r.algorithm in REFERENCES]


def _middle(rows: tuple[Row, ...]) -> Row:
    """Return the row with D nearest to the geometric middle of its grid; on a tie the smaller D."""
    usable = [(r.value, r) for r in rows if r.value is not None and 0 < r.value < math.inf]
    if not usable:
        return rows[len(rows) // 2]
    logs = [math.log(value) for value, _ in usable]
    centre = (min(logs) + max(logs)) / 2
    return min(usable, key=lambda u: (round(abs(math.log(u[0]) - centre), 9), u[0]))[1]


def _nearest(rows: tuple[Row, ...], target: float | None, measure: str) -> Row:
    if not target:
        return rows[len(rows) // 2]
    goal = math.log(target)
    return min(
        rows, key=lambda r: abs(math.log(r.cost(measure)) - goal) if r.cost(measure) else math.inf
    )


def _looks(evidence: Evidence, shown: list[Row]) -> dict[str, Look]:
    """Return the look of each setting; a curve's second setting has another line and marker."""
    curve = looks([(r.curve, r.algorithm) for r in evidence.rows])
    made = {}
    again = 0
    for i, row in enumerate(shown):
        own = curve[row.curve]
        if row.curve in {r.curve for r in shown[:i]} and row.algorithm not in REFERENCES:
            marker, line = _SECOND[again % len(_SECOND)]
            own, again = replace(own, marker=marker, line=line, inside="white"), again + 1
        made[row.label] = own
    return made


def _panel(
    axes: Axes, evidence: Evidence, shown: list[Row], column: str, drawn: dict[str, Look]
) -> list[object]:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    last = 1.0
    ends: list[float] = []
    floor: list[float] = []
    handles: list[object] = []
    for i, row in enumerate(shown):
        trace = (
            evidence.traces.filter(pl.col("label") == row.label)
            .group_by("t")
            .agg(
                pl.col(column).mean().alias("mean"),
                (pl.col(column).std() / pl.len().sqrt()).fill_null(0.0).alias("error"),
            )
            .sort("t")
        )
        if trace.is_empty():
            continue
        t, mean, error = (trace[c].to_numpy().astype(float) for c in ("t", "mean", "error"))
        own = drawn[row.label]
        name = (
            f"{row.curve} {row.dial}={setting(row.value)}" if row.value is not None else row.curve
        )
        steps = column != "regret"
        style = "steps-post" if steps else "default"
        handles += axes.plot(
            t, mean, color=own.colour, linestyle=own.line, linewidth=1.5, label=name, zorder=3,
            marker=own.marker, markersize=4.6, markerfacecolor=own.face,
            markevery=_marked(len(t), i, len(shown)), drawstyle=style,
        )  # fmt: skip
        if error.any():
            axes.fill_between(
                t, mean - error, mean + error, color=own.colour, alpha=0.18, linewidth=0,
                step="post" if steps else None, zorder=2,
            )  # fmt: skip
        ends.append(float(mean[-1]))
        begun = mean[(mean > 0) & (t >= t[-1] / 50)]
        floor += [float(begun[0])] if len(begun) else []
        last = max(last, float(t[-1]))
    if ends and min(ends) > 0 and max(ends) / min(ends) > _WIDE:
        axes.set_yscale("log")
        axes.set_ylim(min(floor + ends) / 1.5, max(ends) * 1.4)
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_ylabel("log scale", fontsize=8)
    form = amount if column == "regret" else brief
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    axes.set_xlim(0.0, 1.01 * last)
    axes.set_xlabel("step t")
    axes.grid(color="#ececec", linewidth=0.6)
    axes.set_axisbelow(True)
    return handles


def _marked(points: int, i: int, of: int) -> list[int]:
    """Return where a line has its few markers: each line at other places."""
    shift = points / 6 * (i + 1) / (of + 1)
    where = np.rint(np.arange(6) * points / 6 + shift).astype(int)
    return sorted({int(min(w, points - 1)) for w in where})
