"""A federation for tests: an operator's folder, and a real nats-server on a free port.

with federation(tmp_path, ["a", "b"]) as running:
    bundle = running.bundle("a")
    running.kill()
    running.start()
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats

from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.federation.names import COORDINATOR
from fedglb.federation.operator import operator
from fedglb.problem_table import ProblemTable
from tests.federation.helpers import nats_process
from tests.federation.helpers.nats_process import free_port

NAME = "demo"
PATIENCE = 300.0  # seconds after which a test gives up: what takes a moment, on a busy machine


def eventually(
    condition: Callable[[], object], what: str, seen: Callable[[], object] = str
) -> None:
    """Return as soon as `condition()` holds; fail after a while, and say what was `seen`."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for: {what}; {seen()}"
        time.sleep(0.01)


def table(max_clients: int = 10, dim: int = 3, **algorithm: Any) -> AgreementTable:
    """A small agreement; `algorithm` are parameters of the preset."""
    given = {"name": "fedglb-ucb", "threshold": 1e9, **algorithm}
    return AgreementTable(max_clients, ProblemTable(dim), given)


@dataclass
class Running:
    """An operator's folder and its server; a `with` block starts and stops it."""

    folder: Path
    port: int
    server: nats_process.NatsProcess | None = None

    def start(self) -> None:
        self.server = nats_process.start(self.folder / "server", self.folder / "server" / "log")

    def stop(self) -> None:
        if self.server is not None:
            self.server.stop()
            self.server = None

    def kill(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server = None

    def bundle(self, name: str) -> Bundle:
        return Bundle.read(self.folder / "clients" / name)

    @property
    def coordinator_bundle(self) -> Bundle:
        return Bundle.read(self.folder / COORDINATOR)

    @property
    def log(self) -> str:
        """What the server said."""
        return (self.folder / "server" / "log").read_text()

    def __enter__(self) -> Running:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def federation(
    tmp_path: Path, clients: Sequence[str] = ("a", "b"), agreed: AgreementTable | None = None
) -> Running:
    """A new federation on the loopback address; it runs inside a `with` block."""
    port, folder = free_port(), tmp_path / "federation"
    agreed = table() if agreed is None else agreed
    operator.init(folder, NAME, agreed, clients, ["127.0.0.1"], port, bind="127.0.0.1")
    return Running(folder, port)


class Connected:
    """A connection, what was heard on it and what the server complained of."""

    def __init__(self, connection: Any) -> None:
        self.nc = connection
        self.heard: list[tuple[str, bytes]] = []
        self.errors: list[str] = []
        self.lost = asyncio.Event()

    async def listen(self, *subjects: str) -> None:
        async def keep(message: Any) -> None:
            self.heard.append((message.subject, message.data))

        for subject in subjects:
            await self.nc.subscribe(subject, cb=keep)
        await self.flush()

    async def say(self, subject: str, data: bytes, **more: Any) -> None:
        await self.nc.publish(subject, data, **more)

    async def flush(self) -> None:
        """Return when the server has taken all that was said.

        Twice: nats-py's PING overtakes what it has not sent yet, but not on the second time.
        """
        await self.nc.flush(PATIENCE)
        await self.nc.flush(PATIENCE)


@asynccontextmanager
async def connected(bundle: Bundle, **options: Any) -> AsyncIterator[Connected]:
    """Connect as a member, once: no second attempt when the connection is lost."""
    nc = nats.NATS()
    out = Connected(nc)

    async def complain(error: Exception) -> None:
        out.errors.append(str(error).lower())

    async def lose() -> None:
        out.lost.set()

    async def connect() -> None:
        await nc.connect(
            **{
                **bundle.connection(), "allow_reconnect": False, "connect_timeout": PATIENCE,
                "error_cb": complain, "disconnected_cb": lose, **options,
            }
        )  # fmt: skip

    try:
        await asyncio.wait_for(connect(), PATIENCE)
    except BaseException:
        with suppress(TimeoutError):  # nats-py waits forever after a handshake that failed
            await asyncio.wait_for(nc.close(), 0.2)
        raise
    try:
        yield out
    finally:
        if not nc.is_closed:
            await asyncio.wait_for(nc.close(), PATIENCE)


async def refused(bundle: Bundle, **options: Any) -> str:
    """Why a connection does not come about; it must not."""
    try:
        async with connected(bundle, **options):
            pass
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("was let in")


async def until(condition: Any) -> None:
    """Wait until `condition()` holds; fail after a while."""

    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), PATIENCE)
