"""One-pass updates in a federation: on a schedule, each sample once, a budget that holds."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.agreement import Agreement, AgreementTable
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.status import privacy_of, schedule_of
from fedglb.federation.wire.messages import Admitted, Goodbye, Rejected, Withdrawal
from fedglb.privacy import discrete_gaussian
from fedglb.privacy.accounting import gdp_epsilon
from fedglb.privacy.fixed_point import size
from fedglb.problem_table import ProblemTable
from fedglb.protocol.messages import BatchSums, SumsRequest, SyncRequest
from fedglb.protocol.one_pass import sums_of
from tests.federation.helpers.in_process import Serving
from tests.federation.helpers.lossy_network import (
    DIM,
    PATIENT,
    Harness,
    agreed,
    harness,
    texts,
)
from tests.federation.helpers.nats_federation import PATIENCE, eventually, federation
from tests.federation.helpers.recorded import Simulation

SILO = fg.GaussianMechanism(epsilon=1.0, delta=1e-6, noise="silo")
B, FIRST, GROWTH = 5, 4.0, 1.5
TIMES = [FIRST * GROWTH**k for k in range(B)]


def private(
    privacy: fg.GaussianMechanism | None = SILO,
    updates: int = B,
    growth: float = GROWTH,
    **more: Any,
) -> Agreement:
    algorithm = fg.fedglb_private(updates, first=FIRST, growth=growth, privacy=privacy)
    return agreed(algorithm=algorithm, **more)


def to_the_end(running: Harness, updates: int = B) -> None:
    for k in range(updates):
        running.until(lambda k=k: running.shared(k + 1))
        running.feed(3)


def sent_by(running: Harness, name: str) -> dict[int, set[bytes]]:
    """What a client sent, by update."""
    out: dict[int, set[bytes]] = {}
    for message in running.heard("up", BatchSums, name):
        out.setdefault(message.update, set()).add(message.numbers.tobytes())
    return out


@pytest.fixture
def running(tmp_path):
    """Three agents with noise, each with four samples, before the first update."""
    with harness(tmp_path, agreement=private()) as out:
        out.until(out.everybody_here)
        out.feed()
        yield out


# -- the schedule ------------------------------------------------------------------------------


@pytest.mark.parametrize("privacy", [None, SILO], ids=["plain", "silo"])
def test_updates_come_at_the_agreed_times_and_then_no_more(tmp_path, privacy):
    with harness(tmp_path, agreement=private(privacy)) as running:
        running.until(running.everybody_here)
        running.feed()
        to_the_end(running)
        running.run(100.0)
        requests = running.heard("down", SumsRequest, "a")
        when = [t for t, way, n, m in running.said if way == "down" and m in requests and n == "a"]
        assert [r.update for r in requests] == [1, 2, 3, 4, 5]
        for seen, wanted in zip(when, TIMES, strict=True):
            assert wanted <= seen < wanted + 0.11
        assert running.heard("up", SyncRequest) == []
        [end] = texts(running, "ended")
        assert end.startswith("the schedule of" if privacy is None else "the privacy budget of")
        assert [u.clients for u in running.file.last_updates(B)] == [3] * B


def test_times_of_a_downtime_are_made_up_for_by_one_update(running):
    running.until(lambda: running.shared(1))
    running.stop_for(6.0)  # over the times of updates 2 and 3
    running.until(lambda: running.shared(2))
    assert running.coordinator.t == 3
    assert running.now < TIMES[3]
    running.until(lambda: running.shared(3))
    assert (running.coordinator.t, running.coordinator.finished) == (4, 3)
    running.run(100.0)
    assert (running.coordinator.t, running.coordinator.started) == (5, 4)
    assert texts(running, "ended") == ["the schedule of 5 updates has ended"]


def test_the_start_is_that_of_the_first_coordinator(tmp_path):
    with harness(tmp_path, agreement=private()) as running:
        running.run(2.0)
        running.crash()
        running.run(1.0)
        running.stop()
        assert running.session.driver.timetable.start == 0.0
        running.until(lambda: running.shared(1))
        assert FIRST <= running.now < FIRST + 1.0


def test_an_update_waits_for_a_quorum(tmp_path):
    policy = dataclasses.replace(PATIENT, quorum=2)
    with harness(tmp_path, ["a"], agreement=private(), policy=policy) as running:
        running.run(15.0)
        assert running.coordinator.started == 0
        assert texts(running, "waiting")[0] == "an update is due; 1 present, the quorum is 2"
        running.add("b")
        running.until(lambda: running.shared(1))
        assert running.coordinator.t == B - 1  # of all times that have passed


def test_nobody_can_ask_for_an_update(tmp_path):
    with harness(tmp_path, agreement=private()) as running:
        running.until(running.everybody_here)
        node = running.nodes["a"]
        running.say(node, SyncRequest("a", 1, 0))
        running.run(1.0)
        assert running.coordinator.started == 0
        [answer] = running.heard("down", Rejected)
        assert answer.member
        assert "on an agreed schedule" in answer.reason
        assert node.agent_session.refused == answer.reason
        node.agent_session.ask()  # heartbeats say it, too
        running.run(2.0)
        assert running.coordinator.started == 0
        running.until(lambda: running.shared(1))
        assert node.agent_session.refused is None


# -- what is sent ------------------------------------------------------------------------------


def test_the_models_are_those_of_the_simulation_to_the_bit(tmp_path):
    """Whatever gets lost, doubled or late, and in whatever order answers arrive."""
    names, T = ["a", "b", "c", "d", "e"], 13
    agreement = private(None, updates=4)
    rng = np.random.default_rng(5)
    X = rng.standard_normal((T, len(names), 1, DIM))
    X /= np.linalg.norm(X, axis=-1, keepdims=True)
    y = (rng.random((T, len(names), 1)) < 0.6).astype(float)
    steps = [3, 5, 8, 13]

    env = fg.Recorded(agreement.problem, X, np.full(y.shape, 0.5), rewards=y)
    played = fg.fedglb_private(4, first=3.0, growth=1.6)
    assert played.trigger.steps(played.setting(agreement.problem, 5, T)) == tuple(steps)
    engine = Simulation(played, env, T, 0)
    engine.run()
    models = engine.models

    with harness(
        tmp_path, names, agreement=agreement, loss=0.2, twice=0.2, delay=0.4, seed=3
    ) as running:
        running.until(running.everybody_here)
        done = 0
        for k, step in enumerate(steps):
            for i in rng.permutation(len(names)):
                calls = running.nodes[names[i]].calls
                for t in range(done, step):
                    calls.observe(calls.choose(X[t, i]).id, float(y[t, i, 0]))
            done = step
            running.until(lambda k=k: running.shared(k + 1))
            ours, theirs = running.coordinator.model, models[k]
            for name in ("theta", "matrix", "radius_terms"):
                assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
            for node in running.all():
                base = node.learner.protocol_client.state.base
                assert base.theta.tobytes() == theirs.theta.tobytes()
    assert len(models) == 4


def test_a_lost_update_costs_nothing_without_noise(tmp_path):
    """Its samples are in the next one: the models are those of a federation without the loss."""
    models = []
    for crashes in (False, True):
        with harness(tmp_path / str(crashes), agreement=private(None)) as running:
            running.until(running.everybody_here)
            running.feed()
            if crashes:
                running.lost = lambda way, name, m: isinstance(m, BatchSums) and name == "b"
                running.until(lambda: running.coordinator.started == 1)
                running.run(1.0)
                running.lost = lambda way, name, m: False
                running.crash()
            running.until(lambda: running.shared(1))
            running.feed()
            running.until(lambda c=crashes: running.shared(2 + c))
            models.append(running.coordinator.model)
            assert sorted(running.coordinator.releases) == ([2, 3] if crashes else [1, 2])
    assert models[0].theta.tobytes() == models[1].theta.tobytes()
    assert models[0].matrix.tobytes() == models[1].matrix.tobytes()


def test_a_lossy_network_and_restarts_spend_no_slot_twice(tmp_path):
    rng = np.random.default_rng(0)
    policy = CoordinatorPolicy(quorum=1, time_limit=3.0, absent_after=20.0, grace=4.0)
    with harness(
        tmp_path, agreement=private(updates=12), policy=policy, loss=0.3, twice=0.3, delay=0.6
    ) as running:
        running.until(running.everybody_here)
        while running.session.driver.ended is None and running.now < 2000.0:
            for node in running.all():
                if node.up:
                    node.feed(1)
            running.run(float(rng.uniform(0.1, 4.0)))
            if rng.random() < 0.2:
                running.crash()
            name = str(rng.choice(list(running.nodes)))
            if rng.random() < 0.3 and running.nodes[name].up:
                running.take_down(name)
        running.run(10.0)
        assert running.coordinator.started <= 12
        for node in running.all():
            sent = sent_by(running, node.name)
            assert all(len(each) == 1 for each in sent.values())
            assert set(sent) <= set(range(1, 13))
            spent = node.agent_session.answers.privacy()
            assert spent.last == max(sent)
            assert spent.epsilon <= 1.0
            in_file = node.learner.store.updates.releases()
            assert sorted(in_file) == sorted(sent)


def test_the_budget_holds_under_a_coordinator_that_renumbers(tmp_path, caplog):
    with harness(tmp_path, ["a"], agreement=private()) as running:
        running.until(running.everybody_here)
        to_the_end(running)
        node = running.nodes["a"]
        before = sent_by(running, "a")
        for _ in range(2):
            session = node.agent_session
            for update in (B + 1, B + 100, 2**40):
                request = SumsRequest("a", update, node.model)
                assert session.receive(request) == [Withdrawal(update)]
            for update in range(1, B + 1):  # numbers that were used
                assert session.receive(SumsRequest("a", update, 0)) == [Withdrawal(update)]
            node.close()
            node.open()
        session = node.agent_session
        assert session.receive(SumsRequest("a", B + 1, 0)) == [Withdrawal(B + 1)]
        spent = node.agent_session.answers.privacy()
        assert (spent.releases, spent.last, spent.updates) == (B, B, B)
        assert spent.epsilon == pytest.approx(1.0, abs=1e-9)
        assert spent.refused == "update 6: the privacy budget of 5 updates is spent"
        assert spent.refused in caplog.text
        assert sent_by(running, "a") == before


# -- noise before the request --------------------------------------------------------------


def test_an_answer_draws_nothing_if_its_noise_is_prepared(tmp_path, monkeypatch):
    with harness(tmp_path, ["a"], agreement=private()) as running:
        running.until(running.everybody_here)
        running.feed()
        node, plan = running.nodes["a"], running.agreement.setting.noise
        session = node.agent_session
        session.answers.prepare_noise()
        _, noise = node.learner.noise._ready
        with monkeypatch.context() as no_draw:
            no_draw.delattr(discrete_gaussian, "sample")
            [first] = session.receive(SumsRequest("a", 1, 0))
            batch = node.learner.releases.batches()[1]
            np.testing.assert_array_equal(first.numbers, plan.encoded({1: batch}, 1) + noise)
            with pytest.raises(AttributeError):  # it is used up
                session.receive(SumsRequest("a", 2, 0))
        [second] = session.receive(SumsRequest("a", 2, 0))
        assert isinstance(second, BatchSums)


def test_an_agent_prepares_its_noise_when_it_opens_and_after_each_release(tmp_path):
    given = {"name": "fedglb-private", "updates": 2, "first": 0.1, "growth": 2.0,
             "privacy": {"epsilon": 1.0, "delta": 1e-6, "noise": "silo"}}  # fmt: skip
    table = AgreementTable(2, ProblemTable(DIM), given)
    with federation(tmp_path, "ab", table) as running, ExitStack() as stack:
        problem = table.problem.build()
        agents = [
            stack.enter_context(
                fg.Agent.open(
                    tmp_path / f"{n}.db", problem, bundle=running.bundle(n).folder, beat=0.2
                )
            )
            for n in "ab"
        ]
        sources = [agent._client.noise for agent in agents]
        eventually(lambda: all(each._ready for each in sources), "noise before any request")
        first = [each._ready for each in sources]
        stack.enter_context(Serving(running, tmp_path / "state.db", quorum=2))
        assert all(agent.wait_for_model(1, PATIENCE) for agent in agents)
        eventually(lambda: all(each._ready for each in sources), "noise after a release")
        assert all(each._ready is not old for each, old in zip(sources, first, strict=True))


# -- a coordinator that has lost its file ------------------------------------------------------


def test_a_coordinator_that_lost_its_file_goes_on_with_the_slots_that_are_left(running, tmp_path):
    running.until(lambda: running.shared(2))
    running.file.close()
    for file in tmp_path.glob("coordinator.db*"):
        file.unlink()
    running.begin(after=2)
    running.feed()
    running.until(lambda: running.shared(3))
    request = running.heard("down", SumsRequest, "a")[-1]
    assert (request.update, request.model) == (3, 0)
    running.run(100.0)
    assert running.coordinator.started == B
    assert sorted(running.coordinator.releases) == [3, 4, 5]
    assert set(sent_by(running, "a")) == {1, 2, 3, 4, 5}


# -- bad input ---------------------------------------------------------------------------------


def test_a_client_cannot_make_sums_overflow(tmp_path):
    policy = dataclasses.replace(PATIENT, max_samples=1000)
    with harness(tmp_path, agreement=private(), policy=policy) as running:
        running.until(running.everybody_here)
        running.feed()
        running.lost = lambda way, name, m: isinstance(m, BatchSums) and m.numbers.max() < 2**44
        running.until(lambda: running.coordinator.phase == 1)
        for value in (-(2**63), 2**63 - 1, 2**45):
            numbers = np.full(size(DIM), value)
            with pytest.raises(fg.InvalidInput, match="whole numbers within"):
                running.session._check(BatchSums("a", 1, numbers))
        with pytest.raises(fg.InvalidInput, match="whole numbers within"):
            running.coordinator.receive(BatchSums("a", 1, np.full(size(DIM), -(2**63))))
        running.say(running.nodes["a"], BatchSums("a", 1, np.full(size(DIM), 2**45)))
        running.lost = lambda way, name, m: False
        running.until(lambda: running.shared(1))
        assert texts(running, "excluded") == ["excluded a: invalid message"]


def in_federation(**more: Any) -> dict[str, Any]:
    return {"epsilon": 1.0, "delta": 1e-6, "noise": "silo", **more}


@pytest.mark.parametrize(
    ("privacy", "schedule", "problem", "match"),
    [
        ({"noise": "sums"}, {}, {}, r"privacy.noise = 'sums': .* without secure sums"),
        ({}, {"first": None}, {}, r"first = None: .*seconds"),
        ({}, {"growth": None}, {}, r"growth = None"),
        ({}, {"growth": 10.0, "updates": 400}, {}, r"growth = 10.0: .* a thousand years"),
        ({}, {}, {"link": fg.Poisson()}, r"privacy.reward_limit = None: .* have no bound"),
        ({"epsilon": 1e-12, "delta": 1e-13}, {}, {}, r"privacy.epsilon = 1e-12: .* 64 bits"),
        ({}, {"updates": 3000}, {}, r"updates = 3000"),
    ],
    ids=["sums", "first", "growth", "never", "rewards", "epsilon", "updates"],
)
def test_what_cannot_be_is_refused_by_name(privacy, schedule, problem, match):
    given = {"updates": B, "first": FIRST, "growth": 1.001, **schedule}
    algorithm = fg.fedglb_private(privacy=fg.GaussianMechanism(**in_federation(**privacy)), **given)
    with pytest.raises(fg.InvalidInput, match=match):
        Agreement(fg.Problem(dim=2, noise=1.0, **problem), algorithm, max_clients=3)


def test_the_federations_reward_limit_is_that_of_its_privacy():
    problem = fg.Problem(dim=2, link=fg.Poisson(), noise=1.0)
    algorithm = fg.fedglb_private(B, FIRST, SILO, GROWTH)
    found = Agreement(problem, algorithm, 3, reward_limit=8.0)
    assert found.facts()["algorithm.privacy.reward_limit"] == "8"
    assert found.setting.noise.rewards == (0.0, 8.0)
    own = dataclasses.replace(algorithm, privacy=dataclasses.replace(SILO, reward_limit=5.0))
    assert Agreement(problem, own, 3, reward_limit=8.0).setting.noise.rewards == (0.0, 5.0)


def test_who_differs_in_the_privacy_is_rejected_by_name(tmp_path):
    other = private(dataclasses.replace(SILO, epsilon=2.0))
    assert private().differences(other.facts()) == [
        "algorithm.privacy.epsilon: '2', the federation has '1'"
    ]
    found = private().compare(private(updates=6).facts())
    # and so is how releases are made of batches
    assert {each.name for each in found} == {"algorithm.trigger.updates", "releases"}


# -- an old copy of an agent's file ------------------------------------------------------------


def test_an_old_copy_of_a_file_releases_no_sample_twice(tmp_path, caplog):
    """The coordinator knows of a later release than the file: who says so is believed."""
    with harness(tmp_path, agreement=private(None)) as running:
        running.until(running.everybody_here)
        running.feed()
        running.until(lambda: running.shared(1))
        running.feed(3)
        node = running.nodes["a"]
        node.calls.backup(tmp_path / "old.db")
        running.until(lambda: running.shared(2))
        running.run(1.0)  # heartbeats
        node.close()
        for file in tmp_path.glob("a.db*"):
            file.unlink()
        (tmp_path / "old.db").rename(tmp_path / "a.db")
        running.come_back("a")
        running.until(lambda: node.agent_session.admitted)
        batches = node.learner.protocol_client.batches
        assert (batches.taken, batches.released) == (7, 2)
        assert "the file is an old copy" in caplog.text
        node.feed(2)
        node.close()
        running.come_back("a")  # it is in the file
        running.until(lambda: running.shared(3))
        client = node.learner.protocol_client
        [sent] = sent_by(running, "a")[3]
        rows = np.array([7]), np.array([9])
        theta = node.learner.store.updates.releases()[3].theta
        X, y = client.samples.X[None], client.samples.y[None]
        wanted = sums_of(client.setting, theta, X, y, *rows)[0]
        np.testing.assert_array_equal(np.frombuffer(sent, np.int64), wanted)
        assert texts(running, "restored") != []


def test_what_the_coordinator_knows_of_releases_survives_it_and_not_a_new_file(running, tmp_path):
    running.until(lambda: running.shared(1))
    running.crash()
    assert running.session.driver.released == {"a": 1, "b": 1, "c": 1}
    running.until(running.everybody_here)
    assert {m.released for m in running.heard("down", Admitted)[-3:]} == {1}
    node = running.nodes["a"]
    running.say(node, Goodbye())
    node.close()
    running.run(0.2)
    for file in tmp_path.glob("a.db*"):
        file.unlink()
    running.come_back("a")
    running.until(lambda: node.agent_session.admitted)
    assert running.heard("down", Admitted, "a")[-1].released == 0
    assert running.file.released() == {"b": 1, "c": 1}
    node.feed(2)
    running.until(lambda: running.shared(2))
    assert running.file.released() == {"a": 2, "b": 2, "c": 2}


# -- what an operator sees ---------------------------------------------------------------------


def test_the_status_has_the_schedule_and_what_is_spent(tmp_path):
    plan = private().setting.noise
    with harness(tmp_path, agreement=private()) as running:
        table = schedule_of(running.session)
        assert (table.updates, table.done, table.start, table.next) == (B, 0, 0.0, FIRST)
        assert privacy_of(running.session).spent == 0.0
        running.until(running.everybody_here)
        running.feed()
        running.until(lambda: running.shared(2))
        found = privacy_of(running.session)
        assert found.spent == gdp_epsilon(plan.spent(2), 1e-6)
        assert (found.epsilon, found.delta, found.releases, found.updates) == (1.0, 1e-6, 2, B)
        assert "from the coordinator" in found.protects[0]
        assert schedule_of(running.session).next == pytest.approx(TIMES[2])
        running.run(100.0)
        end = schedule_of(running.session)
        assert (end.next, end.ended) == (None, texts(running, "ended")[0])
        assert privacy_of(running.session).spent == pytest.approx(1.0, abs=1e-9)
        assert ("schedule_start", 0.0) in running.file._db.execute("SELECT * FROM facts").fetchall()
        names = {name for (name,) in running.file._db.execute("SELECT name FROM facts")}
        assert names == {"agreement", "schedule_start", "schedule_done", "released"}
    with harness(tmp_path / "other") as running:
        assert schedule_of(running.session) is None
        assert privacy_of(running.session) is None
