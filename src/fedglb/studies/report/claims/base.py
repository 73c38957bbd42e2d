"""A claim, what was measured, whether it holds, and the number that decided it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fedglb.studies.report.summary import Row

HOLDS, FAILS = "holds", "does not hold"
#: There are numbers, but they do not decide it; and: there are no numbers.
UNDECIDED, UNTESTED = "not decided", "not tested here"
#: There are numbers, of too few seeds for a verdict.
TOO_FEW = "too few seeds to judge"
#: FedGLB-UCB and its three variants.
FEDGLB, VARIANTS = "fedglb-ucb", ("fedglb-ucb-1", "fedglb-ucb-2", "fedglb-ucb-3")


@dataclass(frozen=True)
class Claim:
    """A claim, and what a study has found; reports leave out what is "not tested here"."""

    key: str
    text: str  # what is claimed
    rule: str  # when it holds, and when it does not
    measured: str = ""
    verdict: str = UNTESTED
    decided: str = ""  # the number that decided it, beside its threshold
    numbers: dict[str, Any] = field(default_factory=dict, repr=False)
    whose: Literal["the paper", "this package"] = "the paper"

    def untested(self, why: str) -> Claim:
        """Return the claim, which this study cannot test."""
        return replace(self, measured=why)

    def tested(
        self, measured: Sequence[str], verdict: str, decided: str, numbers: dict[str, Any]
    ) -> Claim:
        """Return the claim with what was found."""
        text = "; ".join(measured) + "."
        return replace(self, measured=text, verdict=verdict, decided=decided, numbers=numbers)


def verdict(holds: bool, fails: bool) -> str:
    """Return the verdict: "not decided" where neither is clear."""
    return HOLDS if holds else FAILS if fails else UNDECIDED


def noun(rows: Sequence[Row]) -> str:
    """Return what FedGLB-UCB's settings are called: thresholds, where there is one curve."""
    return "thresholds" if len({r.curve for r in rows}) < 2 else "settings"
