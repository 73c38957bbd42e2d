"""What an agent releases: written before it is sent, once for an update, not what is forgotten."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent
from fedglb.federation.agent import update_store
from fedglb.federation.agent.agent import ALONE
from fedglb.federation.agent.application_calls import ApplicationCalls
from fedglb.federation.agent.decisions import DecisionRules
from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.agent.update_answers import UpdateAnswers
from fedglb.federation.agreement import Agreement
from fedglb.federation.wire.messages import Withdrawal
from fedglb.privacy.accounting import gdp_epsilon
from fedglb.protocol.messages import BatchSums, Evaluate, SumsRequest
from fedglb.protocol.one_pass import sums_of
from tests.federation.helpers.agent_driver import Alone, client, copied, feed

PROBLEM = fg.Problem(dim=3)
SILO = fg.GaussianMechanism(epsilon=1.0, delta=1e-6, noise="silo")
B = 6


def algorithm(privacy: fg.GaussianMechanism | None) -> fg.Algorithm:
    first = fg.Ucb("first")  # agents have seeds of their own, for ties
    return fg.fedglb_private(B, first=10.0, growth=2.0, privacy=privacy, choice=first)


@pytest.fixture(params=[None, SILO], ids=["plain", "silo"])
def private(request, path):
    with Agent.open(path, PROBLEM, algorithm=algorithm(request.param)) as agent:
        yield agent


@pytest.fixture
def silo(path):
    with Agent.open(path, PROBLEM, algorithm=algorithm(SILO)) as agent:
        yield agent


def ask(agent: Agent, update: int) -> BatchSums | Withdrawal:
    [answer] = agent._session.receive(SumsRequest(ALONE, update, agent.status.model))
    return answer


def stored(agent: Agent) -> dict:
    return agent._client.store.updates.releases()


def as_bytes(batches: dict[int, np.ndarray]) -> dict[int, bytes]:
    return {update: batch.tobytes() for update, batch in batches.items()}


def reopened(agent: Agent, to: Path) -> Agent:
    """The agent that a crash at this moment would leave."""
    path = copied(agent._client.store.path, to)
    return Agent.open(path, PROBLEM, algorithm=agent._client.agreement.algorithm)


def test_it_is_in_the_file_before_it_is_sent(private, rng, tmp_path, monkeypatch):
    feed(private, rng, 4)
    written = []
    release = update_store.UpdateStore.release

    def traced(self, stored, keep):
        release(self, stored, keep)
        written.append(reopened(private, tmp_path / "then"))

    monkeypatch.setattr(update_store.UpdateStore, "release", traced)
    answer = ask(private, 1)
    [then] = written
    feed(then, rng, 3)  # samples that come later change nothing
    assert ask(then, 1).numbers.tobytes() == answer.numbers.tobytes()
    then.close()


def test_a_crash_before_it_is_written_leaves_the_slot_free(silo, rng, tmp_path):
    """What was drawn then was seen by nobody."""
    feed(silo, rng, 4)
    before = reopened(silo, tmp_path / "before")
    assert stored(before) == {}
    first, second = ask(silo, 1), ask(before, 1)
    assert (first.numbers != second.numbers).all()
    before.close()


def test_a_write_that_fails_sends_nothing(silo, rng, monkeypatch):
    feed(silo, rng, 4)

    def full(self, stored, keep):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(update_store.UpdateStore, "release", full)
        with pytest.raises(sqlite3.OperationalError):
            ask(silo, 1)
    assert stored(silo) == {}
    assert isinstance(ask(silo, 1), BatchSums)
    assert list(stored(silo)) == [1]


def test_weights_go_on_after_a_restart(silo, rng, tmp_path):
    """Σ E_bj·(batch j): the batches are in the file, to the bit."""
    world = Alone(silo)
    for t in range(1, 4):
        feed(silo, rng, 5)
        world.update(silo, t)
    feed(silo, rng, 2)
    back = reopened(silo, tmp_path / "back")
    ours, theirs = client(silo).batches, client(back).batches
    assert ours.taken == theirs.taken == 15
    assert as_bytes(ours.closed) == as_bytes(theirs.closed)
    setting, plan = client(silo).setting, client(silo).setting.noise
    samples, theta = client(silo).samples, client(silo).state.theta
    rows = np.array([15]), np.array([17])
    batch = sums_of(setting, theta, samples.X[None], samples.y[None], *rows)[0]
    wanted = plan.encoded({**theirs.closed, 5: batch}, 5)  # update 4 was without this client
    answer = ask(back, 5)
    assert (np.abs(answer.numbers - wanted) < 7.0 * plan.scales()).all()
    back.close()


def test_the_budget_is_shown(silo, rng):
    world = Alone(silo)
    assert silo.status.privacy.epsilon == 0.0
    seen = []
    for t in range(1, B + 1):
        feed(silo, rng, 1)
        world.update(silo, t)
        seen.append(silo.status.privacy.epsilon)
    plan = client(silo).setting.noise
    assert seen == [gdp_epsilon(plan.spent(k), 1e-6) for k in range(1, B + 1)]
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1.0, abs=1e-9)
    assert ask(silo, B + 1) == Withdrawal(B + 1)
    assert silo.status.privacy.refused.startswith(f"update {B + 1}: the privacy budget of {B}")
    assert silo.status.privacy.releases == B


def test_without_privacy_there_is_no_budget(path, rng):
    with Agent.open(path, PROBLEM, algorithm=algorithm(None)) as agent:
        feed(agent, rng, 2)
        assert isinstance(ask(agent, B + 1), BatchSums)
        assert agent.status.privacy is None


def test_a_round_is_not_answered(private, rng):
    """Whoever asks for exact sums, at any θ and at any time, gets none."""
    feed(private, rng, 4)
    ask(private, 1)
    for update in (0, 1, 2):
        for number in (0, 1):
            question = Evaluate(ALONE, update, number, 0, np.full(3, 0.1), True, True)
            assert private._session.receive(question) == [Withdrawal(update)]
            assert client(private).receive(question) == []


def test_rewards_are_not_reported_beside_the_noise(path, rng):
    with pytest.raises(fg.InvalidInput, match=r"report_rewards = True: .* have no noise"):
        Agent.open(path, PROBLEM, algorithm=algorithm(SILO), report_rewards=True)
    assert not path.exists()
    Agent.open(path, PROBLEM, algorithm=algorithm(None), report_rewards=True).close()


def test_sums_that_may_overflow_are_withheld(path):
    problem = fg.Problem(dim=3, link=fg.Poisson(), noise=1.0)
    plain = algorithm(None)
    with pytest.raises(fg.InvalidInput, match="reward_limit = None"):
        Agent.open(path, problem, algorithm=plain)
    agreement = Agreement(problem, plain, 1, reward_limit=1e9)
    store = AgentStore(path, "process")
    store.agree(agreement.facts())
    learner = DurableClient(ALONE, agreement, store, DecisionRules())
    calls = ApplicationCalls(learner)
    calls.observe(calls.choose(np.eye(3)[:1]).id, 1e8)
    assert UpdateAnswers(learner).release(SumsRequest(ALONE, 1, 0)) is None
    assert learner.store.updates.releases() == {}
    learner.close()


# -- samples that come and go ------------------------------------------------------------------


def test_absorbed_samples_are_in_the_first_batch(path, rng):
    X, y = rng.standard_normal((5, 3)) / 3.0, np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    with Agent.open(path, PROBLEM, algorithm=algorithm(None)) as agent:
        agent.absorb(X, y)
        rows = np.array([0]), np.array([5])
        wanted = sums_of(client(agent).setting, np.zeros(3), X[None], y[None], *rows)[0]
        np.testing.assert_array_equal(ask(agent, 1).numbers, wanted)


@pytest.mark.parametrize("privacy", [None, SILO], ids=["plain", "silo"])
def test_what_is_forgotten_is_in_no_later_release(tmp_path, privacy):
    """Batches and samples are those of an agent that forgot it before it was in any batch."""
    agents = {}
    for name in ("early", "late"):
        agent = Agent.open(tmp_path / f"{name}.db", PROBLEM, algorithm=algorithm(privacy))
        rng, ids = np.random.default_rng(3), []
        for k in range(3):
            ids += feed(agent, rng, 3)
            if k == 1 and name == "early":
                agent.forget([ids[4]])
            if k < 2:
                assert isinstance(ask(agent, k + 1), BatchSums)
        if name == "late":
            agent.forget([ids[4]])
        agents[name] = agent
    early, late = (client(agents[name]).batches for name in ("early", "late"))
    assert early.taken == late.taken == 5
    assert (early.last.batch == late.last.batch).all()
    assert as_bytes(early.closed) == as_bytes(late.closed)
    for name, agent in agents.items():
        back = reopened(agent, tmp_path / name)
        mine, again = client(agent).batches, client(back).batches
        assert (again.taken, again.released) == (mine.taken, mine.released) == (5, 2)
        assert (again.last.batch == mine.last.batch).all()
        assert as_bytes(again.closed) == as_bytes(mine.closed)
        back.close()
    answers = [ask(agent, 3) for agent in agents.values()]
    if privacy is None:
        np.testing.assert_array_equal(answers[0].numbers, answers[1].numbers)
    for agent in agents.values():
        agent.close()


def test_what_is_forgotten_later_is_in_no_batch_of_the_file(silo, rng, tmp_path):
    world, ids = Alone(silo), []
    for t in range(1, 4):
        ids += feed(silo, rng, 3)
        world.update(silo, t)
    X, y = client(silo).samples.X.copy(), client(silo).samples.y.copy()
    silo.forget([ids[0], ids[4], ids[8]])
    back = reopened(silo, tmp_path / "back")
    for update, rows in {1: [1, 2], 2: [3, 5], 3: [6, 7]}.items():
        kept = stored(back)[update]
        every = np.array([0]), np.array([2])
        setting = client(back).setting
        wanted = sums_of(setting, kept.theta, X[rows][None], y[rows][None], *every)[0]
        np.testing.assert_array_equal(kept.batch, wanted)
    assert as_bytes(client(back).batches.closed) == as_bytes(client(silo).batches.closed)
    assert client(back).batches.taken == client(silo).batches.taken == 6
    back.close()


def test_forgetting_withdraws_from_the_update_in_progress(silo, rng):
    ids = feed(silo, rng, 4)
    assert isinstance(ask(silo, 1), BatchSums)
    silo.forget(ids[:1])
    assert ask(silo, 1) == Withdrawal(1)
    assert stored(silo)[1].numbers is None  # the file has it no more
    feed(silo, rng, 1)
    assert isinstance(ask(silo, 2), BatchSums)
    assert silo.status.privacy.releases == 2  # the first may have been sent


def test_the_newest_samples_may_be_forgotten(silo, rng):
    ids = feed(silo, rng, 4)
    Alone(silo).update(silo, 1)
    silo.forget(ids[2:])
    assert client(silo).batches.taken == 2
    feed(silo, rng, 3)
    assert isinstance(ask(silo, 2), BatchSums)
    assert client(silo).batches.taken == 5
    kept = stored(silo)
    assert (kept[2].first_sequence, kept[2].last_sequence) == (4, 7)


def test_after_an_update_the_file_keeps_batches_only_with_noise_and_never_what_was_sent(
    private, rng
):
    feed(private, rng, 4)
    Alone(private).update(private, 1)
    kept = stored(private)[1]
    noise = private._client.agreement.setting.noise
    assert (kept.batch is not None, kept.numbers) == (noise is not None, None)


def test_a_release_waits_for_the_disk(silo, rng):
    """Also where rewards do not: after a power cut there must not be a second one."""
    feed(silo, rng, 2)
    seen: list[str] = []
    silo._client.store._db.set_trace_callback(seen.append)
    ask(silo, 1)
    silo._client.store._db.set_trace_callback(None)
    order = [
        s for s in seen if s.startswith(("PRAGMA synchronous", "INSERT INTO releases", "COMMIT"))
    ]
    assert order[0] == "PRAGMA synchronous=FULL"
    assert order[1].startswith("INSERT INTO releases")
    assert order[2:] == ["COMMIT", "PRAGMA synchronous=NORMAL"]


_OTHER_NOISE = """
import sys, numpy as np, fedglb as fg
from fedglb.federation import Agent
from fedglb.protocol.messages import SumsRequest
algorithm = fg.fedglb_private(6, 10.0, fg.GaussianMechanism(1.0, 1e-6, noise="silo"), 2.0)
np.random.seed(0)
with Agent.open(sys.argv[1], fg.Problem(dim=3), algorithm=algorithm) as agent:
    [answer] = agent._session.receive(SumsRequest("alone", 1, 0))
print(answer.numbers.tolist())
"""


def test_noise_is_the_systems(tmp_path):
    """Two processes with the same seeds and no samples send different numbers."""
    said = [
        subprocess.run(
            [sys.executable, "-c", _OTHER_NOISE, str(tmp_path / f"{k}.db")],
            check=True, capture_output=True, text=True, timeout=300,
        ).stdout
        for k in range(2)
    ]  # fmt: skip
    assert said[0] != said[1]
