"""Write the report of a study across values of a parameter: page, figure, numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from fedglb.io.atomic import atomic_write
from fedglb.studies.report.figures import panels as figure
from fedglb.studies.report.html.page import FEW, experiment, figure_on_page, made_with
from fedglb.studies.report.html.shell import shell
from fedglb.studies.report.html.tables import pairs, table
from fedglb.studies.report.panels import Line, Panel, Panels, lines, ratio
from fedglb.studies.report.report import FIGURES, PAGE, SUMMARY, Report, drawn
from fedglb.studies.report.study import QUICK
from fedglb.studies.report.summary import ENOUGH
from fedglb.studies.report.text.numerals import amount, factor, plus_minus, setting

_MAIN = Template("""$figure
<section><h2>The numbers behind the figure</h2>
<p>Regret over the seeds, and its ratio to that of $against on the same seeds, with the standard
error of a paired ratio. Of several settings the one with the least mean regret is shown.</p>
$results</section>
<section><h2>What was run</h2>
$run</section>""")


def write_panels(study: Panels, folder: str | Path) -> Report:
    """Write `report.html`, `figures/` and `summary.json`; the same study gives the same bytes.

    Parameters
    ----------
    study
        What the report is about.
    folder
        Where it goes; made if it is not there.
    """
    target = Path(folder)
    (target / FIGURES).mkdir(parents=True, exist_ok=True)
    found = [lines(study, panel) for panel in study.panels]
    seeds = found[0][0].regrets.shape[1]
    line, said = _headline(study, found[-1]), _sentences(study, found, seeds)
    alt = f"Regret against {study.parameter}, one panel per problem, one curve per algorithm"
    caption = figure.caption(study, found)
    made = drawn(study.name, alt, caption, lambda m: figure.draw(study, found, m))
    every = [(p, own) for p, own in zip(study.panels, found, strict=True)]
    main = _MAIN.substitute(
        figure=figure_on_page(made.shown), against=escape(_against(study, found[0]).name),
        results="\n".join(_results(study, panel, own) for panel, own in every),
        run="\n".join(_run(panel) for panel in study.panels),
    )  # fmt: skip
    text = shell(study.title, study.name, study.profile, _look(study, seeds), line, said, main)
    answer = {
        "name": study.name, "profile": study.profile, "parameter": study.parameter,
        "against": study.against, "headline": line, "sentences": list(said),
        "table": [row for panel, own in every for row in _rows(study, panel, own)],
    }  # fmt: skip
    paths = tuple(target / FIGURES / f"{made.name}.{kind}" for kind in made.files)
    for path, content in zip(paths, made.files.values(), strict=True):
        atomic_write(path, content)
    summary = json.dumps(answer, indent=1, ensure_ascii=False, allow_nan=False)
    atomic_write(target / SUMMARY, summary.encode())
    atomic_write(target / PAGE, text.encode())
    return Report(target / PAGE, target / SUMMARY, paths, line, said, ())


def _against(study: Panels, found: Sequence[Line]) -> Line:
    return next(line for line in found if line.algorithm == study.against)


def _headline(study: Panels, found: Sequence[Line]) -> str:
    """Return how far the first line of the last panel is from what it is compared to."""
    first, other = found[0], _against(study, found)
    ends = [ratio(first.regrets[k], other.regrets[0])[0] for k in (0, -1)]
    low, high = (setting(v) for v in (first.values[0], first.values[-1]) if v is not None)
    return (
        f"{study.panels[-1].title}: {first.name} has {factor(ends[0])} times the regret of "
        f"{other.name} at {study.parameter} {low}, and {factor(ends[1])} times at {high}."
    )


def _sentences(
    study: Panels, found: Sequence[Sequence[Line]], seeds: int
) -> tuple[str, ...]:  # fmt: skip
    said = []
    for panel, own in zip(study.panels, found, strict=True):
        levels = [f"{v.name} {plus_minus(v.means[0], _error(v, 0))}" for v in own if v.level]
        said.append(f"{panel.title}, without {study.parameter}: {', '.join(levels)}.")
    few = "too few for errors to mean much, so this is a look and no result."
    return (
        *said,
        f"There are {seeds} seeds: " + (few if seeds < ENOUGH else "± is one standard error."),
    )


def _error(line: Line, k: int) -> float | None:
    return float(line.errors[k]) if line.regrets.shape[1] > 1 else None


def _rows(study: Panels, panel: Panel, found: Sequence[Line]) -> list[dict[str, object]]:
    other = _against(study, found)
    made: list[dict[str, object]] = []
    for line in found:
        for k, value in enumerate(line.values):
            share, error = ratio(line.regrets[k], other.regrets[0])
            made.append(
                {
                    "panel": panel.title, "algorithm": line.algorithm, "name": line.name,
                    study.parameter: value, "setting": line.labels[k],
                    "regret": float(line.means[k]), "error": _error(line, k),
                    "median": float(line.medians[k]),
                    "ratio": None if math.isnan(share) else share, "ratio_error": error,
                    "transfers": line.transfers[k],
                }
            )  # fmt: skip
    return made


def _results(study: Panels, panel: Panel, found: Sequence[Line]) -> str:
    head = ["algorithm", escape(study.parameter), "regret ± s.e.", "median", "ratio ± s.e.",
            "transfers per client"]  # fmt: skip
    other, clients = _against(study, found), panel.result.manifest.get("clients")
    rows = []
    for line in found:
        for k, value in enumerate(line.values):
            share, error = ratio(line.regrets[k], other.regrets[0])
            close = "" if error is None else f" ± {error:.2f}"
            each = amount(line.transfers[k] / clients) if clients else "–"
            which = f"<br><small>{escape(line.labels[k])}</small>" if line.settings > 1 else ""
            rows.append(
                [
                    escape(line.name) + which, "–" if value is None else setting(value),
                    plus_minus(line.means[k], _error(line, k)), amount(line.medians[k]),
                    "–" if math.isnan(share) else f"{share:.2f}{close}", each,
                ]
            )  # fmt: skip
    return f"<h3>{escape(panel.title)}</h3>{table(head, rows, kind='results')}"


def _look(study: Panels, seeds: int) -> str:
    """Return the first line of a quick study: that it is one, and what is not."""
    if study.profile != QUICK:
        return ""
    few = f" {FEW}" if seeds < ENOUGH else ""
    command = f"fedglb reproduce {study.name} --full"
    return (
        f"<strong>This is a quick look</strong>: {seeds} seeds. The full study: "
        f"<code>{escape(command)}</code>.{few}"
    )


def _run(panel: Panel) -> str:
    manifest = panel.result.manifest
    problem: dict[str, object] = {
        "clients N": manifest.get("clients"), "steps T": manifest.get("horizon"),
        "arms K": manifest.get("arms"), "seeds": ", ".join(map(str, manifest.get("seeds", ()))),
        "runs": panel.result.runs.height,
    }  # fmt: skip
    parts = [f"<h3>{escape(panel.title)}</h3>", pairs(problem), pairs(made_with(manifest))]
    return "\n".join([*parts, experiment(manifest)])
