"""What is forgotten is gone: from the file, from the state, and from the next update."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent, UnknownDecision
from fedglb.federation.agent.removal import Removal
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.wire.messages import Withdrawal
from fedglb.kernels.personal import INFORMATION
from fedglb.protocol import Client
from fedglb.protocol.messages import NewModel
from fedglb.protocol.persistence import to_arrays
from fedglb.protocol.personal_sums import without_distance
from fedglb.samples import Samples
from tests.federation.helpers.agent_driver import Alone, arms, client, copied, feed, killed, state
from tests.federation.helpers.nats_federation import PATIENCE

PROBLEM = fg.Problem(dim=3)


def without(agent: Agent, base: dict | None, gone: list[int], covered: int) -> dict[str, bytes]:
    """The state of a client that holds the same model and never saw those samples."""
    old = client(agent)
    setting = agent._client.agreement.setting
    samples = Samples(setting.width)
    if old.personal is not None:
        kept = np.delete(np.arange(len(old.samples)), gone)
        X, y = old.samples.X[kept], old.samples.y[kept]
        base = None if base is None else without_distance(base)
        samples = Samples.over(X, y, len(kept))
        return content(
            Client.from_samples(old.id, old.algorithm, setting, samples, base, covered=covered)
        )
    twin = Client.from_samples(old.id, old.algorithm, setting, samples, base, covered=covered)
    keep = [k for k in range(len(old.samples)) if k not in gone]
    for position, k in enumerate(keep):
        x, y = old.samples.X[k].copy(), float(old.samples.y[k])
        index = twin.samples.append(x, y)
        if position >= covered:
            old.algorithm.local_update.observe(old.setting, twin.state, twin.samples, index)
    twin.sums.add(twin.samples)
    return content(twin)


def content(learner: Client) -> dict[str, bytes]:
    """The state and the sums, as bytes."""
    arrays = learner.to_arrays()
    kept = {name: v for name, v in arrays.items() if name.startswith(("state", "sums", "vector"))}
    kept |= to_arrays(learner.sums.answer("", 0))
    return {name: np.asarray(v).tobytes() for name, v in kept.items()}


def own_state(agent: Agent) -> dict[str, bytes]:
    return content(client(agent))


def test_the_state_is_that_of_one_who_never_saw_them(agent, rng):
    ids = feed(agent, rng, 12)
    expected, X = without(agent, None, [0, 5, 11], 0), client(agent).samples.X.copy()
    agent.forget([ids[0], ids[5], ids[11]])
    assert own_state(agent) == expected
    keep = [k for k in range(12) if k not in (0, 5, 11)]
    assert np.array_equal(client(agent).samples.X, X[keep])
    slope = 0.25 if client(agent).sums.at_model else 1.0  # logistic, at θ = 0
    kept = X[keep, :3]
    if client(agent).personal is None:  # else they are taken when an update begins
        assert client(agent).sums.matrix == pytest.approx(slope * kept.T @ kept, rel=1e-14)
    assert agent.status.samples == 9
    assert agent.export().height == 9
    with pytest.raises(UnknownDecision):
        agent.observe(ids[0], 1.0)
    with pytest.raises(UnknownDecision):
        agent.forget([ids[0]])


def test_the_state_on_a_shared_model(agent, rng):
    ids = feed(agent, rng, 8)
    Alone(agent).update(agent, t=8)
    base = agent._client.store.updates.adopted_model().base
    ids += feed(agent, rng, 6)
    expected = without(agent, base, [2, 3, 9], covered=6)
    agent.forget([ids[2], ids[3], ids[9]])
    assert (client(agent).covered, len(client(agent).samples)) == (6, 11)
    assert own_state(agent) == expected


@pytest.mark.parametrize("dim", [3, 9])
def test_many_are_gone_from_the_bytes_of_both_files(path, dim):
    """Also where pages are split or merged, and rows move about in the file."""
    rng = np.random.default_rng(11)
    kept: list[bytes] = []
    with Agent.open(path, fg.Problem(dim=dim)) as agent:
        decisions = [(agent.choose(x), x) for x in arms(rng, 900, dim).reshape(900, 1, dim)]
        for k in rng.permutation(900)[:700]:
            agent.observe(decisions[k][0].id, float(rng.random() < 0.5))
        gone = rng.choice(900, 300, replace=False)
        agent.forget(decisions[k][0].id for k in gone)
        kept = [x.tobytes() for k, (_, x) in enumerate(decisions) if k not in gone]
        folder = copied(path, path.parent / "copy").parent
        data = b"".join(f.read_bytes() for f in folder.iterdir())
        found = sum(decisions[k][1].tobytes()[:16] in data for k in gone)
        assert sum(x in data for x in kept) > 550  # or the search could not find anything
        assert found == 0
        assert not any(decisions[k][0].id.encode() in data for k in gone)


def test_what_was_activated_after_newer_decisions_is_gone_from_the_bytes(path):
    """A row that comes in between splits its page, and SQLite leaves copies of its neighbours."""
    rng = np.random.default_rng(0)
    schema = fg.Features(arm={"price": fg.Number([1, 9])})
    with Agent.open(path, features=schema) as agent:
        agent._own_updates.close()
        here, ahead = [], []
        for k in range(3000):
            name = f"item {k:04} " * int(rng.integers(1, 30))
            prefetch = bool(rng.random() < 0.5)
            made = agent.choose([{"price": 3.0, "name": name}], [name[:10]], prefetch=prefetch)
            (ahead if prefetch else here).append(made)
        for k in rng.permutation(len(ahead)):
            agent.activate([ahead[k].id])
        every = here + ahead
        gone = {every[k].id: every[k] for k in rng.choice(3000, 1500, replace=False)}
        agent.forget(gone)
        data = both_files(copied(path, path.parent / "copy"))
        assert sum(d.arm_id.encode() in data for d in every if d.id not in gone) == 1500
        assert sum(d.arm_id.encode() in data for d in gone.values()) == 0


def test_the_next_update_does_not_contain_it(agent, rng):
    ids, world = feed(agent, rng, 10), Alone(agent)
    world.update(agent, t=10)
    assert world.coordinator.last_update.samples == 10
    agent.forget(ids[:4])
    before = client(agent).sums.matrix.copy()
    world.begin(t=11)
    if (old := client(agent)).personal is not None:
        base = agent._client.store.updates.adopted_model().base
        samples = Samples.over(old.samples.X, old.samples.y, 6)
        given = (old.id, old.algorithm, old.agreed, samples, base)
        [expected] = Client.from_samples(*given, covered=6, adopted=1).receive(world.queue[0])
        before = expected.hessian
    [answer] = world.deliver(agent)
    matrix = answer.hessian if client(agent).sums.at_model else answer.matrix
    assert (answer.samples, matrix.tobytes()) == (6, before.tobytes())
    while world.queue:
        world.deliver(agent)
    assert world.coordinator.last_update.samples == 6
    assert client(agent).covered == 6


def test_after_updates_nothing_is_left_of_it(rng, tmp_path):
    """Samples of a line have no place where they are linearised: their model is exact."""
    problem, models = fg.Problem(3, fg.Identity()), []
    X, y = arms(rng, 20), rng.standard_normal(20)
    y[:5] += 30.0
    for name, first in (("forgets", 0), ("never knew", 5)):
        given = {"problem": problem, "algorithm": fg.fedglb_personal(10.0)}
        with Agent.open(tmp_path / f"{name}.db", **given) as agent:
            world = Alone(agent)
            agent.absorb(X[first:], y[first:])
            world.update(agent, t=20)
            agent.forget(agent.export()["id"][: 5 - first].to_list())
            prior = agent._client.store.updates.adopted_model().base
            assert first or not prior["matrices"][INFORMATION].any()
            for _ in range(3):
                world.update(agent, t=20)
            models.append((world.coordinator.model, agent.model().weights))
    one, other = (vars(model) for model, _ in models)
    for name, expected in other.items():  # λ is found in steps
        assert one[name] is expected or one[name] == pytest.approx(expected, rel=1e-6), name
    weights = [[w.weight for w in found] for _, found in models]
    assert weights[0] == pytest.approx(weights[1], rel=1e-6)


@pytest.mark.parametrize(
    "algorithm",
    [
        fg.fedglb_ucb(10.0, fg.Newton()),
        fg.fedglb_auto(10.0, solver=fg.OneExchange(1e-9, "deviation")),
    ],
    ids=["fedglb_ucb", "fedglb_auto, further rounds"],
)
def test_from_an_update_in_progress_it_withdraws(algorithm, rng, path):
    agent = Agent.open(path, PROBLEM, algorithm=algorithm)
    ids, world = feed(agent, rng, 6), Alone(agent)
    world.begin(t=6)
    [request] = list(world.queue)
    world.deliver(agent)
    later = feed(agent, rng, 2)
    agent.forget([later[0]])  # not of this update
    agent.forget([ids[0]])
    evaluate = world.queue[0]
    assert world.deliver(agent) == [Withdrawal(1)]
    assert world.coordinator.phase == 0
    assert agent._session.receive(request) == [Withdrawal(1)]
    assert agent._session.receive(evaluate) == [Withdrawal(1)]
    agent.close()
    with Agent.open(path, PROBLEM, algorithm=algorithm) as back:  # and so after a restart
        assert back._session.receive(request) == [Withdrawal(1)]
        assert back._session.receive(evaluate) == [Withdrawal(1)]
        world.update(back, t=9)
        assert world.coordinator.last_update.samples == 6


def test_later_samples_than_those_of_the_update_may_go_without_withdrawing(agent, rng):
    feed(agent, rng, 5)
    world = Alone(agent)
    world.begin(t=5)
    world.deliver(agent)
    agent.forget(feed(agent, rng, 2)[:1])
    while world.queue:
        world.deliver(agent)
    assert (client(agent).adopted, client(agent).covered) == (1, 5)
    assert agent.status.samples == 6


@pytest.mark.parametrize("restart", [False, True])
def test_a_model_that_came_all_the_same_does_not_cover_new_samples(path, rng, restart):
    """The agent forgot after its last answer: the model has what is gone, and nothing new."""
    agent = Agent.open(path, PROBLEM)
    ids, world = feed(agent, rng, 5), Alone(agent)
    world.begin(t=5)
    while not isinstance(world.queue[0], NewModel):
        world.deliver(agent)
    agent.forget([ids[4], ids[1]])
    feed(agent, rng, 3)
    if restart:
        agent.close()
        agent = Agent.open(path, PROBLEM)
    world.deliver(agent)
    assert client(agent).adopted == 1
    assert (client(agent).covered, agent.status.samples) == (3, 6)
    feed(agent, rng, 1)
    before = state(agent)
    agent.close()
    with Agent.open(path, PROBLEM) as back:
        assert state(back) == before


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("gone", [slice(4, 5), slice(0, 5), slice(2, 7), slice(0, 7)])
def test_new_samples_do_not_get_sequence_numbers_of_covered_ones(path, rng, restart, gone):
    agent = Agent.open(path, PROBLEM)
    ids = feed(agent, rng, 5)
    Alone(agent).update(agent, t=5)
    ids += feed(agent, rng, 2)
    agent.forget(ids[gone])
    if restart:
        agent.close()
        agent = Agent.open(path, PROBLEM)
    left = 5 - len(ids[:5][gone])
    assert client(agent).covered == left
    feed(agent, rng, 4)
    assert client(agent).covered == left
    before = state(agent)
    agent.close()
    with Agent.open(path, PROBLEM) as back:
        assert client(back).covered == left
        assert state(back) == before


def test_all_or_nothing(agent, rng):
    ids, before = feed(agent, rng, 3), state(agent)
    with pytest.raises(UnknownDecision, match="other-1"):
        agent.forget([ids[0], "other-1"])
    assert state(agent) == before
    assert agent.export().height == 3
    agent.forget([])
    agent.forget([ids[0], ids[0]])
    assert agent.export().height == 2
    agent.forget(ids[1:])
    assert agent.export().is_empty()
    assert own_state(agent) == without(agent, None, [], 0)
    feed(agent, rng, 2)
    assert agent.status.samples == 2


def test_waiting_and_expired_ones(path, rng):
    with Agent.open(path, PROBLEM, max_pending=1) as agent:
        expired, waiting = agent.choose(arms(rng, 2)), agent.choose(arms(rng, 2))
        before = state(agent)
        agent.forget([expired.id, waiting.id])
        assert state(agent) == before
        assert agent.export().is_empty()
        with pytest.raises(UnknownDecision):
            agent.observe(waiting.id, 1.0)


def test_memory_follows_the_file_where_the_log_cannot_be_emptied(agent, rng, monkeypatch):
    ids = feed(agent, rng, 4)

    def full(self: AgentStore) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(AgentStore, "scrub", full)
    with pytest.raises(sqlite3.OperationalError):
        agent.forget([ids[0]])
    assert agent.status.samples == agent.export().height == 3


def test_the_arms_offered_are_gone_too(path, rng):
    with Agent.open(path, PROBLEM, log="offered") as agent:
        agent.forget(feed(agent, rng, 2)[:1])
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(*) FROM offers").fetchone() == (1,)
    db.close()


def test_an_id_is_never_given_again(path, rng):
    seen = set()
    for _ in range(3):
        with Agent.open(path, PROBLEM, explore=0.5) as agent:
            for _ in range(4):
                [last] = feed(agent, rng, 1)
                assert last not in seen
                number = int(last.rpartition("-")[2])
                assert number not in {int(i.rpartition("-")[2]) for i in seen}  # nor its draw
                seen.add(last)
                agent.forget([last])
                with pytest.raises(UnknownDecision):
                    agent.observe(last, 1.0)
    assert len(seen) == 12


class Paused:
    """Stops what works out the state without forgotten samples, until it is told to go on."""

    def __init__(self, agent: Agent, monkeypatch) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        original = Removal._without

        def without(client, *given):
            fresh = original(client, *given)
            self.reached.set()
            assert self.go_on.wait(PATIENCE)
            return fresh

        monkeypatch.setattr(Removal, "_without", without)

    def forget(self, agent: Agent, ids: list[str]) -> threading.Thread:
        thread = threading.Thread(target=agent.forget, args=(ids,))
        thread.start()
        assert self.reached.wait(PATIENCE)
        return thread


def test_other_calls_go_on_meanwhile(path, rng, monkeypatch):
    """What they learn is kept; a reward of what is forgotten makes it begin again."""
    agent = Agent.open(path, PROBLEM)
    ids = feed(agent, rng, 30)
    waiting = agent.choose(arms(rng, 2))
    paused = Paused(agent, monkeypatch)
    thread = paused.forget(agent, [ids[3], ids[20], waiting.id])
    later = feed(agent, rng, 150)
    agent.observe(waiting.id, 1.0)
    assert agent.export().height == 181
    paused.go_on.set()
    thread.join(PATIENCE)
    gone = {ids[3], ids[20], waiting.id}
    assert agent.export()["id"].to_list() == [k for k in ids + later if k not in gone]
    assert agent.status.samples == 178
    live = state(agent)
    agent.close()
    with Agent.open(path, PROBLEM) as back:
        assert state(back) == live


def test_an_update_begins_and_ends_meanwhile(path, rng, monkeypatch):
    algorithm = fg.fedglb_ucb(10.0, fg.Newton())
    agent = Agent.open(path, PROBLEM, algorithm=algorithm)
    ids, world = feed(agent, rng, 12), Alone(agent)
    paused = Paused(agent, monkeypatch)
    thread = paused.forget(agent, ids[:2])
    world.update(agent, t=12)
    feed(agent, rng, 3)
    world.begin(t=15)
    world.deliver(agent)
    paused.go_on.set()
    thread.join(PATIENCE)
    assert (client(agent).adopted, client(agent).covered, agent.status.samples) == (1, 10, 13)
    assert world.deliver(agent) == [Withdrawal(2)]
    live = state(agent)
    agent.close()
    with Agent.open(path, PROBLEM, algorithm=algorithm) as back:
        assert state(back) == live


def test_after_a_kill_the_last_copy_is_gone_when_the_file_is_opened(path):
    """Whoever asks again is told that there is no such decision: then it must be true."""
    learn = "ids = [agent.choose(np.eye(3)[:1], [f'item {k:03}']).id for k in range(40)]"
    killed(path, "PRAGMA wal_checkpoint", learn, "agent.forget(ids[5:9])")
    assert b"item 005" in both_files(path)
    with Agent.open(path, PROBLEM):
        data = both_files(copied(path, path.parent / "copy"))
    assert b"item 004" in data
    assert b"item 005" not in data


def both_files(path: Path) -> bytes:
    """What a file and its write-ahead log have."""
    return b"".join(file.read_bytes() for file in path.parent.glob(path.name + "*"))


@pytest.mark.some(1)
@pytest.mark.parametrize("moment", ["DELETE FROM decisions", "COMMIT", "PRAGMA wal_checkpoint"])
def test_a_kill_leaves_a_sound_file(path, moment):
    learn = """
ids = []
for k in range(40):
    ids.append(agent.choose(np.eye(3)).id)
    agent.observe(ids[-1], float(k % 2))
"""
    killed(path, moment, learn, "agent.forget(ids[5:9])")
    left = 36 if moment.startswith("PRAGMA") else 40
    with Agent.open(path, PROBLEM) as agent:
        assert agent.status.samples == agent.export().height == left
        assert own_state(agent) == without(agent, None, [], 0)
        agent.forget(agent.export()["id"][:3].to_list())
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()
