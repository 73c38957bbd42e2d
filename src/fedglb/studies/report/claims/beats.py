"""FedGLB-UCB beats its three variants, and DisLinUCB, which fits a linear model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fedglb.studies.report.claims.base import FEDGLB, UNTESTED, VARIANTS, Claim, verdict
from fedglb.studies.report.claims.comparable import ERRORS
from fedglb.studies.report.numerals import amount, factor, percent, plus_minus
from fedglb.studies.report.summary import (
    ENOUGH,
    NAMES,
    Row,
    StudyNumbers,
    TradeOff,
    by_seed,
    standard_error,
)

#: From this share of settings on, a curve beats another; at 1 minus it or less, it loses.
MOST = 0.75
#: The minimum number of settings to compare two curves.
FEWEST = 3


@dataclass(frozen=True)
class Comparison:
    """FedGLB-UCB against another algorithm, at the communication of the other's settings."""

    ours: str
    other: str
    algorithm: str
    settings: int  # of the other algorithm
    compared: int  # settings within FedGLB-UCB's range
    beaten: int  # settings with a lower interpolated regret of FedGLB-UCB
    #: Geometric mean of the other's regret over FedGLB-UCB's; None if a regret is not positive.
    ratio: float | None
    #: Its standard error, by the jackknife over seeds, which are paired; None without a ratio.
    error: float | None = None

    @property
    def enough(self) -> bool:
        """Whether there are enough settings to compare."""
        return self.compared >= FEWEST

    @property
    def wins(self) -> bool:
        """Whether FedGLB-UCB is better at most settings, and on average."""
        average = self.ratio is None or self.ratio > 1.0
        return self.enough and average and self.beaten >= MOST * self.compared

    @property
    def clear(self) -> bool:
        """Whether the average differs from 1 by more than its errors."""
        if self.ratio is None or self.error is None:
            return self.ratio is None
        return abs(self.ratio - 1.0) > ERRORS * self.error

    @property
    def loses(self) -> bool:
        """Whether FedGLB-UCB is worse at most settings, and on average."""
        average = self.ratio is None or self.ratio < 1.0
        return self.enough and average and self.beaten <= (1.0 - MOST) * self.compared

    def in_words(self) -> str:
        """Return it as part of a sentence."""
        if not self.enough:
            return (
                f"{self.other}: not compared ({self.compared} of its {self.settings} settings "
                f"within {self.ours}’s range of communication, {FEWEST} are needed)"
            )
        text = f"{self.other}: beaten at {self.beaten} of {self.compared} settings"
        if self.ratio is not None:
            error = "" if self.error is None else f" ± {self.error:.2g}"
            text += f", with {factor(self.ratio)}{error} times {self.ours}’s regret on average"
        return text

    def why(self) -> str:
        """Return the share of settings that are won, beside its threshold, and the mean ratio."""
        share = self.beaten / self.compared
        sign = "≥" if self.beaten >= MOST * self.compared else "<"
        text = f"{self.other}: beaten at {self.beaten} of {self.compared} settings, "
        text += f"{percent(share)} {sign} {percent(MOST)}"
        if self.ratio is None:
            return text
        text += f", with {factor(self.ratio)} {'>' if self.ratio > 1 else '≤'} 1 times"
        if self.clear or self.error is None:
            return text
        return f"{text}, but |{factor(self.ratio)} − 1| ≤ {ERRORS:g} × {self.error:.2g}"

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "enough": self.enough, "wins": self.wins}


def _comparisons(study: StudyNumbers, *algorithms: str) -> list[Comparison]:
    """Compare FedGLB-UCB with all curves of some algorithms.

    Curves that differ in more than D or B, say in the solver, are compared with the FedGLB-UCB
    curve of the same solver; without such a curve, with all.
    """
    ours = study.of(FEDGLB)
    made = []
    for other in study.of(*algorithms):
        same = [c for c in ours if c.variation == other.variation]
        made += [_with_error(c, other, study) for c in same or ours]
    return made


def _with_error(ours: TradeOff, other: TradeOff, study: StudyNumbers) -> Comparison:
    """Compare two curves, and once more without each seed."""
    found = _compared(ours, other, study.measure)
    rows = (*ours.rows, *other.rows)
    own = study.runs.filter(pl.col("label").is_in([row.label for row in rows]))
    by_label = own.pivot(on="label", index="seed", values="regret").drop_nulls()
    n = by_label.height
    if found.ratio is None or n < ENOUGH:
        return found
    ratios = []
    for seed in by_label["seed"]:
        means = by_label.filter(pl.col("seed") != seed).mean().row(0, named=True)
        curves = [
            replace(curve, rows=tuple(replace(r, regret=means[r.label]) for r in curve.rows))
            for curve in (ours, other)
        ]
        ratios.append(_compared(curves[0], curves[1], study.measure).ratio)
    error = math.sqrt((n - 1) * float(np.var([r for r in ratios if r is not None])))
    return replace(found, error=None if None in ratios else error)


