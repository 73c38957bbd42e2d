"""`fedglb reproduce`: from an experiment's file to figures and a page."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedglb.cli.live import duration, view
from fedglb.cli.report import JSON, answer
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput

if TYPE_CHECKING:
    from fedglb.studies.run.estimate import StudyEstimate


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="synthetic, covertype, magic, mushroom, solvers; heterogeneity, drift, delay, "
            "participation; privacy; or a TOML file of your own.",
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate runs, minutes and disk; run nothing.")
    ] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Reproduce a figure of the paper: data, parameters, runs, figures, report.

    Example: fedglb reproduce synthetic

    What was run before is not run again; what was stopped resumes.
    """
    from fedglb.studies.run.estimate import estimate
    from fedglb.studies.run.reproduce import reproduce as run
    from fedglb.studies.spec.plan import find

    if show:
        try:
            typer.echo(find(name).read_text(encoding="utf-8"), nl=False)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InvalidInput("NAME", name, f"a file that can be read: {reason}") from None
        return
    if full and profile not in (None, "full"):
        raise InvalidInput("--profile", profile, "either --full or --profile")
    if dry_run:
        made = estimate(name, "full" if full else profile, jobs)
        folder = out or f"results/{made.name}-{made.profile}"
        if as_json:
            estimated = {**asdict(made), "runs": made.runs, "folder": folder}
            typer.echo(json.dumps(estimated, ensure_ascii=False))
        else:
            typer.echo(in_words(made, folder))
        return
    with report_errors(Path(out or "results")), view() as tell:
        report = run(name, "full" if full else profile, out, jobs, tell)
    answer(report, as_json=as_json)


def in_words(made: StudyEstimate, folder: str) -> str:
    """Return what a study would take, one line each for runs, search, time and disk."""
    lines = [
        f"{made.name}, profile {made.profile}: {made.configurations} configurations × "
        f"{made.seeds} seeds = {made.runs:,} runs of {made.interactions:,} interactions"
    ]
    if made.search_runs:
        lines.append(
            f"search for parameters: at most {made.search_runs:,} runs of "
            f"{made.search_interactions:,}; those that cannot win are stopped"
        )
    lines.append(
        f"about {duration(made.seconds)} of runs with {made.jobs} worker process"
        f"{'es' if made.jobs > 1 else ''}, as measured: {made.probe_runs} runs of "
        f"{made.probe_steps} steps took {made.probe_seconds:.1f} s"
    )
    lines.append(f"about {made.bytes / 1e6:.0f} MB in {folder}")
    return "\n".join(lines)
