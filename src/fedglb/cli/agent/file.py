"""`fedglb agent backup` and `accept`: commands on an agent's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.common import AgentFile, CopyFile, Json, print_copied, print_json
from fedglb.cli.report_errors import report_errors
from fedglb.errors import InvalidInput


def backup(file: AgentFile, to: CopyFile, as_json: Json = False) -> None:
    """Copy an agent's file atomically. The copy is an agent's file, too.

    The application or service that has the file open may keep running.

    Example: fedglb agent backup shop-1.db /backup/shop-1-monday.db
    """
    from fedglb.federation.sqlite import backup as copy

    with report_errors(source="AGENT.db", path="COPY.db"):
        if not file.is_file():
            raise InvalidInput("source", str(file), "an agent's file that exists")
        copy("agent", file, to)
    print_copied(to, as_json)


def accept(
    file: AgentFile,
    bundle: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE", help="The agent's folder, with the new roster.json."),
    ],
    roster: Annotated[
        str | None,
        typer.Option(
            help="The digest of the roster to accept. Compare it with the owners of the other "
            "agents, not only with the operator.",
            show_default="none: only show the roster",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Accept a changed list of members of secure sums (the roster).

    An agent refuses a changed roster: an attacker who adds enough members could subtract
    their sums from the total, and see the agent's. (`fedglb agent serve --follow-roster` accepts
    one that only got smaller by itself.)

    Example: fedglb agent accept shop-1.db ./shop-1 --roster 3f6c…
    """
    from fedglb.federation.agent.roster import accept_roster, roster_to_accept

    names = {"path": "AGENT.db", "bundle": "BUNDLE", "roster": "--roster"}
    with report_errors(if_open="stop its application or service first", **names):
        found = roster_to_accept(bundle) if roster is None else accept_roster(file, bundle, roster)
    accepted, digest = roster is not None, found.digest.hex()
    if as_json:
        print_json({"roster": digest, "members": list(found.names), "accepted": accepted})
        return
    typer.echo(f"{len(found.names)} members: {', '.join(found.names)}")
    typer.echo(f"roster: {digest}")
    typer.echo("accepted" if accepted else "not accepted: to accept it, add --roster DIGEST")
