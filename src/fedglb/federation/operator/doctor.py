"""`doctor` for an operator's folder: its files, all certificates, and the running server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec

from fedglb.errors import InvalidInput
from fedglb.federation.agreement import ROSTER
from fedglb.federation.bundle import KEY, Bundle
from fedglb.federation.certificates import Certificate
from fedglb.federation.doctor import (
    SOON,
    Finding,
    attempt,
    clock,
    fact_in,
    lasting,
    private,
    reach,
    room,
    server_version,
    software,
    sqlite_file,
)
from fedglb.federation.names import COORDINATOR, THE_AUTHORITY
from fedglb.federation.operator import nats_config, nats_server
from fedglb.federation.operator.authority import RESTORE, Authority
from fedglb.federation.operator.folder import (
    AUTHORITY,
    CLIENTS,
    SERVER,
    accounts,
    min_members,
    roster,
)
from fedglb.federation.operator.listing import ends
from fedglb.federation.operator.nats_server import ServerFault
from fedglb.federation.operator.registry import MEMBERS, SETTINGS, Registry
from fedglb.federation.secure_sums.roster import Roster

_STATE = "state.db"
_INTERRUPTED = "if an add or revoke was interrupted, give it again"
_AUTHORITY_SOON = timedelta(days=365)  # every client needs a renewed bundle by then


def operator(place: Path) -> list[Finding]:
    """Check an operator's folder and its server."""
    out = attempt("software", software) + attempt("nats-server", _program)
    out += attempt("permissions", lambda: private(_secrets(place)))
    out += attempt("disk", lambda: [room(place)])
    try:
        registry, authority = Registry.read(place / AUTHORITY), Authority.read(place / AUTHORITY)
    except InvalidInput as error:
        return [*out, Finding(AUTHORITY, "fault", str(error))]
    own = Certificate(authority.pem)
    out.append(Finding(AUTHORITY, "ok", f"{registry.settings.federation}: files are readable"))
    out += attempt("certificate", lambda: _ends(place, registry))
    out += attempt("server files", lambda: _server_files(place, registry, own))
    out += attempt("agreement", lambda: _agreements(place, registry))
    state = place / COORDINATOR / _STATE
    out += attempt("state", lambda: [sqlite_file("state", state, "coordinator")])
    return out + attempt("server", lambda: _server(place))


def _secrets(place: Path) -> Iterator[Path]:
    yield place
    yield place / AUTHORITY
    for pattern in (
        "authority/*.key",
        f"authority/{MEMBERS}",
        "server/*.key",
        f"*/{KEY}",
        f"*/*/{KEY}",
    ):
        yield from place.glob(pattern)


def _program() -> Iterator[Finding]:
    path = nats_server.found()
    if path is None:
        how = "install it, unless it runs elsewhere or in a container"
        yield Finding("nats-server", "warning", "not on the PATH", how)
        return
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    yield server_version(done.stdout.rpartition("v")[2].strip())


def _ends(place: Path, registry: Registry) -> Iterator[Finding]:
    """Check when certificates expire; clients whose certificates last share one line."""
    how = f"fedglb federation renew {place} "
    own = ends(place, registry, THE_AUTHORITY)
    first = f"{how}authority, and then --all: no certificate outlasts it"
    yield lasting("certificate", "the authority", own, first, soon=_AUTHORITY_SOON)
    far = []
    for name in [COORDINATOR, *sorted(registry.clients)]:
        found = lasting("certificate", name, ends(place, registry, name), f"{how}{name}")
        if found.grade == "ok" and name != COORDINATOR:
            far.append(found)
        else:
            yield found
    if far:
        text = f"{len(far)} clients' certificates expire in more than {SOON.days} days"
        yield Finding("certificate", "ok", text)


