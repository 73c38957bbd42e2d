"""Personal models cost nothing where clients are alike, and pay where they differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fedglb.studies.report.claims.base import Claim, verdict
from fedglb.studies.report.claims.comparable import ERRORS
from fedglb.studies.report.numerals import setting
from fedglb.studies.report.summary import NAMES, paired_ratio

if TYPE_CHECKING:  # they import claims
    from fedglb.studies.report.along import Panel
    from fedglb.studies.results.study import Study

PERSONAL, SHARED = "fedglb-personal", "fedglb-auto"
#: Keys of `[environment]` that say how much clients differ; at 0 they are alike.
AXES = ("heterogeneity", "group_spread", "outliers")
#: The most that personal models may have, as multiples of the regret of the shared model, of the
#: better of shared and alone, and of that with two groups at spread `FAR`.
ALIKE, ANYWHERE, TWO_GROUPS, FAR = 1.05, 1.0, 0.45, 1.0
#: A ratio with its errors added may be this many times the limit, or it is not settled.
MARGIN = 1.2
_WHO, _SHARED = NAMES[PERSONAL], NAMES[SHARED]
_RULE = (
    "Holds if the ratio of mean regrets is at most {limit:g}{where}, and at most {most:g} when "
    f"{ERRORS:g} standard errors are added; does not hold if a ratio is more than {{limit:g}} when "
    f"{ERRORS:g} are subtracted; otherwise not decided. Errors of ratios are paired by seed."
)
_BETTER = (
    f"the better of {_SHARED} and the best algorithm without communication, in hindsight at each "
    "value"
)


@dataclass(frozen=True)
class Compared:
    """The ratio of two regrets at one value of the axis."""

    panel: str
    value: float
    other: str
    ratio: float
    error: float | None

    @property
    def low(self) -> float:
        """The ratio with its errors subtracted."""
        return self.ratio - ERRORS * (self.error or 0.0)

    @property
    def high(self) -> float:
        """The ratio with its errors added."""
        return self.ratio + ERRORS * (self.error or 0.0)

    def settled(self, limit: float) -> bool:
        """Whether it is within a limit, its error considered."""
        return self.ratio <= limit and self.high <= MARGIN * limit

    def why(self, limit: float) -> str:
        """Return the number that decides it, beside the threshold that it meets or misses."""
        ratio, error = f"{self.ratio:.3f}", f"{ERRORS:g} × {self.error or 0.0:.3f}"
        low, high = f"{ratio} − {error} = {self.low:.3f}", f"{ratio} + {error} = {self.high:.3f}"
        if self.low > limit:
            return f"{low} > {limit:g}"
        if self.ratio > limit:
            return f"{ratio} > {limit:g}, but {low} ≤ {limit:g}"
        word, sign = ("and", "≤") if self.settled(limit) else ("but", ">")
        return f"{ratio} ≤ {limit:g}, {word} {high} {sign} {MARGIN * limit:g}"

    def in_words(self) -> str:
        """Return "1.02 ± 0.03 times FedGLB-Auto’s at 0.3"."""
        error = "" if self.error is None else f" ± {self.error:.3f}"
        before = f"{self.panel}: " if self.panel else ""
        return f"{before}{self.ratio:.3f}{error} times {self.other}’s at {setting(self.value)}"


def _rule(limit: float, where: str = "") -> str:
    return _RULE.format(limit=limit, where=where, most=MARGIN * limit)


def alike(study: Study, found: Sequence[Panel]) -> Claim:
    """Check the value 0 of an axis of differences."""
    claim = Claim(
        "personal-alike",
        f"Where clients are alike, {_WHO} has at most {ALIKE:g} times {_SHARED}’s regret.",
        f"{_WHO}’s regret is compared with {_SHARED}’s at the value 0 of the axis. "
        + _rule(ALIKE),
        whose="this package",
    )  # fmt: skip
    return _tested(claim, _compared(study, found, 0.0, alone=False), ALIKE)


def anywhere(study: Study, found: Sequence[Panel]) -> Claim:
    """Check all values of an axis of differences."""
    claim = Claim(
        "personal-anywhere",
        f"However much clients differ, {_WHO} has no more regret than one shared model and than "
        "learning alone.",
        f"{_WHO}’s regret is compared with that of {_BETTER}. "
        + _rule(ANYWHERE, " at every value"),
        whose="this package",
    )  # fmt: skip
    return _tested(claim, _compared(study, found), ANYWHERE)


def two_groups(study: Study, found: Sequence[Panel]) -> Claim:
    """Check the panel of two groups at spread 1."""
    claim = Claim(
        "personal-two-groups",
        f"With two groups of clients {_WHO} has at most {TWO_GROUPS:g} times the regret of one "
        "shared model and of learning alone.",
        f"{_WHO}’s regret is compared with that of {_BETTER}, at group_spread {FAR:g}. "
        + _rule(TWO_GROUPS),
        whose="this package",
    )  # fmt: skip
    two = [panel for panel in found if study.axis == "group_spread" and _groups(panel) == 2]
    return _tested(claim, _compared(study, two, FAR), TWO_GROUPS)


def _groups(panel: Panel) -> int:
    """Return the number of groups of a panel."""
    document: Any = json.loads(panel.cells[0].result.manifest["document"])
    return int(document.get("environment", {}).get("groups", 2))


def _compared(
    study: Study, found: Sequence[Panel], value: float | None = None, *, alone: bool = True
) -> list[Compared]:
    """Compare at one value, or at all; with the shared model, or with the better of all others."""
    made = []
    for panel in found if study.axis in AXES else ():
        of = {line.algorithm: line for line in panel.lines}
        learners = [line for line in panel.lines if alone and line.alone]
        if PERSONAL not in of or SHARED not in of or (alone and not learners):
            continue
        for k, at in enumerate(panel.values):
            if value in (None, at):
                other = min((of[SHARED], *learners), key=lambda line: float(line.means[k]))
                ratio, error = paired_ratio(of[PERSONAL].regrets[k], other.regrets[k])
                if ratio is not None:
                    made.append(Compared(panel.title, at, other.name, ratio, error))
    return made


def _tested(claim: Claim, made: Sequence[Compared], limit: float) -> Claim:
    """Return the claim with the comparisons: the one farthest beyond the limit decides."""
    if not made:
        return claim.untested("The algorithms or the values that it compares were not run.")
    clear = max(made, key=lambda each: each.low)
    open_ = [each for each in made if not each.settled(limit)]
    decider = clear if clear.low > limit else max(open_ or made, key=lambda each: each.ratio)
    return claim.tested(
        [each.in_words() for each in made],
        verdict(not open_, clear.low > limit),
        f"{decider.in_words()}: {decider.why(limit)}",
        {"comparisons": [asdict(each) for each in made]},
    )
