"""One row per configuration: means over the seeds, their errors, whether others beat it."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl
from scipy import stats

from fedglb.algorithms import ALGORITHMS
from fedglb.algorithms.catalog import all_parameters, parameters
from fedglb.studies.report.numerals import NOTHING, setting
from fedglb.studies.results.pareto import pareto_front
from fedglb.studies.results.study import Study
from fedglb.studies.spec.grid import choices, configurations

#: Presets as they are called in the paper, and ours.
NAMES = {
    "fedglb-ucb": "FedGLB-UCB", "fedglb-ucb-1": "FedGLB-UCB1", "fedglb-ucb-2": "FedGLB-UCB2",
    "fedglb-ucb-3": "FedGLB-UCB3", "dislinucb": "DisLinUCB", "one-ucb-glm": "One-UCB-GLM",
    "n-ucb-glm": "N-UCB-GLM", "n-ons-glm": "N-ONS-GLM", "fedglb-mix": "FedGLB-Mix",
    "fedglb-auto": "FedGLB-Auto", "fedglb-iterate": "FedGLB-Iterate", "fedlinucb": "FedLinUCB",
    "async-linucb": "Async-LinUCB", "one-ecolog": "One-ECOLog", "n-ecolog": "N-ECOLog",
    "one-ofuglb": "One-OFUGLB", "n-ofuglb": "N-OFUGLB", "fedglb-private": "FedGLB-Private",
}  # fmt: skip
#: The two extremes (always or never communicate), which have no trade-off to set.
REFERENCES = (
    "one-ucb-glm", "n-ucb-glm", "n-ons-glm", "one-ecolog", "n-ecolog", "one-ofuglb", "n-ofuglb",
)  # fmt: skip
#: What sets the trade-off, and its symbol.
DIALS = {"threshold": "D", "updates": "B"}
#: From this number of seeds on there are errors, intervals, medians and verdicts.
ENOUGH = 5
#: A run is stuck if its regret is more than this many times the median of its own setting.
STUCK = 3.0
STUCK_MEANS = (
    f"A run is stuck if its regret is more than {STUCK:g} times the median of its own setting."
)
_MEANS = ("reward", "transfers", "scalars", "syncs", "rounds")


@dataclass(frozen=True)
class Row:
    """One configuration of the study.

    Attributes
    ----------
    name, curve
        The algorithm's name; the same followed by `variation`.
    variation
        What tells its curves apart besides D or B; "" where nothing else varies.
    dial, value
        "D" or "B" and its value; "" and None where there is none.
    settings
        The parameters that vary within its algorithm, D and B among them.
    in_paper
        False for a setting of FedGLB-UCB that the paper does not have: another clock, or another
        confidence set.
    error, median, stuck, low, high
        Standard error of the mean regret, the median, how many runs are stuck, and the 95 %
        t-interval of the mean; None with fewer than 5 seeds.
    front
        Whether no other configuration has less regret for as little communication.
    """

    label: str
    algorithm: str
    name: str
    curve: str
    variation: str
    dial: str
    value: float | None
    in_paper: bool
    seeds: int
    regret: float
    error: float | None
    median: float | None
    stuck: int | None
    low: float | None
    high: float | None
    reward: float
    transfers: float
    scalars: float
    syncs: float
    rounds: float
    front: bool
    settings: Mapping[str, float | str] = field(default_factory=dict)

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
        return self.transfers if measure == "transfers" else self.scalars

    def plain(self) -> dict[str, Any]:
        """Return the row for JSON; infinity and nan become text, as JSON has neither."""
        row = {**asdict(self), "parameter": self.parameter, "title": self.title}
        row["settings"] = {k: _plain(v) for k, v in self.settings.items()}
        return {k: _plain(v) for k, v in row.items()}


def _plain(value: Any) -> Any:
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
    runs = study.result.runs
    varying = _varying(runs)
    dials = [d for d in DIALS if d in runs.columns]
    others = [c for c in ("clock", "confidence", "solver") if c in runs.columns]
    grouped = runs.group_by("label", maintain_order=True).agg(
        pl.col("algorithm", *dials, *others).first(),
        pl.len().alias("seeds"),
        pl.col("regret", *_MEANS).mean(),
        *spread(),
    )
    found = grouped.to_dicts()
    front = pareto_front([(row[study.measure], row["regret"]) for row in found])
    rows = []
    for i, row in enumerate(found):
        dial = next((d for d in dials if row[d] is not None), None)
        error, algorithm = row["error"], row["algorithm"]
        half = None if error is None else error * float(stats.t.ppf(0.975, row["seeds"] - 1))
        settings = varying[row["label"]]
        variation = _variation(algorithm, settings)
        name = _name(row)
        rows.append(
            Row(
                label=row["label"], algorithm=algorithm, name=name, variation=variation,
                curve=f"{name} {variation}" if variation else name, settings=settings,
                dial="" if dial is None else DIALS[dial],
                value=None if dial is None else float(row[dial]), in_paper=_in_paper(row),
                seeds=row["seeds"], regret=row["regret"], error=error,
                median=row["median"], stuck=row["stuck"],
                low=None if half is None else row["regret"] - half,
                high=None if half is None else row["regret"] + half,
                front=i in front, **{name: row[name] for name in _MEANS},
            )
        )  # fmt: skip
    return tuple(rows)


def _name(row: Mapping[str, Any]) -> str:
    """Return an algorithm's name; one that is not in the list is named by its label."""
    if row["algorithm"] in NAMES:
        return NAMES[row["algorithm"]]
    solver = str(row.get("solver") or "").split(" ")[0]
    words = []
    for word in str(row["label"]).split(" "):
        if "=" in word or word == solver:
            break
        words.append(word)
    return " ".join(words) or str(row["algorithm"])


