"""A study with an axis: each algorithm along its values, and where curves cross."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from fedglb.studies.report.numerals import about, amount, factor, plus_minus, setting
from fedglb.studies.report.page import PageTable
from fedglb.studies.report.paired import differences
from fedglb.studies.report.summary import ENOUGH, NAMES, paired_ratio, standard_error
from fedglb.studies.results.study import Cell, Study
from fedglb.typing import FloatArray

#: Values with neighbours closer than this share of their range are drawn evenly spaced.
_NEAR = 0.06


@dataclass(frozen=True)
class Line:
    """An algorithm in one panel, along the values of the axis.

    With several settings it has the one with the least mean regret, at each value. An algorithm
    without the parameter on the axis has one value, None: it is a level.
    """

    algorithm: str
    name: str
    alone: bool  # never communicates
    values: tuple[float | None, ...]  # increasing
    labels: tuple[str, ...]  # the setting shown at each value
    settings: int  # number of settings to choose from
    transfers: tuple[float, ...]  # the mean at each value
    randomised: tuple[bool, ...]  # whether seeds are replicates, at each value
    regrets: FloatArray = field(repr=False)  # shape (values, seeds)

    @property
    def level(self) -> bool:
        """Whether the algorithm does not have the parameter."""
        return self.values == (None,)

    @property
    def means(self) -> FloatArray:
        """The mean regret at each value."""
        return np.asarray(self.regrets.mean(axis=1))

    @property
    def errors(self) -> FloatArray:
        """The standard errors of the means; nan with one seed, or the same run at every seed."""
        return np.where(self.randomised, standard_error(self.regrets), math.nan)


@dataclass(frozen=True)
class Panel:
    """The sweeps of one panel, and its lines; levels come last."""

    title: str
    cells: tuple[Cell, ...] = field(repr=False)
    lines: tuple[Line, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """All values of the axis."""
        return tuple(sorted({v for line in self.lines for v in line.values if v is not None}))


@dataclass(frozen=True)
class Crossing:
    """The point where a communicating algorithm and the best other one have equal regret."""

    name: str
    stops: bool  # pays before and not after; False: vice versa
    at: float  # interpolated
    # Where the ends of the 95 % intervals of the paired difference cross zero; None without a
    # crossing, with fewer than five seeds, or where a line has the same run at every seed.
    low: float | None
    high: float | None


def panels(study: Study) -> list[Panel]:
    """Return the panels, in the order of the file."""
    made = []
    for title in dict.fromkeys(cell.panel for cell in study.cells):
        cells = tuple(cell for cell in study.cells if cell.panel == title)
        frames = [
            cell.result.runs
            if cell.value is None
            else cell.result.runs.with_columns(pl.lit(cell.value).alias(study.axis))
            for cell in cells
        ]
        made.append(Panel(title, cells, tuple(_lines(study.axis, pl.concat(frames)))))
    return made


def _lines(axis: str, runs: pl.DataFrame) -> list[Line]:
    """Return the lines, then the levels; of levels without communication only the best."""
    made = []
    for own in runs.partition_by("algorithm", maintain_order=True):
        preset = str(own["algorithm"][0])
        values = own[axis].unique().drop_nulls().sort().to_list() or [None]
        each = [own.filter(pl.col(axis).eq_missing(pl.lit(v))) for v in values]
        best = [_best(frame) for frame in each]
        made.append(
            Line(
                preset, NAMES.get(preset, preset), own["transfers"].sum() == 0, tuple(values),
                tuple(str(b["label"][0]) for b in best), max(f["label"].n_unique() for f in each),
                tuple(float(b["transfers"].to_numpy().mean()) for b in best),
                tuple(bool(b["randomised"][0]) for b in best),
                np.array([b["regret"].to_numpy() for b in best]),
            )
        )  # fmt: skip
    alone = [line for line in made if line.alone and line.level]
    least = min(alone, key=lambda line: float(line.means[0]), default=None)
    shown = [line for line in made if line not in alone or line is least]
    return sorted(shown, key=lambda line: line.level)


def _best(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of the setting with the least mean regret, by seed."""
    means = runs.group_by("label", maintain_order=True).agg(pl.col("regret").mean())
    label = means["label"][int(means["regret"].arg_min() or 0)]
    return runs.filter(pl.col("label") == label).sort("seed")


