"""A claim, its measurement and its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fedglb.studies.report.summary import Row

HOLDS, FAILS = "holds", "does not hold"
#: The numbers do not decide it; there are no numbers.
UNDECIDED, UNTESTED = "not decided", "not tested here"
#: The numbers have too few seeds for a verdict.
TOO_FEW = "too few seeds to judge"
#: FedGLB-UCB and its three variants.
FEDGLB, VARIANTS = "fedglb-ucb", ("fedglb-ucb-1", "fedglb-ucb-2", "fedglb-ucb-3")


@dataclass(frozen=True)
class Claim:
    """A claim and a study's verdict; reports leave out claims "not tested here"."""

    key: str
    text: str  # the claim
    rule: str  # when it holds, and when it does not
    measured: str = ""
    verdict: str = UNTESTED
    decided: str = ""  # the number that decided it, beside its threshold
    numbers: dict[str, Any] = field(default_factory=dict, repr=False)
    whose: Literal["the paper", "this package"] = "the paper"

    def untested(self, why: str) -> Claim:
        """Return the claim as not testable by this study."""
        return replace(self, measured=why)

    def tested(
        self, measured: Sequence[str], verdict: str, decided: str, numbers: dict[str, Any]
    ) -> Claim:
        """Return the claim with its measurement."""
        text = "; ".join(measured) + "."
        return replace(self, measured=text, verdict=verdict, decided=decided, numbers=numbers)


def verdict(holds: bool, fails: bool) -> str:
    """Return the verdict: "not decided" if neither is clear."""
    return HOLDS if holds else FAILS if fails else UNDECIDED


def noun(rows: Sequence[Row]) -> str:
    """Return the noun for FedGLB-UCB's settings: thresholds, if there is one curve."""
    return "thresholds" if len({r.curve for r in rows}) < 2 else "settings"
