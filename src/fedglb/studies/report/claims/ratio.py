"""Compare two configurations seed by seed (a seed has the same arms and noise for both)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from fedglb.studies.report.claims.base import Evidence
from fedglb.studies.report.numerals import amount, percent
from fedglb.studies.report.summary import ENOUGH, Row
from fedglb.typing import FloatArray

#: How many standard errors a difference has to exceed to be clear.
ERRORS = 2.0


def by_seed(runs: pl.DataFrame, ours: str, theirs: str) -> tuple[FloatArray, FloatArray]:
    """Return the regrets of two labels at the seeds that both have."""
    first, second = (
        runs.filter(pl.col("label") == label).select("seed", "regret") for label in (ours, theirs)
    )
    pairs = first.join(second, on="seed", suffix="_other").sort("seed")
    return pairs["regret"].to_numpy(), pairs["regret_other"].to_numpy()


def difference(above: FloatArray, below: FloatArray) -> tuple[float | None, float | None]:
    """Return the mean of above − below and its standard error, paired; None where undefined.

    Examples
    --------
    >>> difference(np.array([2.0, 4.0, 3.0, 5.0, 1.0]), np.array([1.0, 3.0, 2.0, 4.0, 0.0]))
    (1.0, 0.0)
    """
    if len(above) == 0:
        return None, None
    rest = above - below
    error = float(rest.std(ddof=1) / np.sqrt(len(rest))) if len(rest) >= ENOUGH else None
    return float(rest.mean()), error


def ratio_error(above: FloatArray, below: FloatArray) -> float | None:
    """Return the standard error of mean(above)/mean(below), paired; None for too few pairs.

    Examples
    --------
    >>> ratio_error(np.array([2.0, 4.0, 6.0, 8.0, 2.0]), np.array([1.0, 2.0, 3.0, 4.0, 1.0]))
    0.0
    """
    if len(above) < ENOUGH or below.mean() == 0:
        return None
    rest = above - above.mean() / below.mean() * below
    return float(rest.std(ddof=1) / np.sqrt(len(rest)) / abs(below.mean()))


#: A ratio of regrets that counts as comparable, and the most it may be with its error added.
COMPARABLE, AT_MOST = 1.25, 1.5
RULE = (
    f"at most {COMPARABLE:g} times its mean regret, and at most {AT_MOST:g} times when {ERRORS:g} "
    "standard errors are added"
)


@dataclass(frozen=True)
class Ratio:
    """One setting's regret and communication as multiples of another's.

    Attributes
    ----------
    label, title
        The setting.
    other
        What the other one is called.
    regret, error
        The ratio of the mean regrets; its standard error, paired by seed, or None.
    communication
        The ratio of the mean communication.
    """

    label: str
    title: str
    other: str
    regret: float
    error: float | None
    communication: float

    @property
    def settled(self) -> bool:
        """Whether the regret is comparable, its error considered."""
        return self.error is not None and self.regret <= COMPARABLE and self.high <= AT_MOST

    @property
    def far(self) -> bool:
        """Whether the regret is clearly not comparable."""
        return self.error is not None and self.regret - ERRORS * self.error > COMPARABLE

    @property
    def high(self) -> float:
        """The ratio with its errors added."""
        return self.regret + ERRORS * (self.error or 0.0)

    def shown(self) -> str:
        """Return "1.20 ± 0.05"."""
        return f"{self.regret:.2f}" + ("" if self.error is None else f" ± {self.error:.2f}")

    def share(self, measure: str) -> str:
        """Return "4.3 % of its transfers"."""
        much = self.communication >= 10
        times = f"{amount(self.communication)} times its" if much else ""
        return f"{times or percent(self.communication) + ' of its'} {measure}"

    def in_words(self, measure: str) -> str:
        """Return it as part of a sentence."""
        return f"{self.title} has {self.shown()} times {self.other}’s regret with " + self.share(
            measure
        )

    def why(self) -> str:
        """Return the number that decides it, beside the threshold that it meets or misses."""
        who, ratio = f"{self.title}: ", f"{self.regret:.2f}"
        if self.error is None:
            return f"{who}{ratio} times, without an error"
        error = f"{ERRORS:g} × {self.error:.2f}"
        if self.far:
            low = f"{self.regret - ERRORS * self.error:.2f}"
            return f"{who}{ratio} − {error} = {low} > {COMPARABLE:g}"
        if self.settled:
            return f"{who}{ratio} ≤ {COMPARABLE:g}, and {ratio} + {error} = {self.high:.2f} ≤ " + (
                f"{AT_MOST:g}"
            )
        if self.regret <= COMPARABLE:
            high = f"{ratio} + {error} = {self.high:.2f} > {AT_MOST:g}"
            return f"{who}{ratio} ≤ {COMPARABLE:g}, but {high}"
        low = f"{ratio} − {error} = {self.regret - ERRORS * self.error:.2f} ≤ {COMPARABLE:g}"
        return f"{who}{ratio} > {COMPARABLE:g}, but {low}"

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        row = asdict(self)
        for old in ("regret", "communication"):
            row[f"{old}_ratio"] = row.pop(old)
        return {**row, "regret_ratio_error": row.pop("error"), "settled": self.settled}


def ratio(evidence: Evidence, row: Row, other: Row) -> Ratio | None:
    """Compare a setting with another; None where that one has no regret or no communication."""
    theirs = other.cost(evidence.measure)
    if other.regret <= 0 or theirs <= 0:
        return None
    return Ratio(
        row.label, row.title, other.title, row.regret / other.regret,
        ratio_error(*by_seed(evidence.runs, row.label, other.label)),
        row.cost(evidence.measure) / theirs,
    )  # fmt: skip
