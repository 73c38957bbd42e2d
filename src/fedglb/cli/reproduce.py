"""`fedglb reproduce`: from an experiment's file to its report; `fedglb report`: the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedglb.cli.common import Jobs, Json, console, print_json
from fedglb.cli.report_errors import fail, report_errors
from fedglb.errors import InvalidInput
from fedglb.io.durations import in_words

if TYPE_CHECKING:  # imports matplotlib: only needed to write a report
    from fedglb.studies.report import Report
    from fedglb.studies.run.estimate import StudyEstimate


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="synthetic, covertype, magic, mushroom, solvers; heterogeneity, groups, outliers, "
            "drift, jump, delay, participation; privacy; or a TOML file.",
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="The paper's size instead of the quick profile.")
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(help="Another profile of the file.", show_default="quick, if it has one"),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="Folder of results and report.", show_default="results/NAME-PROFILE"),
    ] = None,
    jobs: Jobs = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the experiment's TOML file, to start your own.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate runs, minutes and disk; run nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Reproduce a figure of the paper: data, parameters, runs, figures, report.

    Finished runs are not repeated: a stopped command resumes.

    Example: fedglb reproduce synthetic
    """
    from fedglb.cli.sweep_view import view
    from fedglb.studies.run.estimate import estimate
    from fedglb.studies.run.reproduce import reproduce as run
    from fedglb.studies.spec.plan import find

    if show:
        try:
            typer.echo(find(name).read_text(encoding="utf-8"), nl=False)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InvalidInput("NAME", name, f"a readable file: {reason}") from None
        return
    if full and profile not in (None, "full"):
        fail("--full and --profile exclude each other", 2)
    if dry_run:
        found = estimate(name, "full" if full else profile, jobs)
        folder = out or f"results/{found.name}-{found.profile}"
        if as_json:
            print_json({**asdict(found), "runs": found.runs, "folder": folder})
        else:
            typer.echo("\n".join(_lines(found, folder)))
        return
    with report_errors(Path(out or "results")), view() as tell:
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
    as_json: Json = False,
) -> None:
    """Write the report of finished results: page, figures, tables in Markdown and LaTeX.

    Example: fedglb report results/synthetic-quick
    """
    from fedglb.studies.report import write_report
    from fedglb.studies.results.study import load_study

    with report_errors(Path(folder), folder="DIR"):
        study = load_study(folder)
    with report_errors(Path(out or folder), folder="DIR" if out is None else "--out"):
        made = write_report(study, out or folder)
    _answer(made, as_json=as_json)


def _answer(made: Report, *, as_json: bool) -> None:
    """Print where the report is, and its headline."""
    if as_json:
        print_json({
            "report": str(made.page), "headline": made.headline,
            "verdicts": {claim.key: claim.verdict for claim in made.claims},
            "figures": [str(path) for path in made.figures],
            "tables": [str(path) for path in made.tables],
        })  # fmt: skip
        return
    console().print(made.headline, style="bold")
    console().print(f"The report: {made.page}")


def _lines(made: StudyEstimate, folder: str) -> Iterator[str]:
    """Yield a study's estimate: runs, search, time and disk."""
    yield (
        f"{made.name}, profile {made.profile}: {made.configurations} configurations × "
        f"{made.seeds} seeds = {made.runs:,} runs of {made.interactions:,} interactions"
    )
    if made.search_runs:
        yield (
            f"search for parameters: at most {made.search_runs:,} runs of "
            f"{made.search_interactions:,}; those that cannot win are stopped"
        )
    yield (
        f"about {in_words(made.seconds)} of runs with {made.jobs} worker process"
        f"{'es' if made.jobs > 1 else ''}, as measured: {made.probe_runs} runs of "
        f"{made.probe_steps} steps took {made.probe_seconds:.1f} s"
    )
    yield f"about {made.bytes / 1e6:.0f} MB in {folder}"
