"""The service as a process of its own, and loads for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fedglb as fg

PATIENCE = 300.0  # seconds after which a test gives up: what takes a moment, on a busy machine


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


LOAD = """
import json, sys
import fedglb as fg

url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with fg.AgentClient(url, patience=240.0) as client:
    for k in range(count):
        decision = client.choose([[1.0, 0.0], [0.0, 1.0]], ids=["red", "blue"], key=f"{name}-{k}")
        print(json.dumps(["chosen", decision.id]), flush=True)
        reward = float(k % 3 == 0)
        client.observe(decision.id, reward)
        print(json.dumps(["observed", decision.id, reward]), flush=True)
print(json.dumps(["done"]), flush=True)
"""


@contextmanager
def loads(url: str, processes: int, count: int) -> Iterator[list[subprocess.Popen]]:
    """Start processes that choose and report rewards, and say what was acknowledged."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", LOAD, url, f"p{k}", str(count)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for k in range(processes)
    ]  # fmt: skip
    try:
        yield running
    finally:
        for each in running:
            if each.poll() is None:
                each.kill()
            each.wait()
            each.stdout.close()
            each.stderr.close()


def acknowledged(running: list[subprocess.Popen]) -> dict[str, float | None]:
    """Wait for the processes; return the decisions that they know of, with their rewards."""
    found: dict[str, float | None] = {}
    for each in running:
        # Not `communicate`: it would lose what a `readline` before has read ahead.
        out, errors = each.stdout.read(), each.stderr.read()
        assert each.wait(timeout=PATIENCE) == 0, errors
        said = [json.loads(line) for line in out.splitlines()]
        assert said[-1] == ["done"]
        for kind, *rest in said[:-1]:
            found[rest[0]] = rest[1] if kind == "observed" else None
    return found


def stored(path: Path, dim: int = 2) -> dict[str, float | None]:
    """Return what an agent's file has, once nobody else has it open."""
    with fg.Agent.open(path, fg.Problem(dim=dim)) as agent:
        log = agent.export()
        assert agent.status.samples == log["reward"].is_not_null().sum()
    return dict(zip(log["id"], log["reward"], strict=True))
