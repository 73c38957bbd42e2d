"""A claim, what was measured, whether it holds, and the number that decided it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from fedglb.studies.report.summary import ENOUGH, Curve, Row, curves, summarise
from fedglb.studies.results.study import Study

HOLDS, FAILS = "holds", "does not hold"
#: There are numbers, but they do not decide it; and: there are no numbers.
UNDECIDED, UNTESTED = "not decided", "not tested here"
#: There are numbers, of too few seeds for a verdict.
TOO_FEW = "too few seeds to judge"
#: FedGLB-UCB and its three variants.
FEDGLB, VARIANTS = "fedglb-ucb", ("fedglb-ucb-1", "fedglb-ucb-2", "fedglb-ucb-3")


@dataclass(frozen=True)
class Claim:
    """A claim, held against the numbers.

    Attributes
    ----------
    key
        A short name.
    text
        What is claimed.
    rule
        When it counts as holding, and when as not holding.
    measured
        What was found, as text.
    verdict
        "holds", "does not hold", "not decided" or "too few seeds to judge"; "not tested here" is
        left out of reports.
    decided
        The number that decided it, beside its threshold.
    numbers
        What was found, as numbers for programs.
    whose
        Who claims it: "the paper", or "this package".
    """

    key: str
    text: str
    rule: str
    measured: str
    verdict: str
    decided: str = ""
    numbers: dict[str, Any] = field(default_factory=dict, repr=False)
    whose: Literal["the paper", "this package"] = "the paper"


@dataclass(frozen=True)
class Evidence:
    """The numbers that claims are held against."""

    measure: str
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]
    runs: pl.DataFrame = field(repr=False)
    traces: pl.DataFrame = field(repr=False)

    @property
    def seeds(self) -> int:
        """How many seeds each configuration has at least."""
        return min(row.seeds for row in self.rows)

    @property
    def few_seeds(self) -> bool:
        """Whether there are too few seeds for intervals and verdicts."""
        return self.seeds < ENOUGH

    def of(self, *algorithms: str) -> tuple[Curve, ...]:
        """Return the curves of some algorithms; of FedGLB-UCB those that are the paper's."""
        return tuple(
            c for c in self.curves if c.algorithm in algorithms and all(r.in_paper for r in c.rows)
        )


def evidence(study: Study) -> Evidence:
    """Return a study's numbers, summarised once."""
    rows = summarise(study)
    result = study.result
    return Evidence(study.measure, rows, curves(rows, study.measure), result.runs, result.traces)


def verdict(holds: bool, fails: bool) -> str:
    """Return the verdict: "not decided" where neither is clear.

    Examples
    --------
    >>> verdict(False, False)
    'not decided'
    """
    return HOLDS if holds else FAILS if fails else UNDECIDED


def noun(rows: Sequence[Row]) -> str:
    """Return what FedGLB-UCB's settings are called: thresholds, where there is one curve."""
    return "thresholds" if len({r.curve for r in rows}) < 2 else "settings"
