"""FedGLB-UCB's regret is comparable to One-UCB-GLM's, at a small part of its communication."""

from __future__ import annotations

from typing import Any

from fedglb.report.claims.base import FEDGLB, UNTESTED, Claim, Evidence, verdict
from fedglb.report.claims.paired import ERRORS, by_seed, ratio_error
from fedglb.report.summary import Row, reference
from fedglb.report.text.numerals import percent

#: As ratios to One-UCB-GLM: regret that counts as comparable, the most it may be with its error
#: added, and communication that counts as a small part.
COMPARABLE, AT_MOST, SMALL = 1.25, 1.5, 0.1
_TEXT = (
    "With frequent global updates FedGLB-UCB’s regret is comparable to that of One-UCB-GLM, at a "
    "small part of its communication."
)
_RULE = (
    f"Holds if some setting of FedGLB-UCB with at most {percent(SMALL)} of One-UCB-GLM’s "
    f"communication has at most {COMPARABLE:g} times its mean regret, and at most {AT_MOST:g} "
    f"times when {ERRORS:g} standard errors are added; does not hold if the best setting, of all "
    f"or of those with so little communication, has more than {COMPARABLE:g} times its regret "
    f"when {ERRORS:g} standard errors are subtracted; otherwise, and with one seed, not decided. "
    "Errors of ratios are paired by seed."
)
_Measured = dict[str, Any]


def near_one(evidence: Evidence) -> Claim:
    """Hold the claim against all settings; report the most frequent, the best and the cheapest."""
    one = reference(evidence.rows, "one-ucb-glm")
    ours = [row for curve in evidence.of(FEDGLB) for row in curve.rows]
    if one is None or not ours:
        missing = "One-UCB-GLM" if one is None else "FedGLB-UCB"
        return Claim("near-one", _TEXT, _RULE, f"{missing} was not run.", UNTESTED)
    if one.regret <= 0 or one.cost(evidence.measure) <= 0:
        text = "One-UCB-GLM has no regret or no communication to compare with."
        return Claim("near-one", _TEXT, _RULE, text, UNTESTED)
    found = [_measure(evidence, row, one) for row in ours]
    small = [f for f in found if f["communication_ratio"] <= SMALL]
    best = _least(found, "regret_ratio")
    settled = [f for f in found if f["settled"]]
    near = [f for f in found if f["regret_ratio"] <= COMPARABLE]
    cheapest = _least(settled or near, "communication_ratio")
    frequent = max(found, key=lambda f: f["communication_ratio"])
    word = verdict(
        any(f["settled"] for f in small),
        _is_far(best) or _is_far(_least(small, "regret_ratio")),
    )
    said = [f"most communication: {_in_words(frequent, evidence.measure)}"]
    if best is not None and best is not frequent:
        said.append(f"least regret: {_in_words(best, evidence.measure)}")
    if cheapest is None:
        said.append(f"no setting is within {COMPARABLE:g} times")
    elif cheapest is not frequent and cheapest is not best:
        sure = "clearly " if settled else ""
        text = _in_words(cheapest, evidence.measure)
        said.append(f"cheapest {sure}within {COMPARABLE:g} times: {text}")
    numbers = {"frequent": frequent, "best": best, "cheapest": cheapest}
    return Claim("near-one", _TEXT, _RULE, "; ".join(said) + ".", word, numbers)


def _measure(evidence: Evidence, row: Row, one: Row) -> _Measured:
    ratio = row.regret / one.regret
    error = ratio_error(*by_seed(evidence.runs, row.label, one.label))
    near = ratio <= COMPARABLE and error is not None and ratio + ERRORS * error <= AT_MOST
    return {
        "label": row.label, "title": row.title, "regret_ratio": ratio,
        "regret_ratio_error": error, "settled": near,
        "communication_ratio": row.cost(evidence.measure) / one.cost(evidence.measure),
    }  # fmt: skip


def _least(found: list[_Measured], key: str) -> _Measured | None:
    return min(found, key=lambda f: f[key], default=None)


def _is_far(measured: _Measured | None) -> bool:
    if measured is None or measured["regret_ratio_error"] is None:
        return False
    low: float = measured["regret_ratio"] - ERRORS * measured["regret_ratio_error"]
    return low > COMPARABLE


def _in_words(numbers: _Measured, unit: str) -> str:
    error = numbers["regret_ratio_error"]
    spread = "" if error is None else f" ± {error:.2f}"
    return (
        f"{numbers['title']} has {numbers['regret_ratio']:.2f}{spread} times One-UCB-GLM’s regret "
        f"with {percent(numbers['communication_ratio'])} of its {unit}"
    )
