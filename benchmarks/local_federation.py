"""A federation on this machine for measurements: its folder, nats-server with TLS, a coordinator.

The coordinator runs in a separate process, as in production.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np

from fedglb.federation import Agent
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.events import CoordinatorEvent
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.service import opened, serve
from fedglb.federation.names import COORDINATOR
from fedglb.federation.operator import operator
from fedglb.problem_table import ProblemTable
from tests.federation.helpers import nats_process

NAME = "benchmark"
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Place:
    """The operator's folder of a federation whose server runs."""

    folder: Path

    def bundle(self, name: str) -> Bundle:
        """Return a client's bundle."""
        return Bundle.read(self.folder / "clients" / name)

    @property
    def coordinator(self) -> Bundle:
        """The coordinator's bundle."""
        return Bundle.read(self.folder / COORDINATOR)


#: An algorithm whose trigger never fires: updates are asked for.
ON_REQUEST = {"name": "fedglb-ucb", "threshold": 1e12, "solver": "newton"}


@contextmanager
def federation(
    folder: Path,
    names: Sequence[str],
    dim: int,
    algorithm: dict[str, Any] = ON_REQUEST,
    minimum: int | None = None,
) -> Iterator[Place]:
    """Make a federation, and start its server."""
    port = nats_process.free_port()
    table = AgreementTable(len(names), ProblemTable(dim), algorithm, minimum=minimum)
    operator.init(folder, NAME, table, names, ["127.0.0.1"], port, bind="127.0.0.1")
    with nats_process.start(folder / "server", folder / "server" / "log"):
        yield Place(folder)


@dataclass
class Coordinator:
    """A coordinator's process and its events."""

    process: SpawnProcess
    events: Any

    def next_event(self, kind: str, timeout: float) -> dict[str, Any]:
        """Return the facts of the next event of this kind."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                event, facts = self.events.get(timeout=max(0.01, deadline - time.monotonic()))
            except Empty:
                raise TimeoutError(f"no event {kind!r} within {timeout:g} s") from None
            if event == kind:
                return dict(facts)

    def wait_for_members(self, count: int, timeout: float = 120.0) -> None:
        """Return when this many clients have joined."""
        for _ in range(count):
            self.next_event("joined", timeout)

    @property
    def cpu(self) -> float:
        """The CPU seconds that it has used."""
        return cpu_seconds(self.process.pid or 0)


#: Nobody is excluded because this machine is slow.
PATIENT = CoordinatorPolicy(time_limit=300.0, absent_after=600.0)


@contextmanager
def coordinator(place: Place, policy: CoordinatorPolicy = PATIENT) -> Iterator[Coordinator]:
    """Run the coordinator."""
    events = SPAWN.Queue()
    process = SPAWN.Process(target=_serve, args=(place.folder, policy, events), daemon=True)
    process.start()
    try:
        yield Coordinator(process, events)
    finally:
        process.terminate()
        process.join(10.0)
        process.kill()


def _serve(folder: Path, policy: CoordinatorPolicy, events: Any) -> None:
    def on_event(event: CoordinatorEvent) -> None:
        events.put((event.kind, {**event.facts, "time": time.time()}))

    bundle, state = Bundle.read(folder / COORDINATOR), folder / "coordinator.db"
    with opened(bundle, state) as store:
        serve(bundle, store, state, policy, on_event)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def learn(agent: Agent, rng: np.random.Generator, dim: int, samples: int) -> None:
    """Give an agent more samples."""
    for _ in range(samples):
        arms = rng.standard_normal((5, dim))
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        decision = agent.choose(arms)
        agent.observe(decision.id, float(rng.random() < 0.5 + 0.4 * arms[decision.arm, 0]))
