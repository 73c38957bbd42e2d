"""A short conversation with a NATS server by hand: whether it admits us, what it says of itself.

It speaks the protocol over a plain socket, step by step, so that each step can be seen to fail.
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
    """Nobody answers at the server's address: TLS has not begun."""


@dataclass(frozen=True)
class Probe:
    """Connects to a server as the holder of a certificate.

    Parameters
    ----------
    context
        The certificate, and whom to trust.
    address
        Where the server listens.
    hostname
        What the server's certificate must say.
    timeout
        Seconds that each step may take.
    """

    context: ssl.SSLContext
    address: tuple[str, int]
    hostname: str
    timeout: float = _TIMEOUT

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
        """Try until the answer is the wanted one: a server takes a moment to reload."""
        return patiently(lambda: self.admitted() is wanted, timeout)

    def certificate(self) -> Certificate | None:
        """Return the server's own certificate, as it is shown to us; None: no connection."""
        try:
            with self._connected() as (secure, _, _):
                shown = secure.getpeercert(binary_form=True)
        except (OSError, ValueError):
            return None
        return Certificate(ssl.DER_cert_to_PEM_cert(shown).encode()) if shown else None

    def info(self) -> dict[str, Any]:
        """Return the server's first words: `version` and more; raises what goes wrong."""
        with self._connected() as (_, _, said):
            return said

    def ask(self, subject: str, inbox: str, body: dict[str, Any]) -> Any:
        """Return the answer to a question, in JSON both; None: there is none."""
        question = json.dumps(body).encode()
        said = f"SUB {inbox} 1\r\nPUB {subject} {inbox} {len(question)}\r\n".encode()
        try:
            with self._connected() as (secure, lines, _):
                secure.sendall(said + question + b"\r\n")
                answer = _message(lines)
            return None if answer is None else json.loads(answer)
        except (OSError, ValueError):
            return None


def patiently(condition: Callable[[], bool], timeout: float) -> bool:
    """Return True as soon as `condition()` holds; False: it has not within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _message(lines: BinaryIO) -> bytes | None:
    """Return the first message that comes; None: the server refuses."""
    while line := lines.readline():
        kind, *words = line.split()
        if kind == b"MSG":
            return lines.read(int(words[-1]))
        if kind == b"HMSG":
            return lines.read(int(words[-1]))[int(words[-2]) :]
        if kind == b"-ERR":
            return None
    return None
