"""Members of a federation in processes of their own, driven by lines of JSON.

with coordinator(running, state) as head, agent(running, "a", folder) as a:
    head.hear(lambda line: line["event"] == "joined")
    a.ask(do="play", arms=[[1.0, 0.0]], rewards=[1.0], t=1)
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fedglb
from fedglb.federation import Agent
from fedglb.federation.bundle import Bundle
from fedglb.federation.names import COORDINATOR
from tests.federation.helpers.nats_federation import Running

PATIENCE = 300.0  # seconds: a machine may be busy
_ROOT = Path(__file__).parents[3]
_SOURCES = Path(fedglb.__file__).parents[1]


class Process:
    """A process that reads commands and prints JSON, one per line."""

    def __init__(self, *words: str) -> None:
        path = os.pathsep.join([str(_SOURCES), str(_ROOT), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        self.lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, patience: float = PATIENCE) -> dict[str, Any]:
        """The next line; fail if none comes."""
        line = self.lines.get(timeout=patience)
        assert line is not None, "the process has ended"
        return line

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

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


def coordinator(running: Running, state: Path, *options: str) -> Process:
    """The coordinator's command, as an operator runs it; its lines are events."""
    return Process(
        "-m", "fedglb.cli", "federation", "coordinator", str(running.folder / COORDINATOR),
        "--state", str(state), "--json", "--min-interval", "0", *options,
    )  # fmt: skip


def agent(running: Running, name: str, folder: Path) -> Process:
    """One agent; it answers `play`, `request` and `model`."""
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
    return {**held, **{name: array.tolist() for name, array in arrays.items()}}


_COMMANDS = {"play": _play, "request": _request, "model": _model}


def _main(place: Path, folder: Path) -> None:
    problem = Bundle.read(place).agreement.problem
    with Agent.open(folder / f"{place.name}.db", problem, bundle=place, beat=1.0) as agent:
        print(json.dumps({"ready": 1}), flush=True)
        for line in sys.stdin:
            command = json.loads(line)
            print(json.dumps(_COMMANDS[command.pop("do")](agent, **command)), flush=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
