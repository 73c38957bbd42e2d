"""`fedglb agent forget`: delete decisions while the service runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.common import Json, print_json
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput


def forget(
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="Where the service listens: http://127.0.0.1:8731, or unix:///run/shop/agent.sock",
        ),
    ],
    subject: Annotated[
        list[str] | None, typer.Option(help="Delete all decisions about this subject.")
    ] = None,
    id_: Annotated[list[str] | None, typer.Option("--id", help="Delete this decision.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the service's token.")
    ] = None,
    cafile: Annotated[
        Path | None, typer.Option(help="For https: a file of trusted certificates.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Delete decisions, their records and samples for good, while the service runs.

    They are gone from the agent's file and from its own state. A shared model that was fitted with
    them is replaced by the next global update. Backups and exports keep what they have: delete
    those, too.

    Example: fedglb agent forget http://127.0.0.1:8731 --subject customer-4711
    """
    from fedglb.federation.agent.ids import checked_key
    from fedglb.service.client import AgentClient
    from fedglb.service.listening import read_token

    with report_errors(url="URL", subject="--subject", ids="--id", token_file="--token-file"):
        if not subject and not id_:
            raise InvalidInput("subject", None, "--subject SUBJECT or --id ID")
        for each in subject or ():
            checked_key(each, "subject")  # before anything is deleted
        token = None if token_file is None else read_token(token_file)
        with AgentClient(url, token, cafile=cafile, timeout=600.0) as client:
            count = client.forget(id_) if id_ else 0
            count += sum(client.forget(subject=each) for each in subject or ())
    if as_json:
        print_json({"forgotten": count})
        return
    typer.echo(f"{count} decisions are forgotten")
