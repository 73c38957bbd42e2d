"""Processes that this one starts, hears and ends; none outlives it.

Every child holds the reading end of a pipe as its standard input and ends when the writing end
is gone: closed in good order, or with this process, however it dies.
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

from fedglb.demo import die_with_parent

_PATIENCE = 5.0  # seconds that a child has to end in good order


class Child:
    """A process, and a thread that reads what it says."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        dies_with_parent: bool,
        log: Path,
        heard: SimpleQueue[tuple[Child, bytes]],
    ) -> None:
        self.name, self.dies_with_parent, self.log = name, dies_with_parent, log
        with open(log, "ab") as errors:
            # A session of its own: Ctrl-C on the terminal is this process's affair.
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        self._heard = heard
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._heard.put((self, line))
        self._heard.put((self, b""))  # it has ended

    def say(self, text: str) -> None:
        """Write a line to the child."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()

    def let_go(self) -> None:
        """Tell the child to end."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def kill(self) -> None:
        """End the child as a crash does."""
        self.process.kill()
        self.process.wait()

    def wait(self, seconds: float) -> None:
        """Wait for the child's end, then for its last words; kill it if that takes too long."""
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(1.0)

    @property
    def last_word(self) -> str:
        """The last line that it wrote to its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


class Children:
    """All children; leaving the `with` block ends them."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._all: list[Child] = []
        self.heard: SimpleQueue[tuple[Child, bytes]] = SimpleQueue()

    def start(self, name: str, command: Sequence[str], *, dies_with_parent: bool) -> Child:
        """Start a program; one that does not watch its standard input is wrapped."""
        if dies_with_parent:
            command = [sys.executable, "-I", "-S", os.fspath(die_with_parent.__file__), *command]
        child = Child(name, command, dies_with_parent, self._logs / f"{name}.log", self.heard)
        self._all.append(child)
        return child

    def end(self, *children: Child) -> None:
        """End these in good order, all at once."""
        for child in children:
            child.let_go()
        deadline = time.monotonic() + _PATIENCE
        for child in children:
            child.wait(deadline - time.monotonic())

    def __enter__(self) -> Children:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # agents can bear it, and whoever pressed Ctrl-C is in a hurry
            for child in self._all:
                if not child.dies_with_parent:
                    child.kill()
        self.end(*self._all)
