"""`fedglb agent`: what is done with one agent's file, one command per file."""

from __future__ import annotations

import typer

from fedglb.cli.agent.backup import backup
from fedglb.cli.agent.import_ import import_

app = typer.Typer(no_args_is_help=True, help="Work with an agent's file.")
app.command("import")(import_)
app.command("backup")(backup)
