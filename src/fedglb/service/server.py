"""uvicorn, run until a signal (the agent) or in a thread (the coordinator)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fedglb.service.guard import Guard
from fedglb.service.listening import Listen, Tls

_MAX_HEAD, _HEAD_TIMEOUT = 2**16, 20.0  # bytes, seconds
_MAX_CONNECTIONS = 1024  # or half of what `ulimit -n` allows
_BODY_TIME = 1.0  # seconds that a body has, also while there are too many requests
_STOP_THREAD = 1, 5.0  # seconds for requests in progress, and for the thread to end


class BoundedProtocol(HttpToolsProtocol):
    """A connection that closes if a request's head is too long or too slow.

    httptools itself would read a head of any length, for any time. If there are too many, the
    one closes that has gone without a complete request for the longest time.
    """

    since = 0.0  # when the connection, its newest head, or the time after its last answer began
    _head: int | None = 0  # bytes of a head that is not complete
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first head; if there are too many, close another connection."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self._timer = self.loop.call_later(_HEAD_TIMEOUT, transport.close)
        if len(self.connections) > most_connections():
            close_slowest(self.connections)

    @property
    def awaits_body(self) -> bool:
        """Whether a request has begun whose body is not complete."""
        return not self.awaits_head and self.cycle.more_body

    @property
    def awaits_head(self) -> bool:
        """Whether there is no request in progress."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._head = 0
        self.since = self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Go on with the body."""
        self._head = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next head."""
        self.since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Read a piece, and count it while the head is incomplete."""
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > _MAX_HEAD:
                self.transport.close()
            elif self._timer is None:
                self._timer = self.loop.call_later(_HEAD_TIMEOUT, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)


def most_connections() -> int:
    """Return how many there may be: each takes a file descriptor, and the agent needs some."""
    import resource  # there is none on Windows

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_CONNECTIONS if limit < 0 else min(_MAX_CONNECTIONS, limit // 2)


def close_slowest(connections: Collection[Any], *, bodies: bool = False) -> bool:
    """Close the connection that has gone without a complete request for the longest time.

    With `bodies`, only one whose body should have arrived by now. False: there is none.
    """
    found = [
        each
        for each in connections
        if (each.awaits_body or (each.awaits_head and not bodies))
        and not each.transport.is_closing()
    ]
    slowest = min(found, key=lambda each: each.since, default=None)
    if slowest is None or (bodies and slowest.loop.time() - slowest.since < _BODY_TIME):
        return False
    slowest.transport.abort()  # unlike `close`, not after the peer has read everything
    return True


def _server(
    app: Guard, tls: Tls | None, shutdown_timeout: int, loop: Literal["auto", "asyncio"]
) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        loop=loop,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=shutdown_timeout,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    server = uvicorn.Server(config)
    app.make_room = lambda: close_slowest(server.server_state.connections, bodies=True)
    return server


def serve(
    app: Guard, listen: Listen, shutdown_timeout: float, on_listening: Callable[[str], None]
) -> None:
    """Answer requests until SIGTERM or SIGINT; then finish those in progress, and return.

    `on_listening` is called with the URL once connections are accepted.
    """
    server = _server(app, listen.tls, max(1, round(shutdown_timeout)), "auto")

    def stop(*_: object) -> None:
        server.should_exit = True

    with listen.bound() as (listener, url):
        # uvicorn replaces these handlers while it runs and raises received signals again at its
        # end: then these keep the process alive, so that it closes the agent.
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            on_listening(url)
            _notify("READY=1")
            server.run([listener])
            _notify("STOPPING=1")
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


@contextmanager
def serve_in_thread(app: Guard, listen: Listen) -> Iterator[str]:
    """Answer requests in a thread inside this block; yield the URL.

    A long solve blocks the coordinator's event loop, but not this thread; and browsers do not
    delay updates.
    """
    shutdown_timeout, join_timeout = _STOP_THREAD
    server = _server(app, listen.tls, shutdown_timeout, "asyncio")
    with listen.bound() as (listener, url):
        thread = threading.Thread(target=server.run, args=([listener],), name="page", daemon=True)
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join(join_timeout)


def _notify(state: str) -> None:
    """Tell systemd, if it started this process with Type=notify."""
    place = os.environ.get("NOTIFY_SOCKET")
    if not place:
        return
    address = "\0" + place[1:] if place.startswith("@") else place
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.sendto(state.encode(), address)
