"""One row per configuration: means over the seeds, errors, Pareto front."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.catalog import parameters
from fedglb.studies.report.numerals import NOTHING, setting
from fedglb.studies.results.card import pareto_front
from fedglb.studies.results.study import Study
from fedglb.studies.results.tables import distinct
from fedglb.studies.spec.grid import choices, configurations
from fedglb.typing import FloatArray

#: The names of presets in the paper, and ours.
NAMES = {
    "fedglb-ucb": "FedGLB-UCB", "fedglb-ucb-1": "FedGLB-UCB1", "fedglb-ucb-2": "FedGLB-UCB2",
    "fedglb-ucb-3": "FedGLB-UCB3", "dislinucb": "DisLinUCB", "one-ucb-glm": "One-UCB-GLM",
    "n-ucb-glm": "N-UCB-GLM", "n-ons-glm": "N-ONS-GLM", "fedglb-mix": "FedGLB-Mix",
    "fedglb-auto": "FedGLB-Auto", "fedglb-iterate": "FedGLB-Iterate", "fedlinucb": "FedLinUCB",
    "async-linucb": "Async-LinUCB", "one-ecolog": "One-ECOLog", "n-ecolog": "N-ECOLog",
    "one-ofuglb": "One-OFUGLB", "n-ofuglb": "N-OFUGLB", "fedglb-private": "FedGLB-Private",
    "fedglb-personal": "FedGLB-Personal",
}  # fmt: skip
#: The two extremes (always or never communicate), which have no trade-off to set.
REFERENCES = (
    "one-ucb-glm", "n-ucb-glm", "n-ons-glm", "one-ecolog", "n-ecolog", "one-ofuglb", "n-ofuglb",
)  # fmt: skip
#: The parameters that set the trade-off, and their symbols.
DIALS = {"threshold": "D", "updates": "B"}
#: From this number of seeds on there are errors, intervals, medians and verdicts.
ENOUGH = 5
#: A run is stuck if its regret is more than this many times the median of its own setting.
STUCK = 3.0
STUCK_MEANS = (
    f"A run is stuck if its regret is more than {STUCK:g} times the median of its own setting."
)
_MEANS = ("reward", "transfers", "scalars", "bits", "syncs", "rounds")


@dataclass(frozen=True)
class Row:
    """One configuration of the study: means over the seeds."""

    label: str
    algorithm: str
    name: str
    curve: str  # the name, followed by `variation`
    variation: str  # differences between its curves besides the dial; may be empty
    dial: str  # the parameter along the curve: "D", "B" or another; "" and no value without one
    value: float | None
    in_paper: bool  # False for FedGLB-UCB with a clock or confidence set that the paper lacks
    seeds: int  # runs that differ
    regret: float
    # Standard error, median, stuck runs, 95 % t-interval: None with fewer than 5 seeds.
    error: float | None
    median: float | None
    stuck: int | None
    low: float | None
    high: float | None
    reward: float
    transfers: float
    scalars: float
    bits: float
    syncs: float
    rounds: float
    randomised: bool  # False: all seeds are the same run
    front: bool  # no other configuration has less regret for as little communication
    settings: Mapping[str, float | str] = field(default_factory=dict)  # what varies, with D and B

    @property
    def parameter(self) -> str:
        """Return "D=0.1", or nothing."""
        return "" if self.value is None else f"{self.dial}={setting(self.value)}"

    @property
    def title(self) -> str:
        """Return "FedGLB-UCB (D=0.1)"."""
        return f"{self.curve} ({self.parameter})" if self.parameter else self.curve

    def cost(self, measure: str) -> float:
        """Return the mean communication."""
        costs = {"transfers": self.transfers, "scalars": self.scalars, "bits": self.bits}
        return costs[measure]

    def plain(self) -> dict[str, Any]:
        """Return the row for JSON; infinity and nan become text, because JSON has neither."""
        row = {**asdict(self), "parameter": self.parameter, "title": self.title}
        row["settings"] = {k: plain(v) for k, v in self.settings.items()}
        return {k: plain(v) for k, v in row.items()}


def plain(value: Any) -> Any:
    """Return the value for JSON, which has neither infinity nor nan: they become text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def spread(column: str = "regret") -> list[pl.Expr]:
    """Return, for `agg`: error, median and number of stuck runs; null with fewer than 5 seeds."""
    values = pl.col(column)
    enough = pl.len() >= ENOUGH
    most = pl.max_horizontal(STUCK * values.median(), pl.lit(NOTHING))
    return [
        pl.when(enough).then(values.std() / pl.len().sqrt()).alias("error"),
        pl.when(enough).then(values.median()).alias("median"),
        pl.when(enough).then((values > most).sum()).alias("stuck"),
    ]


