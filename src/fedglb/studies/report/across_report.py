"""Write the report of a study across values of the environment: page, figure, numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template

from fedglb.io.atomic import atomic_write
from fedglb.studies.report import across
from fedglb.studies.report.across import Across, Curve
from fedglb.studies.report.figures import across as figure
from fedglb.studies.report.html.page import FEW, experiment, figure_on_page, made_with
from fedglb.studies.report.html.shell import shell
from fedglb.studies.report.html.tables import pairs, table
from fedglb.studies.report.report import FIGURES, PAGE, SUMMARY, Report, drawn
from fedglb.studies.report.study import QUICK
from fedglb.studies.report.summary import ENOUGH
from fedglb.studies.report.text.numerals import plus_minus

_MAIN = Template("""$figure
<section><h2>The numbers behind the figure</h2>
<p>Regret, mean over the seeds ± standard error, and the setting that is shown.</p>
$results</section>
<section><h2>What was run</h2>
$run</section>""")


def write_across(study: Across, folder: str | Path) -> Report:
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
    found = across.curves(study)
    crossed = across.crossings(study, found)
    line, three = across.headline(study, found, crossed), _sentences(study, found)
    alt = f"Regret across {study.key}, one curve per algorithm"
    caption = figure.caption(study, found)
    made = drawn(study.key, alt, caption, lambda m: figure.draw(study, found, crossed, m))
    main = _MAIN.substitute(
        figure=figure_on_page(made.shown), results=_results(study, found), run=_run(study)
    )
    look = _look(study, found[0].regrets.shape[1])
    text = shell(study.title, study.name, study.profile, look, line, three, main)
    answer = {
        "name": study.name, "profile": study.profile, "key": study.key,
        "values": list(study.values), "headline": line, "sentences": list(three),
        "crossings": [asdict(each) for each in crossed],
        "table": [row for curve in found for row in _rows(study, curve)],
    }  # fmt: skip
    paths = tuple(target / FIGURES / f"{made.name}.{kind}" for kind in made.files)
    for path, content in zip(paths, made.files.values(), strict=True):
        atomic_write(path, content)
    summary = json.dumps(answer, indent=1, ensure_ascii=False, allow_nan=False)
    atomic_write(target / SUMMARY, summary.encode())
    atomic_write(target / PAGE, text.encode())
    return Report(target / PAGE, target / SUMMARY, paths, line, three, ())


def _look(study: Across, seeds: int) -> str:
    """Return the first line of a quick study: that it is one, and what is not."""
    if study.profile != QUICK:
        return ""
    few = f" {FEW}" if seeds < ENOUGH else ""
    command = f"fedglb reproduce {study.name} --full"
    return (
        f"<strong>This is a quick look</strong>: {seeds} seeds. The full study: "
        f"<code>{escape(command)}</code>.{few}"
    )


def _sentences(study: Across, found: Sequence[Curve]) -> tuple[str, str, str]:
    alone = across.best_alone(found)
    first, last = study.values[0], study.values[-1]
    ends = [[plus_minus(c.means[k], _error(c, k)) for k in (0, -1)] for c in found]
    said = [f"{c.name}: {a} and {b}" for c, (a, b) in zip(found, ends, strict=True)]
    seeds = found[0].regrets.shape[1]
    few = seeds < ENOUGH
    return (
        f"Regret at {study.key} {first:g} and {last:g}: {'; '.join(said)}.",
        "An algorithm pays where it has less regret than the best that never communicates"
        + ("." if alone is None else f", which is {alone.name}."),
        f"There are {seeds} seeds: " + (
            "too few for intervals, so this is a look and no result." if few
            else "intervals are of paired differences, 95 %."),
    )  # fmt: skip


def _error(curve: Curve, k: int) -> float | None:
    return float(curve.errors[k]) if curve.regrets.shape[1] > 1 else None


def _rows(study: Across, curve: Curve) -> list[dict[str, object]]:
    return [
        {"algorithm": curve.algorithm, "name": curve.name, study.key: value,
         "setting": curve.labels[k], "regret": float(curve.means[k]), "error": _error(curve, k)}
        for k, value in enumerate(study.values)
    ]  # fmt: skip


def _results(study: Across, found: Sequence[Curve]) -> str:
    head = [escape(study.key), *(escape(c.name) for c in found)]
    rows = [
        [f"{value:g}", *(
            f"{plus_minus(c.means[k], _error(c, k))}<br><small>{escape(c.labels[k])}</small>"
            for c in found)]
        for k, value in enumerate(study.values)
    ]  # fmt: skip
    return table(head, rows, kind="results")


def _run(study: Across) -> str:
    manifest = study.results[0].manifest
    problem: dict[str, object] = {
        "clients N": manifest.get("clients"), "steps T": manifest.get("horizon"),
        "arms K": manifest.get("arms"), "seeds": ", ".join(map(str, manifest.get("seeds", ()))),
        study.key: ", ".join(f"{v:g}" for v in study.values),
        "runs": sum(result.runs.height for result in study.results),
    }  # fmt: skip
    parts = ["<h3>Problem</h3>", pairs(problem), "<h3>With what</h3>", pairs(made_with(manifest))]
    return "\n".join([*parts, experiment(manifest)])
