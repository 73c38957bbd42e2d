"""Runs a demonstration: starts the processes, kills one, starts it again, sums up."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

import msgspec

from fedglb.federation.demo.children import Child, Children
from fedglb.federation.demo.local_baseline import local_baseline
from fedglb.federation.demo.plan import FEDERATION, DemoPlan
from fedglb.federation.demo.shop import ShopReport
from fedglb.federation.demo.state import (
    DONE,
    KILLED,
    PLAYING,
    RETURNING,
    STARTING,
    WAITING,
    AgentState,
    DemoState,
)
from fedglb.federation.demo.summary import KilledAgent, Summary, summarise
from fedglb.federation.names import COORDINATOR
from fedglb.federation.operator import nats_server, operator
from fedglb.federation.operator.folder import SERVER
from fedglb.federation.preload import preload
from fedglb.kernels.cache import cache

_SERVER = "nats-server"
_TIMEOUT = 120.0  # seconds without a report of any agent
_KILL_AT = 0.35  # share of the victim's decisions
_DOWN = 2.0  # seconds until the killed agent is started again
_ABSENT = 2.0  # seconds of silence after which the coordinator goes on without it
_POLL = 0.05  # seconds


class DemoFailed(RuntimeError):
    """A process of the demonstration has ended, or no agent reports any more."""


class Director:
    """One demonstration in a folder, which must be empty.

    Parameters
    ----------
    plan, folder
        The parameters, and where all files are written.
    show
        Called often, with the current state.
    """

    def __init__(self, plan: DemoPlan, folder: Path, show: Callable[[DemoState], None]) -> None:
        self._plan, self._folder, self._show = plan, folder, show
        self._state = DemoState(plan, {name: AgentState() for name in plan.names})
        self._victim = plan.names[1 % plan.clients]
        self._processes: dict[str, Child] = {}
        self._acknowledged: dict[str, set[str]] = {name: set() for name in plan.names}
        self._killed_at: float | None = None
        self._killed_with = self._returned_with = 0
        self._seconds_down = 0.0

    def run(self) -> Summary:
        """Run it to its end."""
        began = time.monotonic()
        self._began = self._last_report = began
        self._prepare()
        with Children(self._folder / "logs") as self._children:
            nats = self._start_server()
            coordinator = self._start_coordinator()
            for name in self._plan.names:
                self._start_agent(name)
            self._note("the server, the coordinator and the agents are starting")
            baseline = self._state.baseline = local_baseline(self._plan)
            self._watch(lambda: all(agent.connected for agent in self._states.values()))
            self._note("all agents are connected: the first users arrive")
            for name, process in self._processes.items():
                self._states[name].doing = PLAYING
                process.send("start")
            self._watch(lambda: all(agent.doing == DONE for agent in self._states.values()))
            self._note("all agents have made their decisions")
            for group in (self._processes.values(), [coordinator], [nats]):
                self._children.end(*group)  # in this order everybody can say goodbye
        self._handle_rest()
        killed = KilledAgent(
            self._victim, self._killed_with, self._returned_with, self._seconds_down
        )
        return summarise(
            self._plan, self._folder, self._acknowledged, baseline, killed, time.monotonic() - began
        )

    @property
    def _states(self) -> dict[str, AgentState]:
        return self._state.agents

    # -- starting --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Make the federation's folder, and compile here, once, instead of in every process."""
        self._show(self._state)
        for name in ("logs", "agents"):
            (self._folder / name).mkdir()
        self._plan.write(self._folder)
        port = _free_port()
        operator.init(
            self._folder / "federation", FEDERATION, self._plan.table, self._plan.names,
            ["127.0.0.1"], port, bind="127.0.0.1",
        )  # fmt: skip
        self._state.address = f"tls://127.0.0.1:{port}"
        if cache().fresh:
            preload(self._plan.agreement)
            local_baseline(self._plan)

    def _start_server(self) -> Child:
        folder = self._folder / "federation" / SERVER
        nats = self._children.start(_SERVER, nats_server.command(folder), dies_with_parent=True)
        while nats_server.READY not in nats.log.read_text(errors="replace"):
            if nats.process.poll() is not None or self._silent():
                raise DemoFailed(f"{_SERVER} does not start: {nats.last_line}")
            time.sleep(_POLL)
        return nats

    def _start_coordinator(self) -> Child:
        bundle = self._folder / "federation" / COORDINATOR
        command = ["federation", "coordinator", str(bundle), "--absent-after", str(_ABSENT)]
        command += ["--least-interval", "0"]  # what it shows is over in half a minute
        return self._children.start(
            COORDINATOR, [*_python("fedglb.cli"), *command, "--json"], dies_with_parent=True
        )

    def _start_agent(self, name: str) -> None:
        index = self._plan.names.index(name)
        command = [*_python("fedglb.federation.demo.shop"), str(self._folder), str(index)]
        self._processes[name] = self._children.start(name, command, dies_with_parent=False)

    # -- while it runs ---------------------------------------------------------------------------

    def _watch(self, over: Callable[[], bool]) -> None:
        """Handle the output of all processes until the condition holds."""
        while not over():
            try:
                child, line = self._children.lines.get(timeout=_POLL)
            except Empty:
                if self._silent():
                    raise DemoFailed(f"no agent has reported for {_TIMEOUT:g} s") from None
            else:
                self._handle(child, line)
            self._kill_and_restart()
            self._show(self._state)

    def _silent(self) -> bool:
        return time.monotonic() - self._last_report > _TIMEOUT

    def _handle(self, child: Child, line: bytes) -> None:
        if not line:
            self._handle_end(child)
        elif child.name == COORDINATOR:
            self._handle_event(msgspec.json.decode(line))
        elif child.name in self._states:
            self._last_report = time.monotonic()
            self._handle_report(child.name, msgspec.json.decode(line, type=ShopReport))

    def _handle_end(self, child: Child) -> None:
        agent = self._states.get(child.name)
        if agent is None or agent.doing != KILLED:
            code = child.process.wait()
            raise DemoFailed(f"{child.name} ended (exit code {code}): {child.last_line}")
        self._killed_with = agent.decisions  # by now all of its output is read

    def _handle_event(self, event: dict[str, Any]) -> None:
        kind, client = event["event"], str(event.get("client"))
        if kind in ("joined", "left") and client in self._states:
            self._states[client].present = kind == "joined"
        elif kind == "updated":
            self._state.update = event
            self._state.updates += 1
            self._state.size = event["total_bytes"]
        goodbye = kind == "left" and client in self._states and self._states[client].doing == DONE
        if kind in ("left", "excluded", "invalid", "rejected", "abandoned") and not goodbye:
            self._note(f"coordinator: {event['text']}")

    def _handle_report(self, name: str, report: ShopReport) -> None:
        agent = self._states[name]
        agent.report = report
        if report.id:
            self._acknowledged[name].add(report.id)
        if agent.doing == STARTING:
            agent.doing = WAITING
        elif agent.doing == RETURNING:
            assert self._killed_at is not None
            self._returned_with, self._seconds_down = (
                report.decisions,
                time.monotonic() - self._killed_at,
            )
            found = f"with {report.decisions} decisions"
            self._note(f"{name} is back after {self._seconds_down:.1f} s, {found}")
            agent.doing = PLAYING
            self._processes[name].send("start")
        if agent.doing == PLAYING and report.decisions == self._plan.decisions:
            agent.doing = DONE

    def _kill_and_restart(self) -> None:
        """Kill the victim after a share of its decisions; start it again a little later."""
        agent, now = self._states[self._victim], time.monotonic()
        if self._killed_at is None:
            if agent.doing == PLAYING and agent.decisions >= _KILL_AT * self._plan.decisions:
                self._killed_at = now
                agent.doing = KILLED
                self._processes[self._victim].kill()
                self._note(f"{self._victim} is killed (SIGKILL) after {agent.decisions} decisions")
        elif agent.doing == KILLED and now - self._killed_at > _DOWN:
            agent.doing = RETURNING
            self._note(f"{self._victim} is started again")
            self._start_agent(self._victim)

    def _handle_rest(self) -> None:
        """Handle the output that is left when all processes have ended."""
        while True:
            try:
                child, line = self._children.lines.get_nowait()
            except Empty:
                return
            if line:
                self._handle(child, line)

    def _note(self, text: str) -> None:
        self._state.notes.append(f"{time.monotonic() - self._began:5.1f} s  {text}")
        self._show(self._state)


def _python(module: str) -> list[str]:
    return [sys.executable, "-P", "-m", module]  # -P: import nothing from the current folder


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
