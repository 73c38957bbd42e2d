"""Claims of this package about FedGLB-Auto and FedGLB-Mix."""

from __future__ import annotations

import polars as pl

from fedglb.studies.report.claims.base import FEDGLB, UNTESTED, VARIANTS, Claim, Evidence, verdict
from fedglb.studies.report.claims.ratio import COMPARABLE, ERRORS, RULE, ratio
from fedglb.studies.report.numerals import amount, plus_minus
from fedglb.studies.report.summary import Curve, Row, defaults

_AUTO = "fedglb-auto"
_UNTUNED = (
    "FedGLB-Auto has nothing to tune: with its defaults its regret is comparable to that of the "
    "best tuned setting of the paper’s algorithms."
)
_UNTUNED_RULE = (
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
        return Claim("nothing-to-tune", _UNTUNED, _UNTUNED_RULE, text, UNTESTED)
    best = min(theirs, key=lambda r: r.regret)
    found = ratio(evidence, mine, best)
    if found is None:
        text = f"{best.title} has no regret or no communication to compare with."
        return Claim("nothing-to-tune", _UNTUNED, _UNTUNED_RULE, text, UNTESTED)
    said = [
        f"{mine.title}, untuned: regret {_of(mine, evidence.measure)}",
        f"best of {len(theirs)} settings of the paper’s: {best.title}, regret "
        f"{_of(best, evidence.measure)}",
        found.in_words(evidence.measure),
    ]
    return Claim(
        "nothing-to-tune", _UNTUNED, _UNTUNED_RULE, "; ".join(said) + ".",
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


#: The most rounds per global update that count as one exchange, and from where on they do not.
ONE, MORE = 1.1, 1.5
_EXCHANGE = "A global update of FedGLB-Auto and FedGLB-Mix is one exchange of messages."
_EXCHANGE_RULE = (
    f"Holds if all settings of each curve together have at most {ONE:g} rounds per global update; "
    f"does not hold if those of one curve have {MORE:g} or more; otherwise not decided. A round is "
    "one message to all clients and their answers."
)


def one_exchange(evidence: Evidence) -> Claim:
    """Hold the claim against the mean number of rounds per global update of each curve."""
    ours = [c for c in evidence.of("fedglb-auto", "fedglb-mix") if _updates(c) > 0]
    if not ours:
        text = "Neither FedGLB-Auto nor FedGLB-Mix made a global update here."
        return Claim("one-exchange", _EXCHANGE, _EXCHANGE_RULE, text, UNTESTED)
    each = {c.name: _rounds(c) for c in ours}
    others = {c.name: _rounds(c) for c in evidence.of(FEDGLB) if _updates(c) > 0}
    most = max(each, key=lambda name: each[name])
    said = [f"{name}: {value:.2f} rounds per global update" for name, value in each.items()]
    said += [f"for comparison, {name}: {value:.2f}" for name, value in others.items()]
    holds, fails = each[most] <= ONE, each[most] >= MORE
    than = f"≤ {ONE:g}" if holds else f"≥ {MORE:g}" if fails else f"> {ONE:g}, but < {MORE:g}"
    return Claim(
        "one-exchange", _EXCHANGE, _EXCHANGE_RULE, "; ".join(said) + ".", verdict(holds, fails),
        f"{most}: {each[most]:.2f} {than}", {"rounds_per_update": {**each, **others}},
    )  # fmt: skip


def _updates(curve: Curve) -> float:
    return sum(row.syncs for row in curve.rows)


def _rounds(curve: Curve) -> float:
    return sum(row.rounds for row in curve.rows) / _updates(curve)
