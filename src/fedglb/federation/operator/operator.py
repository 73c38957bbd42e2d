"""The operator's folder: where a federation is made, and members are added and revoked.

* `authority/`: the federation's signing key, its settings and its members. Whoever has the key
  can make members: it never leaves this machine.
* `server/`: what nats-server reads.
* `coordinator/`, `clients/<name>/`: the folder that each member is given.
"""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedglb.errors import InvalidInput, integer
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.federation.names import COORDINATOR, identity
from fedglb.federation.operator import nats_config, nats_server
from fedglb.federation.operator.authority import CA_DAYS, DAYS, Authority
from fedglb.federation.operator.nats_server import ServerFault, wait_until_admitted
from fedglb.federation.operator.registry import FederationSettings, Registry
from fedglb.io.atomic import UNFINISHED, atomic_write, remove_unfinished
from fedglb.io.lock import exclusive_lock

AUTHORITY, SERVER, CLIENTS = "authority", "server", "clients"
_BUSY = "another command of the operator is running in it"
_MINUTES = 5 / (24 * 60)  # in days


@dataclass(frozen=True)
class Change:
    """What came of `add` or `revoke`.

    Parameters
    ----------
    names
        The clients.
    verified
        Whether a running server was seen to admit them (or to reject them, once revoked).
        False: none was running; the change takes effect when it starts.
    """

    names: tuple[str, ...]
    verified: bool


def init(
    folder: str | Path,
    federation: str,
    table: AgreementTable,
    clients: Sequence[str],
    hosts: Sequence[str],
    port: int = 4222,
    bind: str = "0.0.0.0",
    days: int = DAYS,
) -> Path:
    """Make the folder of a new federation, all of it or nothing.

    Parameters
    ----------
    folder
        Where to make it; new or empty.
    federation
        The federation's name.
    table
        What its members agree on.
    clients
        The first clients' names; more can be added.
    hosts
        Names and IP addresses by which clients reach the server; the first is the one that
        is written into their folders.
    port, bind
        Where the server listens: port, and an IP address of its machine.
    days
        How long the clients' certificates are valid; those of coordinator and server are valid
        as long as the authority's own, ten years.
    """
    place = Path(folder)
    _check_free(place)
    settings = FederationSettings(federation, list(hosts), port, bind, table)
    settings.check()
    integer("days", days)
    registry = Registry(settings, {})
    registry.check_new(clients)
    place.absolute().parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=place.absolute().parent))
    try:
        _build(unfinished, place, registry, clients, days)
        os.rename(unfinished, place)  # fails if somebody has made it meanwhile
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return place


