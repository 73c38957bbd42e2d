"""The settings of a sweep against one of them, seed by seed: numbers, and a table for papers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

import polars as pl

from fedglb.errors import InvalidInput, number, one_of
from fedglb.studies.report.numerals import amount, bracketed, chance, plus_minus
from fedglb.studies.report.page import PageTable
from fedglb.studies.report.paired import (
    Difference,
    Interval,
    differences,
    resamples,
    steps_of_holm,
)
from fedglb.studies.report.summary import ENOUGH, by_seed, spread
from fedglb.studies.report.typeset import to_latex, to_markdown
from fedglb.studies.results.tables import TOTALS, distinct, repeated

_SCHEMA = {
    "setting": pl.String, "seeds": pl.Int64, "mean": pl.Float64, "error": pl.Float64,
    "against": pl.String, "difference": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "p": pl.Float64, "adjusted_p": pl.Float64, "verdict": pl.String,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Comparison:
    """Settings of a sweep against one of them; `SweepResult.compare` returns it.

    Printed, it is a table in Markdown, with what was computed, and how, below it.

    Attributes
    ----------
    frame
        One row per setting: first the one that the others are compared with, which has no
        difference, then the others by their means. Columns: setting, seeds (that both have), mean,
        error (standard error; null with fewer than 5 seeds), against, difference (setting less
        against, paired by seed), low and high (its interval, corrected for many comparisons), p
        (two-sided, of this comparison alone), adjusted_p, verdict: "lower", "higher", "undecided",
        "equal" (at every seed), "too few seeds" (fewer than 5).
    column
        What is compared.
    notes
        What was computed, and how; one sentence or two each.
    bold
        The rows that may be the best: the best mean, and all that is not told apart from it. Empty
        if another setting than the best is compared with.

    Examples
    --------
    >>> import fedglb as fg
    >>> tables = {
    ...     "name": "example", "horizon": 30, "seeds": 5,
    ...     "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
    ...     "algorithm": [{"name": "n-ons-glm"}, {"name": "n-ucb-glm"}],
    ... }
    >>> made = fg.sweep(tables, getfixture("tmp_path") / "results", jobs=1).compare()
    >>> made.frame["setting", "seeds"].rows()
    [('N-UCB-GLM', 5), ('N-ONS-GLM', 5)]
    >>> "N-ONS-GLM" in made.to_latex()
    True
    """

    frame: pl.DataFrame
    column: str
    notes: tuple[str, ...]
    bold: tuple[int, ...] = field(default=())

    def __str__(self) -> str:
        return self.to_markdown()

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        """Return the table for notebooks."""
        return self.to_markdown()

    def to_markdown(self) -> str:
        """Return the table in Markdown; the notes are below it."""
        return to_markdown([self.table], self.notes)

    def to_latex(self) -> str:
        r"""Return the table in LaTeX, a `tabular`; the notes are in a comment, for the caption.

        It needs ``\usepackage{booktabs}``.
        """
        return to_latex([self.table], self.notes)

    @property
    def table(self) -> PageTable:
        """The table as texts."""
        head = ["setting", "seeds", f"{self.column} ± s.e.", "difference", "p", "verdict"]
        rows = [
            [
                row["setting"], str(row["seeds"]), plus_minus(row["mean"], row["error"]),
                bracketed(row["difference"], row["low"], row["high"]), chance(row["adjusted_p"]),
                row["verdict"] or "–",
            ]
            for row in self.frame.to_dicts()
        ]  # fmt: skip
        return PageTable("", head, rows, bold=self.bold)


def compare(
    runs: pl.DataFrame,
    setting: str | None = None,
    against: str | None = None,
    column: str = "regret",
    interval: Interval = "t",
    level: float = 0.95,
) -> Comparison:
    """Compare settings of a table of runs: see `SweepResult.compare`."""
    one_of("column", column, (*TOTALS, "update_seconds"))
    one_of("interval", interval, get_args(Interval))
    level = number("level", level, above=0.0, below=1.0)
    runs = runs.filter(pl.col(column).is_not_null())  # seconds: without a network or an update
    if runs.is_empty():
        raise InvalidInput("column", column, "a sweep with updates over a network, for this one")
    said, runs = repeated(runs), distinct(runs)
    grouped = runs.group_by("label", maintain_order=True).agg(
        pl.len().alias("seeds"), pl.col(column).cast(pl.Float64).mean().alias("mean"),
        *spread(column),
    )  # fmt: skip
    worse = -pl.col("mean") if column == "reward" else pl.col("mean")
    means = {row["label"]: row for row in grouped.sort(worse, "label").to_dicts()}
    best_first = list(means)
    for name, given in (("setting", setting), ("against", against)):
        if given is not None:
            one_of(name, given, list(grouped["label"]))
    if setting is not None and setting == against:
        raise InvalidInput("against", against, "another label than that of `setting`")
    chosen = against is None  # by the same seeds
    if against is None:
        others = [label for label in best_first if label != setting]
        if not others:
            raise InvalidInput("setting", setting, "a setting of a sweep with at least two")
        against = others[0]
    compared = [x for x in best_first if x != against and setting in (None, x)]
    k = len(means)
    counts = steps_of_holm(k, chosen=chosen)
    if setting is not None:  # one comparison, or the best of k − 1
        counts = [float(k - 1 if chosen else 1)]
    pairs = [by_seed(runs, label, against, column) for label in compared]
    found = differences(pairs, counts, interval, level) if pairs else []
    first = {"setting": against, **{x: means[against][x] for x in ("seeds", "mean", "error")}}
    rows = [
        {
            "setting": label, "seeds": each.seeds, "mean": means[label]["mean"],
            "error": means[label]["error"], "against": against, "difference": each.mean,
            "low": each.low, "high": each.high, "p": each.p, "adjusted_p": each.adjusted,
            "verdict": each.verdict,
        }
        for label, each in zip(compared, found, strict=True)
    ]  # fmt: skip
    bold: tuple[int, ...] = ()
    if best_first[0] == against and any(each.seeds >= ENOUGH for each in found):
        apart = "lower" if column == "reward" else "higher"
        ties = [each.verdict != apart and math.isfinite(each.mean) for each in found]
        bold = (0, *(i for i, tie in enumerate(ties, 1) if tie))
    notes = _notes(found, column, against, counts, interval, level)
    among = k - (setting is not None)
    if chosen and among > 1:
        notes.append(
            f"{against} was chosen as the best of {among} on these seeds, which the correction "
            "counts; it is likely to do worse on new ones."
        )
    if bold:
        notes.append("Bold: the best mean, and what is not told apart from it.")
    if said:
        notes.append(said)
    frame = pl.DataFrame([first, *rows], schema=_SCHEMA)
    return Comparison(frame, column, tuple(notes), bold)


def _notes(
    found: Sequence[Difference], column: str, against: str, counts: Sequence[float],
    interval: Interval, level: float,
) -> list[str]:  # fmt: skip
    """Return how the differences were computed."""
    if not found:
        return []
    percent = f"{100.0 * level:.6g} %"
    notes = [f"Difference: {column} less that of {against}, paired by seed, {percent} interval."]
    seeds = sorted({each.seeds for each in found if each.p is not None})
    if seeds:
        words = " to ".join(str(n) for n in dict.fromkeys((seeds[0], seeds[-1]))) + " seeds"
        if interval == "t":
            notes.append(f"Paired t, two-sided, {words}.")
        else:
            notes.append(
                f"Bootstrap of the paired differences (BCa, {amount(resamples(counts[0], level))} "
                f"resamples), {words}; p: two-sided permutation test that flips their signs, which "
                "gives the verdict."
            )
    if seeds and counts[0] > 1:
        sure = ": an interval without 0 always decides" if interval == "t" else ""
        notes.append(
            f"Corrected for {counts[0]:.0f} comparisons: intervals hold together (Bonferroni), p "
            f"is adjusted (Holm){sure}."
        )
    if any(each.p is not None and each.low is None for each in found):
        notes.append(
            "The same difference at every one of n seeds has no interval; its p is 2/2ⁿ, that of "
            "flipped signs."
        )
    if any(each.verdict == "too few seeds" for each in found):
        notes.append(f"Fewer than {ENOUGH} seeds that both have give no interval and no verdict.")
    return notes
