"""Default rewards: silence is learned once, and a late reward takes its place."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent, AlreadyObserved, DecisionExpired
from fedglb.federation.agent.application_calls import ApplicationCalls
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agreement import Agreement
from tests.federation.helpers.agent_driver import Alone, arms, client, state
from tests.federation.helpers.nats_federation import eventually

PROBLEM = fg.Problem(dim=3)
ALGORITHMS = [fg.fedglb_auto(), fg.fedglb_ucb(1.0)]


class Silo:
    """An agent's calls on a clock of their own, without its threads."""

    def __init__(self, path, monkeypatch, algorithm=ALGORITHMS[0], **rules) -> None:
        self.now, self.path = 1000.0, path
        monkeypatch.setattr("fedglb.federation.agent.application_calls.time.time", lambda: self.now)
        self.agreement = Agreement(PROBLEM, algorithm, 1)
        self.rules = DecisionRules(**{"default_reward": 0.0, "reward_after": 60.0} | rules)
        self.open()

    def open(self) -> None:
        store = AgentStore(self.path, "process")
        store.agree(self.agreement.facts())
        self.durable = DurableClient("a", self.agreement, store, self.rules)
        self.calls = ApplicationCalls(self.durable)

    def opened_again(self) -> bytes:
        """The state before, which must be that of the file."""
        before = self.state()
        self.durable.close()
        self.open()
        assert self.state() == before
        return before

    def state(self) -> bytes:
        arrays = self.durable.protocol_client.to_arrays()
        return b"".join(np.asarray(value).tobytes() for value in arrays.values())

    def silence(self) -> int:
        count = 0
        while learned := self.calls.learn_silence(3)[0]:
            count += len(learned)
        return count

    def rewards(self) -> list[float]:
        return self.durable.protocol_client.samples.y.tolist()


@pytest.fixture(params=ALGORITHMS, ids=lambda a: a.name)
def silo(tmp_path, monkeypatch, request):
    made = Silo(tmp_path / "agent.db", monkeypatch, request.param)
    yield made
    made.durable.close()


def decide(silo, rng, count):
    return [silo.calls.choose(arms(rng, 3)) for _ in range(count)]


def test_silence_is_learned_once_and_in_the_order_of_time(silo, rng):
    early = decide(silo, rng, 7)
    silo.now += 30.0
    late = decide(silo, rng, 2)
    silo.calls.observe(early[3].id, 1.0)
    silo.now += 31.0
    assert silo.silence() == 6
    assert silo.silence() == 0
    assert silo.rewards() == [1.0, *[0.0] * 6]
    assert (silo.durable.waiting, silo.durable.defaulted) == (2, 6)
    rows = silo.durable.protocol_client.samples.X
    kept = [silo.durable.store.learned(k).row for k in (4, 1, 2, 3, 5, 6, 7)]
    assert np.array_equal(rows, kept)
    silo.opened_again()
    assert (silo.durable.waiting, silo.durable.defaulted) == (2, 6)
    silo.now += 30.0
    assert silo.silence() == 2
    assert late[0].id in {id_ for id_, _ in silo.durable.store.played()}
    silo.opened_again()


def test_a_late_reward_takes_the_place_of_silence(silo, rng):
    made = decide(silo, rng, 6)
    silo.now += 61.0
    silo.silence()
    for k in (1, 4):
        silo.calls.observe(made[k].id, 1.0)
    assert silo.rewards() == [0.0] * 6  # not yet
    with pytest.raises(AlreadyObserved) as again:
        silo.calls.observe(made[1].id, 1.0)
    assert again.value.same
    with pytest.raises(AlreadyObserved) as other:
        silo.calls.observe(made[1].id, 0.0)
    assert not other.value.same
    silo.opened_again()  # they are in the file
    X = silo.durable.protocol_client.samples.X.copy()
    silo.calls.learn_late()
    order = [0, 2, 3, 5, 1, 4]
    assert silo.rewards() == [0.0] * 4 + [1.0] * 2
    assert np.array_equal(silo.durable.protocol_client.samples.X, X[order])
    assert (silo.durable.defaulted, silo.durable.replaced) == (6, 2)
    before = silo.state()
    silo.calls.learn_late()
    assert silo.opened_again() == before
    with pytest.raises(AlreadyObserved):
        silo.calls.observe(made[1].id, 0.0)


def test_the_state_is_as_if_silence_had_never_been(tmp_path, silo, rng, monkeypatch):
    made = decide(silo, rng, 6)
    offered = [silo.durable.store.waiting(k + 1, made[k].id.rpartition("-")[0]) for k in range(6)]
    silo.now += 61.0
    silo.silence()
    silo.calls.observe(made[2].id, 1.0)
    silo.calls.learn_late()
    other = Silo(tmp_path / "other.db", monkeypatch, silo.agreement.algorithm)
    mine, theirs = silo.durable.protocol_client, other.durable.protocol_client
    for k, y in [(0, 0.0), (1, 0.0), (3, 0.0), (4, 0.0), (5, 0.0), (2, 1.0)]:
        theirs.observe_unchecked(offered[k].row, y, 1)
    for name in ("vectors", "matrices"):
        assert np.array_equal(getattr(mine.state, name), getattr(theirs.state, name))
    assert np.array_equal(mine.sums.matrix, theirs.sums.matrix)
    assert np.array_equal(mine.sums.vector, theirs.sums.vector)
    other.durable.close()


