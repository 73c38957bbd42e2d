"""Services in a federation of real processes, any of which may be killed and is started again."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import fedglb as fg
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.coordinator import board
from fedglb.federation.coordinator.status import CoordinatorStatus
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.problem_table import ProblemTable
from fedglb.protocol import Client, Coordinator
from fedglb.protocol.messages import Message, SyncRequest
from fedglb.protocol.persistence import Arrays
from tests.federation.helpers.agent_driver import whole_log
from tests.federation.helpers.json_processes import Process, Service, coordinator
from tests.federation.helpers.nats_federation import PATIENCE, Running, eventually, federation
from tests.service.load import Load

COORDINATOR, SERVER = "coordinator", "nats-server"
DIM, RIDGE = 3, 1.0
#: Every new sample asks for an update, so that the last model covers all of them; and a fit is as
#: good as exact, so that it does not depend on the models before it.
AGREED = AgreementTable(
    10,
    ProblemTable(DIM, radius=3.0),
    {"name": "fedglb-ucb", "threshold": 1e-9, "ridge": RIDGE,
     "solver": {"name": "newton", "tolerance": 1e-14}},
)  # fmt: skip
#: Only what is killed is missing: nobody is left out because the machine is busy.
PATIENT = ("--min-interval", "0.2", "--time-limit", str(PATIENCE), "--absent-after", "60")


class Federated:
    """nats-server, a coordinator and services; `with` starts and ends all of them.

    `deaths` counts how often each was killed.
    """

    def __init__(self, folder: Path, names: Sequence[str], *options: str) -> None:
        self.folder, self.names = folder, list(names)
        self.running: Running = federation(folder, names, AGREED)
        self.agreement = AGREED.build()
        self.processes: dict[str, Process] = {}
        self.deaths = dict.fromkeys([*names, COORDINATOR, SERVER], 0)
        self._options = (*PATIENT, *options)
        self._said: list[dict[str, Any]] = []  # by coordinators that have ended

    # -- processes -------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    @property
    def urls(self) -> dict[str, str]:
        return {name: f"unix://{self.folder / name}.sock" for name in self.names}

    def start(self, name: str) -> None:
        if name == SERVER:
            self.running.start()
        elif name == COORDINATOR:
            path = self.path(COORDINATOR)
            self.processes[name] = coordinator(self.running, path, *self._options)
        else:
            self.processes[name] = Service(
                self.path(name), "--bundle", self.running.folder / "clients" / name,
                "--socket", self.folder / f"{name}.sock",
            )  # fmt: skip

    def pid(self, name: str) -> int:
        if name == SERVER:
            assert self.running.server is not None
            return self.running.server.process.pid
        return self.processes[name].process.pid

    def is_ready(self, name: str) -> bool:
        """Whether it does its work: at start it does not yet."""
        if name == SERVER:
            return True  # it is, once it is started
        if name == COORDINATOR:
            status = self.status()
            return status is not None and status.connected and status.present > 0
        return any(event["event"] == "listening" for event in self.processes[name].events)

    def kill(self, name: str) -> None:
        """kill -9, and start it again at once."""
        self.check()
        if name == SERVER:
            self.running.kill()
        else:
            self._pop(name).kill()
        self.deaths[name] += 1
        self.start(name)

    def _pop(self, name: str) -> Process:
        process = self.processes.pop(name)
        if name == COORDINATOR:
            self._said += process.events
        return process

    def check(self) -> None:
        """Nobody has ended by itself."""
        for name, each in self.processes.items():
            assert each.process.poll() is None, (name, each.ended(), each.errors, self.hear()[-20:])
        if self.running.server is not None:
            assert self.running.server.process.poll() is None, self.running.log[-3000:]

    def hear(self) -> list[dict[str, Any]]:
        """All that coordinators have said."""
        head = self.processes.get(COORDINATOR)
        return self._said if head is None else self._said + head.events

    def count(self, kind: str) -> int:
        """How many events of a kind there were."""
        return sum(event["event"] == kind for event in self.hear())

    def status(self) -> CoordinatorStatus | None:
        """What the coordinator says of itself; None: it does not answer."""
        return board.ask(self.path(COORDINATOR))

    def __enter__(self) -> Federated:
        for name in (SERVER, COORDINATOR, *self.names):
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            stack.callback(self.running.stop)
            for process in self.processes.values():
                stack.callback(process.kill)

    # -- what must hold --------------------------------------------------------------------------

    def settle(self, load: Load) -> None:
        """Wait until the model covers every sample that was acknowledged, and all agents hold it.

        An agent that got a model without any of its samples (it was dead, or not admitted again in
        time) asks for an update with its next one, so it is given one more.
        """

        def settled() -> bool:
            self.check()
            status = self.status()
            if status is None or status.updating is not None:
                return False
            members = {member.name: member for member in status.members}
            whole = True
            for name in self.names:
                rows = load.acknowledged(name).values()
                count = sum(row.reward is not None for row in rows)
                if name not in members or members[name].samples != count:
                    whole = False
                    with fg.AgentClient(self.urls[name], patience=PATIENCE) as client:
                        held = client.status
                        if held.admitted and held.model == status.model and not held.requested_at:
                            load.one_more(name, client)
            return whole and all(m.model == status.model for m in status.members)

        eventually(settled, "a model of all samples", lambda: (self.status(), self.hear()[-20:]))

    def stop(self) -> None:
        """End all in good order."""
        for name in (*self.names, COORDINATOR):
            process = self._pop(name)
            assert process.stop() == 0, (name, process.errors)
        self.running.stop()

    def check_log(self, name: str, load: Load) -> None:
        """The file has every decision and reward that was acknowledged, once, and no others.

        A request without an answer was made again, so that in the end each has one.
        """
        log = whole_log(self.path(name), DIM)
        wanted = load.acknowledged(name)
        assert log["id"].is_unique().all()
        assert log["arm_id"].is_unique().all()  # each has the number of its request in it
        found = {
            id_: (arm_id, x, reward)
            for id_, arm_id, x, reward in log["id", "arm_id", "x", "reward"].iter_rows()
        }
        assert found == {id_: (row.arm_id, row.x, row.reward) for id_, row in wanted.items()}

    def check_models(self) -> None:
        """The last model is that of an undisturbed fit to the same samples, and all hold it."""
        samples, held = {}, {}
        for name in self.names:
            store = AgentStore(self.path(name), "process")
            try:
                played = store.samples(self.agreement.setting.width, 1, lambda *_: [])[0].so_far()
                samples[name], held[name] = (played.X, played.y), store.updates.adopted_model()
            finally:
                store.close()
        file = CoordinatorStore(self.path(COORDINATOR), self.agreement)
        try:
            kept, updates = file.state(), file.last_updates(10_000)
        finally:
            file.close()
        assert kept is not None
        found, wanted = kept[0], self._undisturbed(samples)
        assert len({update.number for update in updates}) == len(updates)
        for key in ("model.matrix", "covered.samples", "covered.matrix", "last_update.samples"):
            assert np.array_equal(found[key], wanted[key]), key
        # F has curvature of at least ridge/n, and `gap` is proven: so far is θ from the minimum
        n = int(found["last_update.samples"])
        apart = 1e-9 + sum(  # and rounding
            np.sqrt(2.0 * float(each["last_update.gap"]) * n / RIDGE) for each in (found, wanted)
        )
        assert np.linalg.norm(found["model.theta"] - wanted["model.theta"]) <= apart < 1e-3
        for name, model in held.items():
            assert model is not None
            assert model.update == int(found["finished"]), name
            for key in ("theta", "matrix", "radius_terms"):
                assert np.array_equal(model.base[f"base.{key}"], found[f"model.{key}"]), key

    def _undisturbed(self, samples: dict[str, tuple[np.ndarray, np.ndarray]]) -> Arrays:
        """Play the protocol in memory: the coordinator after one update."""
        given = (self.agreement.algorithm, self.agreement.setting)
        clients = {name: Client(name, *given) for name in sorted(samples)}
        coordinator = Coordinator(*given, list(clients))
        for name, (X, y) in samples.items():
            for t, (x, reward) in enumerate(zip(X, y, strict=True), 1):
                clients[name].observe_unchecked(x, float(reward), t)
        first = next(iter(clients.values()))
        waiting: list[Message] = [SyncRequest(first.id, first.last_t, first.adopted)]
        while waiting:
            message = waiting.pop(0)
            receiver = coordinator if message.upward else clients[str(message.client)]
            waiting += receiver.receive(message)
        return coordinator.to_arrays()


class Killer:
    """Kills processes at moments that a seeded generator draws.

    A moment is a number of acknowledged calls after the last one, and for some kills of the
    coordinator and the server also the beginning of the next update. One kill in four does not wait
    until its victim is ready, so that it may strike a process that starts.
    """

    def __init__(self, place: Federated, load: Load, seed: int) -> None:
        self.place, self.load, self._rng = place, load, random.Random(seed)

    def strike(self, victim: str, between: int = 30) -> None:
        """Kill, and start again."""
        rng, place, load = self._rng, self.place, self.load
        calls = load.calls + rng.randrange(between)
        ready, in_update = rng.random() < 0.75, rng.random() < 0.75
        if ready:
            eventually(lambda: place.is_ready(victim), f"{victim} is ready")
        eventually(lambda: load.check() or load.calls >= calls, f"{calls} calls")
        if victim in (COORDINATOR, SERVER) and ready and in_update:
            begun = place.count("updating")
            eventually(lambda: place.count("updating") > begun, "an update")
        time.sleep(rng.random() * 0.02)
        place.kill(victim)