def best_alone(panel: Panel) -> tuple[str, FloatArray] | None:
    """Return the best algorithm without communication at each value: names and regrets."""
    alone = [line for line in panel.lines if line.alone and not line.level]
    if not alone:
        return None
    best = [best_alone_at(alone, k) for k in range(len(panel.values))]
    name = " or ".join(dict.fromkeys(line.name for line in best))
    return name, np.array([line.regrets[k] for k, line in enumerate(best)])


def best_alone_at(alone: Sequence[Line], k: int) -> Line:
    """Return the one with the least mean regret at the k-th value."""
    return min(alone, key=lambda line: float(line.means[k]))


def crossings(panel: Panel) -> list[Crossing]:
    """Return where the lines that communicate cross the best of the others, in their order."""
    alone = best_alone(panel)
    if alone is None:
        return []
    places, made = positions(panel.values), []
    for line in panel.lines:
        if line.alone:
            continue
        paired = line.regrets - alone[1]
        gap, n = paired.mean(axis=1), paired.shape[1]
        half = np.full(len(gap), math.nan)
        if n >= ENOUGH and all(all(each.randomised) for each in panel.lines):
            half = standard_error(paired) * float(stats.t.ppf(0.975, n - 1))
        for k, (before, after) in enumerate(pairwise(gap)):
            if (before < 0.0) == (after < 0.0):
                continue
            at = places[k] + (places[k + 1] - places[k]) * before / (before - after)
            ends = [_nearest_zero(places, gap + sign * half, at) for sign in (1.0, -1.0)]
            low, high = sorted(ends, key=lambda end: math.inf if end is None else end)
            low, high = (low, high) if high is not None else (None, None)
            back = [None if x is None else _value(panel.values, x) for x in (at, low, high)]
            assert back[0] is not None
            made.append(Crossing(line.name, bool(before < 0.0), back[0], back[1], back[2]))
    return made


def _nearest_zero(places: Sequence[float], gap: FloatArray, near: float) -> float | None:
    """Return the zero of a broken line that is nearest to a place."""
    zeros = [
        x + (y - x) * a / (a - b)
        for (x, y), (a, b) in zip(pairwise(places), pairwise(gap.tolist()), strict=True)
        if (a < 0.0) != (b < 0.0)
    ]
    return min(zeros, key=lambda zero: abs(zero - near), default=None)


def positions(values: Sequence[float]) -> list[float]:
    """Return the positions of values: as they are, or evenly spaced if some are too close."""
    gaps = [b - a for a, b in pairwise(values)]
    near = min(gaps, default=1.0) < _NEAR * (values[-1] - values[0])
    return [float(i if near else v) for i, v in enumerate(values)]


def some(values: Sequence[float], count: int) -> list[float]:
    """Return at most so many of the values: the ends, and evenly spaced ones between them."""
    kept = np.unique(np.linspace(0, len(values) - 1, count).round().astype(int))
    return [values[i] for i in kept]


def _value(values: Sequence[float], place: float) -> float:
    return float(np.interp(place, positions(values), values))


def headline(study: Study, found: Sequence[Panel], crossed: Sequence[Sequence[Crossing]]) -> str:
    """Return the result in one line: of the last panel."""
    panel, own = found[-1], crossed[-1]
    before = (f"{panel.title}: " if panel.title else "") + _too_few(panel)
    if study.against:
        return before + _ratios(study, panel)
    alone = best_alone(panel)
    if alone is None or all(line.alone for line in panel.lines):
        return f"{before}Regret across {study.axis} of {len(panel.lines)} algorithms"
    talking = [line for line in panel.lines if not line.alone]
    comparisons = len(talking) * len(panel.values)
    said = []
    for line in talking:
        parts = [
            f"{'stops paying' if c.stops else 'begins to pay'} at {study.axis} ≈ {about(c.at)}"
            + _between(c, judged=not _too_few(panel))
            for c in own
            if c.name == line.name
        ]
        if parts:
            said.append(f"{line.name} {', and '.join(parts)}, against {alone[0]}.")
        else:
            word = "less" if line.means[0] < alone[1][0].mean() else "no less"
            said.append(
                f"{line.name} has {word} regret than {alone[0]} at every value of {study.axis}"
                f"{_decided(panel, line, alone[1], comparisons)}."
            )
    return before + " ".join(said)


