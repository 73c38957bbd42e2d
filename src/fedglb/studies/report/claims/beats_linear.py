"""DisLinUCB, which fits a linear model, is beaten."""

from __future__ import annotations

from collections.abc import Sequence

from fedglb.studies.report.claims.base import FEDGLB, UNTESTED, Claim, Evidence, verdict
from fedglb.studies.report.claims.equal import FEWEST, Comparison, comparisons
from fedglb.studies.report.claims.paired import ERRORS, by_seed, difference
from fedglb.studies.report.numerals import amount, plus_minus
from fedglb.studies.report.summary import Row

_TEXT = "DisLinUCB, which fits a linear model, is clearly outperformed by FedGLB-UCB."
_RULE = (
    "The best settings of both are compared seed by seed: one is clearly better if the mean "
    f"difference exceeds {ERRORS:g} standard errors. At equal communication FedGLB-UCB wins if "
    "it has less regret at three quarters of DisLinUCB’s settings or more, and less on the "
    "geometric mean; it loses if it has less at a quarter of them or fewer, and more on the "
    f"geometric mean; with fewer than {FEWEST} settings within FedGLB-UCB’s range this is left "
    "out. Holds if FedGLB-UCB’s best setting is clearly better, and it wins at equal communication "
    "or that is left out; does not hold if its best setting is clearly worse, or if it loses at "
    "equal communication and its best setting is not clearly better; otherwise not decided."
)


def beats_linear(evidence: Evidence) -> Claim:
    """Hold the claim against DisLinUCB, if it was run."""
    ours = [row for curve in evidence.of(FEDGLB) for row in curve.rows]
    theirs = [row for curve in evidence.of("dislinucb") for row in curve.rows]
    if not ours or not theirs:
        missing = "DisLinUCB" if ours else "FedGLB-UCB"
        return Claim("beats-linear", _TEXT, _RULE, f"{missing} was not run.", UNTESTED)
    mine, other = (min(rows, key=lambda r: r.regret) for rows in (ours, theirs))
    gap, error = difference(*by_seed(evidence.runs, other.label, mine.label))
    best = _clear(gap, error)
    made = comparisons(evidence, "dislinucb")
    usable = [c for c in made if c.enough]
    agrees = bool(usable) and all(c.wins for c in usable)
    loses = bool(usable) and all(c.loses for c in usable)
    holds = best == "better" and (agrees or not usable)
    fails = best == "worse" or (loses and best != "better")
    numbers = {
        "best_fedglb": _plain(mine), "best_dislinucb": _plain(other), "best": best,
        "difference": gap, "difference_error": error,
        "comparisons": [c.plain() for c in made],
    }  # fmt: skip
    said = [_best_in_words(mine, other, gap, error), *_equal_in_words(made)]
    why = [_best_why(gap, error), *(c.why() for c in usable)]
    return Claim(
        "beats-linear", _TEXT, _RULE, "; ".join(said) + ".", verdict(holds, fails),
        "; ".join(why), numbers,
    )  # fmt: skip


def _best_why(gap: float | None, error: float | None) -> str:
    """Return the difference of the best settings beside its threshold."""
    if gap is None or error is None:
        return "best settings: no error"
    sign = ">" if abs(gap) > ERRORS * error else "≤"
    return (
        f"best settings: a difference of {amount(gap)}, |{amount(gap)}| {sign} {ERRORS:g} × "
        f"{amount(error)}"
    )


def _clear(gap: float | None, error: float | None) -> str:
    """Return whether FedGLB-UCB is clearly "better" or "worse"; "open" where neither is clear."""
    if gap is None or error is None or abs(gap) <= ERRORS * error:
        return "open"
    return "better" if gap > 0 else "worse"


def _plain(row: Row) -> dict[str, object]:
    return {"label": row.label, "title": row.title, "regret": row.regret, "error": row.error}


def _best_in_words(mine: Row, other: Row, gap: float | None, error: float | None) -> str:
    text = (
        f"best of all settings: {mine.title} {plus_minus(mine.regret, mine.error)}, "
        f"{other.title} {plus_minus(other.regret, other.error)}"
    )
    if gap is None or error is None:
        return f"{text} (too few seeds for an error)"
    return f"{text} (± s.e.), a difference of {plus_minus(gap, error)} paired by seed"


def _equal_in_words(made: Sequence[Comparison]) -> list[str]:
    said = [f"at equal communication {c.in_words()}" for c in made]
    if not any(c.enough for c in made):
        said.append("so this rests on the best settings alone")
    return said
