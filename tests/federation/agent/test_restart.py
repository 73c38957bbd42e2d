"""An agent that is closed, or dies, and is opened again goes on as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent
from tests.federation.helpers.agent_driver import Alone, arms, copied, state

DIM = 3
CASES: dict[str, tuple[fg.Problem, fg.Algorithm]] = {
    "logistic": (fg.Problem(DIM), fg.fedglb_ucb(10.0, fg.Newton())),
    "agd": (fg.Problem(DIM), fg.fedglb_ucb(10.0, fg.AGD())),
    "poisson": (fg.Problem(DIM, fg.Poisson(), noise=1.0), fg.fedglb_ucb(10.0, fg.Newton())),
    "identity": (fg.Problem(DIM, fg.Identity()), fg.fedglb_ucb(10.0, fg.LBFGS())),
    "probit": (fg.Problem(DIM, fg.Probit()), fg.fedglb_ucb(10.0, fg.Newton())),
    "dislinucb": (fg.Problem(DIM, fg.Identity()), fg.dislinucb(10.0)),
    "personal": (fg.Problem(DIM), fg.fedglb_personal(10.0, fg.Ucb(ties="first"))),
    "n-ons-glm": (fg.Problem(DIM), fg.n_ons_glm()),
}


class World:
    """An agent, its coordinator, and the ids of the decisions that wait, oldest first."""

    def __init__(self, path: Path, case: str) -> None:
        self.path = path
        self.problem, self.algorithm = CASES[case]
        self.open()
        self.alone = Alone(self.agent)
        self.waiting: list[str] = []

    def open(self) -> None:
        self.agent = Agent.open(self.path, self.problem, algorithm=self.algorithm)

    def act(self, action: str, detail: Any) -> Any:
        if action == "choose":
            decision = self.agent.choose(detail)
            self.waiting.append(decision.id)
            return decision.arm, decision.score, decision.width, decision.model
        if action == "observe":
            position, reward = detail
            return self.agent.observe(self.waiting.pop(position), reward)
        if not self.alone.queue:
            self.alone.begin(t=int(detail))
        self.alone.deliver(self.agent)
        return None


def script(case: str, seed: int, length: int):
    """Yield what happens to an agent; one message of an update at a time, between other calls."""
    rng = np.random.default_rng(seed)
    waiting, learned = 0, 0
    link, updates = CASES[case][0].link.name, CASES[case][1].global_update is not None
    for _ in range(length):
        what = rng.random()
        if updates and what < 0.25 and learned:
            yield "message", learned
        elif what < 0.6 and waiting:
            waiting, learned = waiting - 1, learned + 1
            reward = rng.normal() if link == "identity" else float(rng.integers(2))
            yield "observe", (int(rng.integers(waiting + 1)), reward)
        else:
            waiting += 1
            yield "choose", arms(rng, int(rng.integers(1, 6)), DIM)


@pytest.mark.some(6)
@pytest.mark.parametrize("case", CASES)
def test_closed_and_opened_at_any_point(tmp_path, case):
    interrupted, twin = (World(tmp_path / f"{k}.db", case) for k in range(2))
    rng, restarts = np.random.default_rng(7), 0
    for action, detail in script(case, seed=1, length=220):
        assert interrupted.act(action, detail) == twin.act(action, detail)
        if rng.random() < 0.12:
            interrupted.agent.close()
            interrupted.open()
            restarts += 1
            assert state(interrupted.agent) == state(twin.agent)
    assert restarts > 15
    if twin.algorithm.global_update is not None:
        assert twin.alone.coordinator.finished >= 3
    for world in (interrupted, twin):
        world.agent.close()


@pytest.mark.parametrize("case", CASES)
def test_dead_at_any_point(tmp_path, case):
    """What a crash leaves is an agent of its own: the one that went on is its twin."""
    world, rng = World(tmp_path / "agent.db", case), np.random.default_rng(8)
    for k, (action, detail) in enumerate(script(case, seed=2, length=200)):
        world.act(action, detail)
        if rng.random() < 0.06:
            path = copied(world.path, tmp_path / f"crash {k}")
            with Agent.open(path, world.problem, algorithm=world.algorithm) as back:
                assert state(back) == state(world.agent)
                assert back.export().equals(world.agent.export())
                table = arms(rng, 5, DIM)
                one, other = back.choose(table), world.agent.choose(table)
                world.waiting.append(other.id)
                assert (one.arm, one.score, one.width) == (other.arm, other.score, other.width)
    world.agent.close()
