"""Claims on communication: it pays, gets rarer, and takes one exchange per global update."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import rankdata

from fedglb.studies.report.claims.base import (
    FEDGLB,
    UNDECIDED,
    UNTESTED,
    VARIANTS,
    Claim,
    noun,
    verdict,
)
from fedglb.studies.report.numerals import amount, percent
from fedglb.studies.report.summary import StudyNumbers, TradeOff

#: A rank correlation that counts as falling, and the fewest settings that have one.
STRONG, FEWEST_SETTINGS = -0.8, 4
_PAYS = Claim(
    "communication-pays",
    "For FedGLB-UCB and its variants, regret falls as communication grows.",
    "Holds if for each of them Spearman’s rank correlation of communication and regret over the "
    "settings is at most −0.8, and the setting with the most communication has less regret "
    f"than the one with the least. One with fewer than {FEWEST_SETTINGS} settings is not tested; "
    "if that is FedGLB-UCB, this is at most not decided. DisLinUCB is measured too, but does not "
    "count.",
)


def communication_pays(study: StudyNumbers) -> Claim:
    """Check all curves with enough settings."""
    every = study.of(FEDGLB, *VARIANTS, "dislinucb")
    found = [_fall(curve, study.measure) for curve in every if len(curve.rows) >= FEWEST_SETTINGS]
    few = [curve for curve in every if len(curve.rows) < FEWEST_SETTINGS]
    counted = [f for f in found if f["algorithm"] != "dislinucb"]
    said = [_fall_in_words(f, study.measure) for f in found]
    said += [f"{c.name}: not tested, {len(c.rows)} of {FEWEST_SETTINGS} settings" for c in few]
    word = UNTESTED
    if counted:
        fails = not all(f["falls"] for f in counted)
        whole = all(len(c.rows) >= FEWEST_SETTINGS for c in study.of(FEDGLB))
        ours = any(f["algorithm"] == FEDGLB for f in counted)
        word = verdict(not fails and whole and ours, fails)
    return _PAYS.tested(
        said or ["Neither FedGLB-UCB nor a variant was run"], word, _pays_why(counted, word),
        {"curves": found, "not_tested": [c.name for c in few]},
    )  # fmt: skip


def _pays_why(counted: list[dict[str, Any]], word: str) -> str:
    """Return the deciding curve: one that does not fall, or the one that falls least."""
    if word == UNDECIDED:
        return f"FedGLB-UCB has fewer than {FEWEST_SETTINGS} settings"
    lost = [f for f in counted if not f["falls"]]

    def correlation_of(found: dict[str, Any]) -> float:
        value: float | None = found["rank_correlation"]
        return math.inf if value is None else value

    decider = max(lost or counted, key=correlation_of, default=None)
    if decider is None:
        return ""
    correlation = decider["rank_correlation"]
    if correlation is None:
        return f"{decider['curve']}: regret, or communication, is the same at every setting"
    strong = correlation <= STRONG + 1e-9
    text = f"{decider['curve']}: {_signed(correlation)} {'≤' if strong else '>'} {_signed(STRONG)}"
    if strong and lost:
        most, least = amount(decider["regret_most"]), amount(decider["regret_least"])
        text += f", but regret {most} ≥ {least} at the ends"
    return text


def _fall(curve: TradeOff, measure: str) -> dict[str, Any]:
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


def _fall_in_words(found: dict[str, Any], measure: str) -> str:
    least, most = (f" ({s})" if s else "" for s in (found["least_setting"], found["most_setting"]))
    return (
        f"{found['curve']}: rank correlation {_signed(found['rank_correlation'])}, regret "
        f"{amount(found['regret_least'])} at {amount(found['least'])} {measure}{least} and "
        f"{amount(found['regret_most'])} at {amount(found['most'])}{most}"
    )


def rank_correlation(x: list[float], y: list[float]) -> float | None:
    """Return Spearman's rank correlation; None if one of the two does not vary."""
    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (x, y))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else None


def _signed(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}".replace("-", "−")


#: Runs with fewer updates are too short to judge when updates happen.
FEWEST_UPDATES = 5
#: Shares of the updates, (holds, does not hold): early at least/at most, late at most/at least.
EARLY, LATE = (0.15, 0.10), (0.40, 0.50)
_FEWER = Claim(
    "fewer-and-fewer",
    "FedGLB-UCB’s event trigger communicates less and less often.",
    f"Averaged over D, holds if the first tenth of the steps has at least {percent(EARLY[0])} of "
    f"the global updates and the last half at most {percent(LATE[0])}; does not hold if the first "
    f"tenth has at most {percent(EARLY[1])} or the last half at least {percent(LATE[1])}, as at a "
    f"constant rate; otherwise not decided. Settings with fewer than {FEWEST_UPDATES} global "
    "updates per run do not count.",
)


