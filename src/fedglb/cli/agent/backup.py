"""`fedglb agent backup`: a copy of an agent's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.agent.report_errors import report_errors
from fedglb.errors import InvalidInput

_IF_OPEN = "stop it for the copy, or have it make one itself (Agent.backup), while it goes on"


def backup(
    file: Annotated[Path, typer.Argument(metavar="AGENT.db", help="The agent's file.")],
    to: Annotated[Path, typer.Argument(metavar="COPY.db", help="The copy: a new file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Copy an agent's file, whole or not at all. The copy is opened as any agent's file.

    While an application or a service has the file open this says so: it makes the copy itself then.

    Example: fedglb agent backup shop-1.db /backup/shop-1-monday.db
    """
    from fedglb.federation.agent.store import AgentStore

    with report_errors(_IF_OPEN, path="COPY.db"):
        if not file.is_file():
            raise InvalidInput("AGENT.db", str(file), "an agent's file; there is none")
        store = AgentStore(file, "process")
        try:
            store.backup(to)
        finally:
            store.close()
    size = to.stat().st_size
    if as_json:
        typer.echo(json.dumps({"copy": str(to), "bytes": size}))
    else:
        typer.echo(f"{to}: {size:,} bytes")
