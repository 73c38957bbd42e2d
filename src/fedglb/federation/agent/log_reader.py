"""The log of an agent, read beside the agent's own writes.

A long log is read by another process: a thread would hold the interpreter's lock for much of
the time, and every call of the application would wait for that.
"""

from __future__ import annotations

import io
import json
import logging
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fedglb.federation.agent.log_frames import LogEnd, frames
from fedglb.federation.errors import Unavailable
from fedglb.federation.sqlite import close, reader

if TYPE_CHECKING:
    import polars as pl

log = logging.getLogger(__name__)
_SHORT = 20_000  # rows that are read here, in a fraction of a second: a process would take longer
_NICE = 10  # the process's priority is lower by this: an export has time
_LENGTH = struct.Struct("<q")  # before each table; 0: the end
_PROGRAM = (
    "import json, sys\n"
    "sys.path[:] = json.loads(sys.argv[1])\n"
    "from fedglb.federation.agent.log_reader import send\n"
    "send(*sys.argv[2:])\n"
)


class LogReader:
    """Reads the log of an agent's file, which this process has open, up to `end`."""

    def __init__(self, path: Path, end: LogEnd, dim: int) -> None:
        self._path, self._end, self._dim = path, end, dim
        self._stop: list[Callable[[], object]] = []  # what ends the reading
        self._lock, self._open, self._process = threading.Lock(), True, os.getpid()

    def close(self) -> None:
        """Read no further; harmless if it is closed, and in a forked child."""
        if os.getpid() == self._process:
            with self._lock:
                self._open = False
                while self._stop:
                    self._stop.pop()()

    def batches(self, rows: int) -> Iterator[pl.DataFrame]:
        """Yield tables of `rows` rows, the last one of fewer; at least one table."""
        try:
            found = self._here(rows)
            if self._end.number > _SHORT and _is_python(sys.executable):
                found = self._in_a_process(rows)
            yield from found
        finally:
            self.close()

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise Unavailable("an export belongs to the process that began it")
        if not self._open:
            raise Unavailable("this agent was closed while its log was read")

    # -- a short log -----------------------------------------------------------------------------

    def _here(self, rows: int) -> Iterator[pl.DataFrame]:
        with self._lock:
            self._check()
            db = reader(self._path)
            self._stop.append(lambda: close(db))
        found = frames(db, self._end, self._dim, rows)
        while True:
            with self._lock:  # so that it is not closed in between
                self._check()
                table = next(found, None)
            if table is None:
                return
            yield table

    # -- a long one ------------------------------------------------------------------------------

    def _in_a_process(self, rows: int) -> Iterator[pl.DataFrame]:
        given = (self._path, self._end.number, self._end.sequence, self._dim, rows)
        command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), *map(str, given)]
        with self._lock:
            self._check()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            self._stop.append(lambda: _end(process))
        begun = False
        while True:
            try:
                table = _receive(process)
            except EOFError:
                self._check()
                if begun:
                    raise Unavailable("the process that read the log has ended") from None
                log.warning("a process that reads the log cannot be started: it is read here")
                yield from self._here(rows)
                return
            if table is None:
                return
            begun = True
            yield table


def _is_python(path: str | None) -> bool:
    """Return whether a program is Python, and not one that has it inside, as uWSGI does."""
    return bool(path) and "python" in Path(str(path)).name.lower()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        with suppress(OSError):
            process.stdout.close()


def _receive(process: subprocess.Popen[bytes]) -> pl.DataFrame | None:
    """Return the next table that a process sends; None: the end."""
    import polars as pl

    (length,) = _LENGTH.unpack(_exactly(process, _LENGTH.size))
    return pl.read_ipc(io.BytesIO(_exactly(process, length))) if length else None


def _exactly(process: subprocess.Popen[bytes], length: int) -> bytes:
    assert process.stdout is not None
    try:
        found = process.stdout.read(length)
    except ValueError:  # it was closed
        found = b""
    if len(found) < length:
        raise EOFError
    return found


def send(path: str, number: str, sequence: str, dim: str, rows: str) -> None:
    """In another process: write the log to standard output, one table after the other."""
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    out = sys.stdout.buffer
    db = reader(path)
    with suppress(BrokenPipeError):  # the reader has stopped
        for table in frames(db, LogEnd(int(number), int(sequence)), int(dim), int(rows)):
            content = io.BytesIO()
            table.write_ipc(content)
            out.write(_LENGTH.pack(len(content.getbuffer())))
            out.write(content.getbuffer())
            out.flush()
        out.write(_LENGTH.pack(0))
        out.flush()
    os._exit(0)  # without a look at a pipe that may be broken
