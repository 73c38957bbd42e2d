"""`fedglb federation backup`: a copy of the coordinator's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.agent.backup import say_copied
from fedglb.cli.federation.add import JSON
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput


def backup(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The operator's folder, or the coordinator's."),
    ],
    to: Annotated[Path, typer.Argument(metavar="COPY.db", help="The copy: a new file.")],
    state: Annotated[
        Path | None,
        typer.Option(
            help="The file with the coordinator's state.", show_default="coordinator/state.db"
        ),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Copy the coordinator's file, whole or not at all; the coordinator goes on meanwhile.

    Keys and members are not in it: they are in authority/, which is to be kept offline.

    Example: fedglb federation backup ./demo /backup/state-monday.db
    """
    from fedglb.federation.names import COORDINATOR
    from fedglb.federation.sqlite import backup as copy

    inside = folder / COORDINATOR
    place = (inside if inside.is_dir() else folder) / "state.db" if state is None else state
    with report_errors(source="FOLDER" if state is None else "--state", path="COPY.db"):
        if not place.is_file():
            allowed = "where a coordinator has run: it has no such file yet"
            raise InvalidInput("source", str(place), allowed)
        copy("coordinator", place, to)
    say_copied(to, as_json)
