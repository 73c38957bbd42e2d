"""An agent's process: an application with simulated users.

``python -m fedglb.demo.shop FOLDER INDEX``: says on standard output how it stands, one
JSON line a decision; begins when told so on standard input, and ends when that does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fedglb.demo.plan import DemoPlan, bundle_of, file_of
from fedglb.demo.stream import Offer, stream
from fedglb.federation.agent.agent import Agent

BEAT = 0.5
_IDLE = 0.2  # seconds between two reports of an agent that has nothing to do
_PATIENCE = 3.0


class ShopReport(msgspec.Struct, frozen=True):
    """How an agent stands; `id` is the decision whose reward it has just acknowledged."""

    id: str
    decisions: int
    rewards: float
    regret: float
    model: int
    connected: bool
    welcome: bool


class Input:
    """Standard input: a line means begin, its end means end."""

    def __init__(self) -> None:
        self.begin, self.end = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while os.read(0, 1024):
            self.begin.set()
        self.end.set()
        self.begin.set()
        time.sleep(_PATIENCE)
        os._exit(1)  # whatever holds it up


class Shop:
    """An application: offers arms to its users and tells the agent what they did."""

    def __init__(self, plan: DemoPlan, index: int, agent: Agent) -> None:
        self._plan, self._agent = plan, agent
        self._offers = stream(plan, index)
        self._waiting: tuple[str, int] | None = None
        self._decisions, self._rewards, self._regret = 0, 0.0, 0.0
        self._remember()

    def _remember(self) -> None:
        """Go on where the agent's file ends: it may have been killed in the middle."""
        for id_, arm, reward in self._agent.export().select("id", "arm", "reward").iter_rows():
            if reward is None:  # this user has not answered yet
                self._waiting = (id_, arm)
            else:
                self._count(next(self._offers), arm, reward)

    def play(self, given: Input) -> None:
        """Serve one user after the other, at the plan's pace."""
        pause, due = 0.5 / self._plan.pace, time.monotonic()
        for offer in self._offers:
            if given.end.is_set():
                return
            id_, arm = self._waiting or self._choose(offer)
            due = max(due + pause, time.monotonic())
            given.end.wait(due - time.monotonic())  # the user makes up their mind
            reward = offer.reward(arm)
            self._agent.observe(id_, reward)
            self._waiting = None
            self._count(offer, arm, reward)
            self.report(id_)
            due += pause
            given.end.wait(max(0.0, due - time.monotonic()))

    def _choose(self, offer: Offer) -> tuple[str, int]:
        decision = self._agent.choose(offer.arms)
        return decision.id, decision.arm

    def _count(self, offer: Offer, arm: int, reward: float) -> None:
        self._decisions += 1
        self._rewards += reward
        self._regret += offer.regret(arm)

    def report(self, id_: str = "") -> None:
        """Say how it stands."""
        status = self._agent.status
        said = ShopReport(
            id_, self._decisions, self._rewards, self._regret,
            status.model, status.connected, status.welcome,
        )  # fmt: skip
        os.write(1, msgspec.json.encode(said) + b"\n")  # whole or not at all: shorter than a pipe


def _every(seconds: float, event: threading.Event) -> Iterator[None]:
    while not event.wait(seconds):
        yield


def main(folder: Path, index: int) -> None:
    """Run until standard input ends."""
    given, plan = Input(), DemoPlan.read(folder)
    name, problem = plan.names[index], plan.agreement.problem
    place, bundle = file_of(folder, name), bundle_of(folder, name)
    with Agent.open(place, problem, bundle=bundle, beat=BEAT) as agent:
        shop = Shop(plan, index, agent)
        shop.report()
        for _ in _every(_IDLE, given.begin):
            shop.report()
        shop.play(given)
        for _ in _every(_IDLE, given.end):
            shop.report()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
