"""The operator's records: the federation's settings, and all members, also former ones.

`federation.toml` has the settings of `init`, of which only the schema of records ever changes;
`registry.json` has the members.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput, integer
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.certificates import Certificate, IssuedCertificate
from fedglb.federation.names import (
    COORDINATOR,
    VERSION,
    check_client,
    check_name,
    check_version,
)
from fedglb.federation.operator.authority import RESTORE
from fedglb.io.atomic import atomic_write
from fedglb.io.toml import convert, read_file, to_toml

SETTINGS, MEMBERS = "federation.toml", "registry.json"
_DNS = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*")


class FederationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of `init`: name, addresses, agreement."""

    federation: str
    hosts: list[str]
    port: int
    bind: str
    agreement: AgreementTable
    version: int = VERSION

    def check(self) -> None:
        """Raise `InvalidInput` for the first invalid setting."""
        check_name("federation", self.federation)
        integer("port", self.port, at_most=65535)
        if not self.hosts:
            raise InvalidInput("hosts", self.hosts, "at least one address of the server")
        for host in self.hosts:
            _check_host(host)
        try:
            ipaddress.ip_address(self.bind)
        except ValueError:
            allowed = "an IP address of this machine, or 0.0.0.0 for all of them"
            raise InvalidInput("bind", self.bind, allowed) from None
        _ = self.agreement.build().setting

    @property
    def server(self) -> str:
        """The address that clients connect to."""
        host = self.hosts[0]
        return f"tls://[{host}]:{self.port}" if ":" in host else f"tls://{host}:{self.port}"

    @property
    def local(self) -> tuple[str, int]:
        """The server's address on its own machine."""
        address = ipaddress.ip_address(self.bind)
        loopback = "::1" if address.version == 6 else "127.0.0.1"
        return (loopback if address.is_unspecified else self.bind), self.port


class RegisteredMember(msgspec.Struct, frozen=True):
    """A name's newest certificate.

    `since` is when its holder became a member, `issued` and `ends` are the certificate's dates,
    `key` is its public key (DER, base64). `own_key`: the member made the key, and the operator
    never had it. `revoked` is when it was revoked (None: never). `former` are the keys that this
    name had before: nobody gets a certificate for them again.
    """

    generation: int
    serial: str
    since: str
    issued: str
    ends: str
    key: str
    own_key: bool = False
    revoked: str | None = None
    former: tuple[str, ...] = ()

    @property
    def public_key(self) -> bytes:
        """Its public key, in DER."""
        return base64.b64decode(self.key)


class _Members(msgspec.Struct, frozen=True):
    members: dict[str, RegisteredMember]
    version: int = VERSION


