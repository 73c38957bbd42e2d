"""`fedglb federation renew`: new certificates, while everybody stays connected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fedglb.cli.federation.add import FOLDER, JSON
from fedglb.cli.federation.report_errors import extra, report_errors
from fedglb.errors import InvalidInput

_NO_SERVER = (
    "No server of this folder runs here. If it runs elsewhere or in a container, copy server/ "
    "there and reload it: until then the change has no effect."
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
            help="Of these only whose certificate ends within so many days.", show_default="all"
        ),
    ] = None,
    finish: Annotated[
        bool,
        typer.Option(
            "--finish", help="Renew nothing; end overlaps whose new certificate is in use."
        ),
    ] = False,
    overlap: Annotated[
        float, typer.Option(help="For how many days the old certificates are good, at most.")
    ] = 30.0,
    days: Annotated[int, typer.Option(help="How many days clients' certificates are valid.")] = 730,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Renew certificates; nobody is disconnected.

    The running server admits a member's old and new certificate until the next `renew` sees the
    new one in use, or the overlap is over. A running coordinator and agents find a certificate
    that is replaced in their folder by themselves, within seconds. Server and coordinator get
    theirs at once; move each client's folder to its machine, in the place of the old one.
    The authority's certificate ends after ten years: renew it before, and then all others.

    Example: fedglb federation renew ./demo --all --within 60
    """
    with extra():
        from fedglb.federation.operator import renewal
    chosen = names or []
    if bool(chosen) + everybody + finish != 1:
        given = [*chosen, *["--all"] * everybody, *["--finish"] * finish]
        raise InvalidInput("NAME", given, "either names, or --all, or --finish")
    options = {"folder": "FOLDER", "client": "NAME", "clients": "NAME", "days": "--days"}
    with report_errors(**options, overlap="--overlap", within="--within"):
        done = renewal.renew(
            folder, chosen, everybody=everybody, within=within, days=days, overlap=overlap
        )
    if as_json:
        answer = {
            "renewed": {name: f"{ends:%Y-%m-%d}" for name, ends in done.renewed.items()},
            "clients": {name: str(place) for name, place in done.folders.items()},
            "overlapping": {name: f"{until:%Y-%m-%d}" for name, until in done.overlapping.items()},
            "ended": list(done.ended),
            "verified": done.verified,
        }
        typer.echo(json.dumps(answer))
        return
    for name, ends in done.renewed.items():
        place = done.folders.get(name)
        move = "" if place is None else f"; move {place} to its machine in a safe way (scp)"
        typer.echo(f"{name}: renewed until {ends:%Y-%m-%d}{move}.")
    for name in done.ended:
        typer.echo(f"{name}: its old certificate is good no longer.")
    for name, until in done.overlapping.items():
        typer.echo(f"{name}: its old certificate is good until {until:%Y-%m-%d} at most.")
    if not (done.renewed or done.ended or done.overlapping):
        typer.echo("Nothing to renew.")
    if done.verified:
        typer.echo("Checked: the running server acts on it.")
    else:
        typer.echo(_NO_SERVER, err=True)
