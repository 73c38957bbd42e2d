"""An agent or a coordinator as a process of its own: orders in, answers out.

Started by `killable_process.Child`. It ends when it is told to, or when nobody is left to tell it.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedglb.federation.agent.agent import Agent
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator import service
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.problem import Problem
from fedglb.protocol.update import IDLE
from tests.federation.helpers.kill_points import Fault, Faults, install
from tests.federation.helpers.recorded import stream


class Obedient:
    """What both kinds of process do when told; an answer is a dict."""

    def __init__(self, line: Connection, faults: Faults) -> None:
        self._line, self.faults = line, faults
        self._speaking = threading.Lock()

    def say(self, **facts: Any) -> None:
        with self._speaking:
            self._line.send(facts)

    def obey(self) -> None:
        while True:
            try:
                name, given = self._line.recv()
            except EOFError:
                return
            if name == "end":
                return
            self.say(answer=getattr(self, name)(**given) or {})

    def arm(self, fault: Fault | None) -> None:
        self.faults.arm(fault)

    def points(self) -> dict[str, Any]:
        return {"points": dict(self.faults.seen)}


class Learning(Obedient):
    """An agent."""

    def serve(self, name: str, path: Path, problem: Problem, bundle: Path | None) -> None:
        self.name, self.dim = name, problem.dim
        with Agent.open(path, problem, bundle=bundle, beat=0.2) as self.agent:
            self.obey()

    def feed(self, until: int) -> None:
        """Go on with the stream where the file ends; say of each sample that it was taken."""
        X, y = stream(self.name, self.dim, until)
        for k in range(self.agent.status.samples, until):
            decision = self.agent.choose(X[k : k + 1])
            self.agent.observe(decision.id, float(y[k]))
            self.say(acknowledged=k + 1)
            self.faults.before("observe returned")

    def ask(self) -> None:
        self.agent.request_update()

    def status(self) -> dict[str, Any]:
        found = self.agent.status
        return {"admitted": found.admitted, "model": found.model, "refused": found.refused}

    def privacy(self) -> dict[str, Any]:
        spent = self.agent.status.privacy
        assert spent is not None
        return {"last": spent.last, "releases": spent.releases}

    def state(self) -> dict[str, Any]:
        return {"arrays": self.agent._client.protocol_client.to_arrays()}

    def log(self) -> dict[str, Any]:
        """The samples in the agent's log, and how many decisions it has in all."""
        log = self.agent.export()
        kept = log.filter(log["outcome"] == "observed")
        return {"x": kept["x"].to_list(), "y": kept["reward"].to_list(), "decisions": len(log)}


class Coordinating(Obedient):
    """A coordinator; it takes orders beside its service."""

    session: CoordinatorSession | None = None
    clock: float = 0.0  # of a schedule

    def set_clock(self, clock: float) -> None:
        self.clock = clock

    def status(self) -> dict[str, Any]:
        """Whether it rests; and if so, how many samples the newest model covers."""
        here = self.session
        # In this order: an update writes its record, then the coordinator is idle.
        if here is None or here.driver._interrupted is not None or here.coordinator.phase != IDLE:
            return {"rests": False}
        record = here.coordinator.last_update
        finished = here.coordinator.finished
        samples, t = (record.samples, record.t) if record else (0, 0)
        return {"rests": True, "samples": samples, "t": t, "model": finished}

    def state(self) -> dict[str, Any]:
        assert self.session is not None
        return {"arrays": self.session.coordinator.to_arrays()}

    def serve(self, bundle: Path, path: Path, clock: float) -> None:
        self.clock = clock

        class Watched(CoordinatorSession):
            def __init__(inner, *given: Any, **more: Any) -> None:  # noqa: N805
                super().__init__(*given, wall=lambda: self.clock, **more)
                self.session = inner

        def listen() -> None:
            self.obey()
            os.kill(os.getpid(), signal.SIGTERM)

        service.CoordinatorSession = Watched  # type: ignore[misc]
        threading.Thread(target=listen, daemon=True).start()
        # Long timeouts: no client is excluded while a process starts again.
        policy = CoordinatorPolicy(time_limit=600.0, absent_after=600.0, grace=600.0)
        service.serve(Bundle.read(bundle), path, policy, lambda e: self.say(event=e.text))


def main(kind: str, line: Connection, log: str, fault: Fault | None, **given: Any) -> None:
    with open(log, "ab", buffering=0) as file:
        for stream_ in (1, 2):
            os.dup2(file.fileno(), stream_)
    logging.basicConfig(level=logging.INFO)
    faults = Faults()
    install(faults)
    faults.arm(fault)
    {"agent": Learning, "coordinator": Coordinating}[kind](line, faults).serve(**given)
