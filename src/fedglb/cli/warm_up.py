"""`fedglb warm-up`: compile all kernels now, so that no later process has to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedglb.cli.progress import progress
from fedglb.errors import InvalidInput
from fedglb.kernels.cache import cache, counts


def warm_up(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON, for scripts.")
    ] = False,
) -> None:
    """Compile all kernels that are not compiled yet, and say where they are kept.

    Once per machine and user, or once in an image: then nothing is compiled when an application
    starts. They are kept in the folder NUMBA_CACHE_DIR, or else in the user's cache folder.

    Example: NUMBA_CACHE_DIR=/opt/kernels fedglb warm-up
    """
    place = cache()
    if place.obstacle is not None:
        allowed = "a folder that this user can write to"
        raise InvalidInput("NUMBA_CACHE_DIR", place.folder, allowed)
    from fedglb.warm_up import runs, warm_up

    with progress("compiling", len(runs())) as tell:
        warm_up(tell)
    size = sum(path.stat().st_size for path in Path(place.folder).rglob("*") if path.is_file())
    if as_json:
        said = {
            "folder": place.folder, "compiled": counts.compiled, "already": counts.loaded,
            "bytes": size,
        }  # fmt: skip
        typer.echo(json.dumps(said))
        return
    there = f"{counts.loaded} were there already"
    what = f"compiled {counts.compiled} kernels, {there}" if counts.compiled else "all are there"
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(f"{what} ({counts.compiled + counts.loaded} in all)", soft_wrap=True)
    console.print(f"The kernels: {place.folder} ({size / 1e6:.1f} MB)", soft_wrap=True)
