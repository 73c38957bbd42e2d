"""Certificates renewed while everybody stays connected: the old ones overlap with the new.

A client's or the coordinator's renewed certificate is of the next generation, and the server admits
both until the new one is seen in use or the overlap is over. The server's own certificate has no
overlap: clients trust the authority, not a certificate. The authority keeps its key, so that what
it issued under its old certificate is good under the new one, and the other way round.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fedglb.errors import InvalidInput, integer, number
from fedglb.federation.bundle import CA
from fedglb.federation.certificates import Certificate, IssuedCertificate
from fedglb.federation.names import COORDINATOR, check_name, identity
from fedglb.federation.operator import nats_config, nats_server
from fedglb.federation.operator.authority import CA_DAYS, DAYS, Authority
from fedglb.federation.operator.folder import (
    AUTHORITY,
    SERVER,
    Monitor,
    bundle,
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
from fedglb.federation.operator.registry import THE_AUTHORITY, THE_SERVER, Registry
from fedglb.federation.probe import patiently
from fedglb.federation.secure_sums.roster import FILE as ROSTER
from fedglb.io.atomic import UNFINISHED, atomic_write

OVERLAP = 30  # days
_TO_SWITCH = 15.0  # seconds in which a running coordinator finds its new certificate


@dataclass(frozen=True)
class Renewal:
    """What came of `renew`.

    Parameters
    ----------
    renewed
        Who has a new certificate, and when it ends.
    folders
        The clients' new folders, to be moved to their machines.
    overlapping
        Members whose old certificate is admitted still, and until when.
    ended
        Members whose old certificate is admitted no longer.
    verified
        Whether a running server was seen to act on it; False: none is running.
    """

    renewed: Mapping[str, datetime] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)
    overlapping: Mapping[str, datetime] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    verified: bool = False


def renew(
    folder: str | Path,
    names: Sequence[str] = (),
    *,
    everybody: bool = False,
    within: float | None = None,
    days: int = DAYS,
    overlap: float = OVERLAP,
) -> Renewal:
    """Renew certificates, and end the overlaps of earlier renewals that are over.

    Parameters
    ----------
    folder
        The operator's folder.
    names
        Clients, "coordinator", "server" or "authority".
    everybody
        All clients, the coordinator and the server.
    within
        Of those only the ones whose certificate ends within this many days, or at a time that
        nobody has written down.
    days
        How long clients' certificates are valid.
    overlap
        For how many days the old ones are admitted, if the new ones are not seen in use before.
    """
    integer("days", days)
    number("overlap", overlap, at_least=0.0)
    with opened(Path(folder)) as (place, old, authority):
        chosen = _chosen(place, old, names, everybody, within)
        renewed: dict[str, datetime] = {}
        registry, ended = _without_old(place, old, authority)
        if THE_AUTHORITY in chosen:
            authority = authority.renewed()
            _write_authority(place, authority)
            renewed[THE_AUTHORITY] = authority.certificate.not_valid_after_utc
        members = [name for name in chosen if name not in (THE_AUTHORITY, THE_SERVER)]
        pinned = roster(place)
        issued = {
            **issue(authority, registry, [n for n in members if n == COORDINATOR], CA_DAYS),
            # The roster has each client's key: another one would be another roster.
            **issue(
                authority,
                registry,
                [n for n in members if n != COORDINATOR],
                days,
                None if pinned is None else pinned.keys,
            ),
        }
        serial = None
        if THE_SERVER in chosen:  # first: nats-server rejects a configuration without a sound one
            server = _write_server(place, authority, registry)
            renewed[THE_SERVER], serial = Certificate(server.certificate).ends, server.serial
        registry = registry.with_renewed(issued, overlap)
        write_accounts(place / SERVER, registry)
        registry.write(place / AUTHORITY)
        # The server admits the new certificates before they are where an agent finds them.
        running = nats_server.reload(place / SERVER)
        for name, certificate in issued.items():
            _write_bundle(place, registry, authority, name, certificate)
            renewed[name] = Certificate(certificate.certificate).ends
        if running:
            contexts = {
                name: [
                    bundle(place / place_of(name), registry.settings).tls()
                    if issued[name].key
                    else short_lived_context(
                        place, authority, registry.settings, name, registry.members[name].generation
                    )
                ]
                for name in issued
            }
            verify(place, registry.settings, contexts, wanted=True)
            _check_server(place, registry, authority, serial)
            if COORDINATOR in issued:
                registry, more = _wait_for_coordinator(place, registry, authority)
                ended += more
        return Renewal(
            renewed,
            {name: place / place_of(name) for name in issued if name != COORDINATOR},
            {name: datetime.fromisoformat(member.earlier[-1].until)
             for name, member in registry.overlapping.items()},
            ended,
            running,
        )  # fmt: skip


def _chosen(
    place: Path, registry: Registry, names: Sequence[str], everybody: bool, within: float | None
) -> list[str]:
    """Return whom to renew, the authority first."""
    clients = registry.clients
    for name in {THE_AUTHORITY, THE_SERVER} & set(clients):  # from before they were refused
        allowed = "a federation without a client of this name, which means something else here: "
        raise InvalidInput("client", name, f"{allowed}revoke it, and add it under another name")
    for name in names:
        if name not in (THE_AUTHORITY, THE_SERVER, COORDINATOR):
            check_name("client", name)
            registry.check_known([name])
        if list(names).count(name) > 1:
            raise InvalidInput("client", name, "every name once")
    out = [*names] if not everybody else [THE_SERVER, COORDINATOR, *clients]
    if within is not None:
        number("within", within, at_least=0.0)
        limit = datetime.now(UTC) + timedelta(days=within)
        last = {name: ends(place, registry, name) for name in out}
        out = [name for name in out if (end := last[name]) is None or end <= limit]
    return sorted(out, key=lambda name: (name != THE_AUTHORITY, out.index(name)))


def _write_authority(place: Path, authority: Authority) -> None:
    """Put the authority's new certificate wherever its old one is, in the operator's folder."""
    authority.write(place / AUTHORITY)
    for path in (place / SERVER / CA, place / COORDINATOR / CA, *place.glob(f"clients/*/{CA}")):
        if path.exists():
            atomic_write(path, authority.pem, mode=0o644)


def _write_server(place: Path, authority: Authority, registry: Registry) -> IssuedCertificate:
    """Write the server's certificate, and what else is missing from its folder."""
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
    """Write a member's folder; in one that is there, and in use perhaps, only the certificate."""
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
    generation = registry.members[COORDINATOR].generation
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


