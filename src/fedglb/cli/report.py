"""`fedglb report`: write figures and page for results of an earlier run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedglb.cli.report_errors import report_errors

if TYPE_CHECKING:  # matplotlib and what comes with it: only where a report is written
    from fedglb.studies.report import Report

JSON = typer.Option("--json", help="Print the answer as JSON, for scripts.")


def report(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR", help="A folder of `fedglb reproduce` or `fedglb sweep`."),
    ],
    out: Annotated[
        str | None, typer.Option(help="Where to write the report.", show_default="DIR")
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Write the report (figures and page) of results that were computed before.

    Example: fedglb report results/synthetic-quick
    """
    from fedglb.studies.report import write_report
    from fedglb.studies.report.across_report import write_across
    from fedglb.studies.report.panels_report import write_panels
    from fedglb.studies.reproduce import load_study
    from fedglb.studies.reproduce.across import load_across
    from fedglb.studies.reproduce.panels import load_panels

    with report_errors(Path(folder), folder="DIR"):
        across = load_across(Path(folder))
        panels = load_panels(Path(folder))
        study = load_study(folder) if across is None and panels is None else None
    with report_errors(Path(out or folder), folder="DIR" if out is None else "--out"):
        target = Path(out or folder)
        if across is not None:
            made = write_across(across, target)
        elif panels is not None:
            made = write_panels(panels, target)
        else:
            assert study is not None
            made = write_report(study, target)
    answer(made, as_json=as_json)


def answer(made: Report, *, as_json: bool) -> None:
    """Print where the report is, and its headline."""
    if as_json:
        said = {
            "report": str(made.page), "headline": made.headline,
            "sentences": list(made.sentences), "figures": [str(path) for path in made.figures],
        }  # fmt: skip
        typer.echo(json.dumps(said, ensure_ascii=False))
        return
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(made.headline, style="bold", soft_wrap=True)
    console.print(f"The report: {made.page}", soft_wrap=True)
