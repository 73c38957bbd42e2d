"""One row per configuration: means over the seeds, their errors, whether others beat it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl
from scipy import stats

from fedglb.algorithms.catalog import all_parameters
from fedglb.report.study import Study
from fedglb.sweeps import pareto_front

#: Presets as they are called in the paper.
NAMES = {
    "fedglb-ucb": "FedGLB-UCB", "fedglb-ucb-1": "FedGLB-UCB1", "fedglb-ucb-2": "FedGLB-UCB2",
    "fedglb-ucb-3": "FedGLB-UCB3", "dislinucb": "DisLinUCB", "one-ucb-glm": "One-UCB-GLM",
    "n-ucb-glm": "N-UCB-GLM", "n-ons-glm": "N-ONS-GLM", "fedlinucb": "FedLinUCB",
    "one-ecolog": "One-ECOLog", "n-ecolog": "N-ECOLog",
}  # fmt: skip
#: The two extremes (always or never communicate), which have no trade-off to set.
REFERENCES = ("one-ucb-glm", "n-ucb-glm", "n-ons-glm", "one-ecolog", "n-ecolog")
#: What sets the trade-off, and its symbol.
DIALS = {"threshold": "D", "updates": "B"}
_MEANS = ("reward", "transfers", "scalars", "syncs", "rounds")


@dataclass(frozen=True)
class Row:
    """One configuration of the study.

    Attributes
    ----------
    curve
        The algorithm's name, followed by `variation`.
    variation
        What tells its curves apart besides D or B; "" where nothing else varies.
    dial, value
        "D" or "B" and its value; "" and None where there is none.
    error, low, high
        Standard error and 95 % t-interval of the mean regret; None with one seed.
    front
        Whether no other configuration has less regret for as little communication.
    """

    label: str
    algorithm: str
    curve: str
    variation: str
    dial: str
    value: float | None
    seeds: int
    regret: float
    error: float | None
    low: float | None
    high: float | None
    reward: float
    transfers: float
    scalars: float
    syncs: float
    rounds: float
    front: bool

    @property
    def parameter(self) -> str:
        """Return "D=0.1", or nothing."""
        return "" if self.value is None else f"{self.dial}={self.value:g}"

    @property
    def title(self) -> str:
        """Return "FedGLB-UCB (D=0.1)"."""
        return f"{self.curve} ({self.parameter})" if self.parameter else self.curve

    def cost(self, measure: str) -> float:
        """Return the mean communication."""
        return self.transfers if measure == "transfers" else self.scalars

    def plain(self) -> dict[str, Any]:
        """Return the row for JSON; infinity and nan become text, as JSON has neither."""
        row = {**asdict(self), "parameter": self.parameter}
        return {k: v if _is_plain(v) else str(v) for k, v in row.items()}


def _is_plain(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def summarise(study: Study) -> tuple[Row, ...]:
    """Return one row per configuration, in the order of the experiment."""
    runs = study.result.runs
    variations = _variations(runs)
    dials = [d for d in DIALS if d in runs.columns]
    grouped = runs.group_by("label", maintain_order=True).agg(
        pl.col("algorithm", *dials).first(),
        pl.len().alias("seeds"),
        pl.col("regret", *_MEANS).mean(),
        (pl.col("regret").std() / pl.len().sqrt()).alias("error"),
    )
    found = grouped.to_dicts()
    front = pareto_front([(row[study.measure], row["regret"]) for row in found])
    rows = []
    for i, row in enumerate(found):
        dial = next((d for d in dials if row[d] is not None), None)
        error = row["error"]
        half = None if error is None else error * float(stats.t.ppf(0.975, row["seeds"] - 1))
        variation = variations[row["label"]]
        name = NAMES.get(row["algorithm"], row["algorithm"])
        rows.append(
            Row(
                label=row["label"], algorithm=row["algorithm"], variation=variation,
                curve=f"{name} {variation}" if variation else name,
                dial="" if dial is None else DIALS[dial],
                value=None if dial is None else float(row[dial]),
                seeds=row["seeds"], regret=row["regret"], error=error,
                low=None if half is None else row["regret"] - half,
                high=None if half is None else row["regret"] + half,
                front=i in front, **{name: row[name] for name in _MEANS},
            )
        )  # fmt: skip
    return tuple(rows)


def _variations(runs: pl.DataFrame) -> dict[str, str]:
    """Return for each label, as text, what besides D or B varies within its algorithm."""
    keys = [k for k in all_parameters() if k in runs.columns and k not in DIALS]
    words: dict[str, str] = {}
    for frame in runs.partition_by("algorithm", maintain_order=True):
        varying = [k for k in keys if frame[k].n_unique() > 1]
        for row in frame.select("label", *varying).unique(maintain_order=True).to_dicts():
            said = [_in_words(k, row[k]) for k in varying if row[k] is not None]
            words[row["label"]] = " ".join(said)
    return words


def _in_words(key: str, value: object) -> str:
    if key == "solver":
        return str(value)
    return f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"


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
