"""`fedglb agent`: commands for one agent."""

from __future__ import annotations

import typer

from fedglb.cli.agent.file import accept, backup
from fedglb.cli.agent.forget import forget
from fedglb.cli.agent.import_log import import_
from fedglb.cli.agent.key import key
from fedglb.cli.agent.serve import serve

app = typer.Typer(no_args_is_help=True, help="Run one agent as a service, or work with its file.")
app.command("serve")(serve)
app.command("key")(key)
app.command("import")(import_)
app.command("backup")(backup)
app.command("forget")(forget)
app.command("accept")(accept)
