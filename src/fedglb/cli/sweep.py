"""`fedglb sweep`: algorithms × parameter grids × seeds, from a TOML file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedglb.cli.common import Jobs, Json, console, finite, print_json, say
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

    from fedglb.studies import Experiment, SweepResult


def sweep(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The experiment, a TOML file.")],
    out: Annotated[
        str | None, typer.Option(help="Folder of the results.", show_default="results/NAME")
    ] = None,
    jobs: Jobs = None,
    cluster: Annotated[
        str | None, typer.Option(help="Run on the Dask cluster of this scheduler.")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(help="Their number (10), or a list (3,7).", show_default="the file's"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file and list its runs; run nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run algorithms × parameter grids × seeds; a stopped sweep resumes, a changed one reuses runs.

    Example: fedglb sweep experiments/small.toml --jobs 2
    """
    from fedglb.cli.sweep_view import view
    from fedglb.studies import read_experiment
    from fedglb.studies.results.store import count_kept
    from fedglb.studies.run.sweep import run_sweep

    with report_errors(seeds="--seeds"):
        experiment = read_experiment(file, _seeds(seeds), say)
    folder = Path("results") / experiment.name if out is None else Path(out)
    with report_errors(folder):
        kept = count_kept(folder, experiment)
    if dry_run:
        _list(experiment, kept, folder, as_json=as_json)
        return
    with view() as tell, report_errors(folder):
        tell(f"{experiment.name}: {_reuse(kept, experiment.runs)}", None)
        result = run_sweep(experiment, folder, jobs, cluster, partial(tell, experiment.name))
    summary = summarise(result.runs)
    if as_json:
        print_json(_plain(result, summary, folder) | {"runs": result.runs.height, "kept": kept})
    else:
        _show(result, summary, folder)


def _seeds(text: str | None) -> int | list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")] if "," in text else int(text)
    except ValueError:
        allowed = "the number of seeds, such as 10, or a list, such as 3,7"
        raise InvalidInput("--seeds", text, allowed) from None


def summarise(runs: pl.DataFrame) -> pl.DataFrame:
    """Return one row per configuration: means over the seeds, sorted by regret.

    With fewer than 5 seeds it has no standard error, median and number of stuck runs. Seeds that
    are the same run count as one.
    """
    import polars as pl

    from fedglb.studies.report.summary import spread  # imports SciPy: only needed for results
    from fedglb.studies.results.tables import distinct

    return (
        distinct(runs)
        .group_by("label", maintain_order=True)
        .agg(
            pl.len().alias("seeds"),
            pl.col("regret").mean(),
            pl.col("transfers", "scalars").mean(),
            *spread(),
        )
        .rename({"error": "standard_error"})
        .sort("regret", "label")
    )


def _reuse(kept: int, runs: int) -> str:
    return f"{kept:,} of {runs:,} runs are kept, {runs - kept:,} to run"


def _list(experiment: Experiment, kept: int, folder: Path, *, as_json: bool) -> None:
    labels = [c.label for c in experiment.configurations]
    interactions = experiment.runs * experiment.interactions
    if as_json:
        answer = {
            "folder": str(folder), "labels": labels, "seeds": list(experiment.seeds),
            "runs": experiment.runs, "kept": kept, "interactions": interactions,
        }  # fmt: skip
        print_json(answer)
        return
    for label in labels:
        typer.echo(label)
    typer.echo(
        f"{len(labels)} configurations × {len(experiment.seeds)} seeds = {experiment.runs:,} runs "
        f"of {experiment.interactions:,} interactions, {interactions:,} in all, to {folder}"
    )
    typer.echo(_reuse(kept, experiment.runs))


def _plain(result: SweepResult, summary: pl.DataFrame, folder: Path) -> dict[str, Any]:
    from fedglb.studies.results.tables import repeated

    names = ("name", "identity", "started", "wall_seconds", "seeds")
    return {
        "folder": str(folder),
        **{name: result.manifest[name] for name in names},
        "note": repeated(result.runs) or None,
        "configurations": [finite(row) for row in summary.to_dicts()],
    }


def _show(result: SweepResult, summary: pl.DataFrame, folder: Path) -> None:
    from rich.table import Table

    from fedglb.studies.report.summary import STUCK_MEANS
    from fedglb.studies.results.tables import repeated

    manifest = result.manifest
    table = Table(
        title=f"{manifest['name']}: {manifest['clients']} clients, {manifest['horizon']} steps, "
        f"{manifest['arms']} arms, {len(manifest['seeds'])} seeds",
        title_justify="left",
    )
    table.add_column("configuration", overflow="fold")
    more = ("± s.e.", "median", "stuck") if summary["median"].count() > 0 else ()
    for column in ("regret", *more, "transfers", "scalars"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in summary.to_dicts():
        spread = []
        if more:
            spread = ["–"] * 3
            if row["median"] is not None:
                spread = [f"{row[key]:,.1f}" for key in ("standard_error", "median")]
                spread.append(str(row["stuck"]))
        table.add_row(
            row["label"], f"{row['regret']:,.1f}", *spread,
            f"{row['transfers']:,.0f}", f"{row['scalars']:,.0f}",
        )  # fmt: skip
    console().print(table, soft_wrap=False)
    if more:
        console().print(STUCK_MEANS)
    if said := repeated(result.runs):
        console().print(said)
    console().print(f"{result.runs.height:,} runs; tables and manifest are in {folder}")