def _compared(ours: TradeOff, other: TradeOff, measure: str) -> Comparison:
    """Compare two curves, with linear interpolation of log regret over log communication."""
    points = [(r.cost(measure), r.regret) for r in ours.rows if r.cost(measure) > 0]
    logs = all(regret > 0 for _, regret in points)  # else interpolate regret itself
    grouped: dict[float, list[float]] = {}
    for cost, regret in points:
        grouped.setdefault(math.log(cost), []).append(math.log(regret) if logs else regret)
    x = sorted(grouped)
    y = [float(np.mean(grouped[at])) for at in x]
    compared = beaten = 0
    ratios: list[float] = []
    for row in other.rows:
        cost = row.cost(measure)
        if not x or cost <= 0 or not x[0] <= math.log(cost) <= x[-1]:
            continue
        there = float(np.interp(math.log(cost), x, y))
        there = math.exp(there) if logs else there
        compared += 1
        beaten += row.regret > there
        if row.regret > 0 and there > 0:
            ratios.append(math.log(row.regret / there))
    whole = compared > 0 and len(ratios) == compared
    ratio = math.exp(float(np.mean(ratios))) if whole else None
    return Comparison(
        ours.name, other.name, other.algorithm, len(other.rows), compared, beaten, ratio
    )


_VARIANTS = Claim(
    "beats-variants",
    "At equal communication FedGLB-UCB has less regret than its three variants.",
    "Each setting of a variant within FedGLB-UCB’s range of communication is compared with "
    "FedGLB-UCB’s mean regret there (interpolated linearly in the logarithms of both); a variant "
    f"with fewer than {FEWEST} such settings is not compared. Holds if each variant that was run "
    "is compared and loses at three quarters of its settings or more, and on the geometric mean "
    f"by more than {ERRORS:g} standard errors (jackknife over seeds, which are paired); does not "
    "hold if one that is compared does not, by the means alone; otherwise not decided.",
)


def beats_variants(study: StudyNumbers) -> Claim:
    """Check the variants that were run."""
    run = study.of(*VARIANTS)
    if not run:
        return _VARIANTS.untested("No variant was run.")
    if not study.of(FEDGLB):
        return _VARIANTS.untested("FedGLB-UCB was not run.")
    made = _comparisons(study, *VARIANTS)
    absent = [NAMES[v] for v in VARIANTS if v not in {c.algorithm for c in run}]
    said = [c.in_words() for c in made]
    said += [f"not run: {', '.join(absent)}"] if absent else []
    usable = [c for c in made if c.enough]
    lost = next((c for c in usable if not c.wins), None)
    missing = next((c for c in made if not c.enough), None)
    close = next((c for c in usable if not c.clear), None)
    holds = missing is None and lost is None and close is None
    word = verdict(holds, lost is not None) if usable else UNTESTED
    # The deciding variant: not beaten, or not compared, or not clearly, or beaten by the least.
    if lost is None and missing is not None:
        why = f"{missing.other}: {missing.compared} settings to compare < {FEWEST}"
    else:
        why = (lost or close or min(usable, key=lambda c: c.beaten / c.compared)).why()
    return _VARIANTS.tested(said, word, why, {"comparisons": [c.plain() for c in made]})


_LINEAR = Claim(
    "beats-linear",
    "DisLinUCB, which fits a linear model, is clearly outperformed by FedGLB-UCB.",
    "The best settings of both are compared seed by seed: one is clearly better if the mean "
    f"difference exceeds {ERRORS:g} standard errors. At equal communication FedGLB-UCB wins if "
    "it has less regret at three quarters of DisLinUCB’s settings or more, and less on the "
    "geometric mean; it loses if it has less at a quarter of them or fewer, and more on the "
    f"geometric mean, by more than {ERRORS:g} standard errors (jackknife over seeds) both times; "
    f"with fewer than {FEWEST} settings within FedGLB-UCB’s range this is left out. "
    "Holds if FedGLB-UCB’s best setting is clearly better, and it wins at equal communication "
    "or that is left out; does not hold if its best setting is clearly worse, or if it loses at "
    "equal communication and its best setting is not clearly better; otherwise not decided.",
)


def beats_linear(study: StudyNumbers) -> Claim:
    """Check DisLinUCB, if it was run."""
    ours, theirs = study.settings_of(FEDGLB), study.settings_of("dislinucb")
    if not ours or not theirs:
        return _LINEAR.untested(f"{'DisLinUCB' if ours else 'FedGLB-UCB'} was not run.")
    mine, other = (min(rows, key=lambda r: r.regret) for rows in (ours, theirs))
    above, below = by_seed(study.runs, other.label, mine.label)
    gap = float((above - below).mean()) if len(above) else None
    error = float(standard_error(above - below)) if len(above) >= ENOUGH else None
    best = "open"
    if gap is not None and error is not None and abs(gap) > ERRORS * error:
        best = "better" if gap > 0 else "worse"
    made = _comparisons(study, "dislinucb")
    usable = [c for c in made if c.enough]
    agrees = bool(usable) and all(c.wins and c.clear for c in usable)
    loses = bool(usable) and all(c.loses and c.clear for c in usable)
    said = [_best_in_words(mine, other, gap, error)]
    said += [f"at equal communication {c.in_words()}" for c in made]
    said += [] if usable else ["so this rests on the best settings alone"]
    return _LINEAR.tested(
        said,
        verdict(
            best == "better" and (agrees or not usable),
            best == "worse" or (loses and best != "better"),
        ),
        "; ".join([_best_why(gap, error), *(c.why() for c in usable)]),
        {
            "best_fedglb": _plain(mine), "best_dislinucb": _plain(other), "best": best,
            "difference": gap, "difference_error": error,
            "comparisons": [c.plain() for c in made],
        },
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
