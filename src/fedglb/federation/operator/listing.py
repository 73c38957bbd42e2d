"""The list of a federation's members and their certificates."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.bundle import CA, CERTIFICATE
from fedglb.federation.certificates import Certificate
from fedglb.federation.names import COORDINATOR, THE_AUTHORITY, THE_SERVER
from fedglb.federation.operator.folder import AUTHORITY, SERVER, place_of
from fedglb.federation.operator.registry import Registry

_SPECIAL = {THE_AUTHORITY: Path(AUTHORITY, "ca.pem"), THE_SERVER: Path(SERVER, "server.pem")}


@dataclass(frozen=True)
class ListedMember:
    """A line of `fedglb federation list`; `since` and `ends` are None if they cannot be read."""

    name: str
    kind: str  # "client", "coordinator", "server", "authority"
    generation: int | None  # of its identity; None for server and authority
    since: datetime | None  # when it became a member
    ends: datetime | None  # when its certificate expires
    revoked: datetime | None = None


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
                ends(place, registry, name), revoked,
            )
        )  # fmt: skip
    return out


def ends(place: Path, registry: Registry, name: str) -> datetime | None:
    """Return the expiry of the newest certificate of a member, the server or the authority."""
    if name in registry.members:
        return datetime.fromisoformat(registry.members[name].ends)
    found = _certificate(place, name)
    return None if found is None else found.ends


def certificate_ends(bundle: Path) -> dict[str, float]:
    """Return the expiry of each certificate (Unix time) whose file is readable here.

    `bundle` is the coordinator's folder. If it is inside the operator's folder, the certificates
    of the server and of all clients are included.
    """
    out = {}
    for name, file in (("the authority", CA), ("the coordinator", CERTIFICATE)):
        with contextlib.suppress(OSError, ValueError):  # missing, or not a certificate
            out[name] = Certificate((bundle / file).read_bytes()).ends.timestamp()
    with contextlib.suppress(OSError, InvalidInput):  # not in the operator's folder, or unreadable
        for member in members(bundle.parent):
            if member.ends is not None and member.revoked is None:
                name = member.name if member.kind == "client" else f"the {member.kind}"
                out[name] = member.ends.timestamp()
    return out


def _certificate(place: Path, name: str) -> Certificate | None:
    path = _SPECIAL.get(name, place_of(name) / CERTIFICATE)
    try:
        found = Certificate((place / path).read_bytes())
        _ = found.ends
    except (OSError, ValueError):
        return None  # `doctor` reports it
    return found
