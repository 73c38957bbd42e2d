"""FedGLB-Auto, untuned, is as good as the best tuned setting of the paper's algorithms."""

from __future__ import annotations

import polars as pl

from fedglb.studies.report.claims.base import FEDGLB, UNTESTED, VARIANTS, Claim, Evidence, verdict
from fedglb.studies.report.claims.paired import ERRORS
from fedglb.studies.report.claims.ratio import COMPARABLE, RULE, ratio
from fedglb.studies.report.numerals import amount, plus_minus
from fedglb.studies.report.summary import Row, defaults

_AUTO = "fedglb-auto"
_TEXT = (
    "FedGLB-Auto has nothing to tune: with its defaults its regret is comparable to that of the "
    "best tuned setting of the paper’s algorithms."
)
_RULE = (
    "FedGLB-Auto at its defaults is compared with the setting of least mean regret, of all that "
    f"were run, of FedGLB-UCB and its variants. Holds if it has {RULE}; does not hold if it has "
    f"more than {COMPARABLE:g} times its regret when {ERRORS:g} standard errors are subtracted; "
    "otherwise not decided. Errors of ratios are paired by seed."
)


def nothing_to_tune(evidence: Evidence) -> Claim:
    """Hold the claim against FedGLB-Auto's setting that has all defaults, if it was run."""
    mine = untuned(evidence)
    theirs = [row for curve in evidence.of(FEDGLB, *VARIANTS) for row in curve.rows]
    if mine is None or not theirs:
        text = "FedGLB-Auto with its defaults, or an algorithm of the paper, was not run."
        return Claim("nothing-to-tune", _TEXT, _RULE, text, UNTESTED)
    best = min(theirs, key=lambda r: r.regret)
    found = ratio(evidence, mine, best)
    if found is None:
        text = f"{best.title} has no regret or no communication to compare with."
        return Claim("nothing-to-tune", _TEXT, _RULE, text, UNTESTED)
    said = [
        f"{mine.title}, untuned: regret {_of(mine, evidence.measure)}",
        f"best of {len(theirs)} settings of the paper’s: {best.title}, regret "
        f"{_of(best, evidence.measure)}",
        found.in_words(evidence.measure),
    ]
    return Claim(
        "nothing-to-tune", _TEXT, _RULE, "; ".join(said) + ".",
        verdict(found.settled, found.far), found.why(),
        {"untuned": mine.plain(), "best": best.plain(), "ratio": found.plain()},
    )  # fmt: skip


def _of(row: Row, measure: str) -> str:
    return f"{plus_minus(row.regret, row.error)} with {amount(row.cost(measure))} {measure}"


def untuned(evidence: Evidence) -> Row | None:
    """Return the row of FedGLB-Auto with every parameter at its default; None if there is none."""
    usual = {k: v for k, v in defaults(_AUTO).items() if k in evidence.runs.columns}
    same = [pl.col(key).eq_missing(pl.lit(value)) for key, value in usual.items()]
    runs = evidence.runs.filter(pl.col("algorithm") == _AUTO, *same)
    labels = set(runs["label"])
    return next((row for row in evidence.rows if row.label in labels), None)
