"""Alarms of agents and coordinators: what stands, since when, and whom to tell.

A condition is a function of a status and the time: it returns an `Alarm` while it holds. An
`AlarmBoard` is shown what holds now, every few seconds, and tells of the changes. docs/operate.md
has the remedy for each kind.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from fedglb.errors import InvalidInput

log = logging.getLogger(__name__)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LOOK_EVERY = 5.0  # seconds between two looks
#: Free bytes below which a disk is nearly full; on a small disk, this share of it.
ROOM, ROOM_SHARE = 10**9, 0.1
_ROOM_AGAIN = 1.2  # times as much, for the alarm to end
ENDS_SOON = 30 * DAY
_HOLD = MINUTE  # an alarm ends once its reason has been gone for so long
_TIMEOUT = 60.0  # seconds for the operator's program
_OUTPUT = 8192  # bytes of its output that are logged
_WAITING = 1000  # calls of it


class Alarm(msgspec.Struct, frozen=True):
    """An alarm: kind, text with what to do, start (Unix time), client."""

    kind: str
    text: str
    since: float | None = None
    client: str | None = None
    urgent: bool = False  # it cannot wait until morning


class AlarmBoard:
    """The alarms that stand; `tell` gets each one with True at its start and False at its end.

    An alarm is known by its kind and its client. It ends a minute after its reason, so that one
    that comes and goes is one alarm.
    """

    def __init__(self, tell: Callable[[Alarm, bool], None] = lambda alarm, starts: None) -> None:
        self.tell = tell
        self.standing: tuple[Alarm, ...] = ()  # any thread may read it
        self._seen: dict[tuple[str, str | None], tuple[Alarm, float]] = {}

    def stands(self, kind: str) -> bool:
        """Return whether an alarm of this kind stands."""
        return any(alarm.kind == kind for alarm in self.standing)

    def look(self, found: Iterable[Alarm], now: float) -> tuple[Alarm, ...]:
        """Take what holds at this Unix time; return the alarms that stand."""
        before = dict(self._seen)
        for alarm in found:
            key = alarm.kind, alarm.client
            first = before[key][0] if key in before else alarm
            since = now if first.since is None else first.since
            self._seen[key] = msgspec.structs.replace(alarm, since=since), now
        ended = [key for key, (_, at) in self._seen.items() if abs(now - at) > _HOLD]
        changes = [(self._seen.pop(key)[0], False) for key in ended]
        changes += [(alarm, True) for key, (alarm, _) in self._seen.items() if key not in before]
        self.standing = tuple(alarm for alarm, _ in self._seen.values())
        for alarm, starts in changes:
            self.tell(alarm, starts)
        return self.standing


def described(alarm: Alarm, starts: bool) -> str:
    """Return an alarm's start or end as a sentence for the log."""
    return f"alarm {alarm.kind}: {alarm.text}" if starts else f"alarm {alarm.kind} has ended"


def facts_of(alarm: Alarm, starts: bool) -> dict[str, Any]:
    """Return an alarm's start or end for scripts."""
    return {"state": "start" if starts else "end", **msgspec.to_builtins(alarm)}


# -- conditions of both --------------------------------------------------------------------------


def low_disk(path: Path, stands: bool) -> Iterator[Alarm]:
    """Yield an alarm if the disk of a file is nearly full; `stands`: there was one before."""
    try:
        total, _, free = shutil.disk_usage(path)
    except OSError:
        return
    least = min(ROOM, ROOM_SHARE * total)
    if free < least * (_ROOM_AGAIN if stands else 1.0):
        text = (
            f"{free / 1e6:,.0f} MB are free for {path}: make room, or nothing can be written "
            "and learned"
        )
        yield Alarm("disk", text, urgent=True)


def ends_soon(whose: str, ends: float, now: float, how: str) -> Iterator[Alarm]:
    """Yield an alarm if a certificate expires within 30 days, or has expired."""
    if ends - now < ENDS_SOON:
        over, when = ends < now, time.strftime("%Y-%m-%d", time.gmtime(ends))
        text = f"{whose}'s certificate {'expired' if over else 'expires'} on {when}: {how}"
        yield Alarm("certificate", text, max(0.0, ends - ENDS_SOON), whose, over)


# -- the operator's program ------------------------------------------------------------------------


class AlarmCommand:
    """Runs the operator's program at each start and end of an alarm, one at a time, in a thread.

    The program gets JSON on standard input, and a minute. Its output and its failure are logged.
    No caller waits for it. `of` is the name of the federation or the agent.
    """

    def __init__(self, command: str, of: str) -> None:
        self._of = of
        try:
            self._words = shlex.split(command)
        except ValueError:
            self._words = []
        if not self._words or shutil.which(self._words[0]) is None:
            raise InvalidInput("on_alarm", command, "a program that can be run, and its arguments")
        self._calls: queue.Queue[bytes] = queue.Queue(_WAITING)
        threading.Thread(target=self._work, name="on-alarm", daemon=True).start()

    def call(self, facts: dict[str, Any]) -> None:
        """Run the program with these facts, after those before; return at once."""
        try:
            told = {"of": self._of, "time": time.time(), **facts}
            self._calls.put_nowait(msgspec.json.encode(told) + b"\n")
        except queue.Full:
            log.error("--on-alarm: %d calls wait, and this one is dropped: %s", _WAITING, facts)

    def _work(self) -> None:
        while True:
            given = self._calls.get()
            try:
                self._run(given)
            except Exception as error:
                log.error("--on-alarm: cannot run %s: %s", self._words[0], error)

    def _run(self, given: bytes) -> None:
        until, output = time.monotonic() + _TIMEOUT, b""
        with subprocess.Popen(
            self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, bufsize=0,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):  # it does not read it
                process.stdin.write(given)
                process.stdin.close()
            # Until it and the programs that it started have closed their output, or time is up.
            while select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                piece = process.stdout.read(_OUTPUT)
                if not piece or time.monotonic() > until:
                    break
                output = (output + piece)[:_OUTPUT]
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            over = process.poll() is None
            if over:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        for line in output.decode(errors="replace").splitlines():
            log.warning("--on-alarm: %s", line)
        if over:
            log.error("--on-alarm: killed %s after %g s", self._words[0], _TIMEOUT)
        elif process.returncode:
            log.error("--on-alarm: %s ended with %d", self._words[0], process.returncode)