@dataclass(frozen=True)
class Registry:
    """The federation's settings and its members, the coordinator included."""

    settings: FederationSettings
    members: Mapping[str, RegisteredMember]

    @property
    def admitted(self) -> dict[str, int]:
        """The members that may connect, each with its generation; the coordinator included."""
        return {name: m.generation for name, m in self.members.items() if m.revoked is None}

    @property
    def clients(self) -> dict[str, int]:
        """The clients that may take part, each with its generation."""
        return {
            name: generation for name, generation in self.admitted.items() if name != COORDINATOR
        }

    def check_new(self, names: Sequence[str]) -> None:
        """Raise unless all these names can be added."""
        _check_names(names)
        for name in names:
            if name in self.clients:
                allowed = "an unused name: if the key was lost, revoke the name first"
                raise InvalidInput("client", name, allowed)
        most = self.settings.agreement.max_clients
        ever = {*self.members, *names} - {COORDINATOR}
        if len(ever) > most:
            given = len(set(self.members) - {COORDINATOR})
            allowed = (
                f"at most max_clients = {most} names, revoked ones included ({given} exist), as "
                "the confidence bounds assume; for more, create a new federation"
            )
            raise InvalidInput("clients", list(names), allowed)

    def check_known(self, names: Sequence[str]) -> None:
        """Raise unless all these names are current clients."""
        _check_names(names)
        for name in names:
            if name not in self.clients:
                known = ", ".join(sorted(self.clients)) or "none yet"
                raise InvalidInput("client", name, f"one of the clients: {known}")

    def check_keys(self, keys: Mapping[str, bytes]) -> None:
        """Raise unless these keys of new clients differ from each other and from all others'."""
        users = {
            base64.b64decode(key): name
            for name, member in self.members.items()
            for key in (member.key, *member.former)
        }
        for name, key in keys.items():
            if key in users:
                allowed = f"a new key: {users[key]} has or had this one; run `fedglb agent key`"
                raise InvalidInput("request", name, f"{allowed} in another folder")
            users[key] = name

    def next_generation(self, name: str) -> int:
        """Return the generation of this name's next certificate: it rises after a revocation."""
        before = self.members.get(name)
        return 1 if before is None else before.generation + (before.revoked is not None)

    def with_issued(self, issued: Mapping[str, IssuedCertificate]) -> Registry:
        """Return the registry after members were added or renewed, each with its certificate."""
        new = {name: self._issued(name, each) for name, each in issued.items()}
        return replace(self, members={**self.members, **new})

    def with_revoked(self, names: Sequence[str]) -> Registry:
        """Return the registry after revoking these clients."""
        gone = {name: msgspec.structs.replace(self.members[name], revoked=_now()) for name in names}
        return replace(self, members={**self.members, **gone})

    def _issued(self, name: str, issued: IssuedCertificate) -> RegisteredMember:
        before = self.members.get(name)
        renewed = before if name in self.admitted else None
        certificate = Certificate(issued.certificate)
        key = base64.b64encode(certificate.public_key).decode()
        had = (*before.former, before.key) if before else ()
        return RegisteredMember(
            self.next_generation(name), issued.serial, renewed.since if renewed else _now(), _now(),
            certificate.ends.isoformat(timespec="seconds"),
            key, renewed.own_key if renewed else not issued.key,
            former=tuple(each for each in had if each != key),
        )  # fmt: skip

    @classmethod
    def read(cls, folder: Path) -> Registry:
        """Read the files in an operator's `authority` folder."""
        for name in (SETTINGS, MEMBERS):
            if not (folder / name).is_file():
                allowed = f"an operator's folder, made by `fedglb federation init`, with {name}"
                raise InvalidInput("folder", str(folder.parent), allowed)
        raw = read_file(folder / SETTINGS, "folder")
        check_version(raw, folder / SETTINGS)
        settings = convert(raw, FederationSettings, str(folder / SETTINGS))
        path = folder / MEMBERS
        try:
            found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            check_version(found, path)
            members = msgspec.convert(found, _Members).members
        except (msgspec.MsgspecError, OSError, TypeError, KeyError) as error:
            allowed = f"an operator's folder with a readable {MEMBERS} ({error}): {RESTORE}"
            raise InvalidInput("folder", str(folder.parent), allowed) from None
        return cls(settings, members)

    def write(self, folder: Path) -> None:
        """Write the members, and the settings of a new folder."""
        if not (folder / SETTINGS).exists():
            self.write_settings(folder)
        text = json.dumps(msgspec.to_builtins(_Members(dict(self.members))), indent=1)
        atomic_write(folder / MEMBERS, text.encode(), mode=0o600)

    def write_settings(self, folder: Path) -> None:
        """Write the settings."""
        text = to_toml(msgspec.to_builtins(self.settings))
        atomic_write(folder / SETTINGS, text.encode(), mode=0o600)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        check_client(name)
        if names.count(name) > 1:
            raise InvalidInput("client", name, "each name once")


def _check_host(host: str) -> None:
    try:
        reachable = not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        reachable = bool(_DNS.fullmatch(host))
    if not reachable:
        allowed = "a host name or an IP address that clients can reach"
        raise InvalidInput("hosts", host, allowed)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