def _too_few(panel: Panel) -> str:
    """Return in words why no difference of the panel can be judged; "" if it can."""
    seeds = panel.lines[0].regrets.shape[1]
    if not all(all(line.randomised) for line in panel.lines):
        return "Without replicates, too few to judge: "
    few = f"{seeds} seed{'s' if seeds > 1 else ''}, too few to judge: "
    return few if seeds < ENOUGH else ""


def _between(crossing: Crossing, *, judged: bool) -> str:
    """Return a crossing's interval in words."""
    if crossing.low is None or crossing.high is None:
        return " (95 %: the data do not decide where)" if judged else ""
    return f" (95 %: {about(crossing.low)} to {about(crossing.high)})"


def _decided(panel: Panel, line: Line, alone: FloatArray, comparisons: int) -> str:
    """Return at how many values a line's paired differences are decided, if not at all."""
    if _too_few(panel):
        return ""
    pairs = list(zip(line.regrets, alone, strict=True))
    found = differences(pairs, [comparisons] * len(pairs))
    sure = sum(each.verdict in ("lower", "higher") for each in found)
    how = f"paired t, {found[0].seeds} seeds, corrected for {comparisons} comparisons"
    if sure == len(found):
        return f" ({how})"
    return f" by its means; the data decide {sure} of {len(found)} ({how})"


def _ratios(study: Study, panel: Panel) -> str:
    """Return the ratio of the first line to the one it is compared with, at both ends."""
    first, other = panel.lines[0], _against(study, panel)
    ends = [
        f"{'–' if share is None else factor(share)}{'' if error is None else f' ± {error:.2g}'} "
        f"times the regret of {other.name} at {study.axis} {setting(value)}"
        for k in (0, -1)
        if (value := first.values[k]) is not None
        for share, error in (paired_ratio(first.regrets[k], other.regrets[0]),)
    ]
    return f"{first.name} has {' and '.join(ends)}."


def _against(study: Study, panel: Panel) -> Line:
    return next(line for line in panel.lines if line.algorithm == study.against)


def rows(study: Study, panel: Panel) -> list[dict[str, Any]]:
    """Return the numbers of a panel, one row per line and value, for `summary.json`."""
    made: list[dict[str, Any]] = []
    for line in panel.lines:
        errors = [None if math.isnan(error) else float(error) for error in line.errors]
        for k, value in enumerate(line.values):
            row = {
                "panel": panel.title, "algorithm": line.algorithm, "name": line.name,
                study.axis: value, "setting": line.labels[k], "settings": line.settings,
                "regret": float(line.means[k]), "error": errors[k],
                "median": float(np.median(line.regrets[k])), "transfers": line.transfers[k],
            }  # fmt: skip
            if study.against:
                other = _against(study, panel)
                enough = 2 if line.randomised[k] or other.randomised[0] else math.inf
                ratio = paired_ratio(line.regrets[k], other.regrets[0], enough)
                row["ratio"], row["ratio_error"] = ratio
            made.append(row)
    return made


def table(study: Study, panel: Panel) -> PageTable:
    """Return the numbers of a panel for the page."""
    ratios = [f"ratio to {_against(study, panel).name} ± s.e."] if study.against else []
    head = ["algorithm", study.axis, "regret ± s.e.", "median", *ratios, "transfers per client"]
    clients = panel.cells[0].result.manifest["clients"]
    cells: list[list[str | tuple[str, str]]] = []
    for row in rows(study, panel):
        value, error = row[study.axis], row.get("ratio_error")
        share = "–" if row.get("ratio") is None else f"{row['ratio']:.2f}"
        share += "" if error is None else f" ± {error:.2f}"
        cells.append(
            [
                (row["name"], row["setting"]) if row["settings"] > 1 else row["name"],
                "–" if value is None else setting(value), plus_minus(row["regret"], row["error"]),
                amount(row["median"]), *([share] if study.against else []),
                amount(row["transfers"] / clients),
            ]
        )  # fmt: skip
    return PageTable(panel.title, head, cells)
