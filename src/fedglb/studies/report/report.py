"""Write the report of a study: page, figures, numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from fedglb.errors import InvalidInput
from fedglb.io.atomic import atomic_write
from fedglb.studies.report import along
from fedglb.studies.report.claims import Claim, check, check_along
from fedglb.studies.report.comparison import Comparison, compare
from fedglb.studies.report.figures import along as along_figure
from fedglb.studies.report.figures import gains as gains_figure
from fedglb.studies.report.figures import over_time, parameters, tradeoff
from fedglb.studies.report.gains import gains
from fedglb.studies.report.gains import table as gains_table
from fedglb.studies.report.numerals import amount, bracketed, plus_minus, setting
from fedglb.studies.report.page import Drawn, PageTable, drawn, page
from fedglb.studies.report.summary import (
    ENOUGH,
    STUCK_MEANS,
    StudyNumbers,
    plain,
    spread,
    summarise,
)
from fedglb.studies.report.typeset import to_latex, to_markdown
from fedglb.studies.results.study import Study

PAGE, SUMMARY, FIGURES = "report.html", "summary.json", "figures"
TABLES = {"table.md": to_markdown, "table.tex": to_latex}
_VALUES = 3  # of the axis, at most: a chart of each varied parameter is drawn at them
_BEST_FITTING = (
    "A best-fitting model is the fixed model that fits the mean rewards of the arms on offer best "
    "(by likelihood; least squares where it is linear), and plays the arm it predicts to be best; "
    "another fixed parameter may have less regret."
)


@dataclass(frozen=True)
class Report:
    """The files written, and the headline.

    They are the page, `summary.json`, figures as PNG, SVG and PDF, tables as Markdown and LaTeX.
    """

    page: Path
    summary: Path
    figures: tuple[Path, ...]
    tables: tuple[Path, ...]
    headline: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class _Content:
    """The contents of a report, and further contents of `summary.json`."""

    headline: str
    figures: Sequence[Drawn]
    claims: tuple[Claim, ...]
    notes: Sequence[str]
    tables: Sequence[PageTable]
    for_papers: tuple[Sequence[PageTable], Sequence[str]]  # tables and notes
    summary: dict[str, Any]


def write_report(study: Study, folder: str | Path) -> Report:
    """Write page, figures, tables and `summary.json`; equal studies give equal bytes."""
    target = Path(folder)
    try:
        (target / FIGURES).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput("folder", str(folder), "a folder, not a file") from None
    made = _along_axis(study) if study.axis else _plain(study)
    text = page(study, made.headline, made.figures, made.claims, made.notes, made.tables)
    answer = {
        "name": study.name, "profile": study.profile, "measure": study.measure,
        "headline": made.headline, "claims": [asdict(claim) for claim in made.claims],
        **made.summary,
    }  # fmt: skip
    paths = []
    for figure in made.figures:
        for name, content in figure.files.items():
            paths.append(target / FIGURES / name)
            atomic_write(paths[-1], content)
    for name, typeset in TABLES.items():
        atomic_write(target / name, typeset(*made.for_papers).encode())
    summary = json.dumps(answer, indent=1, ensure_ascii=False, allow_nan=False)
    atomic_write(target / SUMMARY, summary.encode())
    atomic_write(target / PAGE, text.encode())
    tables = tuple(target / name for name in TABLES)
    return Report(
        target / PAGE, target / SUMMARY, tuple(paths), tables, made.headline, made.claims
    )  # fmt: skip


def _along_axis(study: Study) -> _Content:
    """Return the content of a study with an axis: each algorithm along its values."""
    found = along.panels(study)
    crossed = [[] if study.against else along.crossings(panel) for panel in found]
    figure = drawn(
        study.axis, f"Regret against {study.axis}, one curve per algorithm",
        along_figure.caption(study, found, crossed=any(crossed)),
        lambda medium: along_figure.draw(study, found, crossed, medium),
    )  # fmt: skip
    panels = [along.table(study, panel) for panel in found]
    figures, tables = [figure], [*panels]
    gained = [gain for panel in found for gain in gains(panel)]
    if gained:
        figures.append(
            drawn("gains", "What joining gained each client, sorted, one curve per algorithm",
                  gains_figure.caption(study, gained),
                  lambda medium: gains_figure.draw(study, gained, medium))
        )  # fmt: skip
        tables.append(gains_table(study, gained))
    others = _varied_at(study, found)
    if others:
        figures.append(_parameters(study, others))
    claims = check_along(study, found)
    notes = [
        "Of several settings the one with the least mean regret is shown, chosen on the same seeds."
    ]
    if study.against:
        notes.append("Ratios are of mean regrets on the same seeds; their errors are paired.")
    summary = {
        "axis": study.axis, "against": study.against,
        "crossings": [
            {"panel": panel.title, **asdict(each)}
            for panel, own in zip(found, crossed, strict=True) for each in own
        ],
        "table": [row for panel in found for row in along.rows(study, panel)],
        "gains": [gain.plain() for gain in gained],
    }  # fmt: skip
    line = along.headline(study, found, crossed)
    return _Content(line, figures, claims, notes, tables, (panels, notes), summary)


def _varied_at(study: Study, found: Sequence[along.Panel]) -> list[parameters.Varied]:
    """Return what is varied besides the axis, at a few of its values."""
    made: list[parameters.Varied] = []
    for panel in found:
        values = along.some(panel.values, max(_VALUES // len(found), 2))
        for cell in panel.cells:
            if cell.value in (None, *values):
                at = "" if cell.value is None else f"{study.axis} {setting(cell.value)}"
                title = ": ".join(filter(None, [panel.title, at]))
                rows = summarise(replace(study, cells=(cell,)))
                made += parameters.varied(rows, title, without=study.axis)
    return made


def _parameters(study: Study, found: Sequence[parameters.Varied]) -> Drawn:
    return drawn(
        "parameters", "Regret against the parameters that were varied",
        parameters.caption(found), lambda m: parameters.draw(study, found, m),
    )  # fmt: skip


def _plain(study: Study) -> _Content:
    """Return the content of a study of one sweep: trade-offs and claims."""
    numbers = StudyNumbers.of_study(study)
    claims, compared = check(numbers), compare(numbers.runs)
    found = parameters.varied(numbers.rows)
    figures = [
        drawn("tradeoff", "Communication against regret, one dot per setting",
              tradeoff.caption(numbers), lambda m: tradeoff.draw(numbers, m)),
        drawn("over-time", "Regret, communication and reward over time for a few settings",
              over_time.caption(numbers), lambda m: over_time.draw(numbers, m)),
    ]  # fmt: skip
    if found:
        varied = _parameters(study, found)
        figures.insert(0 if study.own else len(figures), varied)  # what a sweep is about is first
    few = f"Errors, medians and stuck runs are shown from {ENOUGH} seeds on."
    notes = ["Means over the seeds. “updates” are global updates; ● is on the Pareto front."]
    if any(row.randomised for row in numbers.rows):
        notes.append(few if numbers.few_seeds else STUCK_MEANS)
    if any(str(name).startswith("best-fitting") for name in study.baselines["name"]):
        notes.append(_BEST_FITTING)
    if not numbers.few_seeds:
        notes += compared.notes
    if any(row.stuck for row in numbers.rows):
        notes.append(
            "Some runs are stuck: differences are skewed, and intervals may be too narrow."
        )
    summary = {
        "table": [row.plain() for row in numbers.rows],
        "comparison": {
            "notes": compared.notes,
            "rows": [
                {k: plain(v) for k, v in row.items()}
                for row in compared.frame.iter_rows(named=True)
            ],
        },
    }
    line = headline(numbers, claims, compared)
    for_papers = [compared.table], compared.notes
    return _Content(
        line, figures, claims, notes, [_results(numbers, compared)], for_papers, summary
    )


def headline(numbers: StudyNumbers, claims: Sequence[Claim], compared: Comparison) -> str:
    """Return the main result: the distance of FedGLB-UCB to One-UCB-GLM, if tested.

    Otherwise, and of a sweep without a study's file, the setting with the least mean regret, and
    whether the data tell it apart from the others.
    """
    few = f"{numbers.seeds} seed{'s' if numbers.seeds > 1 else ''}, too few to judge: "
    if not any(row.randomised for row in numbers.rows):
        few = "The same run at every seed, too few to judge: "
    before = few if numbers.few_seeds else ""
    near = next((claim for claim in claims if claim.key == "near-one"), None)
    if near is not None and not numbers.study.own:
        judged = not numbers.few_seeds and not numbers.repeats
        verdict = f"Near One-UCB-GLM: {near.verdict}. " if judged else ""
        return f"{before}{verdict}{near.numbers['shown']}."
    first, *others = compared.frame.to_dicts()
    titles = {row.label: row for row in numbers.rows}
    best, k = titles[first["setting"]], len(numbers.rows)
    of = f" of {k} settings" if others else ""
    regret = plus_minus(best.regret, best.error)
    cost = f"{amount(best.cost(numbers.measure))} {numbers.measure}"
    text = f"{best.title} has the least mean regret{of}, {regret}, with {cost}"
    if before or not others:
        return f"{before}{text}."
    ties = [row for row in others if row["verdict"] != "higher"]
    closest = (ties or others)[0]
    difference, how = bracketed(closest["difference"], closest["low"], closest["high"]), ""
    if closest["low"] is not None:
        pairs = f", corrected for all {k * (k - 1) // 2} pairs" if k > 2 else ""
        how = f" (paired t, {closest['seeds']} seeds{pairs})"
    other = titles[closest["setting"]]
    if not ties:
        return f"{text}. The next, {other.title}, has {difference} more{how}."
    count = f"{len(ties)} other{'s are' if len(ties) > 1 else ' is'} not told apart from it"
    against = plus_minus(other.regret, other.error)
    return (
        f"Not decided: {text}, but {count}: {other.title} has {against}, a paired difference of "
        f"{difference}{how}."
    )


def _results(numbers: StudyNumbers, compared: Comparison) -> PageTable:
    """Return the numbers behind the figures.

    Errors, medians, stuck runs and differences to the setting of the least mean regret are shown
    from 5 seeds on.
    """
    enough = not numbers.few_seeds
    against = {row["setting"]: row for row in compared.frame.to_dicts()}
    first = compared.frame["setting"][0]
    head = ["configuration", *(["regret ± s.e.", "median", "stuck", "above best, 95 %"]
            if enough else ["regret"]), "transfers", "scalars", "updates", "rounds", "reward",
            "front"]  # fmt: skip
    rows: list[list[str | tuple[str, str]]] = []
    for r in numbers.rows:
        more: list[str | tuple[str, str]] = ["–"] * 3
        if r.error is not None:
            more[:2] = [amount(r.median), f"{r.stuck} of {r.seeds}"]
        if r.label != first:
            row = against[r.label]
            more[2] = (bracketed(row["difference"], row["low"], row["high"]), row["verdict"])
        rows.append(
            [
                r.title, plus_minus(r.regret, r.error), *(more if enough else []),
                amount(r.transfers), amount(r.scalars), amount(r.syncs), amount(r.rounds),
                amount(r.reward), "●" if r.front else "",
            ]
        )  # fmt: skip
    grouped = numbers.study.baselines.group_by("name", maintain_order=True).agg(
        pl.col("regret", "reward").mean(), *spread(), pl.len().alias("seeds")
    )
    for b in grouped.to_dicts():
        stuck = "" if b["stuck"] is None else f"{b['stuck']} of {b['seeds']}"
        shown = [amount(b["median"]), stuck, ""] if enough else []
        cost = [""] * 4
        rows.append([str(b["name"]), plus_minus(b["regret"], b["error"]), *shown, *cost,
                     amount(b["reward"]), ""])  # fmt: skip
    best = {compared.frame["setting"][i] for i in compared.bold}
    bold = [i for i, r in enumerate(numbers.rows) if r.label in best]
    return PageTable("", head, rows, bold=bold)
