"""Regret comparable to One-UCB-GLM's, or to the paper's best tuned setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from fedglb.studies.report.claims.base import FEDGLB, VARIANTS, Claim, verdict
from fedglb.studies.report.numerals import amount, percent, plus_minus
from fedglb.studies.report.summary import (
    NAMES,
    Row,
    StudyNumbers,
    by_seed,
    defaults,
    paired_ratio,
    reference,
)

#: How many standard errors a difference has to exceed to be clear.
ERRORS = 2.0
#: A ratio of regrets that counts as comparable, and its maximum with its error added.
COMPARABLE, AT_MOST = 1.25, 1.5
_RULE = (
    f"at most {COMPARABLE:g} times its mean regret, and at most {AT_MOST:g} times when {ERRORS:g} "
    "standard errors are added"
)


@dataclass(frozen=True)
class Ratio:
    """One setting's mean regret and mean communication as multiples of another's."""

    label: str
    title: str
    other: str  # the other setting's title
    regret: float
    error: float | None  # standard error of the ratio of regrets, paired by seed
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

    def in_words(self, measure: str) -> str:
        """Return "… has 1.20 ± 0.05 times …’s regret with 4.3 % of its transfers"."""
        error = "" if self.error is None else f" ± {self.error:.2f}"
        share = f"{percent(self.communication)} of its"
        if self.communication >= 10:
            share = f"{amount(self.communication)} times its"
        return (
            f"{self.title} has {self.regret:.2f}{error} times {self.other}’s regret with {share} "
            f"{measure}"
        )

    def why(self) -> str:
        """Return the number that decides it, beside the threshold that it meets or misses."""
        who, ratio = f"{self.title}: ", f"{self.regret:.2f}"
        if self.error is None:
            return f"{who}{ratio} times, without an error"
        error = f"{ERRORS:g} × {self.error:.2f}"
        low = f"{ratio} − {error} = {self.regret - ERRORS * self.error:.2f}"
        high = f"{ratio} + {error} = {self.high:.2f}"
        if self.far:
            return f"{who}{low} > {COMPARABLE:g}"
        if self.settled:
            return f"{who}{ratio} ≤ {COMPARABLE:g}, and {high} ≤ {AT_MOST:g}"
        if self.regret <= COMPARABLE:
            return f"{who}{ratio} ≤ {COMPARABLE:g}, but {high} > {AT_MOST:g}"
        return f"{who}{ratio} > {COMPARABLE:g}, but {low} ≤ {COMPARABLE:g}"

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        row = asdict(self)
        for old in ("regret", "communication"):
            row[f"{old}_ratio"] = row.pop(old)
        return {**row, "regret_ratio_error": row.pop("error"), "settled": self.settled}


def _ratio(study: StudyNumbers, row: Row, other: Row) -> Ratio | None:
    """Compare a setting with another; None if the other has no regret or no communication."""
    theirs = other.cost(study.measure)
    if other.regret <= 0 or theirs <= 0:
        return None
    _, error = paired_ratio(*by_seed(study.runs, row.label, other.label))
    return Ratio(
        row.label, row.title, other.title, row.regret / other.regret, error,
        row.cost(study.measure) / theirs,
    )  # fmt: skip


#: Communication that counts as a small part, as a ratio to One-UCB-GLM's.
SMALL = 0.1
_NEAR_TEXT = (
    "With frequent global updates {who}’s regret is comparable to that of One-UCB-GLM, at a "
    "small part of its communication."
)
_NEAR_RULE = (
    f"Holds if some setting of {{who}} with at most {percent(SMALL)} of One-UCB-GLM’s "
    f"communication has {_RULE}; does not hold if the best setting, of all "
    f"or of those with so little communication, has more than {COMPARABLE:g} times its regret "
    f"when {ERRORS:g} standard errors are subtracted; otherwise not decided. "
    "Errors of ratios are paired by seed."
)


def near_one(study: StudyNumbers, algorithm: str = FEDGLB) -> Claim:
    """Check all settings of an algorithm: the paper's claim on FedGLB-UCB, ours on others.

    It reports the settings of most communication and of least regret, and the cheapest that is
    comparable.
    """
    who, ours = NAMES[algorithm], algorithm != FEDGLB
    claim = Claim(
        f"{algorithm.removeprefix('fedglb-')}-near-one" if ours else "near-one",
        _NEAR_TEXT.format(who=who), _NEAR_RULE.format(who=who),
        whose="this package" if ours else "the paper",
    )  # fmt: skip
    one = reference(study.rows, "one-ucb-glm")
    rows = study.settings_of(algorithm)
    if one is None or not rows:
        return claim.untested(f"{'One-UCB-GLM' if one is None else who} was not run.")
    found = [made for row in rows if (made := _ratio(study, row, one)) is not None]
    if not found:
        text = "One-UCB-GLM has no regret or no communication to compare with."
        return claim.untested(text)
    small = [r for r in found if r.communication <= SMALL]
    best = min(found, key=lambda r: r.regret)
    best_small = min(small, key=lambda r: r.regret, default=None)
    settled = [r for r in found if r.settled]
    near = settled or [r for r in found if r.regret <= COMPARABLE]
    cheapest = _cheapest(near)
    frequent = max(found, key=lambda r: r.communication)
    sure = _cheapest([r for r in small if r.settled])
    # The best of all is far: then so are all. Else only those with little communication are.
    far = next((r for r in (best, best_small) if r is not None and r.far), None)
    decider = sure or far or best_small or best
    said = [f"most communication: {frequent.in_words(study.measure)}"]
    shown = [frequent]
    for what, each in (
        ("least regret", best),
        (f"least regret with at most {percent(SMALL)} of that communication", best_small),
        (f"cheapest {'clearly ' if settled else ''}within {COMPARABLE:g} times", cheapest),
    ):
        if each is not None and each not in shown:
            said.append(f"{what}: {each.in_words(study.measure)}")
            shown.append(each)
    if cheapest is None:
        said.append(f"no setting is within {COMPARABLE:g} times")
    sign = "≤" if decider.communication <= SMALL else ">"
    return claim.tested(
        said,
        verdict(sure is not None, far is not None),
        f"{decider.why()}, with {percent(decider.communication)} {sign} {percent(SMALL)} of the "
        f"{study.measure}",
        {
            "frequent": frequent.plain(), "best": best.plain(), "decider": decider.plain(),
            "cheapest": None if cheapest is None else cheapest.plain(),
            "shown": decider.in_words(study.measure),
        },
    )  # fmt: skip


def _cheapest(found: Sequence[Ratio]) -> Ratio | None:
    return min(found, key=lambda r: r.communication, default=None)


_UNTUNED = Claim(
    "nothing-to-tune",
    "FedGLB-Auto has nothing to tune: with its defaults its regret is comparable to that of the "
    "best tuned setting of the paper’s algorithms.",
    "FedGLB-Auto at its defaults is compared with the setting of least mean regret, of all that "
    f"were run, of FedGLB-UCB and its variants. Holds if it has {_RULE}; does not hold if it has "
    f"more than {COMPARABLE:g} times its regret when {ERRORS:g} standard errors are subtracted; "
    "otherwise not decided. Errors of ratios are paired by seed.",
    whose="this package",
)


def nothing_to_tune(study: StudyNumbers) -> Claim:
    """Check FedGLB-Auto's setting that has all defaults, if it was run."""
    mine = _untuned(study)
    theirs = study.settings_of(FEDGLB, *VARIANTS)
    if mine is None or not theirs:
        text = "FedGLB-Auto with its defaults, or an algorithm of the paper, was not run."
        return _UNTUNED.untested(text)
    best = min(theirs, key=lambda r: r.regret)
    found = _ratio(study, mine, best)
    if found is None:
        text = f"{best.title} has no regret or no communication to compare with."
        return _UNTUNED.untested(text)
    mine_text, best_text = (
        f"regret {plus_minus(r.regret, r.error)} with {amount(r.cost(study.measure))} "
        f"{study.measure}"
        for r in (mine, best)
    )
    return _UNTUNED.tested(
        [
            f"{mine.title}, untuned: {mine_text}",
            f"best of {len(theirs)} settings of the paper’s: {best.title}, {best_text}",
            found.in_words(study.measure),
        ],
        verdict(found.settled, found.far),
        found.why(),
        {"untuned": mine.plain(), "best": best.plain(), "ratio": found.plain()},
    )


def _untuned(study: StudyNumbers) -> Row | None:
    """Return the row of FedGLB-Auto with every parameter at its default; None if there is none."""
    usual = {k: v for k, v in defaults("fedglb-auto").items() if k in study.runs.columns}
    same = [pl.col(key).eq_missing(pl.lit(value)) for key, value in usual.items()]
    runs = study.runs.filter(pl.col("algorithm") == "fedglb-auto", *same)
    labels = set(runs["label"])
    return next((row for row in study.rows if row.label in labels), None)
