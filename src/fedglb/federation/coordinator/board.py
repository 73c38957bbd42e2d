"""A coordinator's status for other threads (a board) and other processes (a socket).

The socket lies beside the coordinator's file. It sends one status as JSON to each process that
connects, and reads nothing. Only the file's owner can connect.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from fedglb.federation.coordinator.status import CoordinatorStatus

log = logging.getLogger(__name__)
_EVERY = 1.0  # seconds between two snapshots
_LONGEST = 100  # bytes of a path that a socket's address can hold, on every system
_PATIENCE = 10.0  # seconds to send or to receive a status
_CERTIFICATES_EVERY = 10.0  # seconds between two reads of the certificates' files


class Board:
    """Holds the newest status of a coordinator; any thread may read it.

    `read_certificates` returns the expiry of each member's certificate (Unix time). It may take a
    while, so it runs in another thread.
    """

    def __init__(self, read_certificates: Callable[[], Mapping[str, float]] | None = None) -> None:
        self._read_certificates = read_certificates
        self.watched = False  # whether anybody reads `latest`
        self.latest: CoordinatorStatus | None = None
        self.certificates: Mapping[str, float] = {}

    async def keep_current(self, status: Callable[[], CoordinatorStatus]) -> None:
        """Renew `latest` every second while it is watched, until cancelled."""
        read_at = -_CERTIFICATES_EVERY
        while True:
            if self._read_certificates and time.monotonic() - read_at >= _CERTIFICATES_EVERY:
                read_at = time.monotonic()
                try:
                    self.certificates = await asyncio.to_thread(self._read_certificates)
                except Exception as error:  # a fault in the display must not stop updates
                    log.warning("cannot read the certificates: %s", error)
            if self.watched:
                try:
                    self.latest = status()
                except Exception:
                    log.exception("cannot build the status")
            await asyncio.sleep(_EVERY)


def place_of(state: str | Path) -> Path:
    """Return the socket of the coordinator with this file."""
    return Path(state).with_suffix(".sock")


@asynccontextmanager
async def answering(
    state: str | Path, status: Callable[[], CoordinatorStatus]
) -> AsyncIterator[None]:
    """Answer on the socket inside this block; if there is none, only log that."""
    path = place_of(state)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                writer.write(status().to_json())
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_unix_server(answer, sock=_bound(path))
    except OSError as error:
        log.warning("no status on %s: %s", path, error.strerror or error)
        yield
        return
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


def ask(state: str | Path) -> CoordinatorStatus | None:
    """Return the status of the coordinator with this file; None: it does not answer."""
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(_address(place_of(state)))
            line = stack.enter_context(socket.socket(socket.AF_UNIX))
            line.settimeout(_PATIENCE)
            line.connect(address)
            received = b"".join(iter(lambda: line.recv(1 << 16), b""))
        except OSError:
            return None
    return CoordinatorStatus.from_json(received) if received else None


def _bound(path: Path) -> socket.socket:
    """Return a socket at this path, replacing one of a killed coordinator.

    The coordinator holds the lock of its file, so no other one uses the path.
    """
    line = socket.socket(socket.AF_UNIX)
    try:
        path.unlink(missing_ok=True)
        with _address(path) as address:
            line.bind(address)
        path.chmod(0o600)  # before it listens
    except BaseException:
        line.close()
        raise
    return line


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Yield an address for a path that may be too long for an address."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"  # Linux
    finally:
        os.close(folder)
