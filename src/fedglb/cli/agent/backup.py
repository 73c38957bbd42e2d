"""`fedglb agent backup`: a copy of an agent's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput


def backup(
    file: Annotated[Path, typer.Argument(metavar="AGENT.db", help="The agent's file.")],
    to: Annotated[Path, typer.Argument(metavar="COPY.db", help="The copy: a new file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Copy an agent's file, whole or not at all. The copy is opened as any agent's file.

    The application or service that has it open goes on meanwhile.

    Example: fedglb agent backup shop-1.db /backup/shop-1-monday.db
    """
    from fedglb.federation.sqlite import backup as copy

    with report_errors(source="AGENT.db", path="COPY.db"):
        if not file.is_file():
            raise InvalidInput("source", str(file), "an agent's file that exists")
        copy("agent", file, to)
    say_copied(to, as_json)


def say_copied(to: Path, as_json: bool) -> None:
    """Print the path and size of the copy."""
    size = to.stat().st_size
    if as_json:
        typer.echo(json.dumps({"copy": str(to), "bytes": size}))
    else:
        typer.echo(f"{to}: {size:,} bytes")
