"""An agent, its service or a coordinator, a process that takes orders and may be killed."""

from __future__ import annotations

import logging
import multiprocessing
import os
import queue
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedglb.features import Features
from fedglb.federation.agent.agent import Agent
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator import service
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.session import CoordinatorSession
from fedglb.federation.secure_sums import member
from fedglb.problem import Problem
from fedglb.protocol.update import IDLE
from fedglb.service import server
from fedglb.service.agent import make_app
from fedglb.service.listening import Listen
from tests.federation.helpers.agent_driver import replayed
from tests.federation.helpers.kill_points import Fault, Faults, install
from tests.federation.helpers.nats_federation import PATIENCE
from tests.federation.helpers.recorded import ITEMS, stream

# Real processes, but what they all load is loaded once: a start takes a tenth of the time.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


class Died(Exception):
    """The process ended before it answered."""


class Child:
    """A process that runs `main` with what is given; its errors go to `log`."""

    def __init__(self, log: Path, **given: Any) -> None:
        self.acknowledged = 0
        self.events: list[str] = []
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._line, theirs = _processes.Pipe()
        given |= {"line": theirs, "log": str(log)}
        self.process = _processes.Process(target=main, kwargs=given, daemon=True)
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


# -- inside the process ----------------------------------------------------------------------------


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

    def obey_to_the_end(self) -> None:
        """Obey beside a service, and end it."""
        self.obey()
        os.kill(os.getpid(), signal.SIGTERM)

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
            decision = self.agent.choose(X[k : k + 1], [k % ITEMS])
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

    def session_key(self) -> dict[str, Any]:
        """The session key, with its secret part: as a thief would read it from memory."""
        sums = self.agent._session.sums
        assert sums is not None
        keys = sums._member.keys
        return {"own": keys.own, "private": keys._private.private_bytes_raw()}

    def trust(self) -> None:
        """From now on, believe every signature of an attempt."""
        member.verify_parts = lambda *_: None  # type: ignore[assignment]

    def state(self) -> dict[str, Any]:
        return {"arrays": self.agent._client.protocol_client.to_arrays()}

    def log(self) -> dict[str, Any]:
        """The samples in the agent's log, and how many decisions it has in all."""
        log = self.agent.export()
        kept = log.filter(log["outcome"] == "observed")
        return {"x": kept["x"].to_list(), "y": kept["reward"].to_list(), "decisions": len(log)}


class Serving(Obedient):
    """An agent alone that is a service; it takes orders beside it."""

    def serve(self, path: Path, socket: Path, features: Features, rules: dict[str, Any]) -> None:
        with Agent.open(path, features=features, **rules) as self.agent:
            threading.Thread(target=self.obey_to_the_end, daemon=True).start()
            listen = Listen("127.0.0.1", 0, path=socket)
            server.serve(make_app(self.agent), listen, 10.0, lambda url: self.say(event=url))

    def replayed(self) -> dict[str, Any]:
        memory, file = replayed(self.agent._client)
        return {"memory": memory, "file": file}

    def silence(self) -> dict[str, Any]:
        """Whether decisions wait for a reward, and rewards wait until they are learned."""
        return {"waiting": self.agent._client.waiting, "late": self.agent._calls.has_late()}


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

        service.CoordinatorSession = Watched  # type: ignore[misc]
        threading.Thread(target=self.obey_to_the_end, daemon=True).start()
        # Long timeouts: no client is excluded while a process starts again.
        policy = CoordinatorPolicy(time_limit=600.0, absent_after=600.0, grace=600.0)
        found = Bundle.read(bundle)
        with service.opened(found, path) as store:
            service.serve(found, store, path, policy, lambda e: self.say(event=e.text))


def main(kind: str, line: Connection, log: str, fault: Fault | None, **given: Any) -> None:
    """Obey until it is told to end, or nobody is left to tell it."""
    with open(log, "ab", buffering=0) as file:
        for stream_ in (1, 2):
            os.dup2(file.fileno(), stream_)
    logging.basicConfig(level=logging.INFO)
    faults = Faults()
    install(faults)
    faults.arm(fault)
    kinds = {"agent": Learning, "coordinator": Coordinating, "service": Serving}
    kinds[kind](line, faults).serve(**given)
