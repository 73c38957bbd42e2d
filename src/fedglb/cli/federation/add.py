"""`fedglb federation add`: add clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.report_errors import extra, report_errors

FOLDER = typer.Argument(metavar="FOLDER", help="The operator's folder, as `init` made it.")
JSON = typer.Option("--json", help="Print JSON, for scripts.")
NO_SERVER = (
    "No server of this folder runs here. If it runs elsewhere or in a container, copy the new "
    "server/accounts.conf there and reload it: until then the change has no effect."
)


def add(
    folder: Annotated[Path, FOLDER],
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The new clients.")],
    days: Annotated[int, typer.Option(help="Days for which the certificates are valid.")] = 730,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Add clients: make a folder for each, and let the running server admit them.

    Run it on the server's machine. Other clients stay connected. A name that was revoked gets a new
    certificate; its old one stays without rights.

    Example: fedglb federation add ./demo shop-3 shop-4
    """
    with extra():
        from fedglb.federation.operator import operator
        from fedglb.federation.operator.folder import place_of
    with report_errors(folder="FOLDER", client="NAME", clients="NAME", days="--days"):
        verified = operator.add(folder, names, days)
    made = {name: str(folder / place_of(name)) for name in names}
    if as_json:
        typer.echo(json.dumps({"clients": made, "verified": verified}))
        return
    for name, place in made.items():
        typer.echo(f"{name}: move {place} to its machine in a safe way (scp, not mail).")
    if verified:
        typer.echo("Checked: the running server admits them.")
    else:
        typer.echo(NO_SERVER, err=True)
