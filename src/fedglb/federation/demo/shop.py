"""An agent's process: an application with simulated users.

``python -m fedglb.federation.demo.shop FOLDER INDEX`` writes a JSON report to standard output, one
line per decision. It starts on a line of standard input, and ends when standard input does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fedglb.federation.agent.agent import Agent
from fedglb.federation.demo.plan import DemoPlan, bundle_of, file_of
from fedglb.federation.demo.stream import UserOffer, stream

HEARTBEAT = 0.5  # seconds
_IDLE = 0.2  # seconds between two reports of an agent that has nothing to do
_TIMEOUT = 3.0  # seconds to end before it is ended by force


class ShopReport(msgspec.Struct, frozen=True):
    """An agent's state; `id` is the decision whose reward it has just acknowledged, or empty."""

    id: str
    decisions: int
    rewards: float
    regret: float
    model: int
    connected: bool
    welcome: bool


class Signals:
    """Standard input: a line is the signal to start, its end the signal to end."""

    def __init__(self) -> None:
        self.started, self.ended = threading.Event(), threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while os.read(0, 1024):
            self.started.set()
        self.ended.set()
        self.started.set()
        time.sleep(_TIMEOUT)
        os._exit(1)  # something keeps the process from ending


class Shop:
    """An application: offers arms to its users and tells the agent what they did."""

    def __init__(self, plan: DemoPlan, index: int, agent: Agent) -> None:
        self._plan, self._agent = plan, agent
        self._offers = stream(plan, index)
        self._waiting: tuple[str, int] | None = None
        self._decisions, self._rewards, self._regret = 0, 0.0, 0.0
        self._resume()

    def _resume(self) -> None:
        """Continue where the agent's file ends: the process may have been killed."""
        for id_, arm, reward in self._agent.export().select("id", "arm", "reward").iter_rows():
            if reward is None:  # this user has not answered yet
                self._waiting = (id_, arm)
            else:
                self._count(next(self._offers), arm, reward)

    def play(self, signals: Signals) -> None:
        """Serve one user after the other, at the plan's pace."""
        pause, due = 0.5 / self._plan.pace, time.monotonic()
        for offer in self._offers:
            if signals.ended.is_set():
                return
            id_, arm = self._waiting or self._choose(offer)
            due = max(due + pause, time.monotonic())
            signals.ended.wait(due - time.monotonic())  # the user makes up their mind
            reward = offer.reward(arm)
            self._agent.observe(id_, reward)
            self._waiting = None
            self._count(offer, arm, reward)
            self.report(id_)
            due += pause
            signals.ended.wait(max(0.0, due - time.monotonic()))

    def _choose(self, offer: UserOffer) -> tuple[str, int]:
        decision = self._agent.choose(offer.arms)
        return decision.id, decision.arm

    def _count(self, offer: UserOffer, arm: int, reward: float) -> None:
        self._decisions += 1
        self._rewards += reward
        self._regret += offer.regret(arm)

    def report(self, id_: str = "") -> None:
        """Write a report to standard output."""
        status = self._agent.status
        report = ShopReport(
            id_, self._decisions, self._rewards, self._regret,
            status.model, status.connected, status.admitted,
        )  # fmt: skip
        os.write(
            1, msgspec.json.encode(report) + b"\n"
        )  # in one piece: pipes do not split so few bytes


def _every(seconds: float, event: threading.Event) -> Iterator[None]:
    while not event.wait(seconds):
        yield


def main(folder: Path, index: int) -> None:
    """Run until standard input ends."""
    signals, plan = Signals(), DemoPlan.read(folder)
    name, problem = plan.names[index], plan.agreement.problem
    place, bundle = file_of(folder, name), bundle_of(folder, name)
    with Agent.open(place, problem, bundle=bundle, beat=HEARTBEAT) as agent:
        shop = Shop(plan, index, agent)
        shop.report()
        for _ in _every(_IDLE, signals.started):
            shop.report()
        shop.play(signals)
        for _ in _every(_IDLE, signals.ended):
            shop.report()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
