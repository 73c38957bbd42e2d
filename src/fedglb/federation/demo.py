"""A demonstration federation on this machine: real processes, simulated users, one agent killed.

``python -m fedglb.federation.demo FOLDER NAME PLAN`` is one shop, an agent with its users; it
writes a JSON report per decision to standard output.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

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
_ALONE = {"name": "fedglb-auto", "threshold": 1.0}
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
#: Runs a program, and ends it when standard input ends, also because the parent died.
_GUARD = """
import os, subprocess, sys, threading
program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def watch():
    while os.read(0, 1024):
        pass
    program.terminate()
threading.Thread(target=watch, daemon=True).start()
sys.exit(program.wait() & 0xFF)
"""


class DemoPlan(msgspec.Struct, frozen=True):
    """The parameters of a demonstration.

    `private`: `fedglb_private` in place of `fedglb_auto`, with updates on a schedule of seconds,
    noise, and secure sums if there are three shops or more.
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


def alone(plan: DemoPlan) -> FloatArray:
    """Return the regret of each agent without a federation after each decision, shape (N, T)."""
    agreement = plan.alone.build()
    regret = np.zeros((plan.clients, plan.decisions))
    for i, name in enumerate(plan.names):
        client = Client(name, agreement.algorithm, agreement.setting)
        for t, offer in enumerate(offers(plan, i)):
            arm = client.choose(offer.arms)
            regret[i, t] = offer.regrets[arm]
            client.observe(offer.arms[arm], float(offer.rewards[arm]), t + 1)
    return np.cumsum(regret, axis=1)


def agent_file(folder: Path, name: str) -> Path:
    """Return the path of a shop's agent file."""
    return folder / "agents" / f"{name}.db"


class ShopReport(msgspec.Struct, frozen=True):
    """A shop's progress; `id` is the decision whose reward was just acknowledged, or empty."""

    id: str = ""
    decisions: int = 0
    regret: float = 0.0


def shop(folder: Path, name: str, plan: DemoPlan) -> None:
    """Serve users one by one, starting where the agent's file ends; then take part in updates.

    A signal ends it.
    """
    problem = plan.table.build().problem
    bundle = folder / "federation" / CLIENTS / name
    with Agent.open(agent_file(folder, name), problem, bundle=bundle, beat=_HEARTBEAT) as agent:
        while not agent.status.admitted:
            time.sleep(_POLL)
        users, waiting = offers(plan, plan.names.index(name)), None
        decisions, regret = 0, 0.0
        for id_, arm, reward in agent.export().select("id", "arm", "reward").iter_rows():
            if reward is None:  # the process was killed before this user's reward
                waiting = id_, arm
            else:
                decisions, regret = decisions + 1, regret + next(users).regrets[arm]
        _report(ShopReport("", decisions, float(regret)))
        for offer in users:
            if waiting is None:
                decision = agent.choose(offer.arms)
                waiting = decision.id, decision.arm
            (id_, arm), waiting = waiting, None
            time.sleep(1.0 / _PACE)  # the user decides
            agent.observe(id_, float(offer.rewards[arm]))
            decisions, regret = decisions + 1, regret + offer.regrets[arm]
            _report(ShopReport(id_, decisions, float(regret)))
        signal.pause()


def _report(report: ShopReport) -> None:
    os.write(1, msgspec.json.encode(report) + b"\n")  # one write: a pipe does not split it


# -- the demonstration ---------------------------------------------------------------------------


class DemoFailed(RuntimeError):
    """A process of the demonstration has ended unexpectedly."""


class DemoSummary(msgspec.Struct, frozen=True):
    """The results of a demonstration."""

    clients: int
    seed: int
    seconds: float
    decisions: int  # with rewards, counted in the agents' files
    acknowledged: int  # rewards that agents acknowledged
    lost: int  # acknowledged, but not in the agents' files
    regret: float
    separate_regret: float  # of separate learners on the same arms and users
    updates: int
    rounds: int
    bytes: int  # on the wire
    #: The killed agent: its name (`agent`), its acknowledged `decisions`, those found in its file
    #: after the restart (`returned`), and the `seconds` it was down.
    killed: dict[str, Any]
    epsilon: float | None = None  # the privacy spent; None: no privacy
    delta: float | None = None