def _server_files(place: Path, registry: Registry, authority: Certificate) -> Iterator[Finding]:
    folder, renew = place / SERVER, f"fedglb federation renew {place} server"
    try:
        server = Certificate((folder / "server.pem").read_bytes())
        fits = server.has_key((folder / "server.key").read_bytes())
        issued = server.is_issued_by(authority.content)
    except ValueError as error:
        yield Finding("server files", "fault", f"server.pem or server.key: {error}", renew)
        return
    if not fits:
        text = "server.key is not the key of server.pem: nats-server will not start"
        yield Finding("server files", "fault", text, renew)
    elif not issued:
        text = "this authority did not issue server.pem: no client trusts it"
        yield Finding("server files", "fault", text, renew)
    elif set(server.hosts) != set(registry.settings.hosts):
        text = f"server.pem is for {', '.join(server.hosts)}; the settings differ"
        yield Finding("server files", "fault", text, renew)
    else:
        yield lasting("certificate", "the server", server.ends, renew)
    yield clock([server, authority])
    if (folder / "ca.pem").read_bytes() != authority.content:
        text = "server/ca.pem is not the authority's certificate"
        yield Finding("server files", "fault", text, renew)
    if (folder / nats_config.ACCOUNTS).read_bytes() != accounts(registry):
        text = f"{nats_config.ACCOUNTS} differs from {MEMBERS}"
        # first: `renew` would admit a client again that was about to be revoked
        yield Finding("server files", "fault", text, f"{_INTERRUPTED}; else {renew}")
    if nats_server.found():
        try:
            nats_server.check(folder)
        except ServerFault as error:
            yield Finding("server files", "fault", str(error), "correct nats.conf, or move it "
                          f"away to have it written again: {renew}")  # fmt: skip
        else:
            yield Finding("server files", "ok", "nats-server accepts its configuration")


def _agreements(place: Path, registry: Registry) -> Iterator[Finding]:
    """Compare the agreements in the members' folders with the operator's settings."""
    agreed, members = registry.settings.agreement.build(), roster(place)
    if members is not None:
        agreed = agreed.with_roster(members.digest, members.names)
        yield _roster(place, registry, members)
    folders = [place / COORDINATOR, *sorted((place / CLIENTS).glob("*"))]
    same = 0
    for folder in folders:
        if not folder.is_dir():
            continue
        bundle = Bundle.read(folder, without_key=folder.name != COORDINATOR)
        if (folder / KEY).exists():
            bundle.check_key()
        differences = agreed.differences(bundle.agreement.facts())
        if differences:
            text = f"{folder}: {'; '.join(differences)}"
            how = f"copy the agreement from authority/{SETTINGS}, or {RESTORE}"
            yield Finding("agreement", "fault", text, how)
        else:
            same += 1
    yield Finding("agreement", "ok", f"{same} members' folders have the federation's agreement")
    stored = fact_in(place / COORDINATOR / _STATE, "agreement")
    if stored is not None:
        facts = msgspec.json.decode(stored, type=dict[str, str])
        others = agreed.compare(facts)
        if any(found.name != ROSTER for found in others):
            text = f"{_STATE} belongs to another federation: {'; '.join(map(str, others))}"
            yield Finding("agreement", "fault", text, "start the coordinator with its own file")
        elif others:
            text = "the coordinator last ran with another roster"
            how = "bring the new one to the agents, and restart the coordinator"
            yield Finding("roster", "warning", text, how)


def _roster(place: Path, registry: Registry, members: Roster) -> Finding:
    """Check that the roster has all clients and no revoked ones."""
    left = len(registry.clients)
    if members.keys == {name: registry.members[name].public_key for name in registry.clients}:
        text = f"{left} members of secure sums: {members.digest.hex()}"
        return Finding("roster", "ok", text)
    if left < min_members(registry.settings):
        revoked = ", ".join(sorted(set(members.keys) - set(registry.clients)))
        text = f"no secure sums: {revoked} revoked, and {left} clients are too few"
        how = f"fedglb federation add {place} NAME --request FILE"
        return Finding("roster", "fault", text, how)
    return Finding("roster", "fault", f"the roster differs from {MEMBERS}", _INTERRUPTED)


def _server(place: Path) -> Iterator[Finding]:
    if nats_server.running(place / SERVER) is None:
        how = f"nats-server -c {place / SERVER / nats_config.NATS}, unless it runs elsewhere"
        yield Finding("server", "warning", "this folder's server does not run here", how)
    yield from reach(Bundle.read(place / COORDINATOR))
