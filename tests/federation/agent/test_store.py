"""Writes that fail, and which of the others wait for the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent
from tests.federation.helpers.agent_driver import Alone, client, copied, feed, state

PROBLEM = fg.Problem(dim=3)
ARMS = np.eye(3)


class Wrapped:
    """A connection that can be told to fail, and that notes its level of `synchronous`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.failing = ""
        self.seen: list[tuple[str, int]] = []  # statement, PRAGMA synchronous

    def execute(self, statement: str, *arguments: Any) -> Any:
        return self._pass(self.db.execute, statement, *arguments)

    def executemany(self, statement: str, *arguments: Any) -> Any:
        return self._pass(self.db.executemany, statement, *arguments)

    def _pass(self, call: Any, statement: str, *arguments: Any) -> Any:
        level = self.db.execute("PRAGMA synchronous").fetchone()[0]
        self.seen.append((statement.split()[0], level))
        if self.failing and statement.startswith(self.failing):
            raise sqlite3.OperationalError("database or disk is full")
        return call(statement, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)


@pytest.fixture
def wrapped(tmp_path):
    """An agent and its connection."""
    agents = []

    def open_(**options: Any) -> tuple[Agent, Wrapped]:
        agent = Agent.open(tmp_path / "agent.db", PROBLEM, **options)
        agents.append(agent)
        file = agent._client.store
        connection = file._db
        file._db = file.updates.db = Wrapped(connection)
        return agent, file._db

    yield open_
    for agent in agents:
        store = agent._client.store
        store._db = store.updates.db = store._db.db
        agent.close()


def agrees_with_its_file(agent: Agent, tmp_path, name: str) -> bool:
    path = copied(tmp_path / "agent.db", tmp_path / name)
    with Agent.open(path, PROBLEM) as back:
        return state(back) == state(agent) and back.export().equals(agent.export())


#: By name: options of the agent, a call, and the statements at which the disk is full.
CALLS: dict[str, tuple[dict[str, Any], Callable[[Agent, list[str]], object], list[str]]] = {
    "choose": ({}, lambda agent, ids: agent.choose(ARMS), ["INSERT"]),
    "choose, and one expires": (
        {"max_pending": 2},
        lambda agent, ids: agent.choose(ARMS),
        ["BEGIN", "UPDATE", "INSERT", "COMMIT"],
    ),
    "observe": ({}, lambda agent, ids: agent.observe(ids[-1], 1.0), ["UPDATE"]),
    "observe, durable": (
        {"durable": "power"}, lambda agent, ids: agent.observe(ids[-1], 1.0), ["UPDATE"],
    ),
    "forget": ({}, lambda agent, ids: agent.forget(ids[:2]), ["BEGIN", "DELETE", "COMMIT"]),
    "absorb": (
        {}, lambda agent, ids: agent.absorb(ARMS, np.ones(3)), ["BEGIN", "INSERT", "COMMIT"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_cannot_be_written_was_not_done_and_can_be_done_later(wrapped, tmp_path, name):
    options, call, statements = CALLS[name]
    agent, db = wrapped(**options)
    ids = feed(agent, np.random.default_rng(0), 4) + [agent.choose(ARMS).id for _ in range(2)]
    before, log = state(agent), agent.export()
    for failing in statements:
        db.failing = failing
        with pytest.raises(sqlite3.OperationalError):
            call(agent, ids)
        db.failing = ""
        assert state(agent) == before
        assert agent.export().equals(log)
        assert agrees_with_its_file(agent, tmp_path, failing)
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 1
    call(agent, ids)
    assert agrees_with_its_file(agent, tmp_path, "later")
    numbers = [int(id_.rpartition("-")[2]) for id_ in agent.export()["id"]]
    assert numbers == [*range(3 if name == "forget" else 1, 1 + max(numbers))]


def test_an_update_that_cannot_be_written_is_not_answered_and_comes_again(wrapped, tmp_path):
    agent, db = wrapped()
    feed(agent, np.random.default_rng(0), 3)
    world = Alone(agent)
    world.begin(t=3)
    request = world.queue[0]
    db.failing = "INSERT"
    with pytest.raises(sqlite3.OperationalError):
        agent._session.receive(request)
    assert client(agent).update == 0
    db.failing = ""
    while type(world.queue[0]).__name__ != "NewModel":
        world.deliver(agent)
    model, before = world.queue[0], state(agent)
    db.failing = "COMMIT"
    with pytest.raises(sqlite3.OperationalError):
        agent._session.receive(model)
    assert state(agent) == before
    db.failing = ""
    agent._session.receive(model)
    assert client(agent).adopted == 1
    assert agrees_with_its_file(agent, tmp_path, "later")


@pytest.mark.parametrize(("durable", "level"), [("process", 1), ("power", 2)])
def test_with_power_only_rewards_wait_for_the_disk(wrapped, durable, level):
    """1 is NORMAL, 2 is FULL: the disk has it when the call returns."""
    agent, db = wrapped(durable=durable)
    feed(agent, np.random.default_rng(0), 3)
    assert {lvl for statement, lvl in db.seen if statement == "UPDATE"} == {level}
    assert {lvl for statement, lvl in db.seen if statement == "INSERT"} == {1}
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 1
