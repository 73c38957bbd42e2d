"""Two curves at equal communication: they are compared at the settings of FedGLB-UCB's rival."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedglb.studies.report.claims.base import FEDGLB, Evidence
from fedglb.studies.report.numerals import factor, percent
from fedglb.studies.report.summary import Curve

#: From this share of settings on, a curve beats another; at 1 minus it or less, it loses.
MOST = 0.75
#: The fewest settings that two curves are compared at.
FEWEST = 3


@dataclass(frozen=True)
class Comparison:
    """FedGLB-UCB against another algorithm, at equal communication.

    Attributes
    ----------
    settings
        How many settings the other algorithm has.
    compared, beaten
        Those within FedGLB-UCB's range, and at how many of them FedGLB-UCB's interpolated regret
        is lower.
    ratio
        Geometric mean of the other algorithm's regret over FedGLB-UCB's; None where a regret is not
        positive.
    """

    ours: str
    other: str
    algorithm: str
    settings: int
    compared: int
    beaten: int
    ratio: float | None

    @property
    def enough(self) -> bool:
        """Whether there are enough settings to say anything."""
        return self.compared >= FEWEST

    @property
    def wins(self) -> bool:
        """Whether FedGLB-UCB is better at most settings, and on average."""
        average = self.ratio is None or self.ratio > 1.0
        return self.enough and average and self.beaten >= MOST * self.compared

    @property
    def loses(self) -> bool:
        """Whether FedGLB-UCB is worse at most settings, and on average."""
        average = self.ratio is None or self.ratio < 1.0
        return self.enough and average and self.beaten <= (1.0 - MOST) * self.compared

    def in_words(self) -> str:
        """Return it as part of a sentence."""
        if not self.enough:
            return (
                f"{self.other}: not compared ({self.compared} of its {self.settings} settings "
                f"within {self.ours}’s range of communication, {FEWEST} are needed)"
            )
        text = f"{self.other}: beaten at {self.beaten} of {self.compared} settings"
        if self.ratio is not None:
            text += f", with {factor(self.ratio)} times {self.ours}’s regret on average"
        return text

    def why(self) -> str:
        """Return the share of settings that are won, beside its threshold, and the mean ratio."""
        share = self.beaten / self.compared
        sign = "≥" if self.beaten >= MOST * self.compared else "<"
        text = f"{self.other}: beaten at {self.beaten} of {self.compared} settings, "
        text += f"{percent(share)} {sign} {percent(MOST)}"
        if self.ratio is None:
            return text
        return f"{text}, with {factor(self.ratio)} {'>' if self.ratio > 1 else '≤'} 1 times"

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "enough": self.enough, "wins": self.wins}


def comparisons(evidence: Evidence, *algorithms: str) -> list[Comparison]:
    """Compare FedGLB-UCB with all curves of some algorithms.

    Curves that differ in more than D or B, say in the solver, are compared with the FedGLB-UCB
    curve of the same solver; where there is no such curve, with all.
    """
    ours = evidence.of(FEDGLB)
    made = []
    for other in evidence.of(*algorithms):
        same = [c for c in ours if c.variation == other.variation]
        made += [compare(c, other, evidence.measure) for c in same or ours]
    return made


def compare(ours: Curve, other: Curve, measure: str) -> Comparison:
    """Compare two curves, with linear interpolation of log regret over log communication."""
    points = [(r.cost(measure), r.regret) for r in ours.rows if r.cost(measure) > 0]
    logs = all(regret > 0 for _, regret in points)  # otherwise regret itself is interpolated
    grouped: dict[float, list[float]] = {}
    for cost, regret in points:
        grouped.setdefault(math.log(cost), []).append(math.log(regret) if logs else regret)
    x = sorted(grouped)
    y = [float(np.mean(grouped[at])) for at in x]
    compared = beaten = 0
    ratios: list[float] = []
    for row in other.rows:
        cost = row.cost(measure)
        if not x or cost <= 0 or not x[0] <= math.log(cost) <= x[-1]:
            continue
        there = float(np.interp(math.log(cost), x, y))
        there = math.exp(there) if logs else there
        compared += 1
        beaten += row.regret > there
        if row.regret > 0 and there > 0:
            ratios.append(math.log(row.regret / there))
    whole = compared > 0 and len(ratios) == compared
    ratio = math.exp(float(np.mean(ratios))) if whole else None
    return Comparison(
        ours.name, other.name, other.algorithm, len(other.rows), compared, beaten, ratio
    )
