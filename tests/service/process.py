"""The service as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 300.0  # seconds after which a test gives up: what takes a moment, on a busy machine


def until(condition: Callable[[], object], what: str, seen: Callable[[], object] = str) -> None:
    """Return as soon as `condition()` holds; fail after a while, and say what was `seen`."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for: {what}; {seen()}"
        time.sleep(0.01)


class Service:
    """`fedglb agent serve`, started with some options."""

    def __init__(self, *options: str | Path) -> None:
        command = [sys.executable, "-m", "fedglb", "agent", "serve", *map(str, options), "--json"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.events: list[dict] = []
        self.errors = ""
        self._listening = threading.Event()
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for each in self._readers:
            each.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.events.append(json.loads(line))
            if self.events[-1]["event"] == "listening":
                self._listening.set()
        self._listening.set()  # it has ended

    def _read_errors(self) -> None:
        self.errors = self.process.stderr.read()

    @property
    def url(self) -> str:
        assert self._listening.wait(PATIENCE)
        found = [event["url"] for event in self.events if event["event"] == "listening"]
        assert found, (self.process.wait(PATIENCE), self.errors)
        return found[0]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ended(self) -> int:
        """Wait until it has ended; return its exit code."""
        code = self.process.wait(PATIENCE)
        for each in self._readers:
            each.join(PATIENCE)
        return code

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.ended()


@contextmanager
def service(*options: str | Path) -> Iterator[Service]:
    running = Service(*options)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
        running.ended()
        running.process.stdout.close()
        running.process.stderr.close()