def summarise(study: Study) -> tuple[Row, ...]:
    """Return one row per configuration, in the order of the experiment."""
    runs = distinct(study.result.runs)
    parts = _varying(runs, split=True)
    varying = parts if study.own else _varying(runs, split=False)
    grouped = runs.group_by("label", maintain_order=True).agg(
        pl.col("algorithm", *DIALS, "clock", "confidence", "solver", "randomised").first(),
        pl.len().alias("seeds"),
        pl.col("regret", *_MEANS).mean(),
        *spread(),
    )
    found = grouped.to_dicts()
    front = pareto_front([(row[study.measure], row["regret"]) for row in found])
    rows = []
    for i, row in enumerate(found):
        settings = varying[row["label"]]
        given = next((d for d in DIALS if row[d] is not None), None)
        dial = _dial(settings) if study.own else given
        error, algorithm = row["error"], row["algorithm"]
        half = None if error is None else error * float(stats.t.ppf(0.975, row["seeds"] - 1))
        variation = _variation(algorithm, settings, dial)
        name = _name(row)
        rows.append(
            Row(
                label=row["label"], algorithm=algorithm, name=name, variation=variation,
                curve=f"{name} {variation}" if variation else name, settings=parts[row["label"]],
                dial="" if dial is None else DIALS.get(dial, dial),
                value=None if dial is None else float({**row, **settings}[dial]),
                in_paper=_in_paper(row),
                seeds=row["seeds"], regret=row["regret"], error=error,
                median=row["median"], stuck=row["stuck"],
                low=None if half is None else row["regret"] - half,
                high=None if half is None else row["regret"] + half,
                randomised=row["randomised"], front=i in front,
                **{name: row[name] for name in _MEANS},
            )
        )  # fmt: skip
    return tuple(rows)


def _name(row: Mapping[str, Any]) -> str:
    """Return an algorithm's name; its label, if it is not in the list."""
    if row["algorithm"] in NAMES:
        return NAMES[row["algorithm"]]
    solver = str(row["solver"] or "").split(" ")[0]
    words = []
    for word in str(row["label"]).split(" "):
        if "=" in word or word == solver:
            break
        words.append(word)
    return " ".join(words) or str(row["algorithm"])


def _in_paper(row: Mapping[str, Any]) -> bool:
    """Return whether a setting of FedGLB-UCB is the paper's."""
    if row["algorithm"] != "fedglb-ucb":
        return True
    return row["clock"] in (None, "steps") and row["confidence"] != "iterate"


def _varying(runs: pl.DataFrame, *, split: bool) -> dict[str, dict[str, float | str]]:
    """Return for each label the parameters that vary within its algorithm.

    With `split`, numbers in the text of a part ("epsilon-greedy epsilon=0.1") are parameters, too.
    """
    columns = runs.columns  # all parameters, user-defined ones too, are before `link`
    keys = columns[columns.index("algorithm") + 1 : columns.index("link")]
    found: dict[str, dict[str, float | str]] = {}
    for frame in runs.partition_by("algorithm", maintain_order=True):
        varying = [k for k in keys if frame[k].n_unique() > 1]
        rows = frame.select("label", *varying).unique(maintain_order=True).to_dicts()
        labels = [row.pop("label") for row in rows]
        if split:
            rows = [numbers_apart(row) for row in rows]
            every = dict.fromkeys(key for row in rows for key in row)
            varying = [k for k in every if len({row.get(k) for row in rows}) > 1]
        for label, row in zip(labels, rows, strict=True):
            found[label] = {k: row[k] for k in varying if row.get(k) is not None}
    return found


_NUMBER = re.compile(r"(?<![^\s(])(\w+)=(-?[\d.]+(?:e[-+]?\d+)?|inf)(?=[\s,)]|$)")


def numbers_apart(parameters: Mapping[str, Any]) -> dict[str, float | str | None]:
    """Return the parameters of a setting, with the numbers in texts apart.

    >>> numbers_apart({"choice": "epsilon-greedy epsilon=0.1 rule=(sigma width=2)"})
    {'choice': 'epsilon-greedy rule=(sigma)', 'epsilon': 0.1, 'width': 2.0}
    >>> numbers_apart({"choice": "Mine(a=1e-05, b='x', c=2)"})
    {'choice': "Mine(b='x')", 'a': 1e-05, 'c': 2.0}
    >>> numbers_apart({"confidence": "fixed=0.3"})
    {'confidence': 'fixed', 'fixed': 0.3}
    """
    made: dict[str, float | str | None] = {}
    for key, value in parameters.items():
        made[key] = value
        if isinstance(value, str):
            rest = re.sub(r"(?<=\()[\s,]+|[\s,]+(?=[\s,)]|$)", "", _NUMBER.sub("", value))
            numbers = _NUMBER.findall(value)
            made[key] = rest.strip() or " ".join(name for name, _ in numbers)
            for name, number in numbers:
                while name in made or name in parameters:
                    name = f"{key} {name}"
                made[name] = float(number)
    return made


def _dial(settings: Mapping[str, float | str]) -> str | None:
    """Return the parameter along the curves of a sweep: D or B if it varies, else a number."""
    numbers = [key for key, value in settings.items() if not isinstance(value, str)]
    return next((key for key in (*DIALS, *numbers) if key in numbers), None)


