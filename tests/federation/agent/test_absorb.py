"""Samples of the past: learned as if they had been observed, all of them or none, and once."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent, AlreadyObserved
from fedglb.federation.agreement import Agreement
from tests.federation.helpers.agent_driver import Alone, arms, client, feed, killed, state

PROBLEM = fg.Problem(dim=3)
FIRST = fg.fedglb_auto(choice=fg.Ucb("first"))  # agents have seeds of their own, for ties


def past(rng, n=40):
    return arms(rng, n), (rng.random(n) < 0.5).astype(float)


@pytest.mark.parametrize("algorithm", [FIRST, fg.fedglb_ucb(10.0, fg.Newton())])
@pytest.mark.parametrize("updated", [False, True])
def test_it_is_as_if_each_had_been_observed(tmp_path, rng, algorithm, updated):
    X, y = past(rng)
    agents = [Agent.open(tmp_path / f"{k}.db", PROBLEM, algorithm=algorithm) for k in range(2)]
    for agent in agents:
        feed(agent, np.random.default_rng(3), 7)
        if updated:
            Alone(agent).update(agent, t=7)
    one, other = agents
    assert one.absorb(X, y) == 40
    for x, reward in zip(X, y, strict=True):
        other.observe(other.choose([x]).id, reward)
    assert state(one) == state(other)
    assert one.status.samples == 47
    assert one.status.requested_at == other.status.requested_at
    for agent in agents:
        feed(agent, np.random.default_rng(4), 5)
    assert state(one) == state(other)
    for agent in agents:
        agent.close()
    with Agent.open(tmp_path / "0.db", PROBLEM, algorithm=algorithm) as back:
        assert state(back) == state(one)
        shown = back.export()
        absorbed = shown.filter(shown["outcome"] == "absorbed")
        assert absorbed["x"].to_list() == X.tolist()
        assert absorbed["reward"].to_list() == y.tolist()
        assert set(absorbed["arms"]) == {0}
        assert absorbed["arm"].null_count() == absorbed.height == 40


def test_they_belong_to_the_next_update(agent, rng):
    agent.absorb(*past(rng, 20))
    world = Alone(agent)
    world.update(agent, t=20)
    assert world.coordinator.last_update.samples == client(agent).covered == 20


def test_each_has_an_id_and_can_be_forgotten(agent, rng):
    agent.absorb(*past(rng, 5))
    ids = agent.export()["id"].to_list()
    with pytest.raises(AlreadyObserved, match="absorbed"):
        agent.observe(ids[0], 1.0)
    agent.forget(ids[1:3])
    assert agent.status.samples == 3
    assert not set(ids) & {agent.choose(arms(rng, 2)).id for _ in range(3)}


def test_under_a_key_once(path, rng):
    X, y = past(rng, 6)
    with Agent.open(path, PROBLEM) as agent:
        assert agent.absorb(X, y, key="2025") == 6
        assert agent.absorb(X, y, key="2025") == 0
        with pytest.raises(InvalidInput, match="6 samples were absorbed under this one, not 5"):
            agent.absorb(X[:5], y[:5], key="2025")
    with Agent.open(path, PROBLEM) as agent:
        assert agent.absorb(X, y, key="2025") == 0
        assert agent.absorb(X, y, key="2026") == 6
        assert agent.absorb(X, y) == 6
        assert agent.status.samples == 18


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"X": np.full((4, 3), 0.9)}, "X"), ({"X": np.zeros((4, 2))}, "X"),
        ({"X": np.full((4, 3), np.nan)}, "X"), ({"y": [0, 1, 1]}, "y"),
        ({"y": [0, 1, 1, 2]}, r"y\[3\] = 2"), ({"y": [0, 1, np.nan, 1]}, "y"),
        ({"key": 5}, "key"), ({"key": "x" * 201}, "key = .*1 to 200 characters"),
        ({"ids": [*"abc", "x" * 201]}, r"ids\[3\] = .*at most 200 characters"),
    ],
)  # fmt: skip
def test_all_or_nothing(agent, change, match):
    before = state(agent)
    given = {"X": np.eye(3)[[0, 1, 2, 0]], "y": [0, 1, 1, 0], "key": None, **change}
    with pytest.raises(InvalidInput, match=match):
        agent.absorb(given["X"], given["y"], key=given["key"], ids=given.get("ids"))
    assert state(agent) == before
    assert agent.export().is_empty()


def test_a_limit_on_rewards_holds_for_them_too(path):
    with Agent.open(path, fg.Problem(3, fg.Identity())) as agent:
        agent._client.agreement = Agreement(
            agent._client.agreement.problem, agent._client.agreement.algorithm, 1, reward_limit=2.0
        )
        with pytest.raises(InvalidInput, match=r"y\[1\] = 3.0: .* reward_limit"):
            agent.absorb(np.eye(3), [1.0, 3.0, 1.0])


@pytest.mark.some(1)
@pytest.mark.parametrize(("moment", "there"), [("COMMIT", 0), ("after", 1500)])
def test_a_kill_leaves_all_or_nothing(path, moment, there):
    learn = "agent.observe(agent.choose(np.eye(3)).id, 1.0)"
    killed(
        path, moment, learn, "agent.absorb(np.tile(np.eye(3), (500, 1)), np.ones(1500), key='k')"
    )
    with Agent.open(path, PROBLEM) as agent:
        assert agent.status.samples == 1 + there
        assert agent.absorb(np.tile(np.eye(3), (500, 1)), np.ones(1500), key="k") == 1500 - there
        assert agent.status.samples == 1501
