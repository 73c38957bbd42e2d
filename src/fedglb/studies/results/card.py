"""A sweep at a glance: its Pareto front, and a small piece of HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from fedglb.simulation.card import MOST, Curve, card, short
from fedglb.studies.results.tables import distinct, repeated

_ROWS = 12  # of the table; further ones are only counted


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return which of the points (communication, regret) are on the front, cheapest first.

    No other point is better in both. Of points that are equal in both, the first one counts.
    """
    front: list[int] = []
    for i in sorted(range(len(points)), key=lambda i: points[i]):
        if not front or points[i][1] < points[front[-1]][1]:  # it costs more: regret has to fall
            front.append(i)
    return front


def sweep_card(name: str, runs: pl.DataFrame, traces: pl.DataFrame) -> str:
    """Return the HTML: settings in the order of mean regret, the best ones with a curve."""
    settings = (
        distinct(runs)
        .group_by("label", maintain_order=True)
        .agg(
            pl.len().alias("seeds"),
            pl.col("regret").mean(),
            (pl.col("regret").std() / pl.len().sqrt()).alias("error"),
            pl.col("reward", "transfers").mean(),
        )
        .sort("regret", maintain_order=True)
    )
    rows = []
    for row in settings.head(_ROWS).to_dicts():
        error = "" if row["error"] is None else f" ± {short(row['error'])}"
        totals = [short(row[key]) for key in ("reward", "transfers")]
        rows.append([row["label"], str(row["seeds"]), short(row["regret"]) + error, *totals])
    notes = [said] if (said := repeated(runs)) else []
    if settings.height > _ROWS:
        notes.append(f"{settings.height - _ROWS} more settings are in `result.runs`.")
    if settings.height > MOST:
        notes.append(f"The figure has the {MOST} settings of the lowest mean regret.")
    curves = []
    for label in settings["label"].head(MOST):
        over = traces.filter(pl.col("label") == label).group_by("t").agg(pl.col("regret").mean())
        over = over.sort("t")
        curves.append(Curve(over["t"].to_list(), over["regret"].to_list()))
    header = ["setting", "seeds", "regret ± s.e.", "reward", "transfers"]
    counted = f"{name}: {runs.height:,} runs of {settings.height:,} settings"
    return card(counted, header, rows, curves, "mean regret", notes)
