"""An idempotency key: the same request again has the same answer, whatever happened meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent, AlreadyObserved, Decision
from fedglb.federation.errors import DecisionExpired
from tests.federation.helpers.agent_driver import client, state

ARMS = np.array([[0.6, 0.0, 0.0], [0.0, 1.0, 0.0]])
PROBLEM = fg.Problem(dim=3)


def test_the_same_key_gives_the_same_decision_and_writes_no_other(agent):
    first = agent.choose(ARMS, ids=["red", 2], key="view-1")
    other = agent.choose(ARMS, ids=["red", 2], key="view-2")
    assert agent.choose(ARMS, ids=["red", 2], key="view-1") == first
    assert other.id != first.id
    agent.observe(first.id, 1.0)
    assert agent.choose(ARMS, ids=["red", 2], key="view-1") == first
    assert agent.export()["id"].to_list() == [first.id, other.id]


def test_unit_arms_in_float32_are_scaled_into_the_ball(agent):
    arms = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    long = np.linalg.norm(arms.astype(np.float64), axis=1) > 1.0 + 1e-8
    assert long.any()
    for k, x in enumerate(arms[long]):
        made = agent.choose([x], key=f"view-{k}")
        assert agent.choose([x], key=f"view-{k}") == made
        agent.observe(made.id, 1.0)
    agent.absorb(arms, np.ones(50))
    stored = np.array(agent.export()["x"].to_list())
    assert len(stored) == 50 + long.sum()
    assert np.linalg.norm(stored, axis=1).max() <= 1.0 + 1e-9
    assert np.linalg.norm(client(agent).samples.X[:, :3], axis=1).max() <= 1.0 + 1e-9
    with pytest.raises(fg.InvalidInput, match="norm of arms"):
        agent.choose(arms[:1] * np.float32(1.00001))


def test_a_key_holds_after_a_restart(path):
    with Agent.open(path, PROBLEM, explore=0.5) as agent:
        made = [agent.choose(ARMS, key=f"view-{i}") for i in range(20)]
    with Agent.open(path, PROBLEM, explore=0.5) as agent:
        assert [agent.choose(ARMS, key=f"view-{i}") for i in range(20)] == made
        agent.observe(made[3].id, 1.0)
        assert agent.status.samples == 1


def test_numbers_that_are_none_come_back_as_they_were(path):
    thompson = fg.fedglb_mix(threshold=1.0, choice=fg.Thompson())
    with Agent.open(path, PROBLEM, algorithm=thompson) as agent:
        made = agent.choose(ARMS, key="a")
        assert repr(agent.choose(ARMS, key="a")) == repr(made)  # nan is not equal to itself
        assert isinstance(made, Decision)


def test_a_key_of_another_request_is_refused(agent):
    agent.choose(ARMS, ids=["red", "blue"], key="a")
    for arms, ids in [
        (ARMS[:1], ["red"]),
        (ARMS / 2, ["red", "blue"]),
        (ARMS, ["blue", "red"]),
        (ARMS, None),
    ]:
        with pytest.raises(fg.InvalidInput, match="this one belongs to another request") as error:
            agent.choose(arms, ids=ids, key="a")
        assert error.value.argument == "key"
    assert len(agent.export()) == 1


def test_a_forgotten_decision_leaves_its_key_free(agent):
    first = agent.choose(ARMS, key="a")
    agent.forget([first.id])
    assert agent.choose(ARMS, key="a").id != first.id


def test_an_expired_decision_keeps_its_key(path):
    with Agent.open(path, PROBLEM, max_pending=1) as agent:
        first = agent.choose(ARMS, key="a")
        agent.choose(ARMS)
        assert agent.choose(ARMS, key="a") == first
        with pytest.raises(DecisionExpired):
            agent.observe(first.id, 1.0)


def test_the_key_itself_is_not_in_the_file(path):
    with Agent.open(path, PROBLEM) as agent:
        agent.choose(ARMS, key="customer-4711")
    assert b"customer-4711" not in path.read_bytes()


def test_a_second_reward_is_refused_and_says_whether_it_is_the_same(agent):
    decision = agent.choose(ARMS)
    agent.observe(decision.id, 1.0)
    before = state(agent)
    for reward, same in [(1.0, True), (0.0, False)]:
        with pytest.raises(AlreadyObserved, match=decision.id) as error:
            agent.observe(decision.id, reward)
        assert error.value.same is same
    assert state(agent) == before
    assert agent.export()["reward"].to_list() == [1.0]
