"""One shop of the demonstration: a process with an agent and simulated users.

``python -m fedglb.federation.demo_shop FOLDER INDEX PLAN`` writes a JSON report per decision to
standard output, and ends when standard input does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedglb.environments import Synthetic
from fedglb.errors import integer
from fedglb.federation.agent.agent import Agent
from fedglb.federation.agreement import AgreementTable
from fedglb.problem import Problem
from fedglb.problem_table import ProblemTable
from fedglb.typing import FloatArray

_DIM, _ARMS = 10, 25
_PACE = 50.0  # decisions per second and shop
_HEARTBEAT = 0.5  # seconds
_TIMEOUT = 3.0  # seconds from the end of standard input to the end of the process
_ALONE = {"name": "fedglb-auto", "threshold": 1.0}
_PRIVATE = {"name": "fedglb-private", "updates": 20, "first": 3.0, "growth": 1.1}
_PRIVACY = {"epsilon": 8.0, "delta": 1e-6, "honest": 0.6}
_MINIMUM = 3  # clients in a secure sum


class DemoPlan(msgspec.Struct, frozen=True):
    """The parameters of a demonstration.

    Parameters
    ----------
    clients, decisions
        Number of shops, and of decisions that each makes.
    seed
        Seed of arms and users.
    private
        Use `fedglb_private` in place of `fedglb_auto`: updates on a schedule of seconds, noise, and
        secure sums if there are three shops or more.
    """

    clients: int = 5
    decisions: int = 400
    seed: int = 1
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
        """What the federation agrees on."""
        if not self.private:
            return self.alone
        secure = self.clients >= _MINIMUM
        privacy = {**_PRIVACY, "noise": "sums" if secure else "silo"}
        minimum = _MINIMUM if secure else None
        algorithm = {**_PRIVATE, "privacy": privacy}
        return AgreementTable(self.clients, ProblemTable(_DIM), algorithm, minimum=minimum)

    @property
    def alone(self) -> AgreementTable:
        """What separate learners run: `fedglb_private` learns nothing between updates."""
        return AgreementTable(self.clients, ProblemTable(_DIM), _ALONE)


@dataclass(frozen=True)
class Offer:
    """The arms for one user; the demonstration knows their mean rewards, the agent does not."""

    arms: FloatArray
    means: FloatArray
    uniform: float
    problem: Problem

    def reward(self, arm: int) -> float:
        """Return the reward that this user gives for an arm."""
        sample = self.problem.link.compiled_sample
        return sample.call(float(self.means[arm]), self.uniform, self.problem.R)

    def regret(self, arm: int) -> float:
        """Return the expected loss against the best arm."""
        return float(self.means.max() - self.means[arm])


def offers(plan: DemoPlan, index: int) -> Iterator[Offer]:
    """Yield the offers to one shop's users: the simulator's, the same in every process."""
    problem = plan.table.build().problem
    for block in Synthetic(problem, plan.clients, _ARMS).checked_blocks(plan.decisions, plan.seed):
        assert block.uniforms is not None
        for step in range(len(block.arms)):
            uniform = float(block.uniforms[step, index])
            yield Offer(block.arms[step, index], block.means[step, index], uniform, problem)


def agent_file(folder: Path, name: str) -> Path:
    """Return the path of a shop's agent file."""
    return folder / "agents" / f"{name}.db"


class ShopReport(msgspec.Struct, frozen=True):
    """A shop's progress; `id` is the decision whose reward was just acknowledged, or empty."""

    id: str
    decisions: int
    regret: float


def play(plan: DemoPlan, index: int, agent: Agent, ended: threading.Event) -> None:
    """Serve one user after the other, from where the agent's file ends."""
    users, waiting, decisions, regret = offers(plan, index), None, 0, 0.0
    for id_, arm, reward in agent.export().select("id", "arm", "reward").iter_rows():
        if reward is None:  # the process was killed before this user's reward
            waiting = id_, arm
        else:
            decisions, regret = decisions + 1, regret + next(users).regret(arm)
    _write(ShopReport("", decisions, regret))
    for offer in users:
        id_, arm = waiting or _choose(agent, offer)
        if ended.wait(1.0 / _PACE):  # the user makes up their mind
            return
        agent.observe(id_, offer.reward(arm))
        waiting, decisions, regret = None, decisions + 1, regret + offer.regret(arm)
        _write(ShopReport(id_, decisions, regret))


def _choose(agent: Agent, offer: Offer) -> tuple[str, int]:
    decision = agent.choose(offer.arms)
    return decision.id, decision.arm


def _write(report: ShopReport) -> None:
    os.write(1, msgspec.json.encode(report) + b"\n")  # one write: a pipe does not split it


def _watch_input(ended: threading.Event) -> None:
    while os.read(0, 1024):
        pass
    ended.set()
    time.sleep(_TIMEOUT)
    os._exit(1)  # something keeps the process from ending


def main(folder: Path, index: int, plan: DemoPlan) -> None:
    """Open the agent, wait for the federation, play, and stay until standard input ends."""
    ended = threading.Event()
    threading.Thread(target=_watch_input, args=[ended], daemon=True).start()
    name, problem = plan.names[index], plan.table.build().problem
    bundle = folder / "federation" / "clients" / name
    with Agent.open(agent_file(folder, name), problem, bundle=bundle, beat=_HEARTBEAT) as agent:
        while not (agent.status.admitted or ended.wait(0.05)):
            pass
        play(plan, index, agent, ended)
        ended.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), msgspec.json.decode(sys.argv[3], type=DemoPlan))
