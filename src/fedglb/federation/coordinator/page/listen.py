"""Where the page is served and who may see it: this machine, or others with TLS and a token."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import socket
import ssl
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.errors import Unavailable

_SHORTEST = 16  # characters of a token
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OPEN = frozenset({"/healthz"})  # it tells nothing but that the coordinator is alive
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listen:
    """An address, and what a request has to bring.

    Parameters
    ----------
    host, port
        An IP address and a port; 0: any that is free.
    token
        The secret that requests have to bring; None: none.
    certificate, key
        PEM files, for TLS.
    """

    host: str
    port: int
    token: str | None = field(default=None, repr=False)
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def parse(
        cls,
        http: str,
        token_file: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> Listen:
        """Read ``127.0.0.1:8732`` and the files; refuse what others could read.

        Examples
        --------
        >>> Listen.parse("127.0.0.1:8732").port
        8732
        >>> Listen.parse("0.0.0.0:8732")
        Traceback (most recent call last):
            ...
        fedglb.errors.InvalidInput: http = '0.0.0.0:8732' is not allowed: give 127.0.0.1 or \
another loopback address, or add a token file, a certificate and its key: others reach this one
        """
        host, colon, port = http.rpartition(":")
        host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
        digits = bool(colon) and port.isascii() and port.isdigit() and int(port) < 2**16
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            address = None
        if address is None or not digits:
            raise InvalidInput("http", http, "an IP address and a port, such as 127.0.0.1:8732")
        if (certificate is None) != (key is None):
            raise InvalidInput("tls_key", None, "a certificate and its key, both or none")
        if not address.is_loopback and (token_file is None or certificate is None):
            allowed = "127.0.0.1 or another loopback address, or add a token file, a certificate "
            raise InvalidInput("http", http, allowed + "and its key: others reach this one")
        if certificate is not None and key is not None:
            _check_tls(certificate, key)
        token = None if token_file is None else _token(token_file)
        return cls(host, int(port), token, certificate, key)

    def bind(self) -> socket.socket:
        """Return a socket that listens there."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family)
        except OSError as error:
            raise Unavailable(
                f"the page cannot be served on {self.host}:{self.port}: {error.strerror}"
            ) from None

    def url(self, port: int) -> str:
        """Return the page's address, once its port is known."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}:{port}/"

    def refusal(self, path: str, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        """Return with which status and why a request is refused, or None if it is not.

        On loopback its Host must be this machine's own: a page from elsewhere can make a browser
        take its own name for 127.0.0.1, and would then read this one.
        """
        name = _name(headers.get(b"host", b""))
        if ipaddress.ip_address(self.host).is_loopback and name not in _LOCAL | {self.host}:
            return 403, f"the request's Host has to be one of {', '.join(sorted(_LOCAL))}"
        if self.token is None or path in _OPEN:
            return None
        if not self._has_token(headers.get(b"authorization", b"")):
            return 401, "the request needs the token: as Bearer, or as the password of a browser"
        return None

    def _has_token(self, authorization: bytes) -> bool:
        kind, _, given = authorization.partition(b" ")
        if kind.lower() == b"basic":  # what a browser asks its user for; any name will do
            try:
                given = b64decode(given, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif kind.lower() != b"bearer":
            return False
        assert self.token is not None
        return hmac.compare_digest(given.strip(), self.token.encode())  # in constant time


def _token(path: Path) -> str:
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


def _check_tls(certificate: Path, key: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        allowed = f"a certificate and its key, as PEM files ({error})"
        raise InvalidInput("tls_cert", str(certificate), allowed) from None


def _name(host: bytes) -> str:
    """Return a Host without its port."""
    text = host.decode("latin-1").lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]
