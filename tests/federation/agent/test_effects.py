"""Items that recur: their names are kept with decisions and samples, and nobody sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent
from fedglb.protocol.persistence import to_arrays
from tests.federation.helpers.agent_driver import Alone, client, killed, state

PROBLEM = fg.Problem(dim=3)
ITEMS = np.array(
    [[0.6, 0.0, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 0.7], [0.5, 0.5, 0.0], [0.3, 0.3, 0.3]]
)
IDS = ["tea", "coffee", 7, -1, "müsli"]
LIKED = [0.9, 0.2, 0.5, 0.7, 0.1]


def play(agent: Agent, rng: np.random.Generator, times: int, ids: list | None) -> list[int]:
    """Offer all items again and again; return which were chosen."""
    chosen = []
    for _ in range(times):
        u = rng.random()  # whatever is chosen
        decision = agent.choose(ITEMS, ids)
        agent.observe(decision.id, float(u < LIKED[decision.arm]))
        chosen.append(decision.arm)
    return chosen


def rows(agent: Agent) -> np.ndarray:
    """The arms in the model: key, D, u and b."""
    model = client(agent).state.base
    assert model is not None
    return model.effects[2:].reshape(-1, 6)


@pytest.mark.parametrize("ids", [IDS, None], ids=["ids", "features"])
def test_a_restarted_agent_chooses_as_one_that_never_stopped(tmp_path, ids):
    """What was offered is counted anew, but arms that have a row recur at once."""
    chosen = {}
    for name, stops in (("steady", False), ("stopped", True)):
        path, rng = tmp_path / f"{name}.db", np.random.default_rng(0)
        agent = Agent.open(path, PROBLEM)
        world = Alone(agent)
        # the same random choices, which depend on the file's own seed
        agent._client.seed = 3
        agent._client.stale = True
        chosen[name] = play(agent, rng, 200, ids)
        world.update(agent, t=200)
        assert len(rows(agent)) == 5
        for _ in range(4):
            if stops:
                live = state(agent)
                agent.close()
                agent = Agent.open(path, PROBLEM)
                assert state(agent) == live
                agent._client.seed = 3
                agent._client.stale = True
            chosen[name] += play(agent, rng, 10, ids)
        chosen[name].append(state(agent))
        agent.close()
    assert chosen["stopped"] == chosen["steady"]
    assert len(set(chosen["steady"][:-1])) > 1


def test_the_name_is_that_of_the_offer(tmp_path):
    """Whatever comes between a decision and its reward, a restart too."""
    path = tmp_path / "agent.db"
    with Agent.open(path, PROBLEM) as agent:
        first, second = (agent.choose(ITEMS[:1]) for _ in range(2))
        third = agent.choose(ITEMS[:1])  # from now on it recurs
        named = agent.choose(ITEMS[1:2], ids=["tea"])
    with Agent.open(path, PROBLEM) as agent:
        for decision in (third, first, second, named):
            agent.observe(decision.id, 1.0)
        X = client(agent).samples.X
        key = X[0, 3]
        assert key >= 0.0
        assert X[:, 3].tolist() == [key, -1.0, -1.0, X[3, 3]]
        assert 0.0 <= X[3, 3] != key
        np.testing.assert_array_equal(X[:3, :3], ITEMS[[0, 0, 0]])


def test_what_is_exported_has_no_names(tmp_path):
    with Agent.open(tmp_path / "agent.db", PROBLEM, log="offered") as agent:
        first = agent.choose(ITEMS, IDS, key="view-1")
        assert agent.choose(ITEMS, IDS, key="view-1") == first
        agent.observe(first.id, 1.0)
        agent.absorb(ITEMS, np.ones(5))
        log = agent.export()
        assert log["x"].list.len().to_list() == [3] * 6
        assert log["x"].to_list() == [ITEMS[first.arm].tolist(), *ITEMS.tolist()]
        assert log["offered"][0].to_list() == ITEMS.tolist()


@pytest.mark.parametrize("ids", [IDS, None], ids=["ids", "features"])
def test_absorbed_samples_are_of_the_items_that_are_chosen(tmp_path, ids):
    """Past samples count as if each arm had been offered: what recurs has its effect."""
    path = tmp_path / "agent.db"
    X, y = np.tile(ITEMS, (6, 1)), np.tile([1.0, 0.0, 1.0, 0.0, 0.0], 6)
    with Agent.open(path, PROBLEM) as agent:
        agent.absorb(X, y, ids=None if ids is None else ids * 6)
        names = client(agent).samples.X[:, 3]
        assert len(np.unique(names[10:])) == 5
        assert (names[10:] >= 0.0).all()
        twin = fg.Client("alone", client(agent).algorithm, client(agent).agreed)
        twin.absorb(X, y, None if ids is None else ids * 6)
        mine, other = (c.to_arrays() for c in (client(agent), twin))
        for name in ("X", "state.counters", "state.vectors", "state.matrices"):
            np.testing.assert_array_equal(mine[name], other[name])
        mine, other = (c.sums.answer("", 1).effects for c in (client(agent), twin))
        np.testing.assert_array_equal(mine, other)
        agent.observe(agent.choose(ITEMS[:1], ids and ids[:1]).id, 1.0)
        assert client(agent).samples.X[-1, 3] == names[10]
        sums = client(agent).sums.answer("a", 1).effects.reshape(-1, 6)
        live = state(agent)
    assert sums[:, 1].sum() == pytest.approx(0.25 * (31 if ids else 21))  # at θ = 0
    with Agent.open(path, PROBLEM) as agent:
        assert state(agent) == live
    with Agent.open(path, PROBLEM) as agent, pytest.raises(fg.InvalidInput, match="ids"):
        agent.absorb(X, y, ids=IDS)


def test_absorbing_leaves_the_sums_as_they_were_if_it_fails(tmp_path, monkeypatch):
    with Agent.open(tmp_path / "agent.db", PROBLEM) as agent:
        play(agent, np.random.default_rng(0), 10, IDS)
        before = client(agent).sums.tables.copy()

        def fail(*_: object) -> None:
            raise RuntimeError

        monkeypatch.setattr(type(agent._client.store), "absorb", fail)
        with pytest.raises(RuntimeError):
            agent.absorb(ITEMS, np.ones(5), ids=IDS)
        np.testing.assert_array_equal(client(agent).sums.tables, before)


def test_after_forgetting_the_next_model_is_that_of_the_others(tmp_path):
    """As if the forgotten samples had never been: at the same model, and after an update."""
    models = []
    for forgets in (True, False):
        path, rng = tmp_path / f"{forgets}.db", np.random.default_rng(2)
        with Agent.open(path, PROBLEM) as agent:
            ids, kept = [], [k for k in range(60) if k % 7]
            for k in range(60):
                item, reward = k % 5, float(rng.random() < LIKED[k % 5])
                if forgets or k in kept:
                    decision = agent.choose(ITEMS[item : item + 1], [IDS[item]])
                    agent.observe(decision.id, reward)
                    ids.append(decision.id)
            world = Alone(agent)
            if forgets:
                agent.forget(ids[k] for k in range(60) if k not in kept)
            for t in range(12):  # Newton steps, to the fit of what is left
                world.update(agent, t=61 + t)
            assert world.coordinator.last_update.samples == len(kept)
            models.append(to_arrays(world.coordinator.model))
    one, other = models
    assert one["effects"].size == 2 + 5 * 6
    for name in ("theta", "matrix", "effects", "ridge"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-9)


def test_forgetting_what_the_model_covers(tmp_path):
    """Then the next update's sums are those of the samples that are left."""
    with Agent.open(tmp_path / "agent.db", PROBLEM) as agent:
        world, rng = Alone(agent), np.random.default_rng(3)
        play(agent, rng, 30, IDS)
        world.update(agent, t=30)
        play(agent, rng, 10, IDS)
        agent.forget(agent.export()["id"][::3].to_list())
        samples, model = client(agent).samples, world.coordinator.model
        twin = fg.Client("alone", client(agent).algorithm, client(agent).agreed)
        for x, y in zip(samples.X, samples.y, strict=True):
            twin.observe_unchecked(x, float(y), 1)
        twin.receive(fg.protocol.messages.NewModel("alone", 1, 0, model))
        world.begin(t=41)
        (answer,) = world.deliver(agent)
        wanted = twin.sums.answer("alone", 2)
        assert answer.samples == len(samples)
        for name in ("gradient", "hessian", "effects"):
            np.testing.assert_allclose(
                getattr(answer, name), getattr(wanted, name), rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("moment", ["UPDATE decisions", "after"])
def test_a_kill_loses_no_effect(tmp_path: Path, moment):
    path = tmp_path / "agent.db"
    learn = f"""
items = np.array({ITEMS.tolist()})
for k in range(30):
    agent.observe(agent.choose(items, {IDS!r}).id, float(k % 2))
last = agent.choose(items, {IDS!r}).id
"""
    killed(path, moment, learn, "agent.observe(last, 1.0)")
    with Agent.open(path, PROBLEM) as agent:
        n = 30 if moment == "UPDATE decisions" else 31
        samples = client(agent).samples
        assert len(samples) == n
        assert (samples.X[:, 3] >= 0.0).all()
        fresh = fg.Client("alone", client(agent).algorithm, client(agent).agreed)
        for t, (x, y) in enumerate(zip(samples.X, samples.y, strict=True), 1):
            fresh.observe_unchecked(x, float(y), t)
        expected = {name: v.tobytes() for name, v in fresh.to_arrays().items() if name != "frozen"}
        assert state(agent) == expected
