"""A member's folder, looked at from its own machine: files, clock, and the way to the server."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from fedglb.errors import InvalidInput
from fedglb.federation.bundle import CA, CERTIFICATE, KEY, Bundle
from fedglb.federation.certificates import Certificate
from fedglb.federation.doctor.findings import (
    Finding,
    attempt,
    clock,
    lasting,
    private,
    room,
    server_version,
    software,
    sqlite_file,
)
from fedglb.federation.names import COORDINATOR
from fedglb.federation.probe import Probe, Unreachable

_TIMEOUT = 5.0  # seconds
_RENEW = "ask the operator for a renewed bundle (fedglb federation renew)"


def member(folder: Path, file: Path | None = None) -> list[Finding]:
    """Return what is found in and from a member's folder; `file` is its agent's."""
    out = attempt("software", software)
    try:
        bundle = Bundle.read(folder)
    except InvalidInput as error:
        return [*out, Finding("bundle", "fault", str(error))]
    out += attempt("bundle", lambda: _files(bundle))
    out += attempt("permissions", lambda: private([folder, folder / KEY]))
    out += attempt("disk", lambda: [room(folder)])
    owner = "a coordinator" if bundle.client == COORDINATOR else "an agent"
    if bundle.client == COORDINATOR and file is None:
        file = folder / "state.db"
    if file is not None:
        place = file
        out += attempt("file", lambda: [sqlite_file("file", place, owner)])
    return out + attempt("server", lambda: reach(bundle))


def _files(bundle: Bundle) -> Iterator[Finding]:
    bundle.check_key()
    certificate = bundle.certificate()
    authority = Certificate((bundle.folder / CA).read_bytes())
    try:
        issued = certificate.is_issued_by(authority.content)
    except ValueError as error:
        yield Finding("bundle", "fault", f"{CA} is no certificate ({error})", _RENEW)
        return
    if issued:
        who = f"{bundle.client} of {bundle.federation}"
        yield Finding("bundle", "ok", f"{who}: agreement, certificate and key fit together")
    else:
        text = f"{CERTIFICATE} was not issued by the authority in {CA}"
        yield Finding("bundle", "fault", text, "bring the whole folder from the operator again")
    yield lasting("certificate", bundle.client, certificate.ends, _RENEW)
    yield lasting("certificate", "the authority", authority.ends, _RENEW)
    yield clock([certificate, authority])


def reach(bundle: Bundle) -> Iterator[Finding]:
    """Go to the server step by step, up to its admission."""
    address = urlsplit(bundle.server)
    host, port = address.hostname or "", address.port or 4222
    probe = Probe(bundle.tls(), (host, port), host, _TIMEOUT)
    try:
        said = probe.info()
    except Unreachable as error:
        how = "see that nats-server runs, the address and the firewall in between"
        yield Finding("server", "fault", f"{bundle.server} cannot be reached: {error}", how)
        return
    except ssl.SSLCertVerificationError as error:
        text = f"the server's certificate is not trusted: {error.verify_message}"
        how = "see the clock here, ca.pem, and by which address the server is reached"
        yield Finding("tls", "fault", text, how)
        return
    except (OSError, ValueError) as error:
        how = "see the server's log; a proxy in between must pass TCP through"
        yield Finding("tls", "fault", f"the handshake fails: {error}", how)
        return
    yield Finding("server", "ok", f"{bundle.server} can be reached")
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
        how = "ask the operator (fedglb federation list says who was revoked)"
        return Finding("admitted", "fault", f"the server does not know {bundle.client}", how)
    how = "see the server's log, and the certificate's end above"
    return Finding("admitted", "fault", "the server ends the connection", how)
