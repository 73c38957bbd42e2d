"""Whether a regret is comparable to another one: their ratio, its error, and two thresholds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from fedglb.studies.report.claims.base import Evidence
from fedglb.studies.report.claims.paired import ERRORS, by_seed, ratio_error
from fedglb.studies.report.numerals import amount, percent
from fedglb.studies.report.summary import Row

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
