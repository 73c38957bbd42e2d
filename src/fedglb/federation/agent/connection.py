"""The thread that carries an agent's part of the conversation, beside the application."""

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
_WAITING = 1000  # messages that may wait; what is dropped is sent again


class AgentConnection:
    """Connects, says hello, answers, and says every `beat` seconds that the agent is there."""

    def __init__(self, bundle: Bundle, participation: AgentSession, beat: float) -> None:
        self._bundle, self._participation, self._beat = bundle, participation, beat
        self._connection: Connection | None = None
        self._loop = asyncio.new_event_loop()
        self._main: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fedglb-agent", daemon=True)
        self._thread.start()

    @property
    def connected(self) -> bool:
        """Whether the server is there."""
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
            log.exception("the agent goes on alone: its connection failed")
        finally:
            self._loop.close()

    async def _talk(self) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)

        def received(_: str, payload: bytes) -> None:
            if not queue.full():
                queue.put_nowait(payload)

        async def begin() -> None:
            await self._send(self._participation.hello())

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
        """Handle one message after the other; passes over samples run outside the event loop."""
        learner, session = self._participation.learner, self._participation.session
        dim, loop = learner.agreement.problem.dim, asyncio.get_running_loop()
        while True:
            payload = await queue.get()
            try:
                addressee, message = decode_down(payload, learner.name, dim)
            except Malformed as error:
                log.error("the coordinator's message is dropped: %s", error)
                continue
            if addressee not in ("", session):
                continue  # for the session before this one
            try:
                answers = await loop.run_in_executor(pool, self._participation.receive, message)
            except Unavailable:
                continue  # closed while at it
            except RuntimeError as error:
                if "shutdown" in str(error):
                    return  # the interpreter exits, and nobody closed the agent
                raise
            except Exception:  # a full disk, say: the coordinator asks again
                log.exception("a message of the coordinator could not be handled")
                continue
            for answer in answers:
                await self._send(answer)

    async def _speak(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._wanted.wait(), self._beat)
            except TimeoutError:
                await self._send(self._participation.beat())
                continue
            self._wanted.clear()
            request = self._participation.request()
            if request is not None:
                await self._send(request)

    async def _send(self, message: Upward) -> None:
        assert self._connection is not None
        subject = up(self._bundle.federation, self._bundle.client)
        try:
            payload = encode(message, self._participation.session)
        except InvalidInput as error:  # an error of ours must not end the conversation
            log.error("%s is not sent: %s", message.name, error)
            return
        await self._connection.publish(subject, payload)