def _in_paper(row: Mapping[str, Any]) -> bool:
    """Return whether a setting is the paper's, where it is one of FedGLB-UCB."""
    if row["algorithm"] != "fedglb-ucb":
        return True
    return row.get("clock") in (None, "steps") and row.get("confidence") != "iterate"


def _varying(runs: pl.DataFrame) -> dict[str, dict[str, float | str]]:
    """Return for each label the parameters that vary within its algorithm."""
    columns = runs.columns  # parameters, those of somebody's own algorithms too, are before `link`
    own = (
        columns[columns.index("algorithm") + 1 : columns.index("link")] if "link" in columns else []
    )
    keys = [k for k in {**all_parameters(), **dict.fromkeys(own)} if k in columns]
    found: dict[str, dict[str, float | str]] = {}
    for frame in runs.partition_by("algorithm", maintain_order=True):
        varying = [k for k in keys if frame[k].n_unique() > 1]
        for row in frame.select("label", *varying).unique(maintain_order=True).to_dicts():
            found[row["label"]] = {k: row[k] for k in varying if row[k] is not None}
    return found


def _variation(algorithm: str, settings: Mapping[str, float | str]) -> str:
    """Return in words what varies besides D or B; a word that is the default is left out."""
    words = []
    for key, value in settings.items():
        if isinstance(value, str):
            if key == "solver" or value != defaults(algorithm).get(key):
                words.append(value)
        elif key not in DIALS:
            words.append(f"{key}={setting(value)}")
    return " ".join(words)


@functools.cache
def defaults(preset: str) -> dict[str, float | int | str | None]:
    """Return a preset's parameters at their defaults, as a sweep's tables have them.

    A parameter that has no default has the value 1; an algorithm that is no preset has none.

    Examples
    --------
    >>> defaults("fedglb-auto")["choice"], defaults("fedglb-ucb")["clock"], defaults("mine")
    ('bayes', 'steps', {})
    """
    if preset not in ALGORITHMS:
        return {}
    empty = inspect.Parameter.empty
    needed = {key: 1 for key, default in parameters(preset).items() if default is empty}
    (selection,) = choices([{"name": preset, **needed}], {}, seeds=1, most=1)
    (made,) = configurations([(selection, selection.build())])
    return made.parameters


@dataclass(frozen=True)
class Curve:
    """The settings of one algorithm, by rising communication."""

    name: str
    algorithm: str
    variation: str
    rows: tuple[Row, ...]


def curves(rows: tuple[Row, ...], measure: str) -> tuple[Curve, ...]:
    """Return the algorithms that have a trade-off to set, each with its settings."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        if row.algorithm not in REFERENCES:
            grouped.setdefault(row.curve, []).append(row)
    return tuple(
        Curve(name, g[0].algorithm, g[0].variation,
              tuple(sorted(g, key=lambda r: (r.cost(measure), r.regret))))
        for name, g in grouped.items()
    )  # fmt: skip


def reference(rows: tuple[Row, ...], algorithm: str) -> Row | None:
    """Return the row of an algorithm with nothing to set; the best one if there are several."""
    return min((r for r in rows if r.algorithm == algorithm), key=lambda r: r.regret, default=None)
