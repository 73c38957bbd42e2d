"""`fedglb agent`: commands for one agent, one file each."""

from __future__ import annotations

import typer

from fedglb.cli.agent.serve import serve

app = typer.Typer(no_args_is_help=True, help="Run one agent as a service.")


@app.callback()
def _group() -> None:
    """Keep `serve` a command of its own, while it is the only one."""


app.command("serve")(serve)
