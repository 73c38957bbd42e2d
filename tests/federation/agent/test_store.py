"""Writes that fail, and which of the others wait for the disk."""

from __future__ import annotations

import sqlite3
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


def test_a_choice_that_cannot_be_written_was_not_made(wrapped, tmp_path):
    agent, db = wrapped()
    feed(agent, np.random.default_rng(0), 3)
    before = state(agent)
    db.failing = "INSERT"
    for _ in range(2):
        with pytest.raises(sqlite3.OperationalError):
            agent.choose(ARMS)
    assert state(agent) == before
    assert agrees_with_its_file(agent, tmp_path, "then")
    db.failing = ""
    decision = agent.choose(ARMS)
    assert decision.id.endswith("-4")
    agent.observe(decision.id, 1.0)
    assert agrees_with_its_file(agent, tmp_path, "later")


@pytest.mark.parametrize("failing", ["BEGIN", "UPDATE", "INSERT", "COMMIT"])
def test_nor_has_anything_expired_by_it(wrapped, tmp_path, failing):
    agent, db = wrapped(max_pending=2)
    first, _ = agent.choose(ARMS), agent.choose(ARMS)
    db.failing = failing
    with pytest.raises(sqlite3.OperationalError):
        agent.choose(ARMS)
    db.failing = ""
    assert agent.export()["outcome"].to_list() == ["pending"] * 2
    assert agrees_with_its_file(agent, tmp_path, "then")
    agent.observe(first.id, 1.0)
    agent.choose(ARMS)
    assert agent.export()["outcome"].to_list() == ["observed", "pending", "pending"]


@pytest.mark.parametrize("durable", ["process", "power"])
def test_a_reward_that_cannot_be_written_was_not_learned(wrapped, tmp_path, durable):
    agent, db = wrapped(durable=durable)
    feed(agent, np.random.default_rng(0), 3)
    decision, before = agent.choose(ARMS), state(agent)
    db.failing = "UPDATE"
    with pytest.raises(sqlite3.OperationalError):
        agent.observe(decision.id, 1.0)
    db.failing = ""
    assert state(agent) == before
    assert agent.export()["outcome"][-1] == "pending"
    assert agrees_with_its_file(agent, tmp_path, "then")
    agent.observe(decision.id, 1.0)
    assert agent.status.samples == 4
    assert agrees_with_its_file(agent, tmp_path, "later")
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 1


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


@pytest.mark.parametrize("failing", ["BEGIN", "DELETE", "COMMIT"])
def test_what_cannot_be_forgotten_is_all_there(wrapped, tmp_path, failing):
    agent, db = wrapped()
    ids, before = feed(agent, np.random.default_rng(0), 4), state(agent)
    db.failing = failing
    with pytest.raises(sqlite3.OperationalError):
        agent.forget(ids[:2])
    db.failing = ""
    assert state(agent) == before
    assert agrees_with_its_file(agent, tmp_path, "then")
    agent.forget(ids[:2])
    assert agrees_with_its_file(agent, tmp_path, "later")


@pytest.mark.parametrize("failing", ["BEGIN", "INSERT", "COMMIT"])
def test_of_samples_that_cannot_be_absorbed_none_is(wrapped, tmp_path, failing):
    agent, db = wrapped()
    feed(agent, np.random.default_rng(0), 3)
    before = state(agent)
    db.failing = failing
    with pytest.raises(sqlite3.OperationalError):
        agent.absorb(ARMS, np.ones(3))
    db.failing = ""
    assert state(agent) == before
    assert agrees_with_its_file(agent, tmp_path, "then")


@pytest.mark.parametrize(("durable", "level"), [("process", 1), ("power", 2)])
def test_with_power_only_rewards_wait_for_the_disk(wrapped, durable, level):
    """1 is NORMAL, 2 is FULL: the disk has it when the call returns."""
    agent, db = wrapped(durable=durable)
    feed(agent, np.random.default_rng(0), 3)
    assert {lvl for statement, lvl in db.seen if statement == "UPDATE"} == {level}
    assert {lvl for statement, lvl in db.seen if statement == "INSERT"} == {1}
    assert db.execute("PRAGMA synchronous").fetchone()[0] == 1
