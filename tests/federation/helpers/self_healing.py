"""A federation of real processes that is kept alive: whoever dies is started again at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from fedglb.federation.agreement import AgreementTable
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.protocol.persistence import Arrays
from tests.federation.helpers.kill_points import Fault
from tests.federation.helpers.killable_process import Child, Died
from tests.federation.helpers.nats_federation import Running, eventually, federation
from tests.federation.helpers.recorded import AGREED, DIM, EACH, Standing, asker, stream

COORDINATOR, SERVER = "coordinator", "nats-server"
#: A number is skipped when an update is started again, and a request may be repeated; what an
#: update froze is of no use once its model is held. All else must be equal.
_FREE = {
    "started", "update", "finished", "adopted", "frozen", "covered.update", "ledger.SyncRequest.up",
    # of one-pass updates: a release's number, and what was sent once its model is held
    "releases.keys", *(f"batches.last.{n}" for n in ("update", "samples", "batch", "numbers")),
}  # fmt: skip


class Kept:
    """nats-server, a coordinator and agents; `with` starts and ends all of them.

    `deaths` is who died, and how.
    """

    def __init__(self, folder: Path, names: Sequence[str], agreed: AgreementTable = AGREED) -> None:
        self.names, self.folder, self.agreed = names, folder, agreed
        self.times, self.clock = agreed.build().times, 0.0  # of a schedule
        self.running: Running = federation(folder, names, agreed)
        self.children: dict[str, Child] = {}
        self.deaths: list[tuple[str, int]] = []
        self.acknowledged = dict.fromkeys(names, 0)
        self._asked: Child | None = None

    # -- processes -------------------------------------------------------------------------------

    def start(self, name: str, fault: Fault | None = None) -> None:
        """Start a process; `fault` is armed from its first moment on."""
        home = self.running.folder
        given: dict[str, Any] = {"kind": "coordinator", "bundle": home / COORDINATOR}
        given |= {"clock": self.clock}
        if name != COORDINATOR:
            given = {"kind": "agent", "bundle": home / "clients" / name, "name": name}
            given |= {"problem": self.agreed.problem.build()}
        self.children[name] = Child(self.log(name), fault=fault, path=self.path(name), **given)

    def revive(self) -> None:
        """Start again whoever is dead."""
        for name, child in list(self.children.items()):
            if child.dead:
                self.deaths.append((name, self._bury(name)))
                self.start(name)
        server = self.running.server
        if server is not None and server.process.poll() is not None:
            self.deaths.append((SERVER, server.process.returncode))
            self.running.start()

    def kill(self, name: str, fault: Fault | None = None) -> None:
        """Kill a process from outside, and start it again with a fault."""
        self.children[name].process.kill()
        self._bury(name)
        self.start(name, fault)

    def _bury(self, name: str) -> int:
        child = self.children[name]
        code = child.bury()
        if name in self.acknowledged:
            self.acknowledged[name] = max(self.acknowledged[name], child.acknowledged)
        return code

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.db"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def __enter__(self) -> Kept:
        self.running.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            for child in self.children.values():
                child.kill()
        finally:
            self.running.stop()
        if error is not None:
            said = [f"{n}:\n{self.log(n).read_text()[-3000:]}" for n in self.children]
            events = [e for n in self.children for e in self.children[n].events[-30:]]
            error.add_note("\n".join([f"deaths: {self.deaths}", *events, *said]))

    @property
    def server_pid(self) -> int:
        assert self.running.server is not None
        return self.running.server.process.pid

    def gather(self) -> None:
        """Wait until the coordinator has admitted all agents."""

        def welcome() -> bool:
            return all(self.children[name].tell("status")["admitted"] for name in self.names)

        eventually(welcome, "everybody's welcome")

    # -- a phase ---------------------------------------------------------------------------------

    def play(self, phase: int, struck: Callable[[], bool] = lambda: True) -> None:
        """Feed every agent, let one ask, wait until all hold the model and `struck()` is true."""
        expected = EACH * (phase + 1)
        eventually(lambda: self._fed(expected), f"{expected} samples with every agent")
        self._ask(asker(self.names, phase), phase)
        for _ in range(2):  # the fault may strike when all hold the model
            eventually(lambda: self._settled(phase, expected), f"the model of phase {phase}")
            eventually(lambda: self.revive() or struck(), f"the fault of phase {phase}")

    def _fed(self, expected: int) -> bool:
        """Tell all agents to go on with their samples; whether they have come so far."""
        self.revive()
        fed = True
        for name in self.names:
            try:
                self.children[name].tell("feed", until=expected)
            except Died:
                fed = False
        return fed

    def _ask(self, name: str, phase: int) -> None:
        """Let an agent ask for an update; where there is a schedule, let its time come."""
        if self.times:
            self.clock = self.times[phase]
            with suppress(Died):
                self.children[COORDINATOR].tell("set_clock", clock=self.clock)
            return
        self._asked = self.children[name]
        with suppress(Died):  # whether the request has got out will be seen
            self._asked.tell("ask")

    def _settled(self, phase: int, expected: int) -> bool:
        self.revive()
        who = asker(self.names, phase)
        try:
            agents = {n: self.children[n].tell("status") for n in self.names}
            head = self.children[COORDINATOR].tell("status")
        except Died:
            return False
        assert not any(agent["refused"] for agent in agents.values()), agents
        if not head["rests"]:
            return False
        done = head["samples"] == len(self.names) * expected
        if done if not self.times else head["t"] == phase + 1:
            return all(agent["model"] == head["model"] for agent in agents.values())
        # The application's request dies with its process, unless it got out before. Once the
        # new session is welcome, the old one cannot begin an update any more, and the coordinator
        # was asked after that: a request that is repeated now makes no second update.
        if not self.times and self.children[who] is not self._asked and agents[who]["admitted"]:
            self._ask(who, phase)
        return False

    def arm(self, name: str, fault: Fault | None) -> None:
        """Arm a fault in a process, or only begin to count."""
        self.children[name].tell("arm", fault=fault)

    def points(self, name: str) -> dict[str, int]:
        """How often a process has come to each place since it was armed."""
        return self.children[name].tell("points")["points"]

    # -- what must hold --------------------------------------------------------------------------

    def check(self, phase: int, standing: Standing) -> None:
        """Nothing acknowledged is lost, and every state is, to the bit, the undisturbed one."""
        same(standing.coordinator, state(self.children[COORDINATOR]), f"coordinator, phase {phase}")
        for name in self.names:
            same(standing.clients[name], state(self.children[name]), f"{name}, phase {phase}")
            self.check_log(name, EACH * (phase + 1))

    def check_log(self, name: str, most: int) -> None:
        """The log has the stream's samples, in order, and all that were acknowledged."""
        kept = self.children[name].tell("log")
        X, y = stream(name, DIM, most)
        count = len(kept["y"])
        self.acknowledged[name] = max(self.acknowledged[name], self.children[name].acknowledged)
        assert self.acknowledged[name] <= count <= most
        assert kept["x"] == X[:count].tolist()
        assert kept["y"] == y[:count].tolist()

    def check_end(self, standings: Sequence[Standing]) -> None:
        """End all in good order; the coordinator's file has every update once, and its ledger."""
        for name in [*self.names, COORDINATOR]:
            assert self.children[name].end() == 0
        file = CoordinatorStore(self.path(COORDINATOR), self.running.coordinator_bundle.agreement)
        try:
            kept, updates = file.state(), file.last_updates(1000)
        finally:
            file.close()
        assert kept is not None
        last = standings[-1].coordinator
        for key in last:
            if key.startswith(("ledger.", "model.")) and key not in _FREE:
                _equal(last[key], kept[0][key], f"{key} in the file")
        assert int(kept[0]["syncs"]) == len(standings) == len(updates)
        if not self.times:
            assert int(kept[0]["ledger.SyncRequest.up"][0]) >= len(standings)
        numbers = [update.number for update in updates]
        assert numbers == sorted(set(numbers))
        for k, (update, standing) in enumerate(zip(updates, standings, strict=True)):
            asked_by = None if self.times else asker(self.names, k)
            assert (update.clients, update.asked_by) == (len(self.names), asked_by)
            for key in ("t", "samples", "rounds"):
                assert getattr(update, key) == int(standing.coordinator[f"last_update.{key}"]), key


def state(child: Child) -> Arrays:
    """The whole state of a process's client or coordinator."""
    return child.tell("state")["arrays"]


def same(expected: Arrays, found: Arrays, where: str) -> None:
    """The states are equal to the bit."""
    assert expected.keys() - _FREE == found.keys() - _FREE
    for key in expected.keys() - _FREE:
        _equal(expected[key], found[key], f"{key} of {where}")


def _equal(expected: Any, found: Any, what: str) -> None:
    expected, found = np.asarray(expected), np.asarray(found)
    assert expected.dtype == found.dtype, what
    assert expected.shape == found.shape, what
    assert expected.tobytes() == found.tobytes(), f"{what}: {expected} became {found}"
