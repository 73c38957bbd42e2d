"""A demonstration federation on this machine: real processes, simulated users, one agent killed.

The standard input of every process is a pipe, and each ends when the other end is closed: at the
end, or because this process has died.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import msgspec
import numpy as np

from fedglb.federation.agent.store import AgentStore
from fedglb.federation.bundle import Bundle
from fedglb.federation.coordinator.status import stored_status
from fedglb.federation.demo_shop import DemoPlan, ShopReport, agent_file, offers
from fedglb.federation.names import COORDINATOR
from fedglb.federation.operator import nats_server, operator
from fedglb.federation.operator.folder import SERVER
from fedglb.federation.preload import preload
from fedglb.kernels.cache import cache
from fedglb.protocol import Client
from fedglb.typing import FloatArray

_KILL_AT = 0.35  # share of its decisions after which an agent is killed
_DOWN = 2.0  # seconds until it is started again
_SILENCE = 120.0  # seconds without a report of any shop after which the demonstration fails
_TO_END = 5.0  # seconds that a process has to end before it is killed
_POLL = 0.05  # seconds
_PYTHON = [sys.executable, "-P"]  # -P: import nothing from the current folder
#: Runs a program that does not watch standard input, and ends it when standard input ends.
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


class DemoFailed(RuntimeError):
    """A process of the demonstration has ended, or no shop reports any more."""


class DemoSummary(msgspec.Struct, frozen=True):
    """The results of a demonstration.

    Parameters
    ----------
    clients, seed, seconds
        Number of agents, seed, duration.
    decisions
        Decisions with rewards, counted in the agents' files.
    acknowledged, lost
        Rewards that agents acknowledged, and those of them that are not in their files.
    regret, separate_regret
        The regret of the federation, and of separate learners on the same arms and users.
    updates, rounds, bytes
        Global updates, their rounds, and bytes on the wire.
    killed
        Of the agent that was killed: its name (`agent`), its acknowledged `decisions`, those that
        it found in its file when it `returned`, and for how many `seconds` it was down.
    epsilon, delta
        The privacy spent; None: there was no privacy.
    """

    clients: int
    seed: int
    seconds: float
    decisions: int
    acknowledged: int
    lost: int
    regret: float
    separate_regret: float
    updates: int
    rounds: int
    bytes: int
    killed: dict[str, Any]
    epsilon: float | None = None
    delta: float | None = None


def run(plan: DemoPlan, folder: Path, say: Callable[[str, bool], None]) -> DemoSummary:
    """Run a demonstration in an empty folder.

    `say` gets a line of text, and whether it is an event (else it is the current progress).
    """
    return _Demo(plan, folder, say).run()


def alone(plan: DemoPlan) -> FloatArray:
    """Return the regret of each agent without a federation after each decision, shape (N, T)."""
    agreement = plan.alone.build()
    regret = np.zeros((plan.clients, plan.decisions))
    for i, name in enumerate(plan.names):
        client = Client(name, agreement.algorithm, agreement.setting)
        for t, offer in enumerate(offers(plan, i)):
            arm = client.choose(offer.arms)
            regret[i, t] = offer.regret(arm)
            client.observe(offer.arms[arm], offer.reward(arm), t + 1)
    return np.cumsum(regret, axis=1)


class _Process:
    """A child process, with a thread that reads its standard output."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, lines: SimpleQueue[tuple[Any, bytes]]
    ) -> None:
        self.name, self.log, self._lines = name, log, lines
        with open(log, "ab") as errors:
            # In a process session of its own: Ctrl-C on the terminal reaches only the parent.
            self._popen = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._lines.put((self, line))
        self._lines.put((self, b""))  # it has ended

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()

    def close_input(self) -> None:
        """Close standard input, on which it ends."""
        assert self._popen.stdin is not None
        self._popen.stdin.close()

    def end(self) -> None:
        self.close_input()
        try:
            self._popen.wait(_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()
        self._thread.join(1.0)

    def check(self) -> None:
        """Raise `DemoFailed` if it has ended."""
        code = self._popen.poll()
        if code is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines()
            why = lines[-1] if lines else "its log is empty"
            raise DemoFailed(f"{self.name} ended (exit code {code}): {why}")


class _Demo:
    def __init__(self, plan: DemoPlan, folder: Path, say: Callable[[str, bool], None]) -> None:
        self._plan, self._folder, self._say = plan, folder, say
        self._lines: SimpleQueue[tuple[_Process, bytes]] = SimpleQueue()
        self._running: list[_Process] = []
        self._reports: dict[str, ShopReport] = {}
        self._acknowledged: dict[str, set[str]] = {name: set() for name in plan.names}
        self._updates = 0
        self._victim = plan.names[1 % plan.clients]
        self._killed: dict[str, Any] = {}
        self._began = self._last_report = time.monotonic()

    def run(self) -> DemoSummary:
        self._prepare()
        with self._processes():
            self._event("the server, the coordinator and the agents are starting")
            baseline = alone(self._plan)
            last = self._plan.decisions
            while any(self._decisions(name) < last for name in self._plan.names):
                self._handle_next()
                made = [self._decisions(name) for name in self._plan.names]
                separate = sum(baseline[i, n - 1] for i, n in enumerate(made) if n)
                regret = sum(report.regret for report in self._reports.values())
                self._say(
                    f"{sum(made):,} of {self._plan.clients * last:,} decisions, {self._updates} "
                    f"updates; regret {regret:.1f}, of separate learners {separate:.1f}", False,
                )  # fmt: skip
        return self._summary(baseline)

    def _decisions(self, name: str) -> int:
        return self._reports[name].decisions if name in self._reports else 0

    def _event(self, text: str) -> None:
        self._say(f"{time.monotonic() - self._began:5.1f} s  {text}", True)

    def _prepare(self) -> None:
        """Make the federation's folder, and compile here, once, instead of in every process."""
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
            nats = self._guarded("nats-server", nats_server.command(federation / SERVER))
            while nats_server.READY not in nats.log.read_text(errors="replace"):
                nats.check()
                time.sleep(_POLL)
            command = [*_PYTHON, "-m", "fedglb.cli", "federation", "coordinator", "--json"]
            command += [str(federation / COORDINATOR), "--absent-after", "2"]
            self._guarded(COORDINATOR, [*command, "--least-interval", "0"])
            for name in self._plan.names:
                self._start_shop(name)
            yield
        finally:
            for process in self._running[2:]:  # all shops at once
                process.close_input()
            for process in reversed(self._running):
                process.end()

    def _guarded(self, name: str, command: Sequence[str]) -> _Process:
        return self._start(name, [sys.executable, "-I", "-S", "-c", _GUARD, *command])

    def _start_shop(self, name: str) -> None:
        index, plan = str(self._plan.names.index(name)), msgspec.json.encode(self._plan).decode()
        module = "fedglb.federation.demo_shop"
        self._start(name, [*_PYTHON, "-m", module, str(self._folder), index, plan])

    def _start(self, name: str, command: Sequence[str]) -> _Process:
        process = _Process(name, command, self._folder / "logs" / f"{name}.log", self._lines)
        self._running.append(process)
        return process

    def _handle_next(self) -> None:
        """Handle the next line of any process; kill and restart the victim when it is time."""
        try:
            process, line = self._lines.get(timeout=_POLL)
        except Empty:
            if time.monotonic() - self._last_report > _SILENCE:
                raise DemoFailed(f"no agent has reported for {_SILENCE:g} s") from None
        else:
            if process in self._running:
                self._handle(process, line)
        down = time.monotonic() - self._killed.get("at", time.monotonic())
        if down > _DOWN and all(process.name != self._victim for process in self._running):
            self._event(f"{self._victim} is started again")
            self._start_shop(self._victim)

    def _handle(self, process: _Process, line: bytes) -> None:
        name = process.name
        if not line and name == self._victim and self._killed:
            self._running.remove(process)
            self._killed["decisions"] = self._decisions(name)  # all of its output is read
        elif not line:
            process.check()
        elif name == COORDINATOR:
            event = msgspec.json.decode(line)
            self._updates += event["event"] == "updated"
            if event["event"] in ("joined", "left", "excluded", "rejected", "abandoned"):
                self._event(f"coordinator: {event['text']}")
        elif name in self._acknowledged:
            self._last_report = time.monotonic()
            self._handle_report(process, msgspec.json.decode(line, type=ShopReport))

    def _handle_report(self, process: _Process, report: ShopReport) -> None:
        name = process.name
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

    def _summary(self, baseline: FloatArray) -> DemoSummary:
        """Count in the files of agents and coordinator, which no process has open any more."""
        found = [_read_agent(self._plan, self._folder, i) for i in range(self._plan.clients)]
        every = zip(self._acknowledged.values(), found, strict=True)
        bundle = Bundle.read(self._folder / "federation" / COORDINATOR)
        status = stored_status(bundle, bundle.folder / "state.db", {})
        privacy = status.privacy
        return DemoSummary(
            clients=self._plan.clients,
            seed=self._plan.seed,
            seconds=time.monotonic() - self._began,
            decisions=sum(len(ids) for ids, _ in found),
            acknowledged=sum(len(ids) for ids in self._acknowledged.values()),
            lost=sum(len(said - ids) for said, (ids, _) in every),
            regret=sum(regret for _, regret in found),
            separate_regret=float(np.sum(baseline[:, -1])),
            updates=status.totals.updates,
            rounds=status.totals.rounds,
            bytes=status.totals.bytes,
            killed={key: value for key, value in self._killed.items() if key != "at"},
            epsilon=None if privacy is None else privacy.spent,
            delta=None if privacy is None else privacy.delta,
        )


def _read_agent(plan: DemoPlan, folder: Path, index: int) -> tuple[set[str], float]:
    """Return the ids of the decisions with rewards in an agent's file, and their regret."""
    store = AgentStore(agent_file(folder, plan.names[index]), "process")
    try:
        rows = store.played()
    finally:
        store.close()
    regrets = (
        offer.regret(arm) for (_, arm), offer in zip(rows, offers(plan, index), strict=False)
    )
    return {id_ for id_, _ in rows}, sum(regrets)