def test_a_late_reward_that_equals_the_default_changes_no_sample(silo, rng):
    made = decide(silo, rng, 3)
    silo.now += 61.0
    silo.silence()
    before = silo.state()
    silo.calls.observe(made[1].id, 0.0)
    assert not silo.calls.has_late()
    assert silo.state() == before
    with pytest.raises(AlreadyObserved) as again:
        silo.calls.observe(made[1].id, 1.0)
    assert not again.value.same


def test_late_rewards_can_be_refused(tmp_path, rng, monkeypatch):
    silo = Silo(tmp_path / "agent.db", monkeypatch, late="refuse")
    [made] = decide(silo, rng, 1)
    silo.now += 61.0
    silo.silence()
    with pytest.raises(AlreadyObserved):
        silo.calls.observe(made.id, 1.0)
    assert not silo.calls.has_late()
    silo.durable.close()


def test_what_is_forgotten_gets_no_late_reward(silo, rng):
    made = decide(silo, rng, 4)
    silo.now += 61.0
    silo.silence()
    silo.calls.observe(made[1].id, 1.0)
    assert silo.calls.forget([made[1].id, made[2].id]) == 2
    silo.calls.learn_late()
    assert silo.rewards() == [0.0, 0.0]
    silo.opened_again()


def test_a_ranking_that_is_clicked_late(silo, rng):
    """What is below the click loses its sample; what is above keeps its default."""
    shown = silo.calls.rank(arms(rng, 5), None, None, None, None, (), asked=_asked(4))
    silo.now += 61.0
    silo.silence()
    silo.calls.observe_ranking([d.id for d in shown], [shown[1].id])
    silo.calls.learn_late()
    assert silo.rewards() == [0.0, 1.0]
    outcomes = [silo.durable.store.outcome(k, shown[0].id.rpartition("-")[0]) for k in (1, 2, 3, 4)]
    assert outcomes == ["observed", "observed", "unseen", "unseen"]
    with pytest.raises(AlreadyObserved) as again:
        silo.calls.observe_ranking([d.id for d in shown], [shown[1].id])
    assert again.value.same
    silo.opened_again()


def _asked(count):
    from fedglb.federation.agent.decisions import Asked

    return Asked(count)


def test_an_expired_decision_is_no_silence(tmp_path, rng, monkeypatch):
    silo = Silo(tmp_path / "agent.db", monkeypatch, max_pending=2)
    made = decide(silo, rng, 3)
    silo.now += 61.0
    assert silo.silence() == 2
    with pytest.raises(DecisionExpired):
        silo.calls.observe(made[0].id, 1.0)
    silo.durable.close()


def test_the_thread_learns_silence_and_late_rewards(tmp_path, rng):
    """On a shared model, too, and after the agent was opened again."""
    path = tmp_path / "agent.db"
    with Agent.open(path, PROBLEM) as agent:
        waiting = [agent.choose(arms(rng, 3)) for _ in range(5)]
        agent.observe(agent.choose(arms(rng, 3)).id, 1.0)
        Alone(agent).update(agent)
    with Agent.open(path, PROBLEM, default_reward=0.0, reward_after=0.001) as agent:
        eventually(lambda: agent.status.defaulted == 5, "default rewards")
        Alone(agent).update(agent, t=10)
        agent.observe(waiting[2].id, 1.0)
        eventually(lambda: agent.status.replaced == 1, "a late reward")
        assert client(agent).samples.y.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]
        expected = state(agent)
        frame = agent.export()
        assert frame["defaulted"].to_list() == [True, True, False, True, True, False]
        assert set(frame["outcome"]) == {"observed"}
    with Agent.open(path, PROBLEM) as agent:
        assert state(agent) == expected
        assert (agent.status.defaulted, agent.status.replaced) == (5, 1)


def test_late_rewards_are_learned_even_if_there_is_no_default_any_more(silo, rng):
    made = decide(silo, rng, 2)
    silo.now += 61.0
    silo.silence()
    silo.calls.observe(made[0].id, 1.0)
    silo.durable.close()
    store = AgentStore(silo.path, "process")
    store.close()
    silo.rules = DecisionRules()
    silo.open()
    assert silo.calls.has_late()
    silo.calls.learn_late()
    assert silo.rewards() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"default_reward": 2.0}, "default_reward"),
        ({"default_reward": float("nan")}, "default_reward"),
        ({"default_reward": 0.0, "reward_after": 0.0}, "reward_after"),
        ({"default_reward": 0.0, "reward_after": 100.0, "expire_after": 100.0}, "reward_after"),
        ({"default_reward": 0.0, "late": "never"}, "late"),
    ],
)
def test_invalid_rules_are_refused_before_a_file_is_made(tmp_path, given, argument):
    with pytest.raises(InvalidInput) as refused:
        Agent.open(tmp_path / "agent.db", PROBLEM, **given)
    assert refused.value.argument == argument
    assert not (tmp_path / "agent.db").exists()


def test_one_pass_updates_cannot_replace(tmp_path):
    private = fg.fedglb_private(6, 10.0, fg.GaussianMechanism(1.0, 1e-6, noise="silo"), 2.0)
    with pytest.raises(InvalidInput) as refused:
        Agent.open(tmp_path / "agent.db", PROBLEM, algorithm=private, default_reward=0.0)
    assert refused.value.argument == "late"
    with Agent.open(
        tmp_path / "agent.db", PROBLEM, algorithm=private, default_reward=0.0, late="refuse"
    ) as agent:
        assert agent.status.defaulted == 0
