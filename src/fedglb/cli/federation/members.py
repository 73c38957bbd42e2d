"""`fedglb federation add`, `revoke`, `renew` and `list`: the members and their certificates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedglb.cli.common import (
    Json,
    OperatorFolder,
    Requests,
    print_json,
    print_keys_made_here,
)
from fedglb.cli.report_errors import extra, fail, report_errors
from fedglb.features import Features

if TYPE_CHECKING:
    from fedglb.federation.operator.listing import ListedMember

_NAMES = {"folder": "FOLDER", "client": "NAME", "clients": "NAME", "days": "--days"}
_ROSTER = (
    "Bring {place} to the folder of every agent, and restart the coordinator. Agents with "
    "--follow-roster take up a smaller roster by themselves; other owners compare the digest with "
    "each other and run: fedglb agent accept AGENT.db FOLDER --roster DIGEST"
)
_NO_SERVER = "This folder's server does not run here. If it runs elsewhere or in a container, copy "
_COPY_ACCOUNTS = (
    f"{_NO_SERVER}the new server/accounts.conf there and reload it: until then the change has no "
    "effect."
)
_STOPPED = (
    "SECURE SUMS STOP: too few members are left, and the roster still has {names}. Agents learn "
    "alone; nothing is lost. Add clients (a revoked name gets a new key): fedglb federation add "
    "{folder} NAME --request FILE. Until the owners have the new roster, a coordinator that lies "
    "could use a stolen key in sums: if you do not trust it, stop it."
)


def add(
    folder: OperatorFolder,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The new clients.")],
    request: Requests = None,
    days: Annotated[int, typer.Option(help="Days for which the certificates are valid.")] = 730,
    as_json: Json = False,
) -> None:
    """Add clients: make a folder for each, and let the running server admit them.

    Run it on the server's machine. Other clients stay connected. A revoked name gets a new
    certificate; its old one stays revoked. A client that made its own key (`fedglb agent key`)
    sends its request; its folder here has no key, and its owner copies the files into the folder
    with the key.

    Example: fedglb federation add ./demo shop-3 --request shop-3.pem
    """
    with extra():
        from fedglb.federation.key_request import KeyRequest
        from fedglb.federation.operator import operator
        from fedglb.federation.operator.folder import place_of
    with report_errors(**_NAMES, request="--request"):
        requests = [KeyRequest.read(path) for path in request or []]
        verified = operator.add(folder, names, days, requests)
        digest, _ = _roster(folder)
    made = {name: str(folder / place_of(name)) for name in names}
    if as_json:
        print_json({"clients": made, "verified": verified, **_if_known(digest)})
        return
    own = {each.name: each.fingerprint for each in requests}
    for name, place in made.items():
        if name in own:
            typer.echo(f"{name}: its owner copies {place}/* into the folder with its key.")
            typer.echo(f"  The digest of its key is {own[name]}: compare it with the owner's.")
        else:
            typer.echo(f"{name}: move {place} to its machine by a safe channel (scp, not mail).")
    print_keys_made_here([name for name in names if name not in own], digest is not None)
    _print_roster(folder, digest)
    _print_verified(verified, "admits")


def change_features(
    folder: OperatorFolder,
    features: Annotated[
        Path, typer.Argument(metavar="FEATURES.toml", help="The new schema of records.")
    ],
    as_json: Json = False,
) -> None:
    """Give a running federation another schema of records; no sample is lost.

    Run it on the server's machine. The coordinator takes it up within seconds and sends it to the
    agents. Each agent encodes the records of its samples again, beside its application, and then
    changes to it; until then no update has its samples. The next update fits the model anew.

    Example: fedglb federation features ./demo new.toml
    """
    with extra():
        from fedglb.federation.operator import operator
    with report_errors(**_NAMES, features="FEATURES.toml"):
        schema = Features.read(features)
        revision, changed = operator.change_features(folder, schema)
    if as_json:
        print_json({"revision": revision, "changed": changed, "dim": schema.dim})
        return
    typer.echo(
        f"Schema {revision}, {schema.dim} features: a running coordinator sends it to the agents."
        if changed
        else f"Schema {revision} is this one already; the members' folders have it."
    )


def _roster(folder: Path) -> tuple[str | None, tuple[str, ...]]:
    """Return the roster's digest and names; None: no secure sums."""
    from fedglb.federation.operator.folder import roster

    found = roster(folder)
    return (None, ()) if found is None else (found.digest.hex(), found.names)


def _if_known(digest: str | None) -> dict[str, str]:
    return {} if digest is None else {"roster": digest}


def _print_roster(folder: Path, digest: str | None) -> None:
    if digest is not None:
        typer.echo(f"New roster: {digest}")
        typer.echo(_ROSTER.format(place=folder / "authority" / "roster.json"))


