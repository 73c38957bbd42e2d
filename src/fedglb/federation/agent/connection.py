"""The thread that carries an agent's messages to and from NATS, beside the application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from fedglb.errors import InvalidInput
from fedglb.federation.agent.session import AgentSession
from fedglb.federation.bundle import Bundle
from fedglb.federation.connection import Connection
from fedglb.federation.errors import Unavailable
from fedglb.federation.names import down, up
from fedglb.federation.wire.codec import Malformed, decode_down, encode
from fedglb.federation.wire.messages import Goodbye, Upward

log = logging.getLogger(__name__)
_WAITING = 1000  # messages that may wait; the coordinator repeats those that are dropped


class AgentConnection:
    """An agent's thread: it connects, says hello, answers, and sends a heartbeat.

    Parameters
    ----------
    bundle
        Where to connect, and with which certificate.
    session
        The conversation that it carries.
    beat
        Seconds between two heartbeats.
    """

    def __init__(self, bundle: Bundle, session: AgentSession, beat: float) -> None:
        self._bundle, self._session, self._beat = bundle, session, beat
        self._connection: Connection | None = None
        self._loop = asyncio.new_event_loop()
        self._main: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fedglb-agent", daemon=True)
        self._thread.start()

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the NATS server."""
        return self._connection is not None and self._connection.connected

    def wake(self) -> None:
        """Send the request for an update now; costs the caller microseconds."""
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            self._loop.call_soon_threadsafe(self._wanted.set)

    def close(self) -> None:
        """Say goodbye and end the thread."""

        def cancel() -> None:
            if self._main is not None:
                self._main.cancel()

        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(cancel)
        self._thread.join(timeout=10.0)

    # -- inside the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._main = self._loop.create_task(self._talk())
        try:
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._main)
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        except Exception:
            log.exception("the connection failed: the agent goes on without its federation")
        finally:
            self._loop.close()

    async def _talk(self) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)

        def received(_: str, payload: bytes) -> None:
            if not queue.full():
                queue.put_nowait(payload)

        async def begin() -> None:
            await self._send(self._session.hello())

        name, federation = self._bundle.client, self._bundle.federation
        self._connection = Connection(self._bundle, down(federation, name), received, begin)
        pool = ThreadPoolExecutor(1, thread_name_prefix="fedglb-agent-pass")
        # Outside the group, whose tasks all end at once: the goodbye needs the connection.
        connection = asyncio.create_task(self._connection.run())
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._answer(queue, pool))
                tasks.create_task(self._speak())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            await self._send(Goodbye())
            await self._connection.flush()
            connection.cancel()
            await asyncio.wait([connection])

    async def _answer(self, queue: asyncio.Queue[bytes], pool: ThreadPoolExecutor) -> None:
        """Handle one message after the other; passes over the samples run in `pool`."""
        client, session = self._session.client, self._session.session
        dim, loop = client.agreement.problem.dim, asyncio.get_running_loop()
        while True:
            payload = await queue.get()
            try:
                addressee, message = decode_down(payload, client.name, dim)
            except Malformed as error:
                log.error("a malformed message of the coordinator is dropped: %s", error)
                continue
            if addressee not in ("", session):
                continue  # meant for an earlier session of this client
            try:
                answers = await loop.run_in_executor(pool, self._session.receive, message)
            except Unavailable:
                continue  # closed meanwhile
            except RuntimeError as error:
                if "shutdown" in str(error):
                    return  # the interpreter exits, and the agent was not closed
                raise
            except Exception:  # for example a full disk: the coordinator asks again
                log.exception("a message of the coordinator could not be handled")
                continue
            for answer in answers:
                await self._send(answer)

    async def _speak(self) -> None:
        """Send requests when they are wanted, and heartbeats when nothing else is sent."""
        while True:
            try:
                await asyncio.wait_for(self._wanted.wait(), self._beat)
            except TimeoutError:
                await self._send(self._session.beat())
                continue
            self._wanted.clear()
            request = self._session.request()
            if request is not None:
                await self._send(request)

    async def _send(self, message: Upward) -> None:
        assert self._connection is not None
        subject = up(self._bundle.federation, self._bundle.client)
        try:
            payload = encode(message, self._session.session)
        except InvalidInput as error:  # an error of ours must not end the conversation
            log.error("%s is not sent: %s", type(message).__name__, error)
            return
        await self._connection.publish(subject, payload)
