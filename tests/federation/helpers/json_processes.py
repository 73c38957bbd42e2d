"""Members of a federation in processes of their own, driven by lines of JSON.

with coordinator(running, state) as head, agent(running, "a", folder) as a:
    head.hear(lambda line: line["event"] == "joined")
    a.ask(do="play", arms=[[1.0, 0.0]], rewards=[1.0], t=1)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import fedglb
from fedglb.federation import Agent
from fedglb.federation.agent import session
from fedglb.federation.bundle import Bundle
from fedglb.federation.names import COORDINATOR
from tests.federation.helpers.nats_federation import PATIENCE, Running
from tests.federation.helpers.shop import visit

_ROOT = Path(__file__).parents[3]
_SOURCES = Path(fedglb.__file__).parents[1]


class Process:
    """A process that reads commands and prints JSON, one per line; a `with` block ends it.

    `events` is all that it has printed, `errors` what it wrote to stderr once it has ended.
    """

    def __init__(self, *words: str) -> None:
        path = os.pathsep.join([str(_SOURCES), str(_ROOT), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, *words], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.events: list[dict[str, Any]] = []
        self.errors = ""
        self._next, self._over, self._said = 0, False, threading.Condition()
        self._readers = [
            threading.Thread(target=read, daemon=True) for read in (self._read, self._read_errors)
        ]
        for each in self._readers:
            each.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._said:
                self.events.append(json.loads(line))
                self._said.notify_all()
        with self._said:
            self._over = True
            self._said.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()

    def next(self, patience: float = PATIENCE) -> dict[str, Any]:
        """The next line; fail if none comes."""
        with self._said:
            self._said.wait_for(lambda: self._over or len(self.events) > self._next, patience)
            if len(self.events) == self._next:
                assert self._over, "the process says nothing"
                raise AssertionError(f"the process has ended: {self.ended()}, {self.errors}")
            self._next += 1
            return self.events[self._next - 1]

    def hear(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next line of which `condition` holds; those before it are passed over."""
        deadline = time.monotonic() + PATIENCE
        while True:
            line = self.next(max(0.0, deadline - time.monotonic()))
            if condition(line):
                return line

    def tell(self, **command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def ask(self, **command: Any) -> dict[str, Any]:
        """Give a command and return its answer."""
        self.tell(**command)
        return self.next()

    def ended(self) -> int:
        """Wait until it has ended; return its exit code."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return code

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it in good order; return its exit code."""
        self.process.send_signal(how)
        return self.ended()

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.kill()


class Service(Process):
    """`fedglb agent serve`, started with some options; its lines are events."""

    def __init__(self, *options: str | Path) -> None:
        super().__init__("-m", "fedglb", "agent", "serve", *map(str, options), "--json")

    def __enter__(self) -> Service:
        return self

    @cached_property
    def url(self) -> str:
        return self.hear(lambda event: event["event"] == "listening")["url"]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def coordinator(running: Running, state: Path, *options: str) -> Process:
    """The coordinator's command, as an operator runs it; its lines are events."""
    return Process(
        "-m", "fedglb.cli", "federation", "coordinator", str(running.folder / COORDINATOR),
        "--state", str(state), "--json", "--min-interval", "0", *options,
    )  # fmt: skip


def agent(running: Running, name: str, folder: Path) -> Process:
    """One agent; it answers `play`, `request`, `model`, `visit` and `status`."""
    return Process("-m", __spec__.name, str(running.folder / "clients" / name), str(folder))


# -- inside the process ----------------------------------------------------------------------------


def _play(agent: Agent, arms: Any, rewards: list[float], t: int) -> dict[str, Any]:
    before = agent.status.model
    decision = agent.choose(arms, t=t)
    agent.observe(decision.id, rewards[decision.arm])
    status = agent.status
    return {"arm": decision.arm, "fired": bool(status.requested_at) or status.model > before}


def _request(agent: Agent) -> dict[str, Any]:
    agent.request_update()
    return {}


def _model(agent: Agent, update: int) -> dict[str, Any]:
    """Wait for the model of this update, and return it."""
    assert agent.wait_for_model(update, PATIENCE)
    base = agent._client.protocol_client.state.base
    assert base is not None
    assert base.theta is not None
    arrays = {"theta": base.theta, "matrix": base.matrix, "radius_terms": base.radius_terms}
    held = {"update": agent.status.model, "t": base.t, "ridge": base.ridge}
    for name in ("effects", "spread"):
        value = getattr(base, name)
        held[name] = None if value is None else value.tolist()
    return {**held, **{name: array.tolist() for name, array in arrays.items()}}


def _visit(agent: Agent, seed: str, last: int) -> dict[str, Any]:
    """Take the shop's samples up to this one; those in the file are not taken again."""
    visit(agent, seed, agent.status.samples, last)
    return {"samples": agent.status.samples}


def _status(agent: Agent) -> dict[str, Any]:
    found = agent.status
    frozen = 0 if found.frozen is None else found.frozen.update
    return {
        "samples": found.samples, "revision": found.revision, "admitted": found.admitted,
        "frozen": frozen,
    }  # fmt: skip


_COMMANDS = {
    "play": _play, "request": _request, "model": _model, "visit": _visit, "status": _status,
}  # fmt: skip


def _main(place: Path, folder: Path) -> None:
    session.SETTLING = 0  # tests know the model of each update, so no more of them may follow
    problem = Bundle.read(place).agreement.problem
    with Agent.open(folder / f"{place.name}.db", problem, bundle=place, beat=1.0) as agent:
        print(json.dumps({"ready": 1}), flush=True)
        for line in sys.stdin:
            command = json.loads(line)
            print(json.dumps(_COMMANDS[command.pop("do")](agent, **command)), flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
