"""`doctor` for a member's folder, and checks shared with the operator's.

It checks files, clock and disk, and connects to the server up to its admission.
"""

from __future__ import annotations

import json
import platform
import shutil
import sqlite3
import ssl
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from fedglb.errors import InvalidInput
from fedglb.federation.agreement import ROSTER
from fedglb.federation.alarms import ENDS_SOON, ROOM
from fedglb.federation.bundle import CA, CERTIFICATE, KEY, Bundle
from fedglb.federation.certificates import Certificate
from fedglb.federation.names import COORDINATOR
from fedglb.federation.probe import Probe, Unreachable
from fedglb.federation.sqlite import Kind, fact, read_only, remedy
from fedglb.provenance import versions

Grade = Literal["ok", "warning", "fault"]
SOON = timedelta(seconds=ENDS_SOON)
_NATS_PY = (2, 16)
_LITTLE_ROOM = 10**8  # bytes
_TIMEOUT = 5.0  # seconds for each step to the server
_RENEW = "ask the operator for a renewed bundle (fedglb federation renew)"


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    check: str
    grade: Grade  # "warning": it may fail later
    text: str
    remedy: str = ""


def member(folder: Path, file: Path | None = None) -> list[Finding]:
    """Check a member's folder and its connection to the server; `file` is the agent's."""
    out = attempt("software", software)
    try:
        bundle = Bundle.read(folder)
    except InvalidInput as error:
        return [*out, Finding("bundle", "fault", str(error))]
    out += attempt("bundle", lambda: _files(bundle))
    out += attempt("permissions", lambda: private([folder, folder / KEY]))
    out += attempt("disk", lambda: [room(folder)])
    kind: Kind = "coordinator" if bundle.client == COORDINATOR else "agent"
    if kind == "coordinator" and file is None:
        file = folder / "state.db"
    if file is not None:
        place = file
        out += attempt("file", lambda: [sqlite_file("file", place, kind)])
        out += attempt("roster", lambda: _accepted(bundle, place))
    return out + attempt("server", lambda: reach(bundle))


def _files(bundle: Bundle) -> Iterator[Finding]:
    bundle.check_key()
    certificate = bundle.certificate()
    authority = Certificate((bundle.folder / CA).read_bytes())
    try:
        issued = certificate.is_issued_by(authority.content)
    except ValueError as error:
        yield Finding("bundle", "fault", f"{CA} is not a certificate ({error})", _RENEW)
        return
    if issued:
        who = f"{bundle.client} of {bundle.federation}"
        yield Finding("bundle", "ok", f"{who}: agreement, certificate and key match")
    else:
        text = f"the authority in {CA} did not issue {CERTIFICATE}"
        yield Finding("bundle", "fault", text, "copy the whole folder from the operator again")
    yield lasting("certificate", bundle.client, certificate.ends, _RENEW)
    yield lasting("certificate", "the authority", authority.ends, _RENEW)
    yield clock([certificate, authority])


def _accepted(bundle: Bundle, file: Path) -> Iterator[Finding]:
    """Compare the roster in the folder with the one in the agent's or the coordinator's file."""
    stored = fact_in(file, "agreement") if file.exists() else None
    if bundle.roster is None or stored is None:
        return
    accepted, found = json.loads(stored).get(ROSTER), bundle.roster.digest.hex()
    if accepted == found:
        count = len(bundle.roster.names)
        yield Finding("roster", "ok", f"{count} members of secure sums, as accepted: {found}")
    elif bundle.client == COORDINATOR:
        text = "the coordinator last ran with another roster"
        yield Finding("roster", "warning", text, "restart it once the agents have the new one")
    else:
        text = f"the roster {found} is not accepted: the agent learns alone, or does not start"
        how = "compare it with the other owners, then: fedglb agent accept"
        yield Finding("roster", "fault", text, f"{how} {file} {bundle.folder} --roster {found}")


def reach(bundle: Bundle) -> Iterator[Finding]:
    """Connect to the server step by step, up to its admission."""
    address = urlsplit(bundle.server)
    host, port = address.hostname or "", address.port or 4222
    probe = Probe(bundle.tls(), (host, port), host, _TIMEOUT)
    try:
        said = probe.info()
    except Unreachable as error:
        how = "check that nats-server runs, its address, and the firewall"
        yield Finding("server", "fault", f"cannot reach {bundle.server}: {error}", how)
        return
    except ssl.SSLCertVerificationError as error:
        text = f"the server's certificate is not trusted: {error.verify_message}"
        how = "check this machine's clock, ca.pem, and the server's address"
        yield Finding("tls", "fault", text, how)
        return
    except (OSError, ValueError) as error:
        how = "read the server's log; a proxy in between must pass TCP through"
        yield Finding("tls", "fault", f"the handshake fails: {error}", how)
        return
    yield Finding("server", "ok", f"reached {bundle.server}")
    yield Finding("tls", "ok", "the server's certificate is trusted")
    shown = probe.certificate()
    if shown is not None:
        how = "the operator runs: fedglb federation renew FOLDER server"
        yield lasting("certificate", "the running server", shown.ends, how)
    yield server_version(str(said.get("version", "")))
    yield _admission(probe, bundle)