def add(folder: str | Path, names: Sequence[str], days: int = DAYS) -> Change:
    """Add clients: issue certificates, reload the server, and verify that it admits them.

    A name that was revoked gets a new certificate, and its old one stays without rights.
    """
    with _opened(Path(folder)) as (place, old, authority):
        old.check_new(names)
        integer("days", days)
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=place))
        try:
            new = _issue(unfinished, authority, old, names, days)
            _write_accounts(place / SERVER, new)
            for name in names:
                # An earlier `add` that was killed may have left a folder of this name.
                shutil.rmtree(place / CLIENTS / name, ignore_errors=True)
                os.rename(unfinished / name, place / CLIENTS / name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        new.write(place / AUTHORITY)
        contexts = {name: Bundle.read(place / CLIENTS / name).tls() for name in names}
        return _verify(place, new, contexts, wanted=True)


def revoke(folder: str | Path, names: Sequence[str]) -> Change:
    """Take clients' rights away; the others stay connected.

    To verify that the running server rejects them, no client's key is needed: the authority
    issues a certificate for the same identity, valid for minutes, and it must be rejected.
    """
    with _opened(Path(folder)) as (place, old, authority):
        old.check_known(names)
        new = old.with_revoked(names)
        _write_accounts(place / SERVER, new)
        new.write(place / AUTHORITY)
        contexts = {name: _short_lived_context(place, authority, new, name) for name in names}
        change = _verify(place, new, contexts, wanted=False)
        for name in names:
            shutil.rmtree(place / CLIENTS / name, ignore_errors=True)
        return change


@contextmanager
def _opened(place: Path) -> Iterator[tuple[Path, Registry, Authority]]:
    """Lock the folder; give its path, its registry and its authority."""
    Registry.read(place / AUTHORITY)  # first: no lock file in a folder of something else
    with exclusive_lock(place, _BUSY):
        for left_over in place.glob(f"{UNFINISHED}*"):  # of a command that was killed
            shutil.rmtree(left_over, ignore_errors=True)
        yield place, Registry.read(place / AUTHORITY), Authority.read(place / AUTHORITY)


def _check_free(place: Path) -> None:
    if (place / AUTHORITY).exists():
        allowed = "another folder: this one holds a federation (`add` adds clients to it)"
        raise InvalidInput("folder", str(place), allowed)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise InvalidInput("folder", str(place), "a new or empty folder: this one is neither")


def _build(
    unfinished: Path, place: Path, registry: Registry, clients: Sequence[str], days: int
) -> None:
    """Write all files into `unfinished`, which will be renamed to `place`."""
    for name in (AUTHORITY, SERVER, CLIENTS):
        (unfinished / name).mkdir(mode=0o700)
    settings = registry.settings
    authority = Authority.new(settings.federation)
    authority.write(unfinished / AUTHORITY)
    # Coordinator and server stay on the operator's machine: their certificates end with the
    # authority's own, or the whole federation would stop on one day before that.
    registry = _issue(unfinished, authority, registry, [COORDINATOR], CA_DAYS - 1)
    registry = _issue(unfinished / CLIENTS, authority, registry, clients, days)
    registry.write(unfinished / AUTHORITY)
    server = unfinished / SERVER
    host = authority.issue(f"{settings.federation}/server", settings.hosts, CA_DAYS - 1)
    host.write(server / "server.pem", server / "server.key")
    atomic_write(server / "ca.pem", authority.pem, mode=0o644)
    atomic_write(server / nats_config.ACCOUNTS, _accounts(registry), mode=0o600)
    for folder in (unfinished, place):  # checked where it is now, then written for its place
        text = nats_config.nats(folder / SERVER, settings.bind, settings.port, _limits(settings))
        atomic_write(server / nats_config.NATS, text.encode(), mode=0o600)
        if folder is unfinished and nats_server.found():
            nats_server.check(server)


def _issue(
    where: Path, authority: Authority, registry: Registry, names: Sequence[str], days: int
) -> Registry:
    """Make the folders of new members; return the registry with them."""
    settings, serials = registry.settings, {}
    for name in names:
        who = identity(settings.federation, name, registry.next_generation(name))
        issued = authority.issue(who, days=days)
        serials[name] = issued.serial
        _bundle(where / name, settings).write(authority.pem, issued)
    return registry.with_issued(serials)


def _bundle(folder: Path, settings: FederationSettings) -> Bundle:
    """Return the bundle in a folder, which has its member's name."""
    return Bundle(folder, settings.federation, folder.name, settings.server, settings.agreement)


def _accounts(registry: Registry) -> bytes:
    head = registry.members[COORDINATOR].generation
    settings = registry.settings
    limits = _limits(settings)
    return nats_config.accounts(settings.federation, head, registry.clients, limits).encode()


def _limits(settings: FederationSettings) -> nats_config.Limits:
    agreement = settings.agreement.build()
    return nats_config.Limits(agreement.problem.dim, agreement.max_clients)


def _write_accounts(folder: Path, registry: Registry) -> None:
    """Rewrite the server's list of members; if nats-server rejects it, restore the old one."""
    remove_unfinished(folder)
    path = folder / nats_config.ACCOUNTS
    before = path.read_bytes()
    atomic_write(path, _accounts(registry), mode=0o600)
    try:
        if nats_server.found():  # if not: it runs elsewhere
            nats_server.check(folder)
    except BaseException:
        atomic_write(path, before, mode=0o600)
        raise


def _short_lived_context(
    place: Path, authority: Authority, registry: Registry, name: str
) -> ssl.SSLContext:
    """Return a TLS context with which to connect as this client, valid for minutes."""
    settings = registry.settings
    who = identity(settings.federation, name, registry.members[name].generation)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=place) as folder:
        bundle = _bundle(Path(folder, name), settings)
        bundle.write(authority.pem, authority.issue(who, days=_MINUTES))
        return bundle.tls()


def _verify(
    place: Path, registry: Registry, contexts: dict[str, ssl.SSLContext], wanted: bool
) -> Change:
    """Reload a running server, and see for every name that it admits or rejects it as wanted."""
    names = tuple(contexts)
    if not nats_server.reload(place / SERVER):
        return Change(names, verified=False)
    settings = registry.settings
    for name, context in contexts.items():
        if not wait_until_admitted(wanted, context, settings.local, settings.hosts[0]):
            does = "does not admit" if wanted else "does not reject"
            raise ServerFault(
                f"the files are changed, but after a reload the running server {does} {name!r}: "
                "see its log, and restart it"
            )
    return Change(names, verified=True)
