"""The process that serves: where it listens, until it is told to stop."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from fedglb.errors import InvalidInput
from fedglb.federation.errors import Unavailable
from fedglb.service.listening import BACKLOG, Tls
from fedglb.service.protocol import BoundedProtocol


def listen_on_file(path: Path, mode: int) -> socket.socket:
    """Return a unix socket that listens; only those whom the file's mode admits can connect."""
    _remove_stale(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)  # from its first moment on
    try:
        made.bind(str(path))
    except OSError as error:
        made.close()
        allowed = f"a path where a socket can be made ({error.strerror or error})"
        raise InvalidInput("socket", str(path), allowed) from None
    finally:
        os.umask(before)
    made.listen(BACKLOG)
    return made


def _remove_stale(path: Path) -> None:
    """Remove a socket that a killed process left; raise if anybody listens, or it is a file."""
    try:
        kind = path.stat().st_mode
    except OSError:
        return  # nothing is there, or `bind` will say what is wrong
    if not stat.S_ISSOCK(kind):
        raise InvalidInput("socket", str(path), "a path where there is nothing yet, or a socket")
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


def serve(
    app: Any,
    listener: socket.socket,
    tls: Tls | None = None,
    stop_within: float = 30.0,
    on_listening: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until SIGTERM or SIGINT; then finish those in progress, and return.

    Parameters
    ----------
    app
        The ASGI application.
    listener
        The socket, which is closed at the end.
    tls
        The certificate, where there is TLS.
    stop_within
        How many seconds requests in progress have at the end.
    on_listening
        Called once connections are accepted.
    """
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        limit_concurrency=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(stop_within)),
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    # The server puts its own handlers in their place, and at the end sends itself the signals that
    # it had: these handlers then keep it alive, so that the agent is closed.
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        on_listening()
        notify("READY=1")
        server.run([listener])
        notify("STOPPING=1")
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        listener.close()


def notify(state: str) -> None:
    """Tell systemd, where it started this process and wants to be told (Type=notify)."""
    place = os.environ.get("NOTIFY_SOCKET")
    if not place:
        return
    address = "\0" + place[1:] if place.startswith("@") else place
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.sendto(state.encode(), address)
