"""New certificates for the same identities; the old ones stay valid until they expire.

Nobody is disconnected, and the server's list of members does not change. The authority keeps its
key, so its old and its new certificate verify the same members' certificates.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedglb.errors import InvalidInput, integer, number
from fedglb.federation.bundle import CA
from fedglb.federation.certificates import Certificate, IssuedCertificate
from fedglb.federation.names import COORDINATOR, THE_AUTHORITY, THE_SERVER, check_name
from fedglb.federation.operator import nats_config
from fedglb.federation.operator.authority import CA_DAYS, DAYS, Authority
from fedglb.federation.operator.folder import (
    AUTHORITY,
    SERVER,
    bundle,
    context_of,
    issue,
    limits,
    opened,
    place_of,
    probe,
    roster,
    short_lived_context,
    verify,
    write_accounts,
)
from fedglb.federation.operator.listing import ends
from fedglb.federation.operator.nats_server import ServerFault
from fedglb.federation.operator.registry import Registry
from fedglb.federation.probe import patiently
from fedglb.federation.secure_sums.roster import FILE as ROSTER
from fedglb.io.atomic import UNFINISHED, atomic_write


@dataclass(frozen=True)
class Renewal:
    """The result of `renew`."""

    renewed: Mapping[str, datetime]  # expiry of each new certificate, by name
    folders: Mapping[str, Path]  # of clients, to move to their machines
    verified: bool  # a running server admits them; False: no server runs


def renew(
    folder: str | Path,
    names: Sequence[str] = (),
    *,
    everybody: bool = False,
    within: float | None = None,
    days: int = DAYS,
) -> Renewal:
    """Renew the certificates of clients, "coordinator", "server" or "authority".

    `everybody`: all clients, the coordinator and the server. `within`: of these only certificates
    that expire within this number of days, or are unreadable. `days`: validity of clients' ones.
    """
    integer("days", days)
    with opened(Path(folder)) as (place, old, authority):
        settings = old.settings
        chosen = _chosen(place, old, names, everybody, within)
        renewed: dict[str, datetime] = {}
        if THE_AUTHORITY in chosen:
            authority = authority.renewed()
            _write_authority(place, authority)
            renewed[THE_AUTHORITY] = authority.certificate.not_valid_after_utc
        clients = [name for name in chosen if name in old.clients]
        # A client that made its key keeps it; and a new key would need a new roster.
        pinned = roster(place) is not None
        keys = {n: m.public_key for n, m in old.members.items() if m.own_key or pinned}
        issued = issue(authority, old, clients, days, keys)
        if COORDINATOR in chosen:
            issued |= issue(authority, old, [COORDINATOR], CA_DAYS)
        serial = None
        if THE_SERVER in chosen:  # first: nats-server's configuration needs a valid one
            server = _write_server(place, authority, old)
            renewed[THE_SERVER], serial = Certificate(server.certificate).ends, server.serial
        registry = old.with_issued(issued)
        write_accounts(place / SERVER, registry)  # no change, unless somebody edited the file
        registry.write(place / AUTHORITY)
        contexts = {}
        for name, certificate in issued.items():
            _write_bundle(place, registry, authority, name, certificate)
            renewed[name] = Certificate(certificate.certificate).ends
            contexts[name] = context_of(place, authority, registry, name, certificate)
        verified = verify(place, settings, contexts, wanted=True)
        if verified:
            _check_server(place, registry, authority, serial)
        folders = {name: place / place_of(name) for name in clients}
        return Renewal(renewed, folders, verified)


def _chosen(
    place: Path, registry: Registry, names: Sequence[str], everybody: bool, within: float | None
) -> list[str]:
    """Return the names to renew, the authority first."""
    for name in names:
        if name not in (THE_AUTHORITY, THE_SERVER, COORDINATOR):
            check_name("client", name)
            registry.check_known([name])
        if list(names).count(name) > 1:
            raise InvalidInput("client", name, "each name once")
    out = [*names] if not everybody else [THE_SERVER, COORDINATOR, *registry.clients]
    if within is not None:
        number("within", within, at_least=0.0)
        limit = datetime.now(UTC) + timedelta(days=within)
        last = {name: ends(place, registry, name) for name in out}
        out = [name for name in out if (end := last[name]) is None or end <= limit]
    return sorted(out, key=lambda name: (name != THE_AUTHORITY, out.index(name)))


def _write_authority(place: Path, authority: Authority) -> None:
    """Replace the authority's certificate everywhere in the operator's folder."""
    authority.write(place / AUTHORITY)
    for path in (place / SERVER / CA, place / COORDINATOR / CA, *place.glob(f"clients/*/{CA}")):
        if path.exists():
            atomic_write(path, authority.pem, mode=0o644)


def _write_server(place: Path, authority: Authority, registry: Registry) -> IssuedCertificate:
    """Write the server's certificate and other missing files of its folder."""
    settings, configuration = registry.settings, place / SERVER / nats_config.NATS
    if not configuration.exists():
        text = nats_config.nats(place / SERVER, settings.bind, settings.port, limits(settings))
        atomic_write(configuration, text.encode(), mode=0o600)
    atomic_write(place / SERVER / CA, authority.pem, mode=0o644)
    issued = authority.issue(f"{settings.federation}/server", settings.hosts, CA_DAYS)
    issued.write(place / SERVER / "server.pem", place / SERVER / "server.key")
    return issued


def _write_bundle(
    place: Path, registry: Registry, authority: Authority, name: str, issued: IssuedCertificate
) -> None:
    """Write a member's folder; if it exists (and may be in use), only certificate and key."""
    folder = place / place_of(name)
    if folder.is_dir():
        bundle(folder, registry.settings).renew(authority.pem, issued)
        return
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=place) as unfinished:
        made = bundle(Path(unfinished, name), registry.settings)
        made.write(authority.pem, issued)
        pinned = roster(place)
        if pinned is not None:
            pinned.write(made.folder / ROSTER)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        os.rename(made.folder, folder)


def _check_server(
    place: Path, registry: Registry, authority: Authority, serial: str | None
) -> None:
    """Raise `ServerFault` unless the running server shows its new certificate."""
    if serial is None:
        return
    generation = registry.admitted[COORDINATOR]
    context = short_lived_context(place, authority, registry.settings, COORDINATOR, generation)
    server = probe(context, registry.settings)

    def shows_it() -> bool:
        shown = server.certificate()
        return shown is not None and shown.serial == serial

    if not patiently(shows_it, 5.0):
        raise ServerFault(
            "the files are changed, but after a reload the running server does not show its new "
            "certificate: see its log, and restart it"
        )
