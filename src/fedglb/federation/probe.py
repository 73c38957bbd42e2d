"""A probe of a NATS server: admission, certificate, version.

It speaks the protocol over a plain socket, step by step, to tell which step fails.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from fedglb.federation.certificates import Certificate

_TIMEOUT = 2.0  # seconds
_HELLO = {"verbose": False, "pedantic": False, "lang": "fedglb", "version": "1", "protocol": 1}


class Unreachable(ConnectionError):
    """No answer at the server's address, before TLS."""


@dataclass(frozen=True)
class Probe:
    """Connects to a server as the holder of a certificate."""

    context: ssl.SSLContext  # with our certificate and the trusted authority
    address: tuple[str, int]
    hostname: str  # expected in the server's certificate
    timeout: float = _TIMEOUT  # seconds per step

    @contextmanager
    def _connected(self) -> Iterator[tuple[ssl.SSLSocket, BinaryIO, dict[str, Any]]]:
        try:
            plain = socket.create_connection(self.address, self.timeout)
        except OSError as error:
            raise Unreachable(str(error)) from error
        with (
            plain,
            self.context.wrap_socket(plain, server_hostname=self.hostname) as secure,
            secure.makefile("rb") as lines,
        ):
            _, _, text = lines.readline().partition(b" ")  # INFO {…}
            secure.sendall(b"CONNECT " + json.dumps(_HELLO).encode() + b"\r\n")
            yield secure, lines, json.loads(text or b"{}")

    def admitted(self) -> bool | None:
        """Return whether the server admits us.

        True: yes; False: it knows no such member; None: no clear answer. No message is sent or
        received: the connection is closed as soon as the server has answered.
        """
        try:
            with self._connected() as (secure, lines, _):
                secure.sendall(b"PING\r\n")
                answer = lines.readline()
        except (OSError, ValueError):  # ssl.SSLError is an OSError
            return None
        if answer.startswith(b"PONG"):
            return True
        return False if b"Authorization Violation" in answer else None

    def wait_until_admitted(self, wanted: bool, timeout: float = 5.0) -> bool:
        """Try until `admitted()` is `wanted`: a server takes a moment to reload."""
        return patiently(lambda: self.admitted() is wanted, timeout)

    def certificate(self) -> Certificate | None:
        """Return the certificate that the server shows; None without a connection."""
        try:
            with self._connected() as (secure, _, _):
                shown = secure.getpeercert(binary_form=True)
        except (OSError, ValueError):
            return None
        return Certificate(ssl.DER_cert_to_PEM_cert(shown).encode()) if shown else None

    def info(self) -> dict[str, Any]:
        """Return the server's INFO (`version` and more); raises the error of a failed step."""
        with self._connected() as (_, _, said):
            return said


def patiently(condition: Callable[[], bool], timeout: float) -> bool:
    """Wait until `condition()` holds; return False after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
