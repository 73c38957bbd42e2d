"""Deletion by subject: decisions, records and samples go, and the next model never saw them."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from fedglb.federation.agent.session import FORGETTING
from fedglb.protocol import Client, Coordinator
from tests.federation.helpers.agent_driver import Alone, arms, client, state
from tests.federation.helpers.in_process import Serving
from tests.federation.helpers.nats_federation import PATIENCE, eventually, federation, table

PROBLEM = fg.Problem(dim=3)


def test_all_about_a_subject_goes_and_nothing_else(path, rng):
    with Agent.open(path, PROBLEM) as agent:
        mine, others = [], []
        for k in range(20):
            subject = ("ann", "bob", None)[k % 3]
            made = agent.choose(arms(rng, 3), subject=subject, prefetch=k == 18)
            (mine if subject == "ann" else others).append(made.id)
            if k not in (0, 18):
                agent.observe(made.id, float(k % 2))
        assert agent.forget(subject="ann") == 7  # one waits, one has not happened
        assert agent.export()["id"].to_list() == others
        assert agent.forget(subject="ann") == 0
        assert agent.forget(subject="nobody") == 0
        assert agent.forget([others[1]], subject="bob") == 8
        assert agent._client.waiting == 0
        before = state(agent)
    with Agent.open(path, PROBLEM) as agent:
        assert state(agent) == before
        assert client(agent).samples.y.tolist() == agent.export()["reward"].to_list()


def test_the_file_does_not_have_the_subject(path, rng):
    with Agent.open(path, PROBLEM) as agent:
        agent.observe(agent.choose(arms(rng, 2), subject="ann@example.org").id, 1.0)
        agent.choose(arms(rng, 2), subject="ann@example.org", prefetch=True)
    assert b"ann@example" not in path.read_bytes()


def test_absorbed_samples_have_subjects(path, rng):
    with Agent.open(path, PROBLEM) as agent:
        agent.absorb(arms(rng, 4), [1.0, 0.0, 1.0, 0.0], subjects=["ann", None, "bob", "ann"])
        for wrong in (["ann"], "anna", ["ann", 7, "bob", "ann"]):
            with pytest.raises(InvalidInput) as refused:
                agent.absorb(arms(rng, 4), [1.0, 0.0, 1.0, 0.0], subjects=wrong)
            assert refused.value.argument.startswith("subjects")
        assert agent.forget(subject="ann") == 2
        assert client(agent).samples.y.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("subject", ["", "x" * 201, 7, "\ud800"])
def test_an_invalid_subject_is_refused(agent, subject):
    for call in (
        lambda: agent.choose(np.eye(3), subject=subject),
        lambda: agent.forget(subject=subject),
    ):
        with pytest.raises(InvalidInput) as refused:
            call()
        assert refused.value.argument == "subject"
    assert agent.export().height == 0


def played(agent, rng, count, subjects) -> None:
    for k in range(count):
        made = agent.choose(arms(rng, 1), subject=subjects[k % len(subjects)])
        agent.observe(made.id, float(rng.random() < 0.5))


def shared(agent) -> np.ndarray:
    return client(agent).shared_theta


@pytest.mark.parametrize(
    ("algorithm", "updates"),
    [
        (fg.fedglb_ucb(1.0, solver=fg.Newton(tolerance=1e-20)), 1),
        (fg.fedglb_auto(), 1 + FORGETTING),
    ],
    ids=["solved", "one exchange per update"],
)
def test_the_model_is_that_of_the_remaining_samples(tmp_path, algorithm, updates):
    """That of an agent that never had them, to 1e-9: after the updates that `forget` asks for."""
    with Agent.open(tmp_path / "a.db", PROBLEM, algorithm=algorithm) as agent:
        rng = np.random.default_rng(1)
        played(agent, rng, 300, ["ann", "bob", *"abcdefgh"])
        around = Alone(agent)
        for t in range(300, 320):
            around.update(agent, t=t)
        before = shared(agent).copy()
        assert agent.forget(subject="bob") == 30
        for t in range(320, 320 + updates):
            around.update(agent, t=t)
        mine = shared(agent).copy()
    with Agent.open(tmp_path / "b.db", PROBLEM, algorithm=algorithm) as other:
        rng = np.random.default_rng(1)
        for k in range(300):
            x, y = arms(rng, 1), float(rng.random() < 0.5)
            if k % 10 != 1:
                other.observe(other.choose(x).id, y)
        around = Alone(other)
        for t in range(300, 340):
            around.update(other, t=t)
        assert np.abs(shared(other) - mine).max() < 1e-9
        assert np.abs(before - mine).max() > 1e-3


def test_an_agent_alone_makes_these_updates_at_once(tmp_path):
    schema = fg.Features(arm={"colour": fg.Category(["red", "blue"]), "price": fg.Number([1, 9])})

    def play(agent, subjects) -> None:
        rng = np.random.default_rng(3)
        for k in range(200):
            subject, y = "ann" if k % 5 == 2 else "bob", float(rng.random() < 0.3)
            item = {"colour": ["red", "blue"][k % 2], "price": float(rng.uniform(1, 9))}
            if subject in subjects:
                agent.observe(agent.choose([item], [k % 7], subject=subject).id, y)

    with Agent.open(tmp_path / "a.db", features=schema) as agent:
        play(agent, ["ann", "bob"])
        agent._own_updates.close()
        before, model = shared(agent).copy(), agent.status.model
        assert agent.forget(subject="ann") == 40
        agent._own_updates.close()
        assert agent.status.model > model
        mine = shared(agent).copy()
    with Agent.open(tmp_path / "b.db", features=schema) as other:
        play(other, ["bob"])
        other._own_updates.request(anew=True)
        other._own_updates.close()
        assert np.abs(shared(other) - mine).max() < 1e-9
        assert np.abs(before - mine).max() > 1e-3


def test_what_is_forgotten_during_an_update_starts_another(tmp_path):
    """The updates of forgetting are not lost if one is running already."""
    schema = fg.Features(arm={"colour": fg.Category(["red", "blue"])})
    with Agent.open(tmp_path / "a.db", features=schema) as agent:
        own = agent._own_updates
        begun, go_on, settled = threading.Event(), threading.Event(), []
        original = own._settle

        def settle(steps, still):
            begun.set()
            assert go_on.wait(PATIENCE)
            original(steps, still)
            settled.append(steps)

        own._settle = settle
        for k in range(12):
            agent.observe(agent.choose([{"colour": "red"}], subject="ann").id, float(k % 2))
        assert begun.wait(PATIENCE)
        own.request(anew=True)
        go_on.set()
        eventually(lambda: len(settled) == 2, "two runs of updates")
        assert settled == [10, 60]


def test_in_a_federation_nothing_of_a_subject_is_left_in_any_model(tmp_path):
    """`forget` asks for the updates; then both have the model of the samples that are left."""
    agreed = table(name="fedglb-auto")
    with (
        federation(tmp_path, ["a", "b"], agreed) as running,
        Serving(running, tmp_path / "state.db") as serving,
        ExitStack() as stack,
    ):
        agents = {}
        for seed, name in enumerate("ab"):
            bundle = running.folder / "clients" / name
            agents[name] = stack.enter_context(Agent.open(tmp_path / f"{name}.db", bundle=bundle))
            played(agents[name], np.random.default_rng(seed), 100, ["ann", "bob", "cem", "dan"])
            serving.wait("joined", client=name)
        agents["a"].request_update()
        assert all(agent.wait_for_model(1, PATIENCE) for agent in agents.values())
        assert agents["b"].forget(subject="cem") == 25
        assert all(agent.wait_for_model(2 + FORGETTING, PATIENCE) for agent in agents.values())
        eventually(lambda: agents["b"].status.requested_at == 0, "the end of the request")
        mine, model = shared(agents["a"]).copy(), agents["a"].status.model
        assert np.array_equal(mine, shared(agents["b"]))
        assert model == 2 + FORGETTING  # and not more
    fresh = Coordinator(agreed.build().algorithm, agreed.build().setting, ["a", "b"])
    left = []
    for seed, name in enumerate("ab"):
        rng, samples = np.random.default_rng(seed), []
        for k in range(100):
            x, y = arms(rng, 1)[0], float(rng.random() < 0.5)
            if name == "a" or k % 4 != 2:
                samples.append((x, y))
        one = Client(name, agreed.build().algorithm, agreed.build().setting)
        for x, y in samples:
            one.observe_unchecked(one.rows(x[None])[0], y, 1)
        left.append(one)
    for t in range(1, 60):
        messages = fresh.begin(t)
        while messages:
            message = messages.pop(0)
            for one in left:
                for answer in one.receive(message) if one.id == message.client else ():
                    messages += fresh.receive(answer)
    assert np.abs(left[0].shared_theta - mine).max() < 1e-9
