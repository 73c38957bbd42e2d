"""The event trigger communicates less and less often."""

from __future__ import annotations

from typing import Any

import polars as pl

from fedglb.studies.report.claims.base import FEDGLB, UNTESTED, Claim, Evidence, noun, verdict
from fedglb.studies.report.numerals import percent

#: A run with fewer updates than this says nothing about when updates happen.
FEWEST = 5
#: Shares of the updates, (holds, does not hold): early at least/at most, late at most/at least.
EARLY, LATE = (0.15, 0.10), (0.40, 0.50)
_TEXT = "FedGLB-UCB’s event trigger communicates less and less often."
_RULE = (
    f"Averaged over D, holds if the first tenth of the steps has at least {percent(EARLY[0])} of "
    f"the global updates and the last half at most {percent(LATE[0])}; does not hold if the first "
    f"tenth has at most {percent(EARLY[1])} or the last half at least {percent(LATE[1])}, as at a "
    f"constant rate; otherwise not decided. Settings with fewer than {FEWEST} global updates "
    "per run do not count."
)
_SHARES = ("first_tenth", "first_half", "last_half")


def fewer_and_fewer(evidence: Evidence) -> Claim:
    """Hold the claim against the traces of every threshold."""
    rows = [row for curve in evidence.of(FEDGLB) for row in curve.rows]
    found: list[dict[str, Any]] = []
    for row in rows:
        shares = _shares(evidence.traces.filter(pl.col("label") == row.label))
        if shares is not None and row.syncs >= FEWEST:
            found.append({"label": row.label, "setting": row.parameter, **shares})
    if not found:
        text = f"There is no FedGLB-UCB setting with {FEWEST} global updates per run."
        return Claim("fewer-and-fewer", _TEXT, _RULE, text, UNTESTED)
    mean = {share: sum(f[share] for f in found) / len(found) for share in _SHARES}
    least, most = (pick(f["last_half"] for f in found) for pick in (min, max))
    several = f" (from {percent(least)} to {percent(most)})" if len(found) > 1 else ""
    measured = (
        f"Of the global updates, {percent(mean['first_tenth'])} fall into the first tenth of the "
        f"steps, {percent(mean['first_half'])} into the first half and "
        f"{percent(mean['last_half'])} into the last half{several}, averaged over "
        f"{len(found)} of {len(rows)} {noun(rows)}, those with {FEWEST} updates per run or more."
    )
    early, late = mean["first_tenth"], mean["last_half"]
    word = verdict(early >= EARLY[0] and late <= LATE[0], early <= EARLY[1] or late >= LATE[1])
    numbers: dict[str, Any] = {"mean": mean, "settings": found, "of": len(rows)}
    why = (
        f"first tenth {percent(early)} {_beside(early, *EARLY)}, last half {percent(late)} "
        f"{_beside(late, *LATE)}"
    )
    return Claim("fewer-and-fewer", _TEXT, _RULE, measured, word, why, numbers)


def _beside(share: float, good: float, bad: float) -> str:
    """Return a share's threshold: the good one if it is met, else the bad one."""
    up = good > bad  # more is better
    if (share >= good) if up else (share <= good):
        return f"{'≥' if up else '≤'} {percent(good)}"
    met = (share <= bad) if up else (share >= bad)
    if met:
        return f"{'≤' if up else '≥'} {percent(bad)}"
    return f"between {percent(min(good, bad))} and {percent(max(good, bad))}"


def _shares(trace: pl.DataFrame) -> dict[str, float] | None:
    """Return the shares of the syncs of all seeds; None without syncs."""
    total = trace.group_by("t").agg(pl.col("syncs").sum()).sort("t")
    if total.is_empty() or total["syncs"][-1] == 0:
        return None
    horizon, whole = total["t"][-1], total["syncs"][-1]

    def until(share: float) -> int:
        before = total.filter(pl.col("t") <= share * horizon)["syncs"]
        return int(before[-1]) if len(before) else 0

    tenth, half = until(0.1), until(0.5)
    counts = {"first_tenth": tenth, "first_half": half, "last_half": whole - half}
    return {share: count / whole for share, count in counts.items()}
