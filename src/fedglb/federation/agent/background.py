"""The thread and the pool that all agents of a process share, beside the application."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")
log = logging.getLogger(__name__)
_PASSES = max(2, min(4, os.cpu_count() or 1))  # so one agent's long pass does not stop the others
_HANDSHAKES = 16  # at a time and server: hundreds at once would all run into their time limit
_PATIENCE = 10.0  # seconds to end


class Background:
    """An event loop in a daemon thread, and a small pool for passes over many samples.

    It is there from the first agent's `enter` to the last one's `leave`; a thousand agents have
    one, and so do two.
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
        """Return this process's, which is started for the first agent; `leave` is to follow."""
        global _shared
        with _lock:
            if _shared is None:
                _shared = cls()
            _shared._users += 1
            return _shared

    def leave(self) -> None:
        """Say that an agent is done with it; with the last agent it ends."""
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

    async def run(self, action: Callable[[T], list[U]], argument: T) -> list[U]:
        """Return what a function returns that takes long: it runs in the pool."""
        try:
            return await self.loop.run_in_executor(self._pool, action, argument)
        except RuntimeError as error:
            if "shutdown" in str(error):
                return []  # the interpreter exits, and the agent was not closed
            raise

    def turns(self, server: str) -> asyncio.Semaphore:
        """Return what bounds the handshakes with one server; those with others do not wait."""
        return self._turns.setdefault(server, asyncio.Semaphore(_HANDSHAKES))

    def _run(self) -> None:
        try:
            with self._runner as runner:
                runner.run(self._until_stopped())
        except Exception:
            log.exception("the connections failed: all agents go on without their federations")

    async def _until_stopped(self) -> None:
        await self._stopped.wait()


_shared: Background | None = None
_lock = threading.Lock()


def _forget() -> None:
    """In a forked child: begin anew, for only the thread that forked is there.

    The parent's loop is kept for ever: to close it here would remove sockets from the set that
    the parent's loop waits for, which both processes have.
    """
    global _shared, _lock
    if _shared is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_shared))
    _shared, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
