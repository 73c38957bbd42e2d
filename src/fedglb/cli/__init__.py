"""The command line: one file per command."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from fedglb import __version__
from fedglb.cli import agent, data, features, federation
from fedglb.cli.report_errors import complain
from fedglb.cli.reproduce import report, reproduce
from fedglb.cli.run import run
from fedglb.cli.sweep import sweep
from fedglb.cli.warm_up import warm_up
from fedglb.environments.datasets import DataUnavailable
from fedglb.errors import InvalidInput

app = typer.Typer(
    no_args_is_help=True,
    help="Federated contextual bandits with generalized linear models.",
)
app.command()(reproduce)
app.command(context_settings={"help_option_names": []})(run)
app.command()(sweep)
app.command()(report)
app.command("warm-up")(warm_up)
app.add_typer(data.app, name="data")
app.add_typer(features.app, name="features")
app.add_typer(federation.app, name="federation")
app.add_typer(agent.app, name="agent")


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"fedglb {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Federated contextual bandits with generalized linear models."""


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    sys.path.append(os.getcwd())  # experiment files may name functions in local modules
    try:
        app()
    except InvalidInput as error:
        complain(str(error))
        sys.exit(2)
    except DataUnavailable as error:
        complain(str(error))
        sys.exit(1)
    except MemoryError:
        complain("not enough memory: use fewer clients, arms, steps or dimensions")
        sys.exit(1)
