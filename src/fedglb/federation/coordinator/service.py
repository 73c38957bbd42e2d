"""The coordinator as a service: its conversation, carried by NATS."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.bundle import Bundle
from fedglb.federation.connection import Connection
from fedglb.federation.coordinator.events import CoordinatorEvent
from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.coordinator.session import CoordinatorSession, Outgoing
from fedglb.federation.coordinator.store import CoordinatorFile
from fedglb.federation.errors import Unavailable
from fedglb.federation.names import COORDINATOR, down, up
from fedglb.federation.warm_up import warm_up

log = logging.getLogger(__name__)
_TICK = 0.05  # seconds
_MESSAGES, _BYTES = 64, 32 * 1024 * 1024  # that one client may have waiting


class Inbox:
    """Messages in the order in which they came, so many and so large a client at most.

    What does not fit is dropped; an honest client is asked again.

    Examples
    --------
    >>> inbox = Inbox()
    >>> [inbox.put("a", b"beat") for _ in range(65)].count(True)
    64
    >>> inbox.put("b", b"beat")
    True
    """

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def put(self, client: str, payload: bytes) -> bool:
        """Take a message in; False: this client has too much waiting."""
        full = self._messages[client] >= _MESSAGES
        if full or self._bytes[client] + len(payload) > _BYTES:
            return False
        self._messages[client] += 1
        self._bytes[client] += len(payload)
        self._queue.put_nowait((client, payload))
        return True

    async def get(self, patience: float) -> tuple[str, bytes] | None:
        """Return the next message, or None if none comes in time."""
        try:
            client, payload = self._queue.get_nowait()
        except asyncio.QueueEmpty:
            try:
                client, payload = await asyncio.wait_for(self._queue.get(), patience)
            except TimeoutError:
                return None
        self._messages[client] -= 1
        self._bytes[client] -= len(payload)
        return client, payload


class Service:
    """Runs a federation's coordinator until it is cancelled.

    Parameters
    ----------
    bundle
        The coordinator's own.
    file
        Where its state is kept.
    policy
        How it treats clients that do not answer.
    tell
        Called with every event.
    after
        See `CoordinatorSession`.
    """

    def __init__(
        self,
        bundle: Bundle,
        file: CoordinatorFile,
        policy: Policy,
        tell: Callable[[CoordinatorEvent], None],
        after: int = 0,
    ) -> None:
        warm_up(bundle.agreement)
        self._bundle = bundle
        self.coordination = CoordinatorSession(bundle.agreement, file, policy, tell, after)

    async def run(self) -> None:
        """Serve; on cancellation what is finished is kept."""
        inbox = Inbox()
        everybody = up(self._bundle.federation, "*")
        prefix = len(everybody) - 1

        def received(subject: str, payload: bytes) -> None:
            inbox.put(subject[prefix:], payload)

        async def begin() -> None:
            await self._publish(self.coordination.start(time.monotonic()))

        self._connection = Connection(self._bundle, everybody, received, begin)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._connection.run())
                tasks.create_task(self._converse(inbox))
        except asyncio.CancelledError:
            self.coordination.stop()
            raise

    async def _converse(self, inbox: Inbox) -> None:
        """Handle messages in the order in which they came, and the clock in between."""
        next_tick = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= next_tick and self._connection.connected:
                next_tick = now + _TICK
                await self._handle(lambda: self.coordination.tick(time.monotonic()), "the clock")
            came = await inbox.get(_TICK)
            if came is not None:
                client, payload = came
                now = time.monotonic()
                await self._handle(
                    functools.partial(self.coordination.receive, client, payload, now), client
                )

    async def _handle(self, action: Callable[[], Sequence[Outgoing]], whose: str) -> None:
        try:
            outgoing = action()
        except sqlite3.Error:  # what is not written must not be said: stop, begin anew
            raise
        except Exception:  # whatever a client made happen, the others go on
            log.exception("a message of %s could not be handled", whose)
            return
        await self._publish(outgoing)

    async def _publish(self, outgoing: Sequence[Outgoing]) -> None:
        for client, payload in outgoing:
            await self._connection.publish(down(self._bundle.federation, client), payload)


def serve(
    bundle: Bundle,
    state: str | Path,
    policy: Policy,
    tell: Callable[[CoordinatorEvent], None],
    after: int = 0,
) -> None:
    """Run a coordinator until SIGINT or SIGTERM; `state` is its file."""
    if bundle.client != COORDINATOR:  # before there is a file
        raise InvalidInput("bundle", bundle.client, "the coordinator's bundle")
    file = CoordinatorFile(state, bundle.agreement)
    try:
        asyncio.run(_until_signal(Service(bundle, file, policy, tell, after)))
    except (sqlite3.Error, BaseExceptionGroup) as error:
        # of the tasks inside: the first has the reason
        first = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
        if isinstance(first, sqlite3.Error):
            text = f"{state} cannot be written ({first}): make room and start again"
            raise Unavailable(text) from first
        raise first from None
    finally:
        file.close()


async def _until_signal(service: Service) -> None:
    task, loop = asyncio.ensure_future(service.run()), asyncio.get_running_loop()
    for sign in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends it without this
            loop.add_signal_handler(sign, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
