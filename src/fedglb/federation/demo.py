"""A demonstration federation on this machine: real processes, simulated users, one agent killed.

``python -m fedglb.federation.demo FOLDER NAME PLAN`` is one shop, an agent with its users. At its
start and per reward it writes a line: the number of its decisions, and the id of the last one.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, NoReturn

import msgspec
import numpy as np

from fedglb.environments import Synthetic
from fedglb.errors import integer
from fedglb.federation.agent.agent import Agent
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.status import stored_status
from fedglb.federation.names import COORDINATOR
from fedglb.federation.operator import nats_server, operator
from fedglb.federation.operator.folder import CLIENTS, SERVER
from fedglb.federation.preload import preload
from fedglb.kernels.cache import cache
from fedglb.problem_table import ProblemTable
from fedglb.protocol import Client
from fedglb.typing import FloatArray

_DIM, _ARMS = 10, 25
_ALONE = {"name": "fedglb-personal", "threshold": 1.0}
_PRIVATE = {"name": "fedglb-private", "updates": 20, "first": 3.0, "growth": 1.1}
_PRIVACY = {"epsilon": 8.0, "delta": 1e-6, "honest": 0.6}
_MINIMUM = 3  # clients in a secure sum
_PACE = 50.0  # decisions per second and shop
_HEARTBEAT = 0.5  # seconds
_KILL_AT = 0.35  # share of an agent's decisions before the kill
_DOWN = 2.0  # seconds until the restart
_SILENCE = 120.0  # seconds without any report until the demonstration fails
_TO_END = 5.0  # seconds for a process to end before it is killed
_POLL = 0.05  # seconds
_PYTHON = [sys.executable, "-P"]  # -P: import nothing from the current folder
#: Leads the group of all processes, and ends it when standard input ends: if the demonstration is
#: killed, no process is left.
_GUARD = ["sh", "-c", "read _; kill 0"]


class DemoPlan(msgspec.Struct, frozen=True):
    """The parameters of a demonstration.

    `private`: `fedglb_private` in place of `fedglb_personal`, with updates on a schedule of
    seconds, noise, and secure sums if there are three shops or more.
    """

    clients: int = 5
    decisions: int = 400  # of each shop
    seed: int = 1  # of arms and users
    private: bool = False

    def __post_init__(self) -> None:
        integer("clients", self.clients, at_most=100)
        integer("decisions", self.decisions, at_least=10)
        integer("seed", self.seed, at_least=0)

    @property
    def names(self) -> tuple[str, ...]:
        """The shops' names."""
        return tuple(f"shop-{i}" for i in range(1, self.clients + 1))

    @property
    def table(self) -> AgreementTable:
        """The federation's agreement."""
        if not self.private:
            return self.alone
        minimum = _MINIMUM if self.clients >= _MINIMUM else None
        privacy = {**_PRIVACY, "noise": "silo" if minimum is None else "sums"}
        algorithm = {**_PRIVATE, "privacy": privacy}
        return AgreementTable(self.clients, ProblemTable(_DIM), algorithm, minimum=minimum)

    @property
    def alone(self) -> AgreementTable:
        """The agreement of separate learners: `fedglb_private` learns nothing between updates."""
        return AgreementTable(self.clients, ProblemTable(_DIM), _ALONE)


# -- users, and a shop ---------------------------------------------------------------------------


class Offer(NamedTuple):
    """The arms for one user, and each arm's reward and regret, hidden from the agent."""

    arms: FloatArray
    rewards: FloatArray
    regrets: FloatArray


def offers(plan: DemoPlan, index: int) -> Iterator[Offer]:
    """Yield the simulator's offers to one shop's users, the same in every process."""
    problem = plan.table.build().problem
    for block in Synthetic(problem, plan.clients, _ARMS).checked_blocks(plan.decisions, plan.seed):
        assert block.uniforms is not None
        for step, means in enumerate(block.means[:, index]):
            rewards = problem.link.sample(means, block.uniforms[step, index], problem.R)
            yield Offer(block.arms[step, index], np.asarray(rewards), means.max() - means)


def separate_regret(plan: DemoPlan) -> float:
    """Return the regret of the agents without a federation, each with its own users."""
    agreement, regret = plan.alone.build(), 0.0
    for i, name in enumerate(plan.names):
        client = Client(name, agreement.algorithm, agreement.setting)
        for t, offer in enumerate(offers(plan, i)):
            arm = client.choose(offer.arms)
            client.observe(offer.arms[arm], float(offer.rewards[arm]), t + 1)
            regret += float(offer.regrets[arm])
    return regret


