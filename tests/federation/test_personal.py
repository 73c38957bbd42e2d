"""Agents with models of their own: whatever happens, the file has what memory has, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent
from fedglb.federation.agreement import Agreement
from fedglb.federation.wire.messages import Freeze
from fedglb.protocol import Client
from fedglb.protocol.messages import ModelSums, NewModel
from tests.federation.helpers.agent_driver import Alone, arms, replayed
from tests.federation.helpers.lossy_network import (
    Harness,
    Node,
    agreed,
    ask,
    direction,
    harness,
    joined,
    updated,
)
from tests.federation.helpers.shop import NEW, OLD

PERSONAL = fg.fedglb_personal(1e9, fg.Ucb(ties="first"))


def learn(running: Harness, count: int) -> None:
    """Let all agents learn; c's taste is the opposite of that of the others."""
    for node in running.all():
        if node.up:
            taste = np.array([3.0, -2.0]) * (-1.0 if node.name == "c" else 1.0)
            for _ in range(count):
                meet(node, direction(node.rng), taste)


def meet(node: Node, x: np.ndarray, taste: np.ndarray) -> None:
    decision = node.calls.choose([x])
    node.ids.append(decision.id)
    reward = float(node.rng.random() < 1.0 / (1.0 + np.exp(-x @ taste)))
    step = node.calls.observe(decision.id, reward)
    if step:
        node.agent_session.note_trigger(step)


def sound(running: Harness) -> None:
    """Each agent's memory is what its file says, and its precision that of its samples or more."""
    for node in running.all():
        memory, file = replayed(node.learner)
        del memory["update"], file["update"]  # a newcomer has taken part in none
        assert memory == file, node.name
        state = node.learner.protocol_client.state
        assert np.linalg.eigvalsh(state.matrix).min() > 0.0


@pytest.mark.parametrize("network", [{}, {"loss": 0.25, "twice": 0.25, "delay": 1.0}])
def test_who_differs_comes_late_or_is_left_out(tmp_path, network):
    running = joined(tmp_path, agreement=agreed(algorithm=PERSONAL), **network)
    try:
        for _ in range(4):
            learn(running, 15)
            updated(running)
            sound(running)
        assert running.coordinator.model.spread[0] > 0.0
        late = running.add("d")
        running.until(lambda: late.model == running.coordinator.finished)
        assert late.learner.protocol_client.state.apart == 0
        sound(running)
        running.nodes["c"].close()  # it does not answer, and the update goes on without it
        learn(running, 5)
        before = running.coordinator.finished
        ask(running)
        running.until(lambda: running.coordinator.finished > before and running.idle)
        assert "c" not in running.coordinator.covered
        running.come_back("c")
        c = running.nodes["c"]
        running.until(lambda: c.model == running.coordinator.finished)
        assert (c.learner.protocol_client.covered, c.learner.protocol_client.state.apart) == (0, 0)
        sound(running)
        learn(running, 5)
        updated(running, "c")
        assert c.learner.protocol_client.covered == len(c.ids) > 0
        assert {*running.coordinator.covered} == set("abcd")
        sound(running)
        # its posterior is nearer to its own taste than to that of the others
        own, shared = c.learner.protocol_client.state.centre, running.coordinator.model.theta
        assert own[0] < 0.0 < shared[0]
    finally:
        running.close()


@pytest.mark.parametrize("lost", [ModelSums, NewModel])
def test_who_restarts_while_its_sums_are_away(tmp_path, lost):
    """It sums again what it had frozen, and takes out of the model what it sent, to the bit."""

    def found(restarts: bool) -> list[dict[str, object]]:
        running = joined(tmp_path / str(restarts), agreement=agreed(algorithm=PERSONAL))
        try:
            for _ in range(3):
                learn(running, 10)
                updated(running)
            running.lost = lambda way, name, m: isinstance(m, lost) and name == "c"
            learn(running, 5)
            number = running.coordinator.finished + 1
            ask(running)
            running.run(0.5)
            learn(running, 3)  # not of this update
            if restarts:
                running.restart("c")
            running.lost = lambda *_: False
            running.until(lambda: running.shared(number))
            sound(running)
            assert running.coordinator.finished == number
            return [replayed(node.learner)[0] for node in running.all()]
        finally:
            running.close()

    (tmp_path / "True").mkdir()
    (tmp_path / "False").mkdir()
    assert found(restarts=True) == found(restarts=False)


