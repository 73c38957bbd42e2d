"""Processes that take orders and may be killed at any moment."""

from __future__ import annotations

import multiprocessing
import queue
import threading
from pathlib import Path
from typing import Any

from tests.federation.helpers import killable_process_main as child
from tests.federation.helpers.nats_federation import PATIENCE

# Real processes, but what they all load is loaded once: a start takes a tenth of the time.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([child.__name__])


class Died(Exception):
    """The process ended before it answered."""


class Child:
    """A process that runs `child.main` with what is given; its errors go to `log`."""

    def __init__(self, log: Path, **given: Any) -> None:
        self.acknowledged = 0
        self.events: list[str] = []
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._line, theirs = _processes.Pipe()
        given |= {"line": theirs, "log": str(log)}
        self.process = _processes.Process(target=child.main, kwargs=given, daemon=True)
        self.process.start()
        theirs.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                said = self._line.recv()
            except (EOFError, OSError):  # it died, maybe while it spoke
                break
            self.acknowledged = max(self.acknowledged, said.get("acknowledged", 0))
            if "event" in said:
                self.events.append(said["event"])
            if "answer" in said:
                self._answers.put(said["answer"])
        self._answers.put(None)

    def tell(self, name: str, **given: Any) -> dict[str, Any]:
        """Give an order and wait for the answer."""
        try:
            self._line.send((name, given))
            said = self._answers.get(timeout=PATIENCE)
        except OSError:
            raise Died from None
        except queue.Empty:
            raise AssertionError("a process does not answer") from None
        if said is None:
            self._answers.put(None)
            raise Died
        return said

    @property
    def dead(self) -> bool:
        return self.process.exitcode is not None

    def kill(self) -> int:
        """kill -9, unless it is dead already; return its exit code."""
        self.process.kill()
        return self.bury()

    def bury(self) -> int:
        """Wait for its end, with all that it said; return its exit code."""
        self.process.join(PATIENCE)
        assert self.process.exitcode is not None, "a process does not end"
        self._reader.join(PATIENCE)
        self._line.close()
        return self.process.exitcode

    def end(self) -> int:
        """End it in good order; return its exit code."""
        self._line.send(("end", {}))
        return self.bury()
