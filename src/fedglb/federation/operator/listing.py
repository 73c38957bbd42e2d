"""Who is in a federation, since when, and when each certificate ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fedglb.federation.bundle import CERTIFICATE
from fedglb.federation.certificates import Certificate
from fedglb.federation.names import COORDINATOR
from fedglb.federation.operator.folder import AUTHORITY, SERVER, place_of
from fedglb.federation.operator.registry import (
    THE_AUTHORITY,
    THE_SERVER,
    EarlierCertificate,
    Registry,
)

_SPECIAL = {THE_AUTHORITY: Path(AUTHORITY, "ca.pem"), THE_SERVER: Path(SERVER, "server.pem")}


@dataclass(frozen=True)
class ListedMember:
    """A line of `fedglb federation list`.

    Parameters
    ----------
    name, kind
        A client's name, or "coordinator", "server", "authority".
    generation
        Of its newest certificate; None for server and authority, which have none.
    since
        When it became a member; None: not written down.
    ends
        When its certificate ends; None: it cannot be read.
    revoked
        When its rights were taken away; None: it has them.
    earlier
        Certificates that it may use still, beside the newest.
    """

    name: str
    kind: str
    generation: int | None
    since: datetime | None
    ends: datetime | None
    revoked: datetime | None = None
    earlier: tuple[EarlierCertificate, ...] = ()


def members(folder: str | Path) -> list[ListedMember]:
    """Return the authority, the server, the coordinator and all clients, revoked ones included."""
    place = Path(folder)
    registry = Registry.read(place / AUTHORITY)
    out = []
    for name in (THE_AUTHORITY, THE_SERVER):
        found = _certificate(place, name)
        dates = (None, None) if found is None else (found.begins, found.ends)
        out.append(ListedMember(name, name, None, *dates))
    order = sorted(registry.members, key=lambda name: (name != COORDINATOR, name))
    for name in order:
        member = registry.members[name]
        kind = name if name == COORDINATOR else "client"
        revoked = None if member.revoked is None else datetime.fromisoformat(member.revoked)
        out.append(
            ListedMember(
                name, kind, member.generation, datetime.fromisoformat(member.since),
                ends(place, registry, name), revoked, member.earlier,
            )
        )  # fmt: skip
    return out


def ends(place: Path, registry: Registry, name: str) -> datetime | None:
    """Return when the newest certificate of a member, the server or the authority ends."""
    if name in registry.members:
        return datetime.fromisoformat(registry.members[name].ends)
    found = _certificate(place, name)
    return None if found is None else found.ends


def _certificate(place: Path, name: str) -> Certificate | None:
    path = _SPECIAL.get(name, place_of(name) / CERTIFICATE)
    try:
        found = Certificate((place / path).read_bytes())
        _ = found.ends
    except (OSError, ValueError):
        return None  # `doctor` says what is wrong with it
    return found