def _admission(probe: Probe, bundle: Bundle) -> Finding:
    admitted = probe.admitted()
    if admitted:
        return Finding("admitted", "ok", f"the server admits {bundle.client}")
    if admitted is False:
        how = "ask the operator (fedglb federation list shows who was revoked)"
        return Finding("admitted", "fault", f"the server does not know {bundle.client}", how)
    how = "read the server's log, and check the certificate above"
    return Finding("admitted", "fault", "the server closes the connection", how)


def attempt(check: str, action: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return the findings of a check; an unreadable file is a finding too."""
    out: list[Finding] = []
    try:
        out.extend(action())
    except InvalidInput as error:
        out.append(Finding(check, "fault", str(error)))  # the message has the remedy
    except OSError as error:
        text = f"{error.filename or check}: {error.strerror or error}"
        out.append(Finding(check, "fault", text, "run this as the folder's owner"))
    return out


def software() -> Iterator[Finding]:
    """Check the versions of Python and the packages."""
    yield Finding("python", "ok", platform.python_version())
    found = versions(("fedglb", "nats-py", "cryptography"))
    yield Finding("fedglb", "ok", found.get("fedglb", "from source"))
    for name in ("nats-py", "cryptography"):
        if name not in found:
            how = "pip install 'fedglb[federation]'"
            yield Finding(name, "fault", "not installed", how)
        elif name == "nats-py" and _numbers(found[name])[:2] < _NATS_PY:
            how = "pip install --upgrade 'fedglb[federation]'"
            yield Finding(name, "fault", f"{found[name]} is too old", how)
        else:
            yield Finding(name, "ok", found[name])


def server_version(text: str) -> Finding:
    """Check the version of a nats-server."""
    numbers = _numbers(text)
    if numbers >= (2, 14, 3) or (2, 12, 12) <= numbers < (2, 13):
        return Finding("nats-server", "ok", text)
    how = "upgrade it to 2.12.12, 2.14.3 or newer: older ones have open security advisories"
    return Finding("nats-server", "fault", f"{text or 'an unknown version'} is too old", how)


def _numbers(text: str) -> tuple[int, ...]:
    """Return a version as numbers: 2.14.3-beta is 2, 14, 3."""
    out = []
    for part in text.strip().lstrip("v").split("-")[0].split("."):
        if not part.isdigit():
            break
        out.append(int(part))
    return tuple(out)


def private(paths: Iterable[Path]) -> Iterator[Finding]:
    """Check that only the owner can read files and folders."""
    sound = 0
    for path in paths:
        found = path.stat()
        if stat.S_IMODE(found.st_mode) & 0o077:
            how = f"chmod {700 if path.is_dir() else 600} {path}"
            yield Finding("permissions", "fault", f"other users can read {path}", how)
        else:
            sound += 1
    if sound:
        yield Finding("permissions", "ok", f"only the owner can read {sound} keys and folders")


def lasting(
    check: str,
    whose: str,
    ends: datetime | None,
    how: str,
    soon: timedelta = SOON,
) -> Finding:
    """Check when a certificate expires."""
    if ends is None:
        return Finding(check, "warning", f"cannot read {whose}'s certificate", how)
    left = ends - datetime.now(UTC)
    text = f"{whose}'s certificate expires on {ends:%Y-%m-%d}, in {left.days} days"
    if left < timedelta(0):
        return Finding(check, "fault", f"{whose}'s certificate expired on {ends:%Y-%m-%d}", how)
    return Finding(check, "warning" if left < soon else "ok", text, how if left < soon else "")


def clock(certificates: Iterable[Certificate], now: datetime | None = None) -> Finding:
    """Check that the clock is not earlier than the start of the certificates."""
    latest = max(certificate.begins for certificate in certificates)
    found = datetime.now(UTC) if now is None else now
    if found < latest:
        text = f"{found:%Y-%m-%d %H:%M} UTC, but a certificate is valid from {latest}"
        return Finding("clock", "fault", text, "set the clock (NTP); TLS fails until then")
    return Finding("clock", "ok", f"{found:%Y-%m-%d %H:%M} UTC; all certificates have started")


def room(path: Path) -> Finding:
    """Check the free space on a disk."""
    free = shutil.disk_usage(path).free
    text = f"{free / 1e9:.1f} GB free for {path}"
    if free >= ROOM:
        return Finding("disk", "ok", text)
    how = "free some space: rewards are refused when the disk is full"
    return Finding("disk", "warning" if free >= _LITTLE_ROOM else "fault", text, how)


def sqlite_file(check: str, path: Path, kind: Kind) -> Finding:
    """Check an agent's or a coordinator's file, without changing it."""
    if not path.exists():
        return Finding(check, "ok", f"{path} does not exist yet")
    try:
        with closing(read_only(path)) as db:
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        if "locked" in str(error):
            return Finding(check, "ok", f"{path} is open in a running process: not checked")
        return Finding(check, "fault", f"{path}: {error}", remedy(kind, error))
    if found == "ok":
        return Finding(check, "ok", f"{path} is sound")
    how = remedy(kind, sqlite3.DatabaseError(found))
    return Finding(check, "fault", f"{path}: {found}", how)


def fact_in(path: Path, name: str) -> bytes | str | None:
    """Return a fact from a SQLite file; None: the file cannot be read now."""
    try:
        with closing(read_only(path)) as db:
            return fact(db, name)  # type: ignore[no-any-return]
    except sqlite3.Error:
        return None
