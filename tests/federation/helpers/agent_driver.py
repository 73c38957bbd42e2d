"""One agent at a time, without a network: opening, feeding, and updates message by message."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fedglb as fg
from fedglb.federation import Agent
from fedglb.federation.agent.agent import ALONE
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.log_reader import LogEnd
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.wire.messages import Withdrawal
from fedglb.protocol.messages import Message
from tests.federation.helpers.nats_federation import PATIENCE


def arms(rng: np.random.Generator, count: int, dim: int = 3) -> np.ndarray:
    table = rng.standard_normal((count, dim))
    return table / np.linalg.norm(table, axis=1, keepdims=True) * rng.uniform(0.3, 1.0, (count, 1))


def client(agent: Agent) -> fg.Client:
    return agent._client.protocol_client


def state(agent: Agent) -> dict[str, bytes]:
    """The whole client, as bytes.

    Which samples were frozen is of interest only while an update is in progress.
    """
    return _as_bytes(client(agent))


def _as_bytes(held: fg.Client) -> dict[str, bytes]:
    if held.personal is not None and held.frozen_state is None and held.update > held.adopted:
        held._sum_at_own(held.personal, held.adopted, 0)  # as it does when it is asked again
    arrays = held.to_arrays()
    if arrays["update"] <= arrays["adopted"]:
        del arrays["frozen"]
    return {name: np.asarray(value).tobytes() for name, value in arrays.items()}


def replayed(held: DurableClient) -> tuple[dict[str, object], dict[str, object]]:
    """What a client has in memory, and what it would read from its file, while no call runs."""
    with held.locked():
        held.ready()
        fresh = DurableClient(held.name, held.agreement, held.store, held.rules)
        return _whole(held), _whole(fresh)


def _whole(held: DurableClient) -> dict[str, object]:
    samples = held.protocol_client.samples.so_far()
    counts = ("waiting", "expired", "defaulted", "replaced", "number")
    return {
        **{name: getattr(held, name) for name in counts},
        **_as_bytes(held.protocol_client),
        "X": samples.X.tobytes(),
        "y": samples.y.tobytes(),
    }


def feed(agent: Agent, rng: np.random.Generator, n: int) -> list[str]:
    """Let it choose and learn n times; return the ids."""
    out = []
    for _ in range(n):
        decision = agent.choose(arms(rng, int(rng.integers(1, 5))))
        agent.observe(decision.id, float(rng.random() < 0.5))
        out.append(decision.id)
    return out


class Alone:
    """A coordinator whose only client is this agent; its messages wait until they are delivered."""

    def __init__(self, agent: Agent) -> None:
        agreement = agent._client.agreement
        self.coordinator = fg.Coordinator(agreement.algorithm, agreement.setting, [ALONE])
        self.queue: deque[Message] = deque()

    def begin(self, t: int) -> None:
        self.queue.extend(self.coordinator.begin(t))

    def deliver(self, agent: Agent) -> list[Any]:
        """Pass one message on, and its answers back."""
        answers = agent._session.receive(self.queue.popleft())  # type: ignore[arg-type]
        for answer in answers:
            if isinstance(answer, Withdrawal):
                self.queue.extend(self.coordinator.exclude(ALONE))
            elif isinstance(answer, Message) and self.coordinator.phase:
                self.queue.extend(self.coordinator.receive(answer))
        return answers

    def update(self, agent: Agent, t: int = 1) -> None:
        """A whole update."""
        self.begin(t)
        while self.queue:
            self.deliver(agent)


_KILLED = """
import os, signal, sqlite3, sys
import numpy as np
moment = "never"

def strike(sql):
    if sql.startswith(moment):
        os.kill(os.getpid(), signal.SIGKILL)

class Traced(sqlite3.Connection):
    def execute(self, sql, *given):
        strike(sql)
        return super().execute(sql, *given)

    def executemany(self, sql, *given):
        strike(sql)
        return super().executemany(sql, *given)

connect = sqlite3.connect
sqlite3.connect = lambda *given, **named: connect(*given, **named, factory=Traced)
import fedglb as fg
agent = fg.Agent.open(sys.argv[1], fg.Problem(dim=3))
"""


def killed(path: Path, moment: str, before: str, call: str) -> None:
    """Run `before` and `call` on an agent in a process that dies at an SQL statement of `call`.

    The statement begins with `moment`; "after": it dies when the call has returned.
    """
    script = f"{_KILLED}{before}\nmoment = sys.argv[2]\n{call}\nstrike('after')\n"
    command = [sys.executable, "-c", script, str(path), moment]
    assert subprocess.run(command, timeout=PATIENCE).returncode == -signal.SIGKILL


def copied(path: Path, to: Path) -> Path:
    """What a crash at this moment would leave.

    Copied by another process: to open and close the file in this one would let go of its lock.
    """
    to.mkdir()
    files = [str(f) for f in path.parent.glob(path.name + "*")]
    subprocess.run(["cp", *files, str(to)], check=True)
    return to / path.name


def whole_log(path: Path, dim: int) -> pl.DataFrame:
    """Return the log of a file that nobody has open as `Agent.export` does, without the bundle."""
    store = AgentStore(path, "process")
    try:
        revision = int((store.agreed or {})["revision"])
        end = LogEnd(store.last_number(), 2**62)
        return pl.concat(store.log(end, dim, revision).batches(10_000))
    finally:
        store.close()
