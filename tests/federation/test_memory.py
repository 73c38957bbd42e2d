"""Where samples count less with age: their ages are wall time, through losses, restarts, kills."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.federation.coordinator.status import MemoryStatus
from fedglb.protocol.messages import ModelSums, NewModel, SumsRequest
from tests.federation.coordinator.test_status import seen
from tests.federation.helpers.agent_driver import client
from tests.federation.helpers.lossy_network import (
    DIM,
    POLICY,
    Harness,
    Node,
    agreed,
    ask,
    direction,
    harness,
    updated,
)
from tests.federation.helpers.shop import NEW, OLD, calm, learned, visit
from tests.protocol.driver import equal_arrays

HOUR, DAY = 3600.0, 86400.0
RARELY = 1e9  # no agent asks by itself


@pytest.fixture
def clock(monkeypatch):
    """The wall clock of all is the network's."""
    seen: list[Harness] = []
    monkeypatch.setattr("time.time", lambda: seen[-1].now if seen else 0.0)
    return seen


def auto(threshold: float, memory) -> fg.Algorithm:
    return fg.fedglb_auto(threshold, effects=0, memory=memory)


def held(node: Node) -> dict[str, np.ndarray]:
    return node.learner.protocol_client.to_arrays()


def differing(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> list[str]:
    """What differs, but for the numbers of an update that is over."""
    names = {**one, **two}.keys() - {"frozen", "update"}
    return [name for name in names if one[name].tobytes() != two[name].tobytes()]


def test_samples_age_in_wall_time(tmp_path, clock):
    agreement = agreed(algorithm=auto(RARELY, fg.HalfLife(HOUR)))
    with harness(tmp_path, agreement=agreement) as net:
        clock.append(net)
        net.until(net.everybody_here)
        net.feed(5)
        net.now += 2 * HOUR
        net.feed(3)
        updated(net)
        model = net.coordinator.model
        assert model.now == int(net.coordinator.now)
        for node in net.all():
            samples = node.learner.protocol_client.samples
            assert samples.at[5] - samples.at[4] == pytest.approx(2 * HOUR)
            [sums] = net.heard("up", ModelSums, node.name)
            ages = np.maximum(model.now - samples.at, 0.0)
            weights = 0.25 * 0.5 ** (ages / HOUR)  # μ′ = 1/4 at θ = 0
            assert_allclose(sums.hessian, (samples.X.T * weights) @ samples.X, rtol=1e-12)
            assert sums.samples == 8
        net.now += 60 * HOUR
        updated(net)  # nothing is left but the ridge
        model = net.coordinator.model
        assert_allclose(model.matrix, model.ridge * np.eye(DIM), atol=1e-15)


def test_the_status_has_the_memory_in_force(tmp_path):
    for memory, shown in (
        (fg.Forever(), None), (fg.HalfLife(HOUR), MemoryStatus(HOUR, None)),
        (fg.Adaptive((HOUR,)), MemoryStatus(None, None)),
    ):  # fmt: skip
        with harness(tmp_path / repr(memory), agreement=agreed(algorithm=auto(1.0, memory))) as net:
            assert seen(net).memory == shown


def test_a_restart_changes_nothing(tmp_path, clock):
    agreement = agreed(algorithm=auto(RARELY, fg.HalfLife(HOUR)))
    with harness(tmp_path, agreement=agreement) as net:
        clock.append(net)
        net.until(net.everybody_here)
        for _ in range(3):
            net.feed(9)
            net.now += HOUR
            updated(net)
            net.feed(2)
            for node in net.all():
                before = held(node)
                net.restart(node.name)
                assert differing(held(node), before) == [], node.name


def test_a_client_that_was_left_out_counts_its_old_samples_less(tmp_path, clock):
    agreement = agreed(algorithm=auto(RARELY, fg.HalfLife(HOUR)))
    with harness(tmp_path, agreement=agreement, policy=POLICY) as net:
        clock.append(net)
        net.until(net.everybody_here)
        net.feed(40)
        net.now += 2 * HOUR
        net.lost = lambda way, name, message: name == "c" and isinstance(message, SumsRequest)
        net.until(net.everybody_here)
        ask(net)
        net.until(lambda: net.nodes["c"].model == 1)
        node = net.nodes["c"]
        assert node.learner.protocol_client.covered == 0
        assert node.learner.protocol_client.state.updates == 10  # a quarter of 40
        node.feed(3)
        before = held(node)
        assert before["state.counters"][1] == 13
        net.restart("c")
        assert differing(held(node), before) == []


def test_the_memory_is_chosen_through_losses_and_crashes(tmp_path, clock):
    memory = fg.Adaptive((100.0, 20.0, 4.0))
    with harness(
        tmp_path, agreement=agreed(algorithm=auto(0.5, memory)), seed=1,
        loss=0.05, twice=0.05, delay=0.1,
    ) as net:  # fmt: skip
        clock.append(net)
        net.until(net.everybody_here)
        for k in range(120):
            for node in net.all():
                x = direction(node.rng)
                made = node.calls.choose([x])
                reward = float((x[0] > 0.0) == (k < 60))  # then it is the other way round
                if step := node.calls.observe(made.id, reward):
                    node.agent_session.note_trigger(step)
            net.run(1.0)
            if k % 30 == 29:
                before = net.coordinator.to_arrays() if net.idle else None
                net.crash()
                if before is not None:
                    after = net.coordinator.to_arrays()
                    names = [name for name in before if name.startswith("filters")]
                    assert names
                    assert equal_arrays({n: before[n] for n in names}, {n: after[n] for n in names})
                net.until(net.everybody_here)
        changes = [e.facts["half_life"] for e in net.events if e.kind == "memory"]
        assert set(changes) <= {None, *memory.half_lives}
        assert changes
        assert seen(net).memory.half_life == changes[-1]
        rows = {tuple(m.model.memory) for m in net.heard("down", NewModel)}
        assert (0.0,) in rows
        assert len(rows) > 1
        asked = [m.now for m in net.heard("down", SumsRequest, "a")]
        assert max(asked) > 100
        theta = net.coordinator.model.theta
        assert theta[0] < 0.0
        assert abs(theta[0]) > 2.0 * abs(theta[1])


def test_without_half_lives_there_are_four_in_days():
    found = agreed(algorithm=auto(1.0, fg.Adaptive()))
    assert found.algorithm.memory.half_lives == (64 * DAY, 16 * DAY, 4 * DAY, DAY)
    named = agreed(algorithm=auto(1.0, fg.Adaptive((64 * DAY, 16 * DAY, 4 * DAY, DAY))))
    assert found.facts() == named.facts()


def test_what_a_federation_refuses():
    with pytest.raises(fg.InvalidInput, match=r"algorithm\.memory = .*secure sums"):
        agreed(algorithm=auto(1.0, fg.HalfLife(9.0)), minimum=3)


# -- an agent alone, with a schema -----------------------------------------------------------------


def alone(path, memory, features=OLD) -> fg.Agent:
    return fg.Agent.open(path, features=features, algorithm=fg.fedglb_auto(memory=memory))


@pytest.mark.parametrize("memory", [fg.HalfLife(HOUR), fg.Adaptive((24 * HOUR, HOUR))])
def test_an_agent_alone_forgets(tmp_path, monkeypatch, memory):
    now = [1e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    with alone(tmp_path / "a.db", memory) as agent:
        visit(agent, 1, 0, 30)
        calm(agent)
        first = client(agent).state.base
        now[0] += 2 * HOUR
        ids = visit(agent, 1, 30, 41)  # fewer than 30 %, but after a quarter of a half-life
        calm(agent)
        model = client(agent).state.base
        assert (first.now, model.now) == (10**9, 10**9 + 2 * HOUR)
        assert client(agent).covered > 35
        agent.forget(ids[:3])
        calm(agent)
        before, at = learned(agent), client(agent).samples.at.copy()
        assert set(at) == {1e9, 1e9 + 2 * HOUR}
    with alone(tmp_path / "a.db", memory) as agent:
        assert differing(learned(agent), before) == []
    with alone(tmp_path / "a.db", memory, NEW) as agent:  # all samples are encoded again
        calm(agent)
        assert np.array_equal(client(agent).samples.at, at)


def test_an_agent_without_updates_cannot_forget(tmp_path):
    with pytest.raises(fg.InvalidInput, match=r"algorithm\.memory = HalfLife.*a schema"):
        fg.Agent.open(
            tmp_path / "a.db", fg.Problem(3), algorithm=fg.fedglb_auto(memory=fg.HalfLife(9.0))
        )
    assert not (tmp_path / "a.db").exists()
