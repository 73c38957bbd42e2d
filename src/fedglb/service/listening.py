"""Where a service listens: on loopback, on a unix socket, or anywhere with TLS and a token."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fedglb.errors import InvalidInput
from fedglb.federation.errors import Unavailable

#: The Host names of a loopback address.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
#: Connections that may wait to be accepted.
BACKLOG = 1024
_MIN_TOKEN = 16  # characters
_log = logging.getLogger(__name__)


class Tls(NamedTuple):
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Listen:
    """An address or a unix socket, and its token and certificate."""

    host: str
    port: int  # 0: any free port
    token: str | None = field(default=None, repr=False)  # None: no token is required
    tls: Tls | None = None  # None: plain HTTP
    path: Path | None = None  # a unix socket, in place of host and port
    mode: int = 0o600  # of the socket's file

    @classmethod
    def parse(
        cls,
        http: str,
        token_file: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        path: Path | None = None,
        mode: int = 0o600,
    ) -> Listen:
        """Read ``127.0.0.1:8731`` and the files; refuse an unprotected address."""
        host, port = _address(http)
        token = None if token_file is None else read_token(token_file)
        out = cls(host, port, token, _tls(certificate, key), path, mode)
        if out.hosts is None and path is None and (token is None or out.tls is None):
            allowed = "127.0.0.1 or another loopback address; any other address requires "
            raise InvalidInput("http", http, allowed + "--token-file, --tls-cert and --tls-key")
        return out

    @property
    def hosts(self) -> frozenset[str] | None:
        """The Host names that a request may carry; None: any.

        On loopback only loopback names are allowed: a web page can make a browser resolve its own
        name to 127.0.0.1 (DNS rebinding), and then read these answers.
        """
        if self.path is not None or not ipaddress.ip_address(self.host).is_loopback:
            return None
        return LOOPBACK | {_in_url(self.host)}

    @contextmanager
    def bound(self) -> Iterator[tuple[socket.socket, str]]:
        """Listen inside this block; yield the socket and the URL."""
        if self.path is None:
            listener = _listen_on_port(self.host, self.port)
            scheme, port = "http" if self.tls is None else "https", listener.getsockname()[1]
            url = f"{scheme}://{_in_url(self.host)}:{port}"
        else:
            listener, url = _listen_on_file(self.path, self.mode), f"unix://{self.path.absolute()}"
        try:
            yield listener, url
        finally:
            listener.close()
            if self.path is not None:
                self.path.unlink(missing_ok=True)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
        found = int(port) if colon and port.isascii() and port.isdigit() else -1
    except ValueError:
        found = -1
    if not 0 <= found < 2**16:
        raise InvalidInput("http", text, "an IP address and a port, such as 127.0.0.1:8731")
    return host, found


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    """Return a loadable pair, or None if both are None."""
    if certificate is None and key is None:
        return None
    if certificate is None:
        raise InvalidInput("tls_cert", None, "the certificate of --tls-key")
    if key is None:
        raise InvalidInput("tls_key", None, "the key of --tls-cert")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        allowed = f"a certificate and its key, as PEM files ({error})"
        raise InvalidInput("tls_cert", str(certificate), allowed) from None
    return Tls(certificate, key)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen_on_port(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
        # Connections inherit it. asyncio sets it only on sockets that name their protocol, and
        # else each answer after a connection's first waits 40 ms for the reader's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise Unavailable(f"{host}:{port}: {error.strerror}") from None
        allowed = f"an address of this machine ({error.strerror})"
        raise InvalidInput("http", f"{host}:{port}", allowed) from None


def _listen_on_file(path: Path, mode: int) -> socket.socket:
    """Return a unix socket; the file's mode decides which users can connect."""
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)  # `bind` creates the file, so the mode holds from the start
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        allowed = f"a path where a socket can be created ({error.strerror or error})"
        raise InvalidInput("socket", str(path), allowed) from None
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the socket of a killed process; raise if a process listens on it, or it is a file."""
    try:
        kind = path.stat().st_mode
    except OSError:
        return  # no file, or `bind` reports the fault
    if not stat.S_ISSOCK(kind):
        raise InvalidInput("socket", str(path), "a path without a file, or with a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError as error:
            allowed = f"a socket that this user may use ({error.strerror})"
            raise InvalidInput("socket", str(path), allowed) from None
    raise Unavailable(f"another process listens on {path}")


def read_token(path: Path) -> str:
    """Return the token in a file, without the white space around it."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("token_file", str(path), f"a readable file ({error})") from None
    if len(token) < _MIN_TOKEN or not token.isprintable() or " " in token:
        allowed = f"a file that holds one token of at least {_MIN_TOKEN} letters and digits"
        raise InvalidInput("token_file", str(path), allowed)
    if path.stat().st_mode & 0o077:
        _log.warning("other users can read the token: run chmod 600 %s", path)
    return token