def _variation(algorithm: str, settings: Mapping[str, float | str], dial: str | None) -> str:
    """Return the parameters that vary besides the dial as text, without default names."""
    words = []
    for key, value in settings.items():
        if isinstance(value, str):
            usual = key != "solver" and value == defaults(algorithm).get(key)
            if value not in ("", *settings) and not usual:
                words.append(f"{key}={value}" if value in ("True", "False") else value)
        elif key != dial and key not in DIALS:
            words.append(f"{key}={setting(value)}")
    return " ".join(words)


@functools.cache
def defaults(preset: str) -> dict[str, float | int | str | None]:
    """Return a preset's parameters at their defaults, as a sweep's tables have them.

    A required parameter has the value 1; an algorithm that is not a preset has none.
    """
    if preset not in ALGORITHMS:
        return {}
    empty = inspect.Parameter.empty
    needed = {key: 1 for key, default in parameters(preset).items() if default is empty}
    (selection,) = choices([{"name": preset, **needed}], {}, seeds=1, most=1)
    (made,) = configurations([(selection, selection.build())])
    return made.parameters


@dataclass(frozen=True)
class TradeOff:
    """The settings of one algorithm, by rising communication: a curve of regret against it."""

    name: str
    algorithm: str
    variation: str
    rows: tuple[Row, ...]


def trade_offs(rows: tuple[Row, ...], measure: str) -> tuple[TradeOff, ...]:
    """Return the algorithms that have a trade-off to set, each with its settings."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        if row.algorithm not in REFERENCES:
            grouped.setdefault(row.curve, []).append(row)
    return tuple(
        TradeOff(name, g[0].algorithm, g[0].variation,
                 tuple(sorted(g, key=lambda r: (r.cost(measure), r.regret))))
        for name, g in grouped.items()
    )  # fmt: skip


@dataclass(frozen=True)
class StudyNumbers:
    """A study of one sweep, summarised: the numbers for claims and figures."""

    study: Study
    measure: str
    rows: tuple[Row, ...]
    curves: tuple[TradeOff, ...]
    runs: pl.DataFrame = field(repr=False)
    traces: pl.DataFrame = field(repr=False)

    @classmethod
    def of_study(cls, study: Study) -> StudyNumbers:
        """Summarise a study."""
        rows, runs = summarise(study), distinct(study.result.runs)
        curves = trade_offs(rows, study.measure)
        traces = study.result.traces.join(runs, on=["label", "seed"], how="semi")
        return cls(study, study.measure, rows, curves, runs, traces)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The algorithms, in the order of the rows."""
        return tuple(dict.fromkeys(row.algorithm for row in self.rows))

    @property
    def seeds(self) -> int:
        """The smallest number of seeds of a configuration that is not the same at every seed."""
        return min((row.seeds for row in self.rows if row.randomised), default=1)

    @property
    def repeats(self) -> bool:
        """Whether some configuration has the same run at every seed, so that it has no error."""
        return not all(row.randomised for row in self.rows)

    @property
    def few_seeds(self) -> bool:
        """Whether there are too few seeds for intervals and verdicts."""
        return self.seeds < ENOUGH

    def of(self, *algorithms: str) -> tuple[TradeOff, ...]:
        """Return the curves of some algorithms; of FedGLB-UCB only the paper's."""
        return tuple(
            c for c in self.curves if c.algorithm in algorithms and all(r.in_paper for r in c.rows)
        )

    def settings_of(self, *algorithms: str) -> list[Row]:
        """Return the settings of these curves."""
        return [row for curve in self.of(*algorithms) for row in curve.rows]


def reference(rows: tuple[Row, ...], algorithm: str) -> Row | None:
    """Return the row of an algorithm without D or B; the best one of several."""
    return min((r for r in rows if r.algorithm == algorithm), key=lambda r: r.regret, default=None)


def by_seed(
    runs: pl.DataFrame, ours: str, theirs: str, column: str = "regret"
) -> tuple[FloatArray, FloatArray]:
    """Return the values of two labels at the seeds that both have: same arms, same noise."""
    value = pl.col(column).cast(pl.Float64)
    first, second = (
        runs.filter(pl.col("label") == label).select("seed", value) for label in (ours, theirs)
    )
    pairs = first.join(second, on="seed", suffix="_other").sort("seed")
    return pairs[column].to_numpy(), pairs[f"{column}_other"].to_numpy()


def standard_error(values: FloatArray) -> FloatArray:
    """Return the standard error of the mean over the last axis; nan with one value."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], math.nan)
    return np.asarray(values.std(axis=-1, ddof=1) / math.sqrt(n))


def paired_ratio(
    above: FloatArray, below: FloatArray, enough: float = ENOUGH
) -> tuple[float | None, float | None]:
    """Return the ratio of two means over the same seeds, and its standard error, to first order.

    The ratio is None if the denominator is 0, the error also with fewer than `enough` seeds.
    """
    if len(below) == 0 or below.mean() == 0:
        return None, None
    ratio = float(above.mean() / below.mean())
    if len(above) < enough:
        return ratio, None
    return ratio, float(standard_error(above - ratio * below) / abs(below.mean()))
