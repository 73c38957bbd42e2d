"""The command line: one file a command."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from fedglb.cli.demo import demo
from fedglb.cli.run import run
from fedglb.errors import InvalidInput

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Federated contextual bandits with generalized linear models.",
)
app.command()(run)
app.command()(demo)


@app.callback()
def _top() -> None:
    """Federated contextual bandits with generalized linear models."""


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    try:
        app()
    except InvalidInput as error:
        Console(stderr=True, soft_wrap=True).print(f"fedglb: {error}", style="red", markup=False)
        sys.exit(2)
