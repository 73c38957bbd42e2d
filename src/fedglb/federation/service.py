"""The coordinator as a service: its conversation, carried by NATS."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.bundle import Bundle
from fedglb.federation.connection import Connection
from fedglb.federation.coordination import Coordination, Outgoing
from fedglb.federation.coordinator_file import CoordinatorFile
from fedglb.federation.errors import Unavailable
from fedglb.federation.event import Event
from fedglb.federation.inbox import Inbox
from fedglb.federation.names import COORDINATOR, down, up
from fedglb.federation.policy import Policy
from fedglb.federation.rehearsal import rehearse

log = logging.getLogger(__name__)
_TICK = 0.05  # seconds


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
        See `Coordination`.
    """

    def __init__(
        self,
        bundle: Bundle,
        file: CoordinatorFile,
        policy: Policy,
        tell: Callable[[Event], None],
        after: int = 0,
    ) -> None:
        rehearse(bundle.agreement)
        self._bundle = bundle
        self.coordination = Coordination(bundle.agreement, file, policy, tell, after)

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
    tell: Callable[[Event], None],
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
