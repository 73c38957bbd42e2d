"""A study across values of the environment: up to where does federating pay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from scipy import stats

from fedglb.errors import InvalidInput
from fedglb.studies import SweepResult
from fedglb.studies.report.summary import ENOUGH, NAMES
from fedglb.typing import FloatArray

#: Values with neighbours closer than this share of their range are drawn evenly spaced.
_NEAR = 0.04


@dataclass(frozen=True)
class Across:
    """Sweeps that differ in one key of their environment.

    Attributes
    ----------
    name, title, profile
        As in `Study`.
    key, values
        The key of `[environment]`, and its value in each sweep.
    results
        The sweeps, in the order of the values.
    """

    name: str
    title: str
    profile: str
    key: str
    values: tuple[float, ...]
    results: tuple[SweepResult, ...] = field(repr=False)


@dataclass(frozen=True)
class Curve:
    """One algorithm across the values: at each, its setting with the least mean regret.

    Attributes
    ----------
    algorithm, name
        The preset, and what it is called.
    alone
        Whether it never communicates, at no value.
    labels
        The setting that is shown at each value.
    regrets
        Shape (values, seeds).
    """

    algorithm: str
    name: str
    alone: bool
    labels: tuple[str, ...]
    regrets: FloatArray = field(repr=False)

    @property
    def means(self) -> FloatArray:
        """The mean regret at each value."""
        return np.asarray(self.regrets.mean(axis=1))

    @property
    def errors(self) -> FloatArray:
        """The standard errors of the means; nan with one seed."""
        return standard_errors(self.regrets)


@dataclass(frozen=True)
class Crossing:
    """Where an algorithm that communicates and the best that does not have equal regret.

    Attributes
    ----------
    name
        The algorithm that communicates.
    stops
        Whether it pays before and not after; False: the other way round.
    at
        The value, interpolated.
    low, high
        Where the ends of the 95 % intervals of the paired difference cross zero; None where they do
        not, or with fewer than five seeds.
    """

    name: str
    stops: bool
    at: float
    low: float | None
    high: float | None


def curves(study: Across) -> list[Curve]:
    """Return one curve per algorithm, in the order of the file."""
    frames = [result.runs for result in study.results]
    every = pl.concat([f.select("algorithm", "label", "transfers") for f in frames])
    made = []
    for preset in every["algorithm"].unique(maintain_order=True):
        own = [frame.filter(pl.col("algorithm") == preset) for frame in frames]
        best = [_best(frame) for frame in own]
        silent = every.filter(pl.col("algorithm") == preset)["transfers"].sum() == 0
        name = NAMES.get(preset) or str(own[0]["label"][0]).split(" ", maxsplit=1)[0]
        labels = tuple(label for label, _ in best)
        made.append(Curve(preset, name, silent, labels, np.array([r for _, r in best])))
    return made


def _best(runs: pl.DataFrame) -> tuple[str, list[float]]:
    means = runs.group_by("label", maintain_order=True).agg(pl.col("regret").mean())
    label = str(means["label"][int(means["regret"].arg_min() or 0)])
    return label, runs.filter(pl.col("label") == label).sort("seed")["regret"].to_list()


def best_alone(found: Sequence[Curve]) -> Curve | None:
    """Return what is best at each value among those that never communicate, as one curve."""
    alone = [curve for curve in found if curve.alone]
    if not alone:
        return None
    which = np.array([curve.means for curve in alone]).argmin(axis=0)
    name = " or ".join(alone[i].name for i in dict.fromkeys(which.tolist()))
    labels = tuple(alone[i].labels[k] for k, i in enumerate(which))
    regrets = np.array([alone[i].regrets[k] for k, i in enumerate(which)])
    return Curve("", name, True, labels, regrets)


def crossings(study: Across, found: Sequence[Curve]) -> list[Crossing]:
    """Return where the curves that communicate cross the best of the others, in their order."""
    alone = best_alone(found)
    if alone is None:
        return []
    places, made = positions(study.values), []
    for curve in found:
        if curve.alone:
            continue
        paired = curve.regrets - alone.regrets
        gap, n = paired.mean(axis=1), paired.shape[1]
        half = np.full(len(gap), math.nan)
        if n >= ENOUGH:
            half = standard_errors(paired) * float(stats.t.ppf(0.975, n - 1))
        for k, (before, after) in enumerate(pairwise(gap)):
            if (before < 0.0) == (after < 0.0):
                continue
            stops = bool(before < 0.0)
            at = places[k] + (places[k + 1] - places[k]) * before / (before - after)
            ends = [_first_zero(places, gap + sign * half, at) for sign in (1.0, -1.0)]
            low, high = sorted(ends, key=lambda end: math.inf if end is None else end)
            low, high = (low, high) if high is not None else (None, None)
            back = [None if x is None else _value(study.values, x) for x in (at, low, high)]
            assert back[0] is not None
            made.append(Crossing(curve.name, stops, back[0], back[1], back[2]))
    return made


def _first_zero(places: Sequence[float], gap: FloatArray, near: float) -> float | None:
    """Return the zero of a broken line that is nearest to a place."""
    zeros = [
        x + (y - x) * a / (a - b)
        for (x, y), (a, b) in zip(pairwise(places), pairwise(gap.tolist()), strict=True)
        if (a < 0.0) != (b < 0.0)
    ]
    return min(zeros, key=lambda zero: abs(zero - near), default=None)


def standard_errors(regrets: FloatArray) -> FloatArray:
    """Return the standard error of the mean of each row; nan with one column."""
    n = regrets.shape[1]
    if n < 2:
        return np.full(len(regrets), math.nan)
    return np.asarray(regrets.std(axis=1, ddof=1) / math.sqrt(n))


def positions(values: Sequence[float]) -> list[float]:
    """Return where values are drawn: where they are, or evenly spaced if some are too close.

    Examples
    --------
    >>> positions((0.0, 0.5, 1.0)), positions((0.0, 0.001, 0.1))
    ([0.0, 0.5, 1.0], [0.0, 1.0, 2.0])
    """
    near = min(b - a for a, b in pairwise(values)) < _NEAR * (values[-1] - values[0])
    return [float(i if near else v) for i, v in enumerate(values)]


def _value(values: Sequence[float], place: float) -> float:
    return float(np.interp(place, positions(values), values))


def headline(study: Across, found: Sequence[Curve], crossed: Sequence[Crossing]) -> str:
    """Return the result in one line."""
    alone = best_alone(found)
    if alone is None or all(curve.alone for curve in found):
        return f"Regret across {study.key} of {len(found)} algorithms"
    return " ".join(_said(study, curve, alone, crossed) for curve in found if not curve.alone)


def _said(study: Across, curve: Curve, alone: Curve, crossed: Sequence[Crossing]) -> str:
    own = [c for c in crossed if c.name == curve.name]
    if not own:
        less = bool((curve.means < alone.means)[0])
        verb = "less" if less else "no less"
        return f"{curve.name} has {verb} regret than {alone.name} at every {study.key} tried."
    parts = []
    for each in own:
        word = "stops paying" if each.stops else "begins to pay"
        sure = "" if each.low is None or each.high is None else (
            f" (95 %: {each.low:.2g} to {each.high:.2g})")  # fmt: skip
        parts.append(f"{word} at {study.key} ≈ {each.at:.2g}{sure}")
    return f"{curve.name} {', and '.join(parts)}, against {alone.name}."


def check(values: Sequence[float]) -> None:
    """Raise unless there are at least two values, in increasing order."""
    if len(values) < 2 or any(a >= b for a, b in pairwise(values)):
        raise InvalidInput((), list(values), "at least two values, in increasing order")
