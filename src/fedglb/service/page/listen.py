"""Where the page is served and who may see it: this machine, or others with TLS and a token."""

from __future__ import annotations

import socket
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedglb.service.listening import Address, Tls, host_of, read_token, same_token

_OPEN = frozenset({"/healthz"})  # it tells nothing but that the coordinator is alive


@dataclass(frozen=True)
class Listen:
    """An address, and what a request has to bring.

    Parameters
    ----------
    address
        Where.
    token
        The secret that requests have to bring; None: none.
    tls
        The certificate, where there is TLS.
    """

    address: Address
    token: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    @classmethod
    def parse(
        cls,
        http: str,
        token_file: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> Listen:
        """Read ``127.0.0.1:8732`` and the files; refuse what others could read."""
        address = Address.parse(http)
        tls = Tls.of(certificate, key)
        token = None if token_file is None else read_token(token_file)
        address.check_reach(token, tls)
        return cls(address, token, tls)

    def bind(self) -> socket.socket:
        """Return a socket that listens there."""
        return self.address.listen()

    def url(self, port: int) -> str:
        """Return the page's address, once its port is known."""
        return f"{self.address.url(port, self.tls)}/"

    def refusal(self, path: str, headers: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        """Return with which status and why a request is refused, or None if it is not."""
        hosts = self.address.hosts
        if hosts is not None and host_of(headers.get(b"host", b"")) not in hosts:
            return 403, f"the request's Host has to be one of {', '.join(sorted(hosts))}"
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
        return same_token(given, self.token)
