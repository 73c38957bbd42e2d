"""`fedglb agent key`: a member's own key, and the request for its certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.common import Json, print_json
from fedglb.cli.report_errors import extra, report_errors


def key(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The agent's folder; created if missing.")
    ],
    name: Annotated[
        str | None,
        typer.Option(help="The client's name in the federation.", show_default="FOLDER's name"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key for an agent, and a request for its certificate.

    The key (FOLDER/key.pem) never leaves this machine. Send FOLDER/request.pem to the federation's
    operator, who runs `fedglb federation init` or `add` with --request; it is not secret. Then copy
    the operator's files into FOLDER: they have no key. In secure sums, where the others have the
    roster with this key, nobody but you can act as this client.

    Example: fedglb agent key ./shop-3
    """
    with extra():
        from fedglb.federation.key_request import REQUEST, KeyRequest
    with report_errors(folder="FOLDER", client="--name"):
        made = KeyRequest.make(folder, folder.absolute().name if name is None else name)
    request = folder / REQUEST
    if as_json:
        print_json({"client": made.name, "request": str(request), "key": made.fingerprint})
        return
    typer.echo(f"{made.name}: send {request} to the operator, and keep {folder / 'key.pem'} here.")
    typer.echo(
        f"The public key's digest is {made.fingerprint}: the operator's command prints the same."
    )
    typer.echo(f"Then copy the operator's files into {folder}, beside the key.")