def agent_file(folder: Path, name: str) -> Path:
    """Return the path of a shop's agent file."""
    return folder / "agents" / f"{name}.db"


def shop(folder: Path, name: str, plan: DemoPlan) -> None:
    """Serve users one by one, starting where the agent's file ends; then take part in updates.

    A signal ends it.
    """
    problem = plan.table.build().problem
    bundle = folder / "federation" / CLIENTS / name
    with Agent.open(agent_file(folder, name), problem, bundle=bundle, beat=_HEARTBEAT) as agent:
        while not agent.status.admitted:
            time.sleep(_POLL)
        log = agent.export().select("id", "arm", "reward").rows()
        # A decision without its reward: the process was killed before the user's answer.
        waiting = next(((id_, arm) for id_, arm, reward in log if reward is None), None)
        done = len(log) - (waiting is not None)
        _report(done)
        for offer in islice(offers(plan, plan.names.index(name)), done, None):
            if waiting is None:
                decision = agent.choose(offer.arms)
                waiting = decision.id, decision.arm
            (id_, arm), waiting = waiting, None
            time.sleep(1.0 / _PACE)  # the user decides
            agent.observe(id_, float(offer.rewards[arm]))
            done += 1
            _report(done, id_)
        signal.pause()


def _report(done: int, id_: str = "") -> None:
    os.write(1, f"{done} {id_}\n".encode())  # one write: a pipe does not split it


# -- the demonstration ---------------------------------------------------------------------------


class DemoFailed(RuntimeError):
    """A process of the demonstration has ended, or none reports any more."""


