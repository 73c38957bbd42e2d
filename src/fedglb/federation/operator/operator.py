"""The operator's actions: create a federation, add and revoke clients."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from fedglb.errors import InvalidInput, integer
from fedglb.features import Features
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.certificates import IssuedCertificate
from fedglb.federation.frozen import write_frozen
from fedglb.federation.key_request import KeyRequest, requested_keys
from fedglb.federation.names import COORDINATOR
from fedglb.federation.operator import nats_config, nats_server
from fedglb.federation.operator.authority import CA_DAYS, DAYS, Authority
from fedglb.federation.operator.folder import (
    AUTHORITY,
    CLIENTS,
    SERVER,
    accounts,
    bundle,
    context_of,
    first_limits,
    issue,
    min_members,
    opened,
    place_of,
    short_lived_context,
    verify,
    write_accounts,
    write_roster,
)
from fedglb.federation.operator.registry import FederationSettings, Registry
from fedglb.io.atomic import UNFINISHED, atomic_write


def init(
    folder: str | Path,
    federation: str,
    table: AgreementTable,
    clients: Sequence[str],
    hosts: Sequence[str],
    port: int = 4222,
    bind: str = "0.0.0.0",
    days: int = DAYS,
    requests: Sequence[KeyRequest] = (),
) -> Path:
    """Create a federation's folder atomically; it must be new or empty.

    `hosts` are names and IP addresses of the server; the first is written into the clients'
    folders. It listens at `bind` and `port`. Clients' certificates are valid for `days`, the
    coordinator's and the server's for ten years, like the authority's. `requests` are of clients
    that made their own keys; the others' keys are made here.
    """
    place = Path(folder)
    _check_free(place)
    settings = FederationSettings(federation, list(hosts), port, bind, table)
    settings.check()
    integer("days", days)
    registry = Registry(settings, {})
    registry.check_new(clients)
    keys = _checked(registry, requests, clients)
    if table.minimum is not None:  # raise for too few clients before creating anything
        table.build().with_roster(b"", clients)
    place.absolute().parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=place.absolute().parent))
    try:
        _build(unfinished, place, registry, clients, days, keys)
        os.rename(unfinished, place)  # fails if another process has created it meanwhile
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return place


def add(
    folder: str | Path,
    names: Sequence[str],
    days: int = DAYS,
    requests: Sequence[KeyRequest] = (),
) -> bool:
    """Add clients: issue certificates, reload the server, and verify that it admits them.

    A revoked name gets a new certificate; its old one stays revoked. `requests` are of clients that
    made their own keys; the others' keys are made here. Returns whether a running server admits
    them.
    """
    with opened(Path(folder)) as (place, old, authority):
        old.check_new(names)
        integer("days", days)
        keys = _checked(old, requests, names)
        _check_enough(old, names)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=place) as unfinished:
            new, issued = _add(Path(unfinished), authority, old, names, days, keys)
            write_accounts(place / SERVER, new)
            for name in names:
                # An earlier `add` that was killed may have left a folder of this name.
                shutil.rmtree(place / CLIENTS / name, ignore_errors=True)
                os.rename(unfinished / place_of(name), place / place_of(name))
        write_roster(place, new)
        new.write(place / AUTHORITY)  # last: until then the command can be given again
        contexts = {
            name: context_of(place, authority, new, name, each) for name, each in issued.items()
        }
        return verify(place, new.settings, contexts, wanted=True)


def revoke(folder: str | Path, names: Sequence[str]) -> bool:
    """Revoke clients; the others stay connected.

    With secure sums the next roster is without them, unless too few would be left: then it stays,
    and there are no sums until clients are added.

    Verifying that the running server rejects them needs no client's key: the authority issues a
    certificate for the same identity, valid for minutes, which the server must reject. Returns
    whether a running server did.
    """
    with opened(Path(folder)) as (place, old, authority):
        old.check_known(names)
        new = old.with_revoked(names)
        write_accounts(place / SERVER, new)
        for name in names:
            shutil.rmtree(place / CLIENTS / name, ignore_errors=True)
        write_roster(place, new)
        contexts = {
            name: short_lived_context(place, authority, new.settings, name, old.admitted[name])
            for name in names
        }
        try:
            return verify(place, new.settings, contexts, wanted=False)
        finally:  # after the reload: until it is done the command can be given again
            new.write(place / AUTHORITY)


def change_features(folder: str | Path, features: Features) -> tuple[int, bool]:
    """Give a federation another schema of records; return its number, and whether it is new.

    First the operator's own copy is written, last the coordinator's: a running coordinator takes
    it up from there and sends it to the agents. A command that was killed can be given again.
    """
    with opened(Path(folder)) as (place, old, _):
        table, before = old.settings.agreement, old.settings.agreement.build()
        if before.features is None:
            allowed = "a federation with a schema: this one was made with --dim"
            raise InvalidInput("folder", str(folder), allowed)
        solver = before.algorithm.global_update
        if solver is not None and solver.one_pass:  # as with privacy and with secure sums
            allowed = f"the schema as it is: with {before.algorithm.name} each sample is sent once"
            raise InvalidInput("features", f"revision {before.revision + 1}", allowed)
        changed = features != before.features
        revision = before.revision + changed
        table = msgspec.structs.replace(table, features=features.plain(), revision=revision)
        _ = table.build()  # raises if the model does not fit into a message
        new = replace(old, settings=msgspec.structs.replace(old.settings, agreement=table))
        new.write_settings(place / AUTHORITY)
        write_accounts(place / SERVER, new)
        nats_server.reload(place / SERVER)
        if changed:  # there is no model of the new schema to be frozen at
            write_frozen(place / place_of(COORDINATOR), None)
        for name in (*new.clients, COORDINATOR):
            member = place / place_of(name)
            if member.is_dir():
                bundle(member, new.settings).write_agreement()
        return revision, changed


def check_empty(place: Path) -> None:
    """Raise `InvalidInput` unless a folder is new or empty."""
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise InvalidInput("folder", str(place), "a new or empty folder: this one is neither")


def _check_free(place: Path) -> None:
    if (place / AUTHORITY).exists():
        allowed = "another folder: this one holds a federation (`add` adds clients to it)"
        raise InvalidInput("folder", str(place), allowed)
    check_empty(place)


def _build(
    unfinished: Path,
    place: Path,
    registry: Registry,
    clients: Sequence[str],
    days: int,
    keys: Mapping[str, bytes],
) -> None:
    """Write all files into `unfinished`, which will be renamed to `place`."""
    for name in (AUTHORITY, SERVER, CLIENTS):
        (unfinished / name).mkdir(mode=0o700)
    settings = registry.settings
    authority = Authority.new(settings.federation)
    authority.write(unfinished / AUTHORITY)
    # Coordinator and server stay on the operator's machine: their certificates last as long as
    # the authority's, so that the federation does not stop earlier.
    registry, _ = _add(unfinished, authority, registry, [COORDINATOR], CA_DAYS, {})
    registry, _ = _add(unfinished, authority, registry, clients, days, keys)
    registry.write(unfinished / AUTHORITY)
    write_roster(unfinished, registry)
    server = unfinished / SERVER
    host = authority.issue(f"{settings.federation}/server", settings.hosts, CA_DAYS)
    host.write(server / "server.pem", server / "server.key")
    atomic_write(server / "ca.pem", authority.pem, mode=0o644)
    atomic_write(server / nats_config.ACCOUNTS, accounts(registry), mode=0o600)
    for folder in (unfinished, place):  # first checked with paths of `unfinished`
        text = nats_config.nats(
            folder / SERVER, settings.bind, settings.port, first_limits(settings)
        )
        atomic_write(server / nats_config.NATS, text.encode(), mode=0o600)
        if folder is unfinished and nats_server.found():
            nats_server.check(server)


def _checked(
    registry: Registry, requests: Sequence[KeyRequest], names: Sequence[str]
) -> dict[str, bytes]:
    """Return the keys of these requests by client; raise unless all can be used."""
    keys = requested_keys(requests, names)
    registry.check_keys(keys)
    return keys


def _check_enough(registry: Registry, names: Sequence[str]) -> None:
    """Raise if with these clients there would still be too few for a secure sum."""
    least, count = min_members(registry.settings), len(registry.clients) + len(names)
    if count < least:
        allowed = f"{least - count} more clients: every secure sum needs {least} members"
        raise InvalidInput("clients", list(names), allowed)


def _add(
    where: Path,
    authority: Authority,
    registry: Registry,
    names: Sequence[str],
    days: int,
    keys: Mapping[str, bytes],
) -> tuple[Registry, dict[str, IssuedCertificate]]:
    """Make the folders of new members; return the registry with them, and their certificates."""
    issued = issue(authority, registry, names, days, keys)
    for name, certificate in issued.items():
        folder = where / place_of(name)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        bundle(folder, registry.settings).write(authority.pem, certificate)
    return registry.with_issued(issued), issued
