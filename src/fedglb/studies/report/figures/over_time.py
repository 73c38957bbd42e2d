"""Regret, communication and reward over time, for a few settings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from fedglb.studies.report.figures.style import (
    WIDE,
    Look,
    Medium,
    framed,
    handle,
    looks,
    styled,
)
from fedglb.studies.report.numerals import amount, brief
from fedglb.studies.report.summary import ENOUGH, REFERENCES, Row, StudyNumbers
from fedglb.studies.spec.plan import MEASURES
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDE = 5.0  # the axis is logarithmic if the final values differ by this factor
_MOST = 12  # curves of a sweep without a study's file
_BANDS = 9  # with more curves, bands would hide each other
_POINTS = 160  # per line: more would not be visible
_RATE = "rate"
_STEP = (
    "In a step every client that takes part acts once; the reward per interaction is the mean up "
    "to t."
)


def draw(numbers: StudyNumbers, medium: Medium = WIDE) -> Figure:
    """Draw the figure: regret, communication and reward."""
    shown = selected(numbers)
    drawn = {label: look.on(medium) for label, look in _looks(numbers, shown).items()}
    talking = [r for r in shown if r.algorithm not in REFERENCES]
    columns = [
        ("regret", "Regret", "reward lost, all clients", shown),
        (numbers.measure, "Communication", f"{numbers.measure} so far", talking),
        (_RATE, "Reward", "reward per interaction", shown),
    ]
    with styled(medium):
        handles = [handle(drawn[row.label], row.title) for row in shown]
        figure = framed(medium, "", handles, 7.5 if medium.narrow else 3.1)
        grid = figure.subplots(*((3, 1) if medium.narrow else (1, 3)))
        traces = _with_rate(numbers)
        for axes, (column, title, unit, rows) in zip(grid, columns, strict=True):
            _panel(axes, traces, rows, column, drawn)
            axes.set_title(title, weight="bold")
            log = " (log)" if axes.get_yscale() == "log" else ""
            axes.set_ylabel(unit + log, fontsize="small")
    return figure


def caption(numbers: StudyNumbers) -> str:
    """Return the caption, with the rule by which settings are chosen."""
    few = len(selected(numbers)) <= _BANDS
    bands = "bands are ± 1 standard error; " if few and not numbers.few_seeds else ""
    if numbers.study.own:
        every, shown = len(numbers.rows), len(selected(numbers))
        which = "all settings" if shown == every else (
            f"{shown} of {every} settings, evenly spaced in the order of regret"
        )  # fmt: skip
        return f"Means over the seeds, {bands}{which}. {_STEP}"
    return (
        f"Means over the seeds, {bands}settings chosen by rule: FedGLB-UCB with the D nearest to "
        "the geometric middle of its grid, and its setting with the most communication; of every "
        "other algorithm with D or B the setting whose communication is nearest, in the "
        "logarithm, to that of the middle one; One-UCB-GLM, N-UCB-GLM and N-ONS-GLM for regret "
        f"and reward. {_STEP}"
    )


def _with_rate(numbers: StudyNumbers) -> pl.DataFrame:
    """Return the traces with the mean reward per interaction up to each step."""
    acts = numbers.runs.select("label", "seed", pl.col("interactions").alias("acts"))
    last = numbers.traces.group_by("label", "seed").agg(pl.col("t").max().alias("last"))
    traces = numbers.traces.join(acts, on=["label", "seed"]).join(last, on=["label", "seed"])
    each = pl.col("acts") / pl.col("last")
    return traces.with_columns((pl.col("reward") / (pl.col("t") * each)).alias(_RATE))


def selected(numbers: StudyNumbers) -> list[Row]:
    """Choose the settings, by the rule of the caption."""
    if numbers.study.own:
        return _spaced(numbers.rows)
    chosen: list[Row] = []
    target: float | None = None
    ours = numbers.of("fedglb-ucb")
    for curve in ours:
        middle = _middle(curve.rows)
        frequent = max(curve.rows, key=lambda r: r.cost(numbers.measure))
        chosen += [middle] if middle is frequent else [middle, frequent]
        target = middle.cost(numbers.measure) if target is None else target
    for curve in numbers.curves:
        if curve not in ours:
            chosen.append(_nearest(curve.rows, target, numbers.measure))
    return chosen + [r for r in numbers.rows if r.algorithm in REFERENCES]


def _spaced(rows: tuple[Row, ...]) -> list[Row]:
    """Return all rows, or some of them that are evenly spaced in the order of regret."""
    if len(rows) <= _MOST:
        return list(rows)
    order = sorted(range(len(rows)), key=lambda i: rows[i].regret)
    kept = {order[round(i * (len(rows) - 1) / (_MOST - 1))] for i in range(_MOST)}
    return [row for i, row in enumerate(rows) if i in kept]


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


def _looks(numbers: StudyNumbers, shown: list[Row]) -> dict[str, Look]:
    """Return the look of each setting: its curve's; further ones have other lines and markers."""
    names: dict[str, str] = {}
    for row in shown:
        again = row.curve in names.values()
        names[row.label] = f"{row.curve}: {row.label}" if again else row.curve
    curves = [(row.curve, row.algorithm) for row in numbers.rows]
    made = looks([*curves, *((names[row.label], row.algorithm) for row in shown)])
    return {label: made[name] for label, name in names.items()}