def test_the_operators_word_is_each_ones_own_model(tmp_path):
    running = joined(tmp_path, agreement=agreed(algorithm=PERSONAL))
    try:
        for _ in range(4):
            learn(running, 15)
            updated(running)
        then = {node.name: chosen(node) for node in running.all()}
        number = running.coordinator.finished
        learn(running, 15)
        updated(running)
        late = running.add("d")
        running.until(lambda: late.model == running.coordinator.finished)
        running.freeze(number)
        running.until(
            lambda: all(
                n.learner.frozen and n.learner.frozen.update == number for n in running.all()
            )
        )
        for name, centre in then.items():
            assert np.array_equal(chosen(running.nodes[name]), centre), name
        shared = running.heard("down", Freeze, "d")[0].model.theta
        np.testing.assert_allclose(chosen(late), shared)  # it has no samples
        sound(running)
    finally:
        running.close()


def chosen(node: Node) -> np.ndarray:
    return node.learner.chooser.state.centre.copy()


def test_another_schema(tmp_path):
    """All begin anew with their samples under it; the next updates have all of them."""
    agreement = Agreement(OLD.problem(), PERSONAL, 5, features=OLD)
    with harness(tmp_path, "abc", agreement) as running:
        running.until(running.everybody_here)
        for _ in range(2):
            for node in running.all():
                node.serve(20)
            updated(running)
        running.change_features(NEW)
        running.until(lambda: all(node.revision == 2 for node in running.all()))
        sound(running)
        for _ in range(2):
            updated(running)
            sound(running)
        assert sum(part.samples for part in running.coordinator.covered.values()) == 120
        for node in running.all():
            client = node.learner.protocol_client
            assert (client.covered, client.state.apart) == (40, 1)
            assert client.state.theta.size == NEW.dim


@pytest.mark.parametrize("effects", [0, 5])
def test_late_and_absorbed_rewards(tmp_path, effects):
    problem, path = fg.Problem(3), tmp_path / "agent.db"
    given = {
        "problem": problem, "algorithm": fg.fedglb_personal(1e9, effects=effects),
        "default_reward": 0.0, "reward_after": 1e6,
    }  # fmt: skip
    rng = np.random.default_rng(3)
    with Agent.open(path, **given) as agent:
        world, calls = Alone(agent), agent._calls
        table = arms(rng, 5)
        agent.absorb(table[:2], [1.0, 0.0], ids=["x", "y"])
        ids = [agent.choose(table, list("xyzuv")).id for _ in range(12)]
        for id_ in ids[:6]:
            agent.observe(id_, 1.0)
        world.update(agent, t=20)
        agent._client.rules = replace(agent._client.rules, reward_after=1e-9)
        while calls.learn_silence(3)[0]:
            pass
        same(agent)
        world.update(agent, t=30)
        for id_ in ids[6:9]:  # in place of the default reward, which the model has
            agent.observe(id_, 1.0)
        calls.learn_late()
        assert agent.status.replaced == 3
        same(agent)
        world.begin(t=40)
        world.deliver(agent)
        agent.observe(ids[9], 1.0)
        calls.learn_late()  # of an update in progress: it withdraws
        same(agent)
        while world.queue:
            world.deliver(agent)
        world.update(agent, t=50)
        same(agent)
        held: Client = agent._client.protocol_client
        assert held.covered == len(held.samples) == 14


def same(agent: Agent) -> None:
    memory, file = replayed(agent._client)
    assert memory == file