class _Process(subprocess.Popen[bytes]):
    """A child process with a name and a log."""

    def __init__(self, name: str, command: Sequence[str], log: Path, group: int) -> None:
        self.name, self.log = name, log
        with open(log, "ab") as errors:
            super().__init__(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                process_group=group,
            )  # fmt: skip

    def end(self) -> None:
        self.terminate()
        try:
            self.wait(_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()

    def fail(self) -> NoReturn:
        """Raise `DemoFailed`: it has ended."""
        written = self.log.read_text(errors="replace").strip().splitlines()
        why = written[-1] if written else "its log is empty"
        raise DemoFailed(f"{self.name} ended (exit code {self.wait()}): {why}")


class Demo:
    """A demonstration in an empty folder.

    `say` gets a line of text, and whether it is an event (else it is the current progress).
    """

    def __init__(self, plan: DemoPlan, folder: Path, say: Callable[[str, bool], None]) -> None:
        self._plan, self._folder, self._say = plan, folder, say
        self._lines: SimpleQueue[tuple[_Process, bytes]] = SimpleQueue()
        self._running: list[_Process] = []
        self._done = dict.fromkeys(plan.names, 0)  # decisions with rewards
        self._acknowledged: dict[str, set[str]] = {name: set() for name in plan.names}
        self._updates = 0
        self._victim = plan.names[1 % plan.clients]
        #: Of the agent that was killed: its name (`agent`), its acknowledged `decisions`, those
        #: found in its file when it `returned`, and for how many `seconds` it was down.
        self._killed: dict[str, Any] = {}
        self._killed_at = self._restart_at = math.inf
        self._began = self._reported = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Run it, and return what is in the files at the end."""
        self._prepare()
        separate = separate_regret(self._plan)
        every = self._plan.clients * self._plan.decisions
        # In a group of their own: Ctrl-C on the terminal reaches only this process.
        with subprocess.Popen(_GUARD, stdin=subprocess.PIPE, process_group=0) as guard:
            try:
                self._start_all(guard.pid)
                while (made := sum(self._done.values())) < every:
                    self._handle_next()
                    progress = f"{made:,} of {every:,} decisions, {self._updates} updates"
                    self._say(progress, False)
            finally:
                for process in reversed(self._running):
                    process.end()
        return self._summary(separate)

    def _event(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._began:5.1f} s  {text}", True)

    def _prepare(self) -> None:
        """Make the federation's folder, and compile here, once, instead of in every process."""
        operator.check_empty(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in ("logs", "agents"):
            (self._folder / name).mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        place, host = self._folder / "federation", "127.0.0.1"
        table, names = self._plan.table, self._plan.names
        operator.init(place, "demo", table, names, [host], port, bind=host)
        if cache().fresh:
            self._event(
                "compiling the kernels: 10 to 30 s, once (later starts take about a second)"
            )
            preload(table.build())

    def _start_all(self, group: int) -> None:
        self._group, federation = group, self._folder / "federation"
        nats = self._start("nats-server", nats_server.command(federation / SERVER))
        while nats_server.READY not in nats.log.read_text(errors="replace"):
            if nats.poll() is not None:
                nats.fail()
            time.sleep(_POLL)
        command = [*_PYTHON, "-m", "fedglb.cli", "federation", "coordinator", "--json"]
        command += [str(federation / COORDINATOR), "--absent-after", "2", "--min-interval", "0"]
        self._start(COORDINATOR, command)
        for name in self._plan.names:
            self._start_shop(name)
        self._event("the server, the coordinator and the agents are starting")

    def _start_shop(self, name: str) -> None:
        plan = msgspec.json.encode(self._plan).decode()
        self._start(name, [*_PYTHON, "-m", __name__, str(self._folder), name, plan])

    def _start(self, name: str, command: Sequence[str]) -> _Process:
        process = _Process(name, command, self._folder / "logs" / f"{name}.log", self._group)
        self._running.append(process)
        threading.Thread(target=self._read, args=[process], daemon=True).start()
        return process

    def _read(self, process: _Process) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put((process, line))
        self._lines.put((process, b""))  # it has ended

    def _handle_next(self) -> None:
        """Handle the next line of any process; start the killed shop again when it is time."""
        try:
            self._handle(*self._lines.get(timeout=_POLL))
        except Empty:
            if time.monotonic() - self._reported > _SILENCE:
                raise DemoFailed(f"no agent has reported for {_SILENCE:g} s") from None
        if time.monotonic() > self._restart_at:
            self._restart_at = math.inf
            self._event(f"{self._victim} is started again")
            self._start_shop(self._victim)

    def _handle(self, process: _Process, line: bytes) -> None:
        name = process.name
        if not line and name == self._victim and self._killed.keys() == {"agent"}:
            self._running.remove(process)
            self._killed["decisions"] = self._done[name]  # all of its output is read
            self._restart_at = self._killed_at + _DOWN
        elif not line:
            process.fail()
        elif name == COORDINATOR:
            event = msgspec.json.decode(line)
            self._updates += event["event"] == "updated"
            if event["event"] in ("joined", "left", "excluded", "rejected", "abandoned"):
                self._event(f"coordinator: {event['text']}")
        elif name in self._done:
            self._handle_report(process, *line.decode().split())

    def _handle_report(self, process: _Process, done: str, *ids: str) -> None:
        name, now = process.name, time.monotonic()
        self._reported, self._done[name] = now, int(done)
        self._acknowledged[name].update(ids)
        if name != self._victim:
            return
        if not self._killed and self._done[name] >= _KILL_AT * self._plan.decisions:
            self._event(f"{name} is killed (SIGKILL) after {done} decisions")
            self._killed, self._killed_at = {"agent": name}, now
            process.kill()
        elif "decisions" in self._killed and "returned" not in self._killed:
            seconds = now - self._killed_at
            self._killed |= {"returned": int(done), "seconds": seconds}
            self._event(f"{name} is back after {seconds:.1f} s, with {done} decisions")

    def _summary(self, separate: float) -> dict[str, Any]:
        """Count in the files of agents and coordinator, which no process has open any more."""
        decisions, lost, regret = 0, 0, 0.0
        for i, name in enumerate(self._plan.names):
            played = _played(agent_file(self._folder, name))
            decisions += len(played)
            lost += len(self._acknowledged[name] - {id_ for id_, _ in played})
            users = zip(played, offers(self._plan, i), strict=False)
            regret += sum(float(offer.regrets[arm]) for (_, arm), offer in users)
        bundle = Bundle.read(self._folder / "federation" / COORDINATOR)
        status = stored_status(bundle, bundle.folder / "state.db", {})
        totals, privacy = status.totals, status.privacy
        return {
            "seconds": time.monotonic() - self._began,
            "decisions": decisions,  # with rewards
            "acknowledged": sum(map(len, self._acknowledged.values())),  # rewards
            "lost": lost,  # acknowledged rewards that are not in the agents' files
            "regret": regret,
            "separate_regret": separate,
            "updates": totals.updates,
            "rounds": totals.rounds,
            "bytes": totals.bytes,  # on the wire
            "killed": self._killed,
            "epsilon": None if privacy is None else privacy.spent,
            "delta": None if privacy is None else privacy.delta,
        }


def _played(path: Path) -> list[tuple[str, int]]:
    """Return id and arm of the decisions with rewards in an agent's file."""
    store = AgentStore(path, "process")
    try:
        return store.played()
    finally:
        store.close()


if __name__ == "__main__":
    shop(Path(sys.argv[1]), sys.argv[2], msgspec.json.decode(sys.argv[3], type=DemoPlan))