def _without_old(
    place: Path, registry: Registry, authority: Authority
) -> tuple[Registry, tuple[str, ...]]:
    """Return the registry without the certificates whose overlap is over, and whose they were."""
    if not registry.overlapping:
        return registry, ()
    monitor = Monitor.of(place, authority, registry.settings)
    running = nats_server.running(place / SERVER) is not None

    def in_use(name: str, generation: int) -> bool:
        who = identity(registry.settings.federation, name, generation)
        return running and monitor.is_connected(who) is True

    return _pruned(registry, in_use)


def _pruned(
    registry: Registry, in_use: Callable[[str, int], bool]
) -> tuple[Registry, tuple[str, ...]]:
    out, ended, now = registry, [], datetime.now(UTC)
    for name, member in registry.overlapping.items():
        used = [g for g in member.admitted if g > member.admitted[0] and in_use(name, g)]
        out = out.without_earlier(name, max(used, default=0), now)
        if out.members[name].admitted != member.admitted:
            ended.append(name)
    return out, tuple(ended)


def _wait_for_coordinator(
    place: Path, registry: Registry, authority: Authority
) -> tuple[Registry, tuple[str, ...]]:
    """Wait until a running coordinator uses its new certificate; then end the overlap."""
    monitor, member = Monitor.of(place, authority, registry.settings), registry.members[COORDINATOR]

    def connected(generation: int) -> bool:
        who = identity(registry.settings.federation, COORDINATOR, generation)
        return monitor.is_connected(who) is True

    if not any(connected(generation) for generation in member.admitted):
        return registry, ()  # none is running
    if not patiently(lambda: connected(member.generation), _TO_SWITCH):
        return registry, ()
    new, ended = _pruned(registry, lambda name, g: name == COORDINATOR and connected(g))
    write_accounts(place / SERVER, new)
    new.write(place / AUTHORITY)
    nats_server.reload(place / SERVER)
    return new, ended
