"""`fedglb reproduce`: from an experiment's file to figures and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.live import view
from fedglb.cli.report import JSON, answer
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="synthetic, covertype, magic, mushroom, solvers; heterogeneity, drift, delay, "
            "participation; or a TOML file of your own.",
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
        int | None, typer.Option(help="Worker processes.", show_default="one per core")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the experiment's TOML file, to start your own.")
    ] = False,
    as_json: Annotated[bool, JSON] = False,
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
    with report_errors(Path(out or "results")), view() as tell:
        made = run(name, "full" if full else profile, out, jobs, tell)
    answer(made, as_json=as_json)
