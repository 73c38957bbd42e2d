"""`fedglb federation revoke`: revoke clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.federation.add import FOLDER, JSON, NO_SERVER
from fedglb.cli.report_errors import extra, report_errors


def revoke(
    folder: Annotated[Path, FOLDER],
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Clients to revoke.")],
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Revoke clients: the running server disconnects them, and only them, at once.

    Run it on the server's machine; the clients' keys are not needed. The contribution of their
    samples stays in the model.

    Example: fedglb federation revoke ./demo shop-3
    """
    with extra():
        from fedglb.federation.operator import operator
    with report_errors(folder="FOLDER", client="NAME", clients="NAME"):
        verified = operator.revoke(folder, names)
    if as_json:
        typer.echo(json.dumps({"clients": names, "verified": verified}))
        return
    typer.echo(f"Revoked: {', '.join(names)}.")
    if verified:
        typer.echo("Checked: the running server rejects them.")
    else:
        typer.echo(NO_SERVER, err=True)
