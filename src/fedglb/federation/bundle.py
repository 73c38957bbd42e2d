"""A member's folder: its certificate and key, and the agreement."""

from __future__ import annotations

import logging
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput, under
from fedglb.federation.agreement import Agreement, AgreementTable
from fedglb.federation.certificates import Certificate, IssuedCertificate
from fedglb.federation.names import VERSION, check_name, check_version, identity
from fedglb.federation.secure_sums.roster import FILE as ROSTER
from fedglb.federation.secure_sums.roster import Roster
from fedglb.federation.secure_sums.transcript import SumRules, agreement_digest
from fedglb.io.atomic import atomic_write
from fedglb.io.toml import convert, read_file, to_toml

FILE, CA, CERTIFICATE, KEY = "federation.toml", "ca.pem", "cert.pem", "key.pem"
_AGAIN = "copy the whole folder from the operator again, or ask for `fedglb federation renew`"
_ADD_KEY = (
    " (if this member made its own key with `fedglb agent key`, copy the operator's files into the "
    "folder with that key)"
)
_SERVER = re.compile(r"tls://[^/\s]+:\d+")
_log = logging.getLogger("fedglb.federation")


class _BundleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    federation: str
    client: str
    server: str
    agreement: AgreementTable
    version: int = VERSION


@dataclass(frozen=True)
class Bundle:
    """A member's folder: `federation.toml`, `ca.pem`, `cert.pem`, `key.pem`.

    With secure sums there is a `roster.json`, too.
    """

    folder: Path
    federation: str
    client: str  # the member's name; the coordinator's is "coordinator"
    server: str  # such as tls://nats.example.org:4222
    table: AgreementTable

    @classmethod
    def read(cls, folder: str | Path, without_key: bool = False) -> Bundle:
        """Read a folder; `InvalidInput` names the file and the key at fault.

        `without_key`: the operator's copy, of a member that keeps its key.
        """
        place = Path(folder)
        for name in (FILE, CA, CERTIFICATE, KEY):
            if not _is_file(place / name) and not (without_key and name == KEY):
                how = _ADD_KEY if name == KEY else ""
                allowed = f"a member's folder, as made by the operator: {name} is missing{how}"
                raise InvalidInput("bundle", str(folder), allowed)
        document = _document(place / FILE)
        bundle = cls(
            place, document.federation, document.client, document.server, document.agreement
        )
        bundle._check()
        return bundle

    @cached_property
    def agreement(self) -> Agreement:
        """The agreement, with problem and algorithm as objects."""
        with under("agreement", source=str(self.folder / FILE)):
            agreement = self.table.build()
        roster = self.roster
        return agreement if roster is None else agreement.with_roster(roster.digest, roster.names)

    def facts(self) -> dict[str, str]:
        """Return what a member's file belongs to: the agreement, the federation, the member."""
        return {**self.agreement.facts(), "federation": self.federation, "client": self.client}

    @cached_property
    def roster(self) -> Roster | None:
        """The members of secure sums and their keys; None: no secure sums."""
        return None if self.table.minimum is None else Roster.read(self.folder / ROSTER)

    def sum_rules(self) -> SumRules | None:
        """Return the rules of secure sums; None: no secure sums."""
        if self.roster is None:
            return None
        agreement = self.agreement
        return SumRules(
            self.federation, self.roster, agreement_digest(agreement.facts()),
            agreement.min_members, agreement.algorithm.max_updates,
        )  # fmt: skip

    @property
    def generation(self) -> int:
        """The generation of the member's certificate."""
        ours = identity(self.federation, self.client, 1).removesuffix("1")
        found = [n.removeprefix(ours) for n in self.certificate().identities if n.startswith(ours)]
        return max((int(n) for n in found if n.isdigit()), default=0)

    def signing_key(self) -> bytes:
        """Return the private key of the member's certificate (PEM)."""
        self.check_key()
        return self._content(KEY)

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context: it trusts only this federation, and has the member's certificate.

        The files are read each time, because they may have been replaced.
        """
        self.check_key()
        try:
            context = ssl.create_default_context(cafile=self.folder / CA)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_cert_chain(self.folder / CERTIFICATE, self.folder / KEY)
        except (ssl.SSLError, OSError) as error:
            raise self._broken(CA, str(error)) from None
        return context

    def check_key(self) -> None:
        """Raise `InvalidInput` unless the key belongs to the certificate."""
        key = self._content(KEY)
        try:
            fits = self.certificate().has_key(key)
        except ValueError as error:
            raise self._broken(KEY, str(error)) from None
        if not fits:
            raise self._broken(KEY, f"not the key of {CERTIFICATE}")

    def certificate(self) -> Certificate:
        """Return the member's current certificate in the folder."""
        found = Certificate(self._content(CERTIFICATE))
        try:
            _ = found.serial
        except ValueError as error:
            raise self._broken(CERTIFICATE, str(error)) from None
        return found

    def replaced(self) -> tuple[object, ...]:
        """Return a value that changes when certificate or key are replaced."""
        return tuple(_stat(self.folder / name) for name in (CA, CERTIFICATE, KEY))

    def agreement_file(self) -> object:
        """Return a value that changes when the agreement's file is replaced."""
        return _stat(self.folder / FILE)

    def roster_file(self) -> object:
        """Return a value that changes when the roster is replaced."""
        return _stat(self.folder / ROSTER)

    def connection(self) -> dict[str, Any]:
        """Return the options for `nats.connect` that reach only this server.

        TLS comes before any NATS message: otherwise an attacker between client and server could
        remove the server's offer of TLS, and nats-py would continue unencrypted.
        """
        return {"servers": self.server, "tls": self.tls(), "tls_handshake_first": True}

    def write(self, authority: bytes, issued: IssuedCertificate) -> None:
        """Create the folder; it must not exist."""
        self.folder.mkdir(mode=0o700)
        self.write_agreement()
        self.renew(authority, issued)

    def write_agreement(self) -> None:
        """Replace the agreement in the folder."""
        document = _BundleFile(self.federation, self.client, self.server, self.table)
        text = to_toml(msgspec.to_builtins(document))
        atomic_write(self.folder / FILE, text.encode(), mode=0o600)

    def renew(self, authority: bytes, issued: IssuedCertificate) -> None:
        """Replace the certificate in the folder, which an agent may be using."""
        atomic_write(self.folder / CA, authority, mode=0o644)
        issued.write(self.folder / CERTIFICATE, self.folder / KEY)

    def _check(self) -> None:
        where = self.folder / FILE
        for key in ("federation", "client"):
            check_name(f"{where}: {key}", getattr(self, key))
        if not _SERVER.fullmatch(self.server):
            allowed = "an address such as tls://nats.example.org:4222"
            raise InvalidInput(f"{where}: server", self.server, allowed)
        _ = self.agreement
        certificate = self.certificate()
        known, ends = certificate.identities, certificate.ends
        ours = identity(self.federation, self.client, 1).removesuffix("1")
        if not any(name.startswith(ours) for name in known):
            holder = ", ".join(known) or "nobody"
            allowed = f"the name that {CERTIFICATE} was issued for: {holder}"
            raise InvalidInput(f"{where}: client", self.client, allowed)
        if ends < datetime.now(UTC):  # not an error: the agent learns alone meanwhile
            path = self.folder / CERTIFICATE
            _log.warning("%s expired on %s: ask the operator for a new one", path, ends.date())
        path = self.folder / KEY
        if path.exists() and path.stat().st_mode & 0o077:
            _log.warning("other users can read the key: run chmod 600 %s", path)

    def _content(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise self._broken(name, error.strerror or str(error)) from None

    def _broken(self, name: str, why: str) -> InvalidInput:
        how = _ADD_KEY if name == KEY else ""
        allowed = f"a member's folder with a valid {name} ({why}): {_AGAIN}{how}"
        return InvalidInput("bundle", str(self.folder), allowed)


def _document(path: Path) -> _BundleFile:
    try:
        raw: dict[str, Any] = read_file(path, "bundle")
        check_version(raw, path)
        return convert(raw, _BundleFile, str(path))
    except InvalidInput as error:
        error.allowed += f" (if nobody edited it: {_AGAIN})"
        raise


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except PermissionError as error:
        allowed = f"a folder that this user may read ({error.strerror}): chown it to the user that "
        raise InvalidInput("bundle", str(path.parent), f"{allowed}runs the application") from None


def _stat(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