def revoke(
    folder: OperatorFolder,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Clients to revoke.")],
    as_json: Json = False,
) -> None:
    """Revoke clients: the running server disconnects them, and only them, at once.

    Run it on the server's machine; the clients' keys are not needed. Their samples stay in the
    model until the next update; with fedglb-private, what they released stays. With secure sums it
    writes a roster without them, for the other agents. If too few members are left, it revokes all
    the same, and there are no sums until others are added.

    Example: fedglb federation revoke ./demo shop-3
    """
    with extra():
        from fedglb.federation.operator import operator
    with report_errors(**_NAMES):
        verified = operator.revoke(folder, names)
        digest, members = _roster(folder)
    stopped = bool(set(names) & set(members))
    if as_json:
        stops = {} if digest is None else {"sums_stopped": stopped}
        print_json({"clients": names, "verified": verified, **_if_known(digest), **stops})
        return
    typer.echo(f"Revoked: {', '.join(names)}.")
    if stopped:
        typer.echo(_STOPPED.format(names=", ".join(names), folder=folder), err=True)
    else:
        _print_roster(folder, digest)
    _print_verified(verified, "rejects")


def _print_verified(verified: bool, verb: str) -> None:
    if verified:
        typer.echo(f"Checked: the running server {verb} them.")
    else:
        typer.echo(_COPY_ACCOUNTS, err=True)


def renew(
    folder: OperatorFolder,
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
        typer.Option(help="Only certificates that expire within DAYS.", show_default="all"),
    ] = None,
    days: Annotated[int, typer.Option(help="Days that clients' certificates are valid.")] = 730,
    as_json: Json = False,
) -> None:
    """Issue new certificates for existing members; nobody is disconnected.

    The old certificate stays valid until it expires. If a key may be stolen, `revoke` the client
    and `add` it again. Server and coordinator get their new certificates at once; copy the files of
    each client's folder over those on its machine, where a key that the client made stays. Running
    coordinators and agents load a new certificate within seconds. The authority's certificate
    expires after ten years: renew it before, and then all others.

    Example: fedglb federation renew ./demo --all --within 60
    """
    with extra():
        from fedglb.federation.operator import renewal
    chosen = names or []
    if bool(chosen) == everybody:
        fail("either names or --all is required", 2)
    with report_errors(**_NAMES, within="--within"):
        done = renewal.renew(folder, chosen, everybody=everybody, within=within, days=days)
    if as_json:
        print_json({
            "renewed": {name: f"{ends:%Y-%m-%d}" for name, ends in done.renewed.items()},
            "clients": {name: str(place) for name, place in done.folders.items()},
            "verified": done.verified,
        })  # fmt: skip
        return
    for name, ends in done.renewed.items():
        typer.echo(f"{name}: renewed until {ends:%Y-%m-%d}.")
        if place := done.folders.get(name):
            has_key = (place / "key.pem").exists()
            safely = "to its machine by a safe channel (scp, not mail)"
            where = safely if has_key else "into the folder with its key, which stays"
            typer.echo(f"  Copy {place}/* {where}.")
    if not done.renewed:
        typer.echo("Nothing to renew.")
    elif done.verified:
        typer.echo("Checked: the running server admits them.")
    elif {"server", "authority"} & set(done.renewed):
        typer.echo(f"{_NO_SERVER}server/ there and reload it.", err=True)


def list_members(folder: OperatorFolder, as_json: Json = False) -> None:
    """List the members: generation, start, expiry and revocation of their certificates.

    Reads only the folder; `doctor` checks the connection to the server.

    Example: fedglb federation list ./demo
    """
    with extra():
        from fedglb.federation.operator import listing
    with report_errors(folder="FOLDER"):
        found = listing.members(folder)
    if as_json:
        print_json([_facts(member) for member in found])
        return
    rows = [("name", "generation", "since", "certificate expires", "")]
    for member in found:
        generation = "" if member.generation is None else str(member.generation)
        revoked = "" if member.revoked is None else f"revoked on {_date(member.revoked)}"
        rows.append((member.name, generation, _date(member.since), _end(member.ends), revoked))
    typer.echo("\n".join(columns(rows)))


def _facts(member: ListedMember) -> dict[str, Any]:
    dates = {"since": member.since, "ends": member.ends, "revoked": member.revoked}
    return {
        "name": member.name, "kind": member.kind, "generation": member.generation,
        **{key: at and at.isoformat(timespec="seconds") for key, at in dates.items()},
    }  # fmt: skip


def _date(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d}"


def _end(moment: datetime | None) -> str:
    if moment is None:
        return "unreadable"
    left = (moment - datetime.now(UTC)).days
    return f"{_date(moment)} ({left} days)" if left >= 0 else f"{_date(moment)} (expired)"


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, with aligned columns, never wrapped."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip()
