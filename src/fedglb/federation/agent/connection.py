"""An agent's messages to and from NATS, in a thread that all agents of a process share."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import random
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.agent.session import AgentSession
from fedglb.federation.bundle import Bundle
from fedglb.federation.connection import Connection
from fedglb.federation.errors import Unavailable
from fedglb.federation.names import down, up
from fedglb.federation.wire.codec import Malformed, decode_down, encode
from fedglb.federation.wire.messages import Downward, Goodbye, Upward

log = logging.getLogger(__name__)
_WAITING = 1000  # messages that may wait; the coordinator repeats those that are dropped
_PATIENCE = 10.0  # seconds to wait for the end
_PASSES = max(2, min(4, os.cpu_count() or 1))  # so one agent's long pass does not stop the others
_HANDSHAKES = 16  # at a time and server: hundreds at once would all run into their time limit
_chance = random.SystemRandom()  # leaves the application's random numbers unchanged


class AgentConnection:
    """Connects an agent, says hello, answers, and sends heartbeats at most `beat` seconds apart."""

    def __init__(self, bundle: Bundle, session: AgentSession, beat: float) -> None:
        self._bundle, self._session, self._beat = bundle, session, beat
        self._subject = up(bundle.federation, bundle.client)
        self._wanted = asyncio.Event()
        self._waiting: deque[bytes] = deque()  # while a pass runs in the pool
        self._pass: asyncio.Task[None] | None = None
        self._main: asyncio.Task[None] | None = None
        self._roster: object = None  # which roster, and which other files, were read last
        self._open, self._closing, self._ended = True, threading.Lock(), threading.Event()
        self._background = Background.enter()
        self._connection = Connection(
            bundle,
            down(bundle.federation, bundle.client),
            self._received,
            self._begin,
            self._background.turns(bundle.server),
            self._refused,
        )
        self._call(self._start)

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the NATS server."""
        return self._connection.connected

    def wake(self) -> None:
        """Send the request for an update now; costs the caller microseconds."""
        self._call(self._wanted.set)

    def close(self) -> None:
        """Say goodbye and wait for the end."""
        with self._closing:
            if not self._open:
                return
            self._open = False
            try:
                self._call(self._cancel)
                self._ended.wait(_PATIENCE)
            finally:
                self._background.leave()

    def _call(self, action: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._background.loop.call_soon_threadsafe(action)

    # -- inside the loop, which all agents of the process share -----------------------------------

    def _start(self) -> None:
        self._prepare()
        self._main = asyncio.create_task(self._talk())
        self._main.add_done_callback(lambda _: self._ended.set())

    def _cancel(self) -> None:
        if self._main is not None:
            self._main.cancel()

    async def _talk(self) -> None:
        """Stay connected until cancelled; errors of this agent do not affect others."""
        connection = asyncio.create_task(self._connection.run())
        try:
            await self._speak()
        except Exception:
            log.exception("the connection failed: the agent continues without its federation")
        finally:
            if self._pass is not None:
                self._pass.cancel()
            await self._send(Goodbye())
            await self._connection.flush()
            connection.cancel()
            await asyncio.wait([connection])

    async def _begin(self) -> None:
        self._session.refused = None  # the server's reason is past; the coordinator says its own
        await self._send(self._session.hello())

    def _refused(self, reason: str) -> None:
        """Show in the agent's status why it is not connected, until it is admitted."""
        self._session.admitted, self._session.refused = False, reason

    async def _received(self, _: str, payload: bytes) -> None:
        """Answer at once, or start a pass; messages that arrive meanwhile wait for its end."""
        if self._pass is not None:
            if len(self._waiting) < _WAITING:
                self._waiting.append(payload)
            return
        message = self._decoded(payload)
        if message is None:
            return
        if self._session.answers_soon(message):
            for answer in self._answers(message):
                await self._send(answer)
        else:
            self._pass = asyncio.create_task(self._in_pool(message))

    def _look_for_roster(self) -> None:
        """Read a changed roster in the pool; messages wait meanwhile."""
        found = self._bundle.roster_file(), self._bundle.replaced()
        if self._session.sums is None or self._pass is not None or found == self._roster:
            return
        self._roster = found
        self._pass = asyncio.create_task(self._in_pool(self._bundle.folder))

    async def _in_pool(self, message: Downward | Path | None) -> None:
        """Handle a slow message (or a folder's roster), then those that arrived meanwhile."""
        try:
            while True:
                if message is not None:
                    for answer in await self._background.run(self._answers, message):
                        await self._send(answer)
                if not self._waiting:
                    return
                message = self._decoded(self._waiting.popleft())
        finally:
            self._pass = None

    def _prepare(self) -> None:
        """Let the next release's noise be drawn, if there is any.

        Not right after a release: the update goes on, and its answers would take longer.
        """
        if self._session.client.agreement.setting.noise is not None:
            self._background.start(self._session.answers.prepare_noise)

    def _decoded(self, payload: bytes) -> Downward | None:
        client = self._session.client
        try:
            agreement = client.agreement
            addressee, message = decode_down(
                payload, client.name, agreement.problem.dim, agreement.effects
            )
        except Malformed as error:
            log.error("dropped a malformed message of the coordinator: %s", error)
            return None
        if addressee not in ("", self._session.session):
            return None  # meant for an earlier session of this client
        return message

    def _answers(self, message: Downward | Path) -> list[Upward]:
        try:
            if isinstance(message, Path):
                return self._session.follow_roster(message)
            return self._session.receive(message)
        except Unavailable:  # closed meanwhile
            return []
        except Exception:  # for example a full disk: the coordinator asks again
            self._roster = None  # read it again
            log.exception("failed to handle a message of the coordinator")
            return []

    async def _speak(self) -> None:
        """Send requests for updates, and heartbeats when nothing else is sent."""
        while True:
            # jitter: not all agents at once, also after the machine was suspended
            pause = self._beat * _chance.uniform(0.8, 1.0)
            try:
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            except TimeoutError:
                self._look_for_roster()
                await self._send(self._session.beat())
                self._prepare()
                continue
            self._wanted.clear()
            request = self._session.request()
            if request is not None:
                await self._send(request)

    async def _send(self, message: Upward) -> None:
        try:
            payload = encode(message, self._session.session)
        except InvalidInput as error:  # an own mistake must not end the connection
            log.error("cannot send %s: %s", message.name, error)
            return
        await self._connection.publish(self._subject, payload)


class Background:
    """An event loop in a daemon thread, and a small pool for passes over many samples.

    A process has one, from the first agent's `enter` to the last one's `leave`.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._pool = ThreadPoolExecutor(_PASSES, thread_name_prefix="fedglb-agents-pass")
        self._users = 0
        self._stopped = asyncio.Event()
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._thread = threading.Thread(target=self._run, name="fedglb-agents", daemon=True)
        self._thread.start()

    @classmethod
    def enter(cls) -> Background:
        """Return this process's loop; the first agent starts it."""
        global _shared
        with _lock:
            if _shared is None:
                _shared = cls()
            _shared._users += 1
            return _shared

    def leave(self) -> None:
        """Undo an `enter`; the loop ends with the last agent."""
        global _shared
        with _lock:
            self._users -= 1
            if self._users:
                return
            _shared = None
        with contextlib.suppress(RuntimeError):  # it has ended already, by an error
            self.loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(_PATIENCE)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def run(
        self, action: Callable[[Downward | Path], list[Upward]], message: Downward | Path
    ) -> list[Upward]:
        """Run a slow action in the pool and return its answers."""
        try:
            return await self.loop.run_in_executor(self._pool, action, message)
        except RuntimeError as error:
            if "shutdown" in str(error):
                return []  # the interpreter exits, and the agent was not closed
            raise

    def start(self, action: Callable[[], None]) -> None:
        """Run an action in the pool some time; nobody waits for it."""
        with contextlib.suppress(RuntimeError):  # the pool was shut down
            self._pool.submit(action)

    def turns(self, server: str) -> asyncio.Semaphore:
        """Return the semaphore that bounds simultaneous handshakes with one server."""
        return self._turns.setdefault(server, asyncio.Semaphore(_HANDSHAKES))

    def _run(self) -> None:
        try:
            with self._runner as runner:
                runner.run(self._stopped.wait())
        except Exception:
            log.exception("the connections failed: all agents continue without their federations")


_shared: Background | None = None
_lock = threading.Lock()


def _forget() -> None:
    """In a forked child: start again, because only the forking thread exists.

    The parent's loop is never closed here: that would remove sockets from the epoll set that
    both processes share.
    """
    global _shared, _lock
    if _shared is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_shared))
    _shared, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
