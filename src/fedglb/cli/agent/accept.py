"""`fedglb agent accept`: the members with which an agent takes part in secure sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.agent.report_errors import report_errors


def accept(
    file: Annotated[Path, typer.Argument(metavar="AGENT.db", help="The agent's file.")],
    bundle: Annotated[Path, typer.Argument(help="The agent's folder, with the new roster.json.")],
    roster: Annotated[
        str | None,
        typer.Option(
            help="The digest of the roster that is accepted. Compare it with the owners of the "
            "other agents, not only with the operator.",
            show_default="none: show the roster, and accept nothing",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Accept other members in secure sums than those with which the agent's file was made.

    An agent refuses a changed roster by itself: otherwise whoever can make members could put some
    of his own making around it, and subtract them.

    Example: fedglb agent accept shop-1.db ./shop-1 --roster 3f6c…
    """
    from fedglb.federation.agent.sums import accept_roster, roster_to_accept

    names = {"path": "AGENT.db", "bundle": "BUNDLE", "roster": "--roster"}
    with report_errors("stop its application or service first", **names):
        found = roster_to_accept(bundle) if roster is None else accept_roster(file, bundle, roster)
    accepted, digest = roster is not None, found.digest.hex()
    if as_json:
        answer = {"roster": digest, "members": list(found.names), "accepted": accepted}
        typer.echo(json.dumps(answer))
        return
    typer.echo(f"{len(found.names)} members: {', '.join(found.names)}")
    typer.echo(f"roster: {digest}")
    typer.echo("accepted" if accepted else "not accepted: give --roster to accept it")
