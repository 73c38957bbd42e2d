"""Child processes: started, read from and ended; none outlives this process.

The standard input of every child is a pipe, and the child ends when the other end is closed:
on purpose, or because this process has died, however it did.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

from fedglb.federation.demo import die_with_parent

_TIMEOUT = 5.0  # seconds that a child has to end before it is killed


class Child:
    """A process, and a thread that reads its standard output."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        dies_with_parent: bool,
        log: Path,
        lines: SimpleQueue[tuple[Child, bytes]],
    ) -> None:
        self.name, self.dies_with_parent, self.log = name, dies_with_parent, log
        with open(log, "ab") as errors:
            # In a process session of its own: Ctrl-C on the terminal reaches only the parent.
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        self._lines = lines
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put((self, line))
        self._lines.put((self, b""))  # it has ended

    def send(self, text: str) -> None:
        """Write a line to the child."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()

    def ask_to_end(self) -> None:
        """Close the child's standard input, on which it ends."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def kill(self) -> None:
        """End the child with SIGKILL, as a crash would."""
        self.process.kill()
        self.process.wait()

    def wait(self, seconds: float) -> None:
        """Wait until the child has ended and its output is read; kill it if that takes too long."""
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(1.0)

    @property
    def last_line(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"


class Children:
    """All child processes; leaving the `with` block ends them."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._all: list[Child] = []
        self.lines: SimpleQueue[tuple[Child, bytes]] = SimpleQueue()

    def start(self, name: str, command: Sequence[str], *, dies_with_parent: bool) -> Child:
        """Start a program; with `dies_with_parent`, one that does not watch its standard input."""
        if dies_with_parent:
            command = [sys.executable, "-I", "-S", os.fspath(die_with_parent.__file__), *command]
        child = Child(name, command, dies_with_parent, self._logs / f"{name}.log", self.lines)
        self._all.append(child)
        return child

    def end(self, *children: Child) -> None:
        """Ask all of these to end, then wait for them."""
        for child in children:
            child.ask_to_end()
        deadline = time.monotonic() + _TIMEOUT
        for child in children:
            child.wait(deadline - time.monotonic())

    def __enter__(self) -> Children:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # e.g. Ctrl-C: at once; an agent loses nothing if it is killed
            for child in self._all:
                if not child.dies_with_parent:
                    child.kill()
        self.end(*self._all)
