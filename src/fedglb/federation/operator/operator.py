"""The operator's folder: a federation is made here, members come and go.

* `authority/`: the federation's signature and who was ever let in. Whoever has it can make
  members: it never leaves this machine.
* `server/`: what nats-server reads.
* `coordinator/`, `clients/<name>/`: what each member is given.
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
from fedglb.federation.operator.registry import Registry, Settled
from fedglb.io.atomic import UNFINISHED, atomic_write, remove_unfinished
from fedglb.io.lock import exclusive_lock

AUTHORITY, SERVER, CLIENTS = "authority", "server", "clients"
_BUSY = "another command of the operator is at work in it"
_MINUTES = 5 / (24 * 60)  # in days


@dataclass(frozen=True)
class Change:
    """What came of `add` or `revoke`.

    Parameters
    ----------
    names
        The clients.
    verified
        Whether a running server was seen to let them in (or to refuse them, once revoked).
        False: none was running; the change holds from its next start.
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
        Where; it must not hold anything.
    federation
        The federation's name.
    table
        What its members agree on.
    clients
        The first clients' names; more can be added.
    hosts
        Names and IP addresses under which clients reach the server; the first is the one that
        they are told.
    port, bind
        Where the server listens: port, and an IP address of its machine.
    days
        How long the clients' certificates are good; those of coordinator and server are as long
        as the authority's own, ten years.
    """
    place = Path(folder)
    _check_free(place)
    settled = Settled(federation, list(hosts), port, bind, table)
    settled.check()
    integer("days", days)
    registry = Registry(settled, {})
    registry.check_new(clients)
    place.absolute().parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=place.absolute().parent))
    try:
        _build(unfinished, place, registry, clients, days)
        os.rename(unfinished, place)  # fails if somebody was faster
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return place


def add(folder: str | Path, names: Sequence[str], days: int = DAYS) -> Change:
    """Let clients in: certificates, the server's configuration, a reload, and a look.

    A name that was revoked gets a new certificate, and its old one stays without rights.
    """
    with _at_work(Path(folder)) as (place, old, authority):
        old.check_new(names)
        integer("days", days)
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=place))
        try:
            new = _issue(unfinished, authority, old, names, days)
            _admit(place / SERVER, new)
            for name in names:
                # What lies there under a name without rights is a rest of an earlier life.
                shutil.rmtree(place / CLIENTS / name, ignore_errors=True)
                os.rename(unfinished / name, place / CLIENTS / name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        new.write(place / AUTHORITY)
        contexts = {name: Bundle.read(place / CLIENTS / name).tls() for name in names}
        return _verify(place, new, contexts, wanted=True)


def revoke(folder: str | Path, names: Sequence[str]) -> Change:
    """Take clients' rights away; the others stay connected.

    The look at the running server needs no client's key: the authority makes out a certificate
    of the same identity, good for minutes, and it must be refused.
    """
    with _at_work(Path(folder)) as (place, old, authority):
        old.check_known(names)
        new = old.with_revoked(names)
        _admit(place / SERVER, new)
        new.write(place / AUTHORITY)
        contexts = {name: _stand_in(place, authority, new, name) for name in names}
        change = _verify(place, new, contexts, wanted=False)
        for name in names:
            shutil.rmtree(place / CLIENTS / name, ignore_errors=True)
        return change


@contextmanager
def _at_work(place: Path) -> Iterator[tuple[Path, Registry, Authority]]:
    """Hold the folder, alone; give what its authority knows, and its signature."""
    Registry.read(place / AUTHORITY)  # first: a folder of something else gets no lock file
    with exclusive_lock(place, _BUSY):
        for rest in place.glob(f"{UNFINISHED}*"):  # of a command that was killed
            shutil.rmtree(rest, ignore_errors=True)
        yield place, Registry.read(place / AUTHORITY), Authority.read(place / AUTHORITY)


def _check_free(place: Path) -> None:
    if (place / AUTHORITY).exists():
        allowed = "another folder: this one holds a federation (`add` lets more clients in)"
        raise InvalidInput("folder", str(place), allowed)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise InvalidInput("folder", str(place), "a new or empty folder: this one is neither")


def _build(
    unfinished: Path, place: Path, registry: Registry, clients: Sequence[str], days: int
) -> None:
    """Fill the folder under its first name."""
    for name in (AUTHORITY, SERVER, CLIENTS):
        (unfinished / name).mkdir(mode=0o700)
    settled = registry.settled
    authority = Authority.new(settled.federation)
    authority.write(unfinished / AUTHORITY)
    # Coordinator and server stay on the operator's machine: their certificates end with the
    # authority's own, or the whole federation would stand still on one day before that.
    registry = _issue(unfinished, authority, registry, [COORDINATOR], CA_DAYS - 1)
    registry = _issue(unfinished / CLIENTS, authority, registry, clients, days)
    registry.write(unfinished / AUTHORITY)
    ours = unfinished / SERVER
    host = authority.issue(f"{settled.federation}/server", settled.hosts, CA_DAYS - 1)
    host.write(ours / "server.pem", ours / "server.key")
    atomic_write(ours / "ca.pem", authority.pem, mode=0o644)
    atomic_write(ours / nats_config.ACCOUNTS, _accounts(registry), mode=0o600)
    for lies in (unfinished, place):  # checked where it lies now, then for its last place
        text = nats_config.nats(lies / SERVER, settled.bind, settled.port)
        atomic_write(ours / nats_config.NATS, text.encode(), mode=0o600)
        if lies is unfinished and nats_server.found():
            nats_server.check(ours)


def _issue(
    where: Path, authority: Authority, registry: Registry, names: Sequence[str], days: int
) -> Registry:
    """Make the folders of new members; return the registry with them."""
    settled, serials = registry.settled, {}
    for name in names:
        who = identity(settled.federation, name, registry.next_generation(name))
        issued = authority.issue(who, days=days)
        serials[name] = issued.serial
        _bundle(where / name, settled).write(authority.pem, issued)
    return registry.with_issued(serials)


def _bundle(folder: Path, settled: Settled) -> Bundle:
    """Return the folder's member; the folder has the member's name."""
    return Bundle(folder, settled.federation, folder.name, settled.server, settled.agreement)


def _accounts(registry: Registry) -> bytes:
    head = registry.members[COORDINATOR].generation
    text = nats_config.accounts(registry.settled.federation, head, registry.clients)
    return text.encode()


def _admit(folder: Path, registry: Registry) -> None:
    """Rewrite the server's list of members; if nats-server refuses it, the old one is back."""
    remove_unfinished(folder)
    path = folder / nats_config.ACCOUNTS
    before = path.read_bytes()
    atomic_write(path, _accounts(registry), mode=0o600)
    try:
        if nats_server.found():  # it may run elsewhere
            nats_server.check(folder)
    except BaseException:
        atomic_write(path, before, mode=0o600)
        raise


def _stand_in(place: Path, authority: Authority, registry: Registry, name: str) -> ssl.SSLContext:
    """Return the means to knock as this client, for minutes."""
    settled = registry.settled
    who = identity(settled.federation, name, registry.members[name].generation)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=place) as folder:
        bundle = _bundle(Path(folder, name), settled)
        bundle.write(authority.pem, authority.issue(who, days=_MINUTES))
        return bundle.tls()


def _verify(
    place: Path, registry: Registry, contexts: dict[str, ssl.SSLContext], wanted: bool
) -> Change:
    """Reload a running server and see for every name that it does as it is told."""
    names = tuple(contexts)
    if not nats_server.reload(place / SERVER):
        return Change(names, verified=False)
    settled = registry.settled
    for name, context in contexts.items():
        if not wait_until_admitted(wanted, context, settled.local, settled.hosts[0]):
            does = "does not let in" if wanted else "does not refuse"
            raise ServerFault(
                f"the files are changed, but after a reload the running server {does} {name!r}: "
                "see its log, and restart it"
            )
    return Change(names, verified=True)
