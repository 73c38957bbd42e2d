"""The operator's folder: opened by one command at a time, its files written and verified.

* `authority/`: the federation's signing key, its settings and its members. Anyone with the key can
  add members: it never leaves this machine.
* `server/`: nats-server's configuration.
* `coordinator/`, `clients/<name>/`: each member's folder.
"""

from __future__ import annotations

import shutil
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedglb.federation.agreement import LARGEST_MODEL
from fedglb.federation.bundle import Bundle
from fedglb.federation.certificates import IssuedCertificate
from fedglb.federation.names import COORDINATOR, identity
from fedglb.federation.operator import nats_config, nats_server
from fedglb.federation.operator.authority import Authority
from fedglb.federation.operator.nats_server import ServerFault
from fedglb.federation.operator.registry import FederationSettings, Registry
from fedglb.federation.probe import Probe
from fedglb.federation.secure_sums.roster import FILE as ROSTER
from fedglb.federation.secure_sums.roster import Roster
from fedglb.io.atomic import UNFINISHED, atomic_write, exclusive_lock, remove_unfinished

AUTHORITY, SERVER, CLIENTS = "authority", "server", "clients"
_BUSY = "another command of the operator is running in it"
_MINUTES = 5 / (24 * 60)  # in days


@contextmanager
def opened(place: Path) -> Iterator[tuple[Path, Registry, Authority]]:
    """Lock the folder; yield its path, its registry and its authority."""
    Registry.read(place / AUTHORITY)  # first: no lock file in another kind of folder
    with exclusive_lock(place, _BUSY):
        for left_over in place.glob(f"{UNFINISHED}*"):  # of a killed command
            shutil.rmtree(left_over, ignore_errors=True)
        yield place, Registry.read(place / AUTHORITY), Authority.read(place / AUTHORITY)


def place_of(name: str) -> Path:
    """Return the path of a member's folder in the operator's folder."""
    return Path(COORDINATOR) if name == COORDINATOR else Path(CLIENTS, name)


def issue(
    authority: Authority,
    registry: Registry,
    names: Sequence[str],
    days: float,
    keys: Mapping[str, bytes] | None = None,
) -> dict[str, IssuedCertificate]:
    """Issue each member's next certificate, for its key in `keys` if present."""
    federation, known = registry.settings.federation, keys or {}
    return {
        name: authority.issue(
            identity(federation, name, registry.next_generation(name)),
            days=days,
            public_key=known.get(name),
        )
        for name in names
    }


def roster(place: Path) -> Roster | None:
    """Return the roster of a federation with secure sums, or None."""
    path = place / AUTHORITY / ROSTER
    return Roster.read(path) if path.exists() else None


def min_members(settings: FederationSettings) -> int:
    """Return the smallest number of members in a secure sum, 0 without secure sums."""
    agreement = settings.agreement.build()
    return 0 if agreement.minimum is None else agreement.min_members


def write_roster(place: Path, registry: Registry) -> None:
    """Write the roster of all clients to the authority's and all members' folders.

    Not if they are too few for a secure sum: under such a roster no agent would start.
    """
    least = min_members(registry.settings)
    if not least or len(registry.clients) < least:
        return
    roster = Roster({name: registry.members[name].public_key for name in registry.clients})
    for folder in (place / COORDINATOR, *sorted((place / CLIENTS).glob("*"))):
        if folder.is_dir():
            roster.write(folder / ROSTER)
    roster.write(place / AUTHORITY / ROSTER)


def bundle(folder: Path, settings: FederationSettings) -> Bundle:
    """Return the bundle in a folder named after the member."""
    return Bundle(folder, settings.federation, folder.name, settings.server, settings.agreement)


def accounts(registry: Registry) -> bytes:
    """Return the server's list of members."""
    settings = registry.settings
    return nats_config.accounts(settings.federation, registry.admitted, limits(settings)).encode()


def limits(settings: FederationSettings) -> nats_config.ServerLimits:
    """Return the server's limits for a federation of this size."""
    agreement = settings.agreement.build()
    return nats_config.ServerLimits(agreement.largest_answer, agreement.max_clients)


def first_limits(settings: FederationSettings) -> nats_config.ServerLimits:
    """Return the limits for `nats.conf`, which never changes: a running server cannot reload it.

    So with a schema of records, which may grow, they are those of the largest model.
    """
    agreement = settings.agreement
    if agreement.features is None:
        return limits(settings)
    return nats_config.ServerLimits(LARGEST_MODEL, agreement.max_clients)


def write_accounts(folder: Path, registry: Registry) -> None:
    """Rewrite the server's list of members; if nats-server rejects it, restore the old one."""
    remove_unfinished(folder)
    path = folder / nats_config.ACCOUNTS
    before = path.read_bytes() if path.exists() else accounts(registry)
    atomic_write(path, accounts(registry), mode=0o600)
    try:
        if nats_server.found():  # else the server runs elsewhere
            nats_server.check(folder)
    except BaseException:
        atomic_write(path, before, mode=0o600)
        raise


def short_lived_context(
    place: Path, authority: Authority, settings: FederationSettings, name: str, generation: int
) -> ssl.SSLContext:
    """Return a TLS context for a member's identity, valid for minutes."""
    who = identity(settings.federation, name, generation)
    with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=place) as folder:
        made = bundle(Path(folder, name), settings)
        made.write(authority.pem, authority.issue(who, days=_MINUTES))
        return made.tls()


def context_of(
    place: Path, authority: Authority, registry: Registry, name: str, issued: IssuedCertificate
) -> ssl.SSLContext:
    """Return a TLS context for a member's new certificate, or its identity if its key is away."""
    if issued.key:
        return bundle(place / place_of(name), registry.settings).tls()
    generation = registry.admitted[name]
    return short_lived_context(place, authority, registry.settings, name, generation)


def probe(context: ssl.SSLContext, settings: FederationSettings) -> Probe:
    """Return a probe of the server on this machine."""
    return Probe(context, settings.local, settings.hosts[0])


def verify(
    place: Path,
    settings: FederationSettings,
    contexts: Mapping[str, ssl.SSLContext],
    wanted: bool,
) -> bool:
    """Reload a running server, and check for each name that it is admitted (or rejected).

    False: no server runs; the change takes effect at its start.
    """
    if not nats_server.reload(place / SERVER):
        return False
    for name, context in contexts.items():
        if not probe(context, settings).wait_until_admitted(wanted):
            does = "does not admit" if wanted else "does not reject"
            raise ServerFault(
                f"the files are changed, but after a reload the running server {does} {name!r}: "
                "see its log, and restart it"
            )
    return True
