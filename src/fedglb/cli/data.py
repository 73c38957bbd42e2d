"""`fedglb data`: the data sets of the experiments, on this machine or to be downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from fedglb.cli.common import Json, console, print_json
from fedglb.environments.datasets import DATASETS, Dataset, fetch, find
from fedglb.environments.datasets.fetch import Progress
from fedglb.errors import one_of

app = typer.Typer(no_args_is_help=True, help="Fetch or list the data sets of the experiments.")


@app.command("fetch")
def fetch_data(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{', '.join(DATASETS)}, or all of them: all.")
    ],
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Download again, even if the file exists.")
    ] = False,
) -> None:
    """Print the path of a data set's raw file; download the file if it is missing.

    It is looked for in the folder $FEDGLB_DATA (there it may be compressed, .xz or .gz), then in
    the cache folder; a missing file is downloaded to the cache folder.

    Example: fedglb data fetch magic
    """
    one_of("NAME", name, (*DATASETS, "all"))
    with _spinner() as say:
        for each in DATASETS if name == "all" else [name]:
            typer.echo(fetch(each, say, refresh))


@app.command("list")
def list_data(as_json: Json = False) -> None:
    """List the data sets: rows, features of an arm, licence, and where the file is.

    Example: fedglb data list --json
    """
    rows = []
    with _spinner() as say:
        for dataset in DATASETS.values():
            path = find(dataset.name, say)
            rows.append((dataset, None if path is None else str(path)))
    if as_json:
        print_json([_plain(*row) for row in rows])
        return
    from rich.table import Table

    table = Table()
    table.add_column("name")
    for column in ("rows", "features"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("licence", no_wrap=True)
    table.add_column("where", overflow="fold")
    for dataset, where in rows:
        table.add_row(
            dataset.name, f"{dataset.rows:,}", str(dataset.dim), dataset.licence,
            where or f"missing: fedglb data fetch {dataset.name}",
        )  # fmt: skip
    console().print(table, soft_wrap=False)


def _plain(dataset: Dataset, path: str | None) -> dict[str, str | int | None]:
    return {
        "name": dataset.name, "title": dataset.title, "rows": dataset.rows,
        "features": dataset.dim, "licence": dataset.licence, "citation": dataset.citation,
        "file": dataset.file, "sha256": dataset.sha256, "path": path,
    }  # fmt: skip


@contextmanager
def _spinner() -> Iterator[Progress]:
    """Give a function that writes a line to standard error; a terminal shows a spinner."""
    errors = console(stderr=True)
    with errors.status("reading the files"):
        yield lambda text: errors.print(text, style="dim")
