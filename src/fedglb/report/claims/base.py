"""A claim of the paper, what was measured, and whether it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from fedglb.report.study import Study
from fedglb.report.summary import Curve, Row, curves, summarise

HOLDS, FAILS = "holds", "does not hold"
#: There are numbers, but they do not decide it; and: there are no numbers.
UNDECIDED, UNTESTED = "not decided", "not tested here"
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
        "holds", "does not hold", "not decided" or "not tested here".
    numbers
        What was found, as numbers for programs.
    """

    key: str
    text: str
    rule: str
    measured: str
    verdict: str
    numbers: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Evidence:
    """The numbers that claims are held against."""

    measure: str
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]
    runs: pl.DataFrame = field(repr=False)
    traces: pl.DataFrame = field(repr=False)

    def of(self, *algorithms: str) -> tuple[Curve, ...]:
        """Return the curves of some algorithms."""
        return tuple(c for c in self.curves if c.algorithm in algorithms)


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
