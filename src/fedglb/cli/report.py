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
    from fedglb.studies.results.study import load_study

    with report_errors(Path(folder), folder="DIR"):
        study = load_study(folder)
    with report_errors(Path(out or folder), folder="DIR" if out is None else "--out"):
        made = write_report(study, out or folder)
    answer(made, as_json=as_json)


def answer(made: Report, *, as_json: bool) -> None:
    """Print where the report is, and its headline."""
    if as_json:
        said = {
            "report": str(made.page), "headline": made.headline,
            "verdicts": {claim.key: claim.verdict for claim in made.claims},
            "figures": [str(path) for path in made.figures],
        }  # fmt: skip
        typer.echo(json.dumps(said, ensure_ascii=False))
        return
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(made.headline, style="bold", soft_wrap=True)
    console.print(f"The report: {made.page}", soft_wrap=True)
