"""A study across values of a parameter of algorithms, on several problems: a panel for each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from fedglb.studies import SweepResult
from fedglb.studies.report.across import standard_errors
from fedglb.studies.report.summary import NAMES
from fedglb.typing import FloatArray


@dataclass(frozen=True)
class Panel:
    """A sweep, and what its panel is called."""

    title: str
    result: SweepResult = field(repr=False)


@dataclass(frozen=True)
class Panels:
    """Sweeps of the same algorithms on several problems.

    Attributes
    ----------
    name, title, profile
        As in `Study`.
    parameter
        The column of the runs that is on the axis.
    against
        The algorithm that ratios are to.
    panels
        In the order of the file.
    """

    name: str
    title: str
    profile: str
    parameter: str
    against: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Line:
    """An algorithm in one panel, along the values of the parameter.

    Of several settings it has the one with the least mean regret, at each value. An algorithm
    without the parameter has one value, None: it is a level.

    Attributes
    ----------
    algorithm, name
        The preset or its label, and what it is called.
    alone
        Whether it never communicates.
    values
        Of the parameter, increasing.
    labels, settings
        The setting that is shown at each, and how many there are to choose from.
    transfers
        The mean number of transfers at each.
    regrets
        Shape (values, seeds).
    """

    algorithm: str
    name: str
    alone: bool
    values: tuple[float | None, ...]
    labels: tuple[str, ...]
    settings: int
    transfers: tuple[float, ...]
    regrets: FloatArray = field(repr=False)

    @property
    def level(self) -> bool:
        """Whether the algorithm does not have the parameter."""
        return self.values == (None,)

    @property
    def means(self) -> FloatArray:
        """The mean regret at each value."""
        return np.asarray(self.regrets.mean(axis=1))

    @property
    def medians(self) -> FloatArray:
        """The median regret at each value."""
        return np.asarray(np.median(self.regrets, axis=1))

    @property
    def errors(self) -> FloatArray:
        """The standard errors of the means; nan with one seed."""
        return standard_errors(self.regrets)


def lines(study: Panels, panel: Panel) -> list[Line]:
    """Return what a panel shows: lines first, levels after them; of those alone the best one."""
    made = []
    for own in panel.result.runs.partition_by("algorithm", maintain_order=True):
        preset = str(own["algorithm"][0])
        given = own[study.parameter].unique()
        values = given.drop_nulls().sort().to_list() or [None]
        best = [_best(own.filter(pl.col(study.parameter).eq_missing(pl.lit(v)))) for v in values]
        made.append(
            Line(
                preset, NAMES.get(preset, preset), own["transfers"].sum() == 0, tuple(values),
                tuple(str(b["label"][0]) for b in best), own["label"].n_unique() // len(values),
                tuple(float(b["transfers"].to_numpy().mean()) for b in best),
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


def ratio(regrets: FloatArray, others: FloatArray) -> tuple[float, float | None]:
    """Return the ratio of two mean regrets on the same seeds, and its standard error.

    The error is that of a paired ratio, to first order; None with one seed.

    Examples
    --------
    >>> import numpy as np
    >>> ratio(np.array([2.0, 4.0]), np.array([1.0, 2.0]))
    (2.0, 0.0)
    """
    mean = float(others.mean())
    if mean == 0.0:
        return math.nan, None
    share = float(regrets.mean()) / mean
    if len(regrets) < 2:
        return share, None
    rest = regrets - share * others
    return share, float(rest.std(ddof=1) / math.sqrt(len(rest)) / abs(mean))
