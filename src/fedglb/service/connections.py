"""Connections to a service, kept open and used by one call at a time each."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

from fedglb.errors import InvalidInput

_MAX_KEPT = 64
_PROXY_ERRORS = (502, 503, 504)


@dataclass(frozen=True)
class Answer:
    """A status, its Retry-After header, and the body.

    After a proxy's answer (not `from_service`) the request may still have been carried out.
    """

    status: int
    retry_after: str | None
    body: bytes
    from_service: bool = True


class Connections:
    """Connections to one address, for any number of threads; a forked child opens new ones.

    An exchange may take `timeout` seconds. `tls` has the trusted certificates; None: the system's.
    """

    def __init__(
        self, url: str, token: str | None, timeout: float, tls: ssl.SSLContext | None
    ) -> None:
        parts = urlsplit(url)
        path = parts.path if parts.scheme == "unix" else ""
        try:
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            self._host = ""
        known = parts.scheme in ("http", "https") and self._host and parts.path in ("", "/")
        if not (known or (path.startswith("/") and not parts.netloc)):
            allowed = "http://127.0.0.1:8731, https://HOST:PORT or unix:///path/of/the/socket"
            raise InvalidInput("url", url, allowed)
        self._scheme, self._path, self._timeout, self._tls = parts.scheme, path, timeout, tls
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._kept: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def exchange(self, method: str, path: str, body: bytes | None) -> Answer:
        """Send a request and return the answer; `OSError` or `HTTPException` without an answer.

        A connection that the service has closed meanwhile fails, too: the caller tries again.
        """
        connection = self._take()
        try:
            connection.request(method, path, body, self._headers)
            answer = _answer(connection.getresponse())
        except BaseException:
            connection.close()
            raise
        self._keep(connection)
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for connection in self._kept:
                connection.close()
            self._kept.clear()

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._process != os.getpid():  # a child must not write to its parent's connections
                self._process, self._kept = os.getpid(), []
            if self._kept:
                return self._kept.pop()
        if self._scheme == "unix":
            return _UnixConnection(self._path, self._timeout)
        if self._scheme == "https":
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=self._tls
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if connection.sock is not None and len(self._kept) < _MAX_KEPT:
                self._kept.append(connection)
                return
        connection.close()


def _answer(response: http.client.HTTPResponse) -> Answer:
    """Return an answer; a proxy that did not reach the service counts as Retry-After."""
    again = response.headers.get("Retry-After")
    known = "json" in response.headers.get("Content-Type", "")
    if response.status in _PROXY_ERRORS and not known:
        return Answer(response.status, again or "1", response.read(), from_service=False)
    return Answer(response.status, again, response.read())


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._socket_path, self._seconds = path, timeout

    def connect(self) -> None:
        """Connect to the socket's file."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._seconds)
        self.sock.connect(self._socket_path)
