"""Where a process listens for HTTP, and what a request from there has to bring."""

from __future__ import annotations

import errno
import hmac
import ipaddress
import logging
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.errors import Unavailable

#: What a machine calls itself.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
#: How many connections may wait to be accepted.
BACKLOG = 1024
_SHORTEST = 16  # characters of a token
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tls:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, OSError) as error:
            allowed = f"a certificate and its key, as PEM files ({error})"
            raise InvalidInput("tls_cert", str(self.certificate), allowed) from None

    @classmethod
    def of(cls, certificate: Path | None, key: Path | None) -> Tls | None:
        """Return the two, or None if neither is given."""
        if certificate is None and key is None:
            return None
        if certificate is None or key is None:
            missing = "tls_cert" if certificate is None else "tls_key"
            raise InvalidInput(missing, None, "both a certificate and its key")
        return cls(certificate, key)


@dataclass(frozen=True)
class Address:
    """An IP address and a port; 0: any that is free.

    Examples
    --------
    >>> Address.parse("localhost:8731"), Address.parse("[::1]:0").is_loopback
    (Address(host='127.0.0.1', port=8731), True)
    >>> Address.parse("0.0.0.0:8731").check_reach(None, None)
    Traceback (most recent call last):
        ...
    fedglb.errors.InvalidInput: http = '0.0.0.0:8731' is not allowed: give 127.0.0.1 or another \
loopback address, or add --token-file, --tls-cert and --tls-key: others reach this one
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``127.0.0.1:8731``, ``localhost:8731`` or ``[::1]:8731``."""
        host, colon, port = text.rpartition(":")
        host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
        try:
            ipaddress.ip_address(host)
            found = int(port) if colon and port.isascii() and port.isdigit() else -1
        except ValueError:
            found = -1
        if not 0 <= found < 2**16:
            raise InvalidInput("http", text, "an IP address and a port, such as 127.0.0.1:8731")
        return cls(host, found)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def name(self) -> str:
        """The host as addresses of pages have it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names that a request's Host may have; None: any.

        On loopback it has to be the machine's own: a page from elsewhere can make a browser take
        its own name for 127.0.0.1, and would then read what is here.
        """
        return LOOPBACK | {self.name} if self.is_loopback else None

    def check_reach(self, token: str | None, tls: Tls | None) -> None:
        """Refuse an address that others reach, unless there are a token and TLS."""
        if not self.is_loopback and (token is None or tls is None):
            allowed = "127.0.0.1 or another loopback address, or add --token-file, --tls-cert and "
            given = f"{self.name}:{self.port}"
            raise InvalidInput("http", given, allowed + "--tls-key: others reach this one")

    def listen(self) -> socket.socket:
        """Return a socket that listens there."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=BACKLOG)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise Unavailable(f"{self.host}:{self.port}: {error.strerror}") from None
            allowed = f"an address of this machine ({error.strerror})"
            raise InvalidInput("http", f"{self.host}:{self.port}", allowed) from None

    def url(self, port: int, tls: Tls | None) -> str:
        """Return what to ask for, once the port is known."""
        return f"{'http' if tls is None else 'https'}://{self.name}:{port}"


def read_token(path: Path) -> str:
    """Return the token in a file, without the white space around it."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("token_file", str(path), f"a file that can be read ({error})") from None
    if len(token) < _SHORTEST or not token.isprintable() or " " in token:
        allowed = f"a file with one secret of at least {_SHORTEST} letters and digits in it"
        raise InvalidInput("token_file", str(path), allowed)
    if path.stat().st_mode & 0o077:
        _log.warning("others can read the token: run chmod 600 %s", path)
    return token


def same_token(given: bytes, token: str) -> bool:
    """Compare in constant time, so that nobody learns a token letter by letter."""
    return hmac.compare_digest(given.strip(), token.encode())


def host_of(header: bytes) -> str:
    """Return a request's Host without its port.

    Examples
    --------
    >>> host_of(b"LOCALHOST:8731"), host_of(b"[::1]:8731")
    ('localhost', '[::1]')
    """
    text = header.decode("latin-1").lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]