def _panel(
    axes: Axes, traces: pl.DataFrame, shown: list[Row], column: str, drawn: dict[str, Look]
) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    last = 1.0
    ends: list[float] = []
    floor: list[float] = []
    ceiling: list[float] = []
    for i, row in enumerate(shown):
        t, mean, error = _mean(traces, row, column)
        if not len(t):
            continue
        own = drawn[row.label]
        steps = column not in ("regret", _RATE)
        axes.plot(
            t, mean, color=own.colour, linestyle=own.line, zorder=3,
            marker=own.marker, markerfacecolor=own.face,
            markevery=_marked(len(t), i, len(shown)),
            drawstyle="steps-post" if steps else "default",
        )  # fmt: skip
        if error.any() and len(shown) <= _BANDS:
            axes.fill_between(
                t, mean - error, mean + error, color=own.colour, alpha=0.18, linewidth=0,
                step="post" if steps else None, zorder=2,
            )  # fmt: skip
        ends.append(float(mean[-1]))
        begun = mean[(mean > 0) & (t >= t[-1] / 50)]
        floor += [float(begun.min())] if len(begun) else []
        ceiling += [float(begun.max())] if len(begun) else []
        last = max(last, float(t[-1]))
    if column == _RATE:
        if floor:  # the first few steps are noise
            room = 0.06 * (max(ceiling) - min(floor)) or 0.01
            axes.set_ylim(min(floor) - room, max(ceiling) + room)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    elif ends and min(ends) > 0 and max(ends) / min(ends) > _WIDE:
        axes.set_yscale("log")
        axes.set_ylim(min(floor + ends) / 1.5, max(ends) * 1.4)
        axes.yaxis.set_minor_formatter(NullFormatter())
    form = brief if column in MEASURES else amount
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: form(value)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlim(0.0, 1.01 * last)
    axes.set_xlabel("step t", fontsize="small")


def _mean(traces: pl.DataFrame, row: Row, column: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return steps, means over the seeds and their standard errors, 0 without one."""
    error = pl.col(column).std() / pl.len().sqrt()
    trace = (
        traces.filter(pl.col("label") == row.label)
        .group_by("t")
        .agg(
            pl.col(column).mean().alias("mean"),
            pl.when(pl.len() >= ENOUGH).then(error).fill_null(0.0).alias("error"),
        )
        .sort("t")
    )
    count = min(trace.height, _POINTS)
    kept = np.unique(np.linspace(0, max(trace.height - 1, 0), count).round().astype(int))
    trace = trace[kept.tolist()]
    t, mean, half = (trace[c].to_numpy().astype(float) for c in ("t", "mean", "error"))
    return t, mean, np.nan_to_num(half)


def _marked(points: int, i: int, of: int) -> list[int]:
    """Return the indices of a line's few markers: each line has others."""
    shift = points / 6 * (i + 1) / (of + 1)
    where = np.rint(np.arange(6) * points / 6 + shift).astype(int)
    return sorted({int(min(w, points - 1)) for w in where})
