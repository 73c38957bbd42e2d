"""Regret falls as communication grows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import rankdata

from fedglb.studies.report.claims.base import (
    FEDGLB,
    UNDECIDED,
    UNTESTED,
    VARIANTS,
    Claim,
    Evidence,
    verdict,
)
from fedglb.studies.report.numerals import amount
from fedglb.studies.report.summary import Curve

#: A rank correlation that counts as falling, and the fewest settings that have one.
STRONG, FEWEST = -0.8, 4
_TEXT = "For FedGLB-UCB and its variants, regret falls as communication grows."
_RULE = (
    "Holds if for each of them Spearman’s rank correlation of communication and regret over the "
    f"settings is at most {STRONG:g}, and the setting with the most communication has less regret "
    f"than the one with the least. One with fewer than {FEWEST} settings is not tested; if "
    "that is FedGLB-UCB, this is at most not decided. DisLinUCB is measured too, but does not "
    "count."
).replace("-0.8", "−0.8")


def communication_pays(evidence: Evidence) -> Claim:
    """Hold the claim against all curves with enough settings."""
    every = evidence.of(FEDGLB, *VARIANTS, "dislinucb")
    found = [_measure(curve, evidence.measure) for curve in every if len(curve.rows) >= FEWEST]
    few = [curve for curve in every if len(curve.rows) < FEWEST]
    counted = [f for f in found if f["algorithm"] != "dislinucb"]
    said = [_in_words(f, evidence.measure) for f in found]
    said += [f"{c.name}: not tested, {len(c.rows)} of {FEWEST} settings" for c in few]
    numbers = {"curves": found, "not_tested": [c.name for c in few]}
    word = UNTESTED
    if counted:
        fails = not all(f["falls"] for f in counted)
        whole = all(len(c.rows) >= FEWEST for c in evidence.of(FEDGLB))
        ours = any(f["algorithm"] == FEDGLB for f in counted)
        word = verdict(not fails and whole and ours, fails)
    measured = "; ".join(said or ["Neither FedGLB-UCB nor a variant was run"]) + "."
    return Claim("communication-pays", _TEXT, _RULE, measured, word, _why(counted, word), numbers)


def _why(counted: list[dict[str, Any]], word: str) -> str:
    """Return the curve that decided: one that does not fall, or the one that falls least."""
    if word == UNDECIDED:
        return f"FedGLB-UCB has fewer than {FEWEST} settings"
    lost = [f for f in counted if not f["falls"]]
    decider = max(lost or counted, key=lambda f: _or(f["rank_correlation"], math.inf), default=None)
    if decider is None:
        return ""
    correlation = decider["rank_correlation"]
    if correlation is None:
        return f"{decider['curve']}: regret, or communication, is the same at every setting"
    strong = correlation <= STRONG + 1e-9
    text = f"{decider['curve']}: {signed(correlation)} {'≤' if strong else '>'} {signed(STRONG)}"
    if strong and lost:
        most, least = amount(decider["regret_most"]), amount(decider["regret_least"])
        text += f", but regret {most} ≥ {least} at the ends"
    return text


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _measure(curve: Curve, measure: str) -> dict[str, Any]:
    least, most = curve.rows[0], curve.rows[-1]
    costs = [r.cost(measure) for r in curve.rows]
    correlation = rank_correlation(costs, [r.regret for r in curve.rows])
    # 1e-9: a correlation of exactly STRONG counts, whatever its rounding error.
    strong = correlation is not None and correlation <= STRONG + 1e-9
    return {
        "curve": curve.name, "algorithm": curve.algorithm, "settings": len(curve.rows),
        "rank_correlation": correlation, "falls": strong and most.regret < least.regret,
        "least": least.cost(measure), "regret_least": least.regret,
        "least_setting": least.parameter,
        "most": most.cost(measure), "regret_most": most.regret,
        "most_setting": most.parameter,
    }  # fmt: skip


def _in_words(found: dict[str, Any], measure: str) -> str:
    least, most = from_to(found, measure)
    return (
        f"{found['curve']}: rank correlation {signed(found['rank_correlation'])}, regret {least} "
        f"and {most}"
    )


def from_to(found: dict[str, Any], measure: str) -> tuple[str, str]:
    """Return regret, communication and setting at both ends of a curve, as text."""
    least, most = (f" ({s})" if s else "" for s in (found["least_setting"], found["most_setting"]))
    return (
        f"{amount(found['regret_least'])} at {amount(found['least'])} {measure}{least}",
        f"{amount(found['regret_most'])} at {amount(found['most'])}{most}",
    )


def rank_correlation(x: list[float], y: list[float]) -> float | None:
    """Return Spearman's rank correlation; None where one of the two does not vary.

    Examples
    --------
    >>> round(rank_correlation([1, 2, 3], [30, 20, 10]), 9), rank_correlation([1, 1], [2, 3])
    (-1.0, None)
    """
    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (x, y))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else None


def signed(value: float | None) -> str:
    """Return a correlation with two digits."""
    return "undefined" if value is None else f"{value:.2f}".replace("-", "−")
