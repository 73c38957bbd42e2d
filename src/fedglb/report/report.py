"""Write the report of a study: page, figures, numbers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedglb.errors import InvalidInput
from fedglb.io.atomic import atomic_write
from fedglb.report.claims import Claim, check, evidence
from fedglb.report.figures import over_time, tradeoff
from fedglb.report.figures.style import saved
from fedglb.report.html.page import page
from fedglb.report.study import Study
from fedglb.report.text.words import headline, sentences

PAGE, SUMMARY, FIGURES = "report.html", "summary.json", "figures"


@dataclass(frozen=True)
class Report:
    """What was written, and what it says.

    Attributes
    ----------
    page, summary
        `report.html` and `summary.json`.
    figures
        Each figure as PNG and SVG.
    headline, sentences
        The result in one line, and in three sentences.
    claims
        The paper's claims with their verdicts.
    """

    page: Path
    summary: Path
    figures: tuple[Path, ...]
    headline: str
    sentences: tuple[str, str, str]
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
    line, three = headline(found, claims), sentences(found, claims)
    figures = {
        "tradeoff": ("Communication against regret, one dot per setting",
                     tradeoff.caption(study, found), saved(tradeoff.draw(study, found))),
        "over-time": ("Regret and communication over time for a few settings",
                      over_time.caption(found), saved(over_time.draw(study, found))),
    }  # fmt: skip
    shown = [(alt, caption, files["svg"]) for alt, caption, files in figures.values()]
    text = page(study, found, claims, line, three, shown)
    answer: dict[str, Any] = {
        "name": study.name, "profile": study.profile, "measure": study.measure,
        "headline": line, "sentences": list(three), "claims": [asdict(c) for c in claims],
        "table": [row.plain() for row in found.rows],
    }  # fmt: skip
    paths = []
    for name, (_, _, files) in figures.items():
        for kind, content in files.items():
            paths.append(target / FIGURES / f"{name}.{kind}")
            atomic_write(paths[-1], content)
    summary = json.dumps(answer, indent=1, ensure_ascii=False, allow_nan=False)
    atomic_write(target / SUMMARY, summary.encode())
    atomic_write(target / PAGE, text.encode())
    return Report(target / PAGE, target / SUMMARY, tuple(paths), line, three, claims)