class _Process:
    """A child process, with a thread that reads its standard output."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name, self.log = name, log
        with open(log, "ab") as errors:
            # In a new process session: Ctrl-C on the terminal reaches only the parent.
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _GUARD, *command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                start_new_session=True,
            )  # fmt: skip

    def read(self, lines: SimpleQueue[tuple[_Process, bytes]]) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            lines.put((self, line))
        lines.put((self, b""))  # it has ended

    def kill(self) -> None:
        os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def end(self) -> None:
        """Close standard input, which ends it."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        try:
            self._popen.wait(_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()

    def check(self) -> None:
        """Raise `DemoFailed` if it has ended."""
        code = self._popen.poll()
        if code is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            why = lines[-1] if lines else "its log is empty"
            raise DemoFailed(f"{self.name} ended (exit code {code}): {why}")


class Demo:
    """A demonstration in an empty folder.

    `say` gets a line of text, and whether it is an event (else it is the current progress).
    """

    def __init__(self, plan: DemoPlan, folder: Path, say: Callable[[str, bool], None]) -> None:
        self._plan, self._folder, self._say = plan, folder, say
        self._lines: SimpleQueue[tuple[_Process, bytes]] = SimpleQueue()
        self._running: list[_Process] = []
        self._reports = dict.fromkeys(plan.names, ShopReport())
        self._acknowledged: dict[str, set[str]] = {name: set() for name in plan.names}
        self._updates = 0
        self._victim = plan.names[1 % plan.clients]
        self._killed: dict[str, Any] = {}
        self._began = self._reported = time.monotonic()

    def run(self) -> DemoSummary:
        """Run it, and count the results in the files at the end."""
        self._prepare()
        with self._processes():
            self._event("the server, the coordinator and the agents are starting")
            baseline = alone(self._plan)
            every = self._plan.clients * self._plan.decisions
            while (made := sum(report.decisions for report in self._reports.values())) < every:
                self._handle_next()
                reports = enumerate(self._reports.values())
                separate = sum(baseline[i, r.decisions - 1] for i, r in reports if r.decisions)
                self._say(
                    f"{made:,} of {every:,} decisions, {self._updates} updates; "
                    f"regret {self._regret:.1f}, of separate learners {separate:.1f}", False,
                )  # fmt: skip
        return self._summary(float(np.sum(baseline[:, -1])))

    @property
    def _regret(self) -> float:
        return sum(report.regret for report in self._reports.values())

    def _event(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._began:5.1f} s  {text}", True)

    def _prepare(self) -> None:
        """Create the federation's folder; compile once here, not in every process."""
        for name in ("logs", "agents"):
            (self._folder / name).mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        place, host = self._folder / "federation", "127.0.0.1"
        table, names = self._plan.table, self._plan.names
        operator.init(place, "demo", table, names, [host], port, bind=host)
        if cache().fresh:
            preload(table.build())
            alone(self._plan)

    @contextlib.contextmanager
    def _processes(self) -> Iterator[None]:
        """Run the server, the coordinator and the shops; end them in the opposite order."""
        try:
            federation = self._folder / "federation"
            nats = self._start("nats-server", nats_server.command(federation / SERVER))
            while nats_server.READY not in nats.log.read_text(errors="replace"):
                nats.check()
                time.sleep(_POLL)
            command = [*_PYTHON, "-m", "fedglb.cli", "federation", "coordinator", "--json"]
            command += [str(federation / COORDINATOR), "--absent-after", "2"]
            self._start(COORDINATOR, [*command, "--min-interval", "0"])
            for name in self._plan.names:
                self._start_shop(name)
            yield
        finally:
            for process in reversed(self._running):
                process.end()

    def _start_shop(self, name: str) -> None:
        plan = msgspec.json.encode(self._plan).decode()
        self._start(name, [*_PYTHON, "-m", __name__, str(self._folder), name, plan])

    def _start(self, name: str, command: Sequence[str]) -> _Process:
        process = _Process(name, command, self._folder / "logs" / f"{name}.log")
        self._running.append(process)
        threading.Thread(target=process.read, args=[self._lines], daemon=True).start()
        return process

    def _handle_next(self) -> None:
        """Handle the next line of any process; kill and restart the victim on time."""
        try:
            self._handle(*self._lines.get(timeout=_POLL))
        except Empty:
            if time.monotonic() - self._reported > _SILENCE:
                raise DemoFailed(f"no agent has reported for {_SILENCE:g} s") from None
        down = time.monotonic() - self._killed.get("at", time.monotonic())
        if down > _DOWN and all(process.name != self._victim for process in self._running):
            self._event(f"{self._victim} starts again")
            self._start_shop(self._victim)

    def _handle(self, process: _Process, line: bytes) -> None:
        name = process.name
        if not line and name == self._victim and self._killed:
            self._running.remove(process)
            self._killed["decisions"] = self._reports[name].decisions  # all of its output is read
        elif not line:
            process.check()
        elif name == COORDINATOR:
            event = msgspec.json.decode(line)
            self._updates += event["event"] == "updated"
            if event["event"] in ("joined", "left", "excluded", "rejected", "abandoned"):
                self._event(f"coordinator: {event['text']}")
        elif name in self._reports:
            self._handle_report(process, msgspec.json.decode(line, type=ShopReport))

    def _handle_report(self, process: _Process, report: ShopReport) -> None:
        name, self._reported = process.name, time.monotonic()
        self._reports[name] = report
        if report.id:
            self._acknowledged[name].add(report.id)
        if name != self._victim:
            return
        if not self._killed and report.decisions >= _KILL_AT * self._plan.decisions:
            self._event(f"{name} is killed (SIGKILL) after {report.decisions} decisions")
            self._killed = {"agent": name, "at": time.monotonic()}
            process.kill()
        elif "decisions" in self._killed and "returned" not in self._killed:
            seconds = time.monotonic() - self._killed["at"]
            self._killed |= {"returned": report.decisions, "seconds": seconds}
            self._event(f"{name} is back after {seconds:.1f} s, with {report.decisions} decisions")

    def _summary(self, separate_regret: float) -> DemoSummary:
        """Count in the files of agents and coordinator, which no process has open."""
        kept = {name: _rewarded(agent_file(self._folder, name)) for name in self._plan.names}
        bundle = Bundle.read(self._folder / "federation" / COORDINATOR)
        status = stored_status(bundle, bundle.folder / "state.db", {})
        privacy = status.privacy
        return DemoSummary(
            clients=self._plan.clients,
            seed=self._plan.seed,
            seconds=time.monotonic() - self._began,
            decisions=sum(len(ids) for ids in kept.values()),
            acknowledged=sum(len(ids) for ids in self._acknowledged.values()),
            lost=sum(len(ids - kept[name]) for name, ids in self._acknowledged.items()),
            regret=self._regret,
            separate_regret=separate_regret,
            updates=status.totals.updates,
            rounds=status.totals.rounds,
            bytes=status.totals.bytes,
            killed={key: value for key, value in self._killed.items() if key != "at"},
            epsilon=None if privacy is None else privacy.spent,
            delta=None if privacy is None else privacy.delta,
        )


def _rewarded(path: Path) -> set[str]:
    """Return the ids of the decisions with rewards in an agent's file."""
    store = AgentStore(path, "process")
    try:
        return {id_ for id_, _ in store.played()}
    finally:
        store.close()


if __name__ == "__main__":
    shop(Path(sys.argv[1]), sys.argv[2], msgspec.json.decode(sys.argv[3], type=DemoPlan))
