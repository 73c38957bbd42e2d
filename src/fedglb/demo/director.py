"""Runs a demonstration: starts the processes, kills one, brings it back, counts what is left."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Any

import msgspec

from fedglb.demo.children import Child, Children
from fedglb.demo.local_baseline import local_baseline
from fedglb.demo.plan import FEDERATION, DemoPlan
from fedglb.demo.shop import ShopReport
from fedglb.demo.state import (
    DONE,
    KILLED,
    PLAYING,
    RETURNING,
    STARTING,
    WAITING,
    AgentState,
    DemoState,
)
from fedglb.demo.summary import Killed, Summary, summarise
from fedglb.federation.names import COORDINATOR
from fedglb.federation.operator import nats_server, operator
from fedglb.federation.warm_up import warm_up
from fedglb.kernels.compile import cache

_SERVER = "nats-server"
_PATIENCE = 120.0  # seconds without a word of any agent
_KILL_AT = 0.35  # of the victim's decisions
_AWAY = 2.0  # seconds until the one killed is started again
_ABSENT = 2.0  # seconds of silence after which the coordinator goes on without it
_LOOK = 0.05  # seconds between two looks at the clock


class DemoFailed(RuntimeError):
    """A process of the demonstration ended or fell silent."""


class Director:
    """One demonstration in a folder, which must be empty.

    Parameters
    ----------
    plan, folder
        What is played, and where.
    tell
        Called often, with how it stands.
    """

    def __init__(self, plan: DemoPlan, folder: Path, tell: Callable[[DemoState], None]) -> None:
        self._plan, self._folder, self._tell = plan, folder, tell
        self._standing = DemoState(plan, {name: AgentState() for name in plan.names})
        self._victim = plan.names[1 % plan.clients]
        self._agents: dict[str, Child] = {}
        self._acknowledged: dict[str, set[str]] = {name: set() for name in plan.names}
        self._killed_at: float | None = None
        self._killed_with = self._returned_with = 0
        self._away = 0.0

    def run(self) -> Summary:
        """Play it to its end."""
        began = time.monotonic()
        self._began = self._heard_at = began
        self._prepare()
        with Children(self._folder / "logs") as self._children:
            nats = self._start_server()
            coordinator = self._start_coordinator()
            for name in self._plan.names:
                self._start_agent(name)
            self._note("the server, the coordinator and the agents are starting")
            alone = self._standing.separate = local_baseline(self._plan)
            self._watch(lambda: all(seat.connected for seat in self._seats.values()))
            self._note("all agents are connected: the first users come")
            for name, agent in self._agents.items():
                self._seats[name].doing = PLAYING
                agent.say("begin")
            self._watch(lambda: all(seat.doing == DONE for seat in self._seats.values()))
            self._note("all users are served")
            for ending in (self._agents.values(), [coordinator], [nats]):
                self._children.end(*ending)  # in this order all say goodbye
        self._hear_the_rest()
        killed = Killed(self._victim, self._killed_with, self._returned_with, self._away)
        return summarise(
            self._plan, self._folder, self._acknowledged, alone, killed, time.monotonic() - began
        )

    @property
    def _seats(self) -> dict[str, AgentState]:
        return self._standing.seats

    # -- starting --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Make the federation's folder, and compile once rather than in every process."""
        self._tell(self._standing)
        for name in ("logs", "agents"):
            (self._folder / name).mkdir()
        self._plan.write(self._folder)
        port = _free_port()
        operator.init(
            self._folder / "federation", FEDERATION, self._plan.table, self._plan.names,
            ["127.0.0.1"], port, bind="127.0.0.1",
        )  # fmt: skip
        self._standing.address = f"tls://127.0.0.1:{port}"
        if cache().fresh:
            warm_up(self._plan.agreement)
            local_baseline(self._plan)

    def _start_server(self) -> Child:
        folder = self._folder / "federation" / operator.SERVER
        nats = self._children.start(_SERVER, nats_server.command(folder), dies_with_parent=True)
        while nats_server.READY not in nats.log.read_text(errors="replace"):
            if nats.process.poll() is not None or self._silent():
                raise DemoFailed(f"{_SERVER} does not start: {nats.last_word}")
            time.sleep(_LOOK)
        return nats

    def _start_coordinator(self) -> Child:
        bundle = self._folder / "federation" / COORDINATOR
        command = ["federation", "coordinator", str(bundle), "--absent-after", str(_ABSENT)]
        return self._children.start(
            COORDINATOR, [*_python("fedglb.cli"), *command, "--json"], dies_with_parent=True
        )

    def _start_agent(self, name: str) -> None:
        index = self._plan.names.index(name)
        command = [*_python("fedglb.demo.shop"), str(self._folder), str(index)]
        self._agents[name] = self._children.start(name, command, dies_with_parent=False)

    # -- while it runs ---------------------------------------------------------------------------

    def _watch(self, over: Callable[[], bool]) -> None:
        """Listen to all processes until the condition holds."""
        while not over():
            try:
                child, line = self._children.heard.get(timeout=_LOOK)
            except Empty:
                if self._silent():
                    raise DemoFailed(f"no agent has said a word for {_PATIENCE:g} s") from None
            else:
                self._hear(child, line)
            self._murder()
            self._tell(self._standing)

    def _silent(self) -> bool:
        return time.monotonic() - self._heard_at > _PATIENCE

    def _hear(self, child: Child, line: bytes) -> None:
        if not line:
            self._ended(child)
        elif child.name == COORDINATOR:
            self._event(msgspec.json.decode(line))
        elif child.name in self._seats:
            self._heard_at = time.monotonic()
            self._report(child.name, msgspec.json.decode(line, type=ShopReport))

    def _ended(self, child: Child) -> None:
        seat = self._seats.get(child.name)
        if seat is None or seat.doing != KILLED:
            code = child.process.wait()
            raise DemoFailed(f"{child.name} ended (exit code {code}): {child.last_word}")
        self._killed_with = seat.decisions  # by now all of its words are heard

    def _event(self, event: dict[str, Any]) -> None:
        kind, client = event["event"], str(event.get("client"))
        if kind in ("joined", "left") and client in self._seats:
            self._seats[client].present = kind == "joined"
        elif kind == "updated":
            self._standing.update = event
            self._standing.updates += 1
            self._standing.size = event["total_bytes"]
        goodbye = kind == "left" and client in self._seats and self._seats[client].doing == DONE
        if kind in ("left", "excluded", "invalid", "rejected", "abandoned") and not goodbye:
            self._note(f"coordinator: {event['text']}")

    def _report(self, name: str, said: ShopReport) -> None:
        seat = self._seats[name]
        seat.said = said
        if said.id:
            self._acknowledged[name].add(said.id)
        if seat.doing == STARTING:
            seat.doing = WAITING
        elif seat.doing == RETURNING:
            assert self._killed_at is not None
            self._returned_with, self._away = said.decisions, time.monotonic() - self._killed_at
            self._note(f"{name} is back after {self._away:.1f} s, with {said.decisions} decisions")
            seat.doing = PLAYING
            self._agents[name].say("begin")
        if seat.doing == PLAYING and said.decisions == self._plan.decisions:
            seat.doing = DONE

    def _murder(self) -> None:
        """Kill the victim when its time has come; bring it back a little later."""
        seat, now = self._seats[self._victim], time.monotonic()
        if self._killed_at is None:
            if seat.doing == PLAYING and seat.decisions >= _KILL_AT * self._plan.decisions:
                self._killed_at = now
                seat.doing = KILLED
                self._agents[self._victim].kill()
                self._note(f"{self._victim} is killed (SIGKILL) after {seat.decisions} decisions")
        elif seat.doing == KILLED and now - self._killed_at > _AWAY:
            seat.doing = RETURNING
            self._note(f"{self._victim} is started again")
            self._start_agent(self._victim)

    def _hear_the_rest(self) -> None:
        """Take in what was still said at the end; all processes are gone."""
        while True:
            try:
                child, line = self._children.heard.get_nowait()
            except Empty:
                return
            if line:
                self._hear(child, line)

    def _note(self, text: str) -> None:
        self._standing.notes.append(f"{time.monotonic() - self._began:5.1f} s  {text}")
        self._tell(self._standing)


def _python(module: str) -> list[str]:
    return [sys.executable, "-P", "-m", module]  # -P: not from the folder one happens to be in


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
