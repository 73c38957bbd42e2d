"""`fedglb federation renew`: new certificates for members."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.federation.add import FOLDER, JSON
from fedglb.cli.report_errors import extra, fail, report_errors

_NO_SERVER = (
    "No server of this folder runs here. If it runs elsewhere or in a container, copy server/ "
    "there and reload it."
)


def renew(
    folder: Annotated[Path, FOLDER],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME...]",
            help="Clients, or: server, coordinator, authority.",
            show_default=False,
        ),
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--all", help="All clients, the coordinator and the server.")
    ] = False,
    within: Annotated[
        float | None,
        typer.Option(
            help="Only certificates that expire within this many days.", show_default="all"
        ),
    ] = None,
    days: Annotated[int, typer.Option(help="Days that clients' certificates are valid.")] = 730,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Give members a new certificate of the same identity; nobody is disconnected.

    The old certificate stays valid until it expires: if a key may be stolen, `revoke` the client
    and `add` it again. A running coordinator and agents find a certificate that is replaced in
    their folder by themselves, within seconds. Server and coordinator get theirs at once; move each
    client's folder to its machine, in the place of the old one.
    The authority's certificate expires after ten years: renew it before, and then all others.

    Example: fedglb federation renew ./demo --all --within 60
    """
    with extra():
        from fedglb.federation.operator import renewal
    chosen = names or []
    if bool(chosen) == everybody:
        fail("give either names or --all", 2)
    options = {"folder": "FOLDER", "client": "NAME", "clients": "NAME", "days": "--days"}
    with report_errors(**options, within="--within"):
        done = renewal.renew(folder, chosen, everybody=everybody, within=within, days=days)
    if as_json:
        answer = {
            "renewed": {name: f"{ends:%Y-%m-%d}" for name, ends in done.renewed.items()},
            "clients": {name: str(place) for name, place in done.folders.items()},
            "verified": done.verified,
        }
        typer.echo(json.dumps(answer))
        return
    for name, ends in done.renewed.items():
        place = done.folders.get(name)
        move = "" if place is None else f"; move {place} to its machine in a safe way (scp)"
        typer.echo(f"{name}: renewed until {ends:%Y-%m-%d}{move}.")
    if not done.renewed:
        typer.echo("Nothing to renew.")
    elif done.verified:
        typer.echo("Checked: the running server admits them.")
    elif {"server", "authority"} & set(done.renewed):
        typer.echo(_NO_SERVER, err=True)
