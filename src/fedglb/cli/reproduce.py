"""`fedglb reproduce` and `fedglb report`: from a file to figures and a page; from results again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedglb.cli.faults import faults
from fedglb.cli.live import view
from fedglb.errors import InvalidInput

_JSON = typer.Option("--json", help="Print the answer as JSON, for scripts.")


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="synthetic, covertype, magic, mushroom, solvers; or a TOML file of your own.",
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="The paper's size, instead of a quick look.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(help="Another profile of the file.", show_default="quick, if it has one"),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="Folder of results and report.", show_default="results/NAME-PROFILE"),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Worker processes.", show_default="one a core")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the experiment's TOML file, to start your own.")
    ] = False,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Reproduce a figure of the paper: data, parameters, runs, figures, report.

    Example: fedglb reproduce synthetic

    What was run before is not run again; what was stopped resumes.
    """
    from fedglb.reproduce import find
    from fedglb.reproduce import reproduce as run

    if show:
        try:
            typer.echo(find(name).read_text(encoding="utf-8"), nl=False)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InvalidInput("NAME", name, f"a file that can be read: {reason}") from None
        return
    if full and profile not in (None, "full"):
        raise InvalidInput("--profile", profile, "either --full or --profile")
    with faults(Path(out or "results")), view() as tell:
        made = run(name, "full" if full else profile, out, jobs, tell)
    _answer(made, as_json=as_json)


def report(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR", help="A folder of `fedglb reproduce` or `fedglb sweep`."),
    ],
    out: Annotated[
        str | None, typer.Option(help="Where to write the report.", show_default="DIR")
    ] = None,
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Draw the figures and write the page of results that are there.

    Example: fedglb report results/synthetic-quick
    """
    from fedglb.report import write_report
    from fedglb.reproduce import load_study

    with faults(Path(folder), folder="DIR"):
        study = load_study(folder)
    with faults(Path(out or folder), folder="DIR" if out is None else "--out"):
        made = write_report(study, Path(out or folder))
    _answer(made, as_json=as_json)


def _answer(made: object, *, as_json: bool) -> None:
    """Name the report and its headline."""
    from fedglb.report import Report

    assert isinstance(made, Report)
    if as_json:
        answer = {
            "report": str(made.page), "headline": made.headline,
            "sentences": list(made.sentences), "figures": [str(path) for path in made.figures],
        }  # fmt: skip
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(made.headline, style="bold", soft_wrap=True)
    console.print(f"The report: {made.page}", soft_wrap=True)