def fewer_and_fewer(study: StudyNumbers) -> Claim:
    """Check the traces of every threshold."""
    rows = study.settings_of(FEDGLB)
    found: list[dict[str, Any]] = []
    for row in rows:
        shares = _shares(study.traces.filter(pl.col("label") == row.label))
        if shares is not None and row.syncs >= FEWEST_UPDATES:
            found.append({"label": row.label, "setting": row.parameter, **shares})
    if not found:
        text = f"There is no FedGLB-UCB setting with {FEWEST_UPDATES} global updates per run."
        return _FEWER.untested(text)
    mean = {
        share: sum(f[share] for f in found) / len(found)
        for share in ("first_tenth", "first_half", "last_half")
    }
    least, most = (pick(f["last_half"] for f in found) for pick in (min, max))
    several = f" (from {percent(least)} to {percent(most)})" if len(found) > 1 else ""
    measured = (
        f"Of the global updates, {percent(mean['first_tenth'])} fall into the first tenth of the "
        f"steps, {percent(mean['first_half'])} into the first half and "
        f"{percent(mean['last_half'])} into the last half{several}, averaged over "
        f"{len(found)} of {len(rows)} {noun(rows)}, those with {FEWEST_UPDATES} updates per run or "
        "more"
    )
    early, late = mean["first_tenth"], mean["last_half"]
    return _FEWER.tested(
        [measured],
        verdict(early >= EARLY[0] and late <= LATE[0], early <= EARLY[1] or late >= LATE[1]),
        f"first tenth {percent(early)} {_beside(early, *EARLY)}, last half {percent(late)} "
        f"{_beside(late, *LATE)}",
        {"mean": mean, "settings": found, "of": len(rows)},
    )


def _beside(share: float, good: float, bad: float) -> str:
    """Return a share's threshold: the good one if it is met, else the bad one."""
    up = good > bad  # more is better
    if (share >= good) if up else (share <= good):
        return f"{'≥' if up else '≤'} {percent(good)}"
    if (share <= bad) if up else (share >= bad):
        return f"{'≤' if up else '≥'} {percent(bad)}"
    return f"between {percent(min(good, bad))} and {percent(max(good, bad))}"


def _shares(trace: pl.DataFrame) -> dict[str, float] | None:
    """Return the shares of the updates of all seeds; None without updates."""
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


#: Rounds per global update: at most this many are one exchange, this many or more are not.
ONE, MORE = 1.1, 1.5
_EXCHANGE = Claim(
    "one-exchange",
    "A global update of FedGLB-Auto and FedGLB-Mix is one exchange of messages.",
    f"Holds if all settings of each curve together have at most {ONE:g} rounds per global update; "
    f"does not hold if those of one curve have {MORE:g} or more; otherwise not decided. A round is "
    "one message to all clients and their answers.",
    whose="this package",
)


def one_exchange(study: StudyNumbers) -> Claim:
    """Check the mean number of rounds per global update of each curve."""
    each = _rounds(study.of("fedglb-auto", "fedglb-mix"))
    if not each:
        return _EXCHANGE.untested("Neither FedGLB-Auto nor FedGLB-Mix made a global update here.")
    others = _rounds(study.of(FEDGLB))
    most = max(each, key=lambda name: each[name])
    holds, fails = each[most] <= ONE, each[most] >= MORE
    than = f"≤ {ONE:g}" if holds else f"≥ {MORE:g}" if fails else f"> {ONE:g}, but < {MORE:g}"
    return _EXCHANGE.tested(
        [
            *(f"{name}: {value:.2f} rounds per global update" for name, value in each.items()),
            *(f"for comparison, {name}: {value:.2f}" for name, value in others.items()),
        ],
        verdict(holds, fails),
        f"{most}: {each[most]:.2f} {than}",
        {"rounds_per_update": {**each, **others}},
    )


def _rounds(curves: tuple[TradeOff, ...]) -> dict[str, float]:
    """Return the rounds per global update of each curve that has made one."""
    made = {}
    for curve in curves:
        updates = sum(row.syncs for row in curve.rows)
        if updates > 0:
            made[curve.name] = sum(row.rounds for row in curve.rows) / updates
    return made
