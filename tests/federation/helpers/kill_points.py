"""The moments at which a process may die: around every write to SQLite and every send.

Installed from outside, in a process of a test only: the package has no hooks for it.

* ``before``, ``after``: a statement, or a message handed to the connection. A message that was
  only handed over is still in the process's own memory, and mostly dies with it.
* ``sent``: the server has the message.
"""

from __future__ import annotations

import functools
import os
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from fedglb.federation.connection import Connection

WRITES = ("BEGIN", "COMMIT", "ROLLBACK", "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE")


@dataclass(frozen=True)
class Fault:
    """Death at the `count`-th time that a process comes to `name`.

    `pid` is who dies; None: the process itself.
    """

    when: str
    name: str
    count: int
    pid: int | None = None


class Faults:
    """Counts how often a process comes to each place, and strikes at the one that is armed."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._armed: Fault | None = None
        self._lock = threading.Lock()

    def arm(self, fault: Fault | None) -> None:
        """Count from the beginning, and wait for this fault."""
        with self._lock:
            self.seen.clear()
            self._armed = fault

    def before(self, name: str) -> tuple[str, int]:
        """Return the place, and how often the process has come to it."""
        with self._lock:
            self.seen[name] += 1
            moment = name, self.seen[name]
        self.strike("before", moment)
        return moment

    def due(self, when: str, moment: tuple[str, int]) -> bool:
        fault = self._armed
        return fault is not None and (fault.when, fault.name, fault.count) == (when, *moment)

    def strike(self, when: str, moment: tuple[str, int]) -> None:
        fault = self._armed
        if fault is None or not self.due(when, moment):
            return
        self._armed = None
        os.kill(os.getpid() if fault.pid is None else fault.pid, signal.SIGKILL)


def install(faults: Faults) -> None:
    """Put the faults around all that this process writes and sends."""

    class Traced(sqlite3.Connection):
        def execute(self, sql, *given):
            name = statement(sql)
            if name is None:
                return super().execute(sql, *given)
            moment = faults.before(name)
            out = super().execute(sql, *given)
            faults.strike("after", moment)
            return out

        def executemany(self, sql, *given):
            moment = faults.before(str(statement(sql)))
            out = super().executemany(sql, *given)
            faults.strike("after", moment)
            return out

    sqlite3.connect = functools.partial(sqlite3.connect, factory=Traced)
    publish = Connection.publish

    async def traced(self, subject, payload):
        if not payload.startswith(b"fgb"):  # between coordinators: it comes with the clock
            return await publish(self, subject, payload)
        moment = faults.before(f"send {msgspec.msgpack.decode(payload[4:])['type']}")
        out = await publish(self, subject, payload)
        faults.strike("after", moment)
        if faults.due("sent", moment):
            for _ in range(2):  # nats-py's PING overtakes what it has not sent yet, but once only
                with suppress(Exception):
                    await self._nats.flush(2)
        faults.strike("sent", moment)
        return out

    Connection.publish = traced


def statement(sql: str) -> str | None:
    """Name a statement that writes by its first words; None: it only reads.

    >>> statement("REPLACE INTO frozen VALUES (?, ?, ?, ?, ?)")
    'REPLACE INTO frozen'
    """
    words = sql.split("(")[0].split()
    if words[0] not in WRITES:
        return None
    return " ".join(words[: 2 if words[0] == "UPDATE" else 3])
