"""Write the report of a study: page, figures, numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedglb.errors import InvalidInput
from fedglb.io.atomic import atomic_write
from fedglb.studies.report.claims import Claim, Evidence, check, evidence
from fedglb.studies.report.figures import over_time, parameters, tradeoff
from fedglb.studies.report.figures.style import WIDE, Medium, saved
from fedglb.studies.report.html.page import FigureOnPage, page
from fedglb.studies.report.study import Study
from fedglb.studies.report.text.words import headline, sentences
from fedglb.studies.report.varied import Varied, varied

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE, SUMMARY, FIGURES = "report.html", "summary.json", "figures"


@dataclass(frozen=True)
class Report:
    """What was written, and what it says.

    Attributes
    ----------
    page, summary
        `report.html` and `summary.json`.
    figures
        Each figure as PNG and SVG; the page has them for narrow screens and dark pages too.
    headline, sentences
        The result in one line, and in a few sentences.
    claims
        The claims that the study can test, with their verdicts.
    """

    page: Path
    summary: Path
    figures: tuple[Path, ...]
    headline: str
    sentences: tuple[str, ...]
    claims: tuple[Claim, ...]


def write_report(study: Study, folder: str | Path) -> Report:
    """Write `report.html`, `figures/` and `summary.json`; the same study gives the same bytes.

    Parameters
    ----------
    study
        What the report is about.
    folder
        Where it goes; made if it is not there. Files of an earlier report are replaced.
    """
    target = Path(folder)
    try:
        (target / FIGURES).mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput("folder", str(folder), "a folder: this is a file") from None
    found = evidence(study)
    claims = check(found)
    numbers = varied(found.rows, dials=study.own)
    line = headline(found, claims, own=study.own)
    said = sentences(found, claims, numbers)
    figures = _figures(study, found, numbers)
    text = page(study, found, claims, line, said, [figure.shown for figure in figures])
    answer: dict[str, Any] = {
        "name": study.name, "profile": study.profile, "measure": study.measure,
        "headline": line, "sentences": list(said), "claims": [asdict(c) for c in claims],
        "table": [row.plain() for row in found.rows],
    }  # fmt: skip
    paths = []
    for figure in figures:
        for kind, content in figure.files.items():
            paths.append(target / FIGURES / f"{figure.name}.{kind}")
            atomic_write(paths[-1], content)
    summary = json.dumps(answer, indent=1, ensure_ascii=False, allow_nan=False)
    atomic_write(target / SUMMARY, summary.encode())
    atomic_write(target / PAGE, text.encode())
    return Report(target / PAGE, target / SUMMARY, tuple(paths), line, said, claims)


@dataclass(frozen=True)
class Drawn:
    """A figure: its files, and how the page shows it."""

    name: str
    files: dict[str, bytes]
    shown: FigureOnPage


def _figures(study: Study, found: Evidence, numbers: tuple[Varied, ...]) -> list[Drawn]:
    """Draw what the study has something to show for."""
    made = []
    if numbers and study.own:  # what one's own sweep is about comes first
        made.append(_parameters(found, numbers))
    made += [
        drawn("tradeoff", "Communication against regret, one dot per setting",
               tradeoff.caption(study, found), lambda m: tradeoff.draw(study, found, m)),
        drawn("over-time", "Regret, communication and reward over time for a few settings",
               over_time.caption(study, found), lambda m: over_time.draw(study, found, m)),
    ]  # fmt: skip
    if numbers and not study.own:
        made.append(_parameters(found, numbers))
    return made


def _parameters(found: Evidence, numbers: tuple[Varied, ...]) -> Drawn:
    return drawn(
        "parameters", "Regret against the parameters that were varied",
        parameters.caption(numbers, found), lambda m: parameters.draw(numbers, m),
    )  # fmt: skip


def drawn(name: str, alt: str, caption: str, draw: Callable[[Medium], Figure]) -> Drawn:
    """Draw a figure for each page: wide and narrow, light and dark."""
    files = saved(draw(WIDE))
    others = {
        medium: saved(draw(medium), ("svg",))["svg"]
        for medium in (Medium(True, True), Medium(True, False), Medium(False, True))
    }
    return Drawn(name, files, FigureOnPage(alt, caption, {WIDE: files["svg"], **others}))
