"""Regret and communication grow at most about like the square root of the number of steps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from fedglb.studies.report.claims.base import FEDGLB, Claim, noun, verdict
from fedglb.studies.report.numerals import setting
from fedglb.studies.report.summary import StudyNumbers

#: A slope that counts as "at most about 1/2".
ABOUT_HALF = 0.55
_GROWTH = Claim(
    "growth",
    "FedGLB-UCB’s regret and communication grow at most about like √t (up to logarithms, with D "
    "chosen for the horizon).",
    "Holds if at more than half of the settings both slopes of the logarithms against log t, over "
    f"T/8 ≤ t ≤ T, are at most {ABOUT_HALF}, else not: least squares on the mean over the seeds. "
    "FedGLB-UCB does not know T, so its trace up to t is that of a run with the horizon t and the "
    "same D. Settings without communication do not count.",
)


def growth(study: StudyNumbers) -> Claim:
    """Check the traces of every threshold."""
    found: list[dict[str, Any]] = []
    rows = study.settings_of(FEDGLB)
    for row in rows:
        means = (
            study.traces.filter(pl.col("label") == row.label)
            .group_by("t")
            .agg(pl.col("regret", study.measure).mean())
            .sort("t")
        )
        slopes = {
            name: slope(means["t"].to_list(), means[column].to_list())
            for name, column in (("regret", "regret"), ("communication", study.measure))
        }
        if slopes["regret"] is not None and row.cost(study.measure) > 0:
            found.append({"label": row.label, "setting": row.parameter, "value": row.value,
                          "curve": row.curve, **slopes})  # fmt: skip
    if not found:
        return _GROWTH.untested("There is no FedGLB-UCB run with enough steps.")
    both = [f for f in found if all(_small(f[k]) for k in ("regret", "communication"))]
    found.sort(key=lambda f: (f["curve"], f["value"] or 0.0))
    what = noun(rows)
    by = "D" if what == "thresholds" else "setting"
    slopes_in_words = ", ".join(
        f"{_name(f, what)}: {_shown(f['regret'])} and {_shown(f['communication'])}" for f in found
    )
    holds = len(both) > len(found) / 2
    return _GROWTH.tested(
        [
            f"Both are at most {ABOUT_HALF} at {len(both)} of {len(found)} {what}",
            f"exponents of regret and communication by {by}: {slopes_in_words}",
        ],
        verdict(holds, not holds),
        f"{len(both)} of {len(found)} {what} {'>' if holds else '≤'} half of them",
        {"settings": found, "both": len(both), "noun": what},
    )


def _name(found: dict[str, Any], what: str) -> str:
    if found["value"] is None or what == "settings":
        return f"{found['curve']} {found['setting']}".strip()
    return setting(found["value"])


def slope(t: list[int], values: list[float]) -> float | None:
    """Return the least-squares slope of log values against log t, over [T/8, T].

    None if a value is not positive, so that it has no logarithm, or if there are too few values.
    """
    kept = [(s, v) for s, v in zip(t, values, strict=True) if t and s >= t[-1] / 8]
    if len(kept) < 3 or any(v <= 0 for _, v in kept):
        return None
    x = np.log([s for s, _ in kept])
    y = np.log([v for _, v in kept])
    x = x - x.mean()
    return float(x @ (y - y.mean()) / (x @ x))


def _small(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value <= ABOUT_HALF


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")
