"""The agent without a federation: its calls, what it refuses, and when decisions expire."""

from __future__ import annotations

import math
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import (
    Agent,
    AlreadyObserved,
    DecisionExpired,
    Unavailable,
    UnknownDecision,
)
from tests.federation.helpers.agent_driver import Alone, arms, client, feed, state

PROBLEM = fg.Problem(dim=3)
ARMS = np.eye(3)
UCB = fg.fedglb_ucb(threshold=10.0, solver=fg.Newton())


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""

    class Clock:
        now = 1e9

    monkeypatch.setattr("fedglb.federation.agent.application_calls.time.time", lambda: Clock.now)
    return Clock


# -- choose ----------------------------------------------------------------------------------------


def test_the_model_of_a_decision_is_the_one_it_was_made_with(agent, rng):
    feed(agent, rng, 5)
    world = Alone(agent)
    world.update(agent, t=5)
    assert agent.choose(ARMS).model == 1
    assert agent.export()["model"].to_list() == [0] * 5 + [1]


def test_ids_name_the_arm(agent):
    named = agent.choose(ARMS, ids=["x", "y", "z"])
    assert named.arm_id == ["x", "y", "z"][named.arm]
    counted = agent.choose(ARMS, ids=np.arange(10, 13))
    assert counted.arm_id == 10 + counted.arm
    assert type(counted.arm_id) is int
    assert agent.export()["arm_id"].to_list() == [named.arm_id, str(counted.arm_id)]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ids", [["a"], [], ["a", "b", 1.5], ["a", "b", None], [True, False, True],
                 [1, 2, 2**63], ["a", "b", "\ud800"]]),
        ("t", [0, -1, 1.5, True, 2**60]),
        ("key", ["", "x" * 201, 7, b"a", "\ud800"]),
        ("arms", [2.0 * np.eye(3), np.eye(2), np.ones(3) / 3, np.empty((0, 3)),
                  np.full((1, 3), np.nan), [[np.inf, 0.0, 0.0]], "arms", [[1.0, 0.0]], None,
                  [[0.0, 0.0, 1.0 + 2e-6]]]),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_and_nothing_is_written(agent, name, values):
    for value in values:
        with pytest.raises(InvalidInput, match=rf"\b{name}\b.* = "):
            agent.choose(**{"arms": ARMS, name: value})
    assert agent.export().is_empty()


def test_a_shared_clock_is_the_one_that_counts(agent):
    agent.observe(agent.choose(ARMS, t=40).id, 1.0)
    assert client(agent).last_t == 40
    agent.observe(agent.choose(ARMS).id, 1.0)
    assert client(agent).last_t == 41
    agent.observe(agent.choose(ARMS, t=7).id, 1.0)
    assert client(agent).last_t == 41


# -- exploration -----------------------------------------------------------------------------------


def test_exploration_is_around_the_choice_and_not_beside_another(path):
    own = fg.fedglb_auto(choice=fg.EpsilonGreedy(0.1, fg.Ucb("first")))
    with pytest.raises(InvalidInput, match=r"explore = 0\.2: .* EpsilonGreedy\(epsilon=0\.1"):
        Agent.open(path, PROBLEM, algorithm=own, explore=0.2)
    assert not path.exists()
    with Agent.open(path, PROBLEM, algorithm=own) as agent:
        assert client(agent).algorithm == own
        assert {agent.choose(ARMS).propensity for _ in range(100)} == {0.1 / 3, 0.1 / 3 + 0.9}
    around = path.with_name("around.db")
    for share in (0.2, 0.0):  # no fact of the file: each run may have another
        with Agent.open(around, PROBLEM, explore=share) as agent:
            rule = fg.OptimisticThompson()
            choice = fg.EpsilonGreedy(0.2, rule) if share else rule
            assert client(agent).algorithm.choice == choice
            assert agent._client.agreement.algorithm == fg.fedglb_auto()


# -- observe ---------------------------------------------------------------------------------------


def test_rewards_in_any_order_are_learned_in_the_order_in_which_they_come(agent, rng):
    tables = [arms(rng, 3) for _ in range(10)]
    decisions = [agent.choose(table) for table in tables]
    order = rng.permutation(10)[:8]  # two never come
    other = fg.Client("other", client(agent).algorithm, client(agent).setting)
    for step, k in enumerate(order, 1):
        agent.observe(decisions[k].id, float(k % 2))
        other.observe(tables[k][decisions[k].arm], float(k % 2), t=step)
    assert state(agent)["X"] == other.samples.X.tobytes()
    assert state(agent)["state.matrices"] == other.state.matrices.tobytes()
    assert agent.status.samples == 8
    assert agent.export()["outcome"].to_list().count("pending") == 2


@pytest.mark.parametrize("reward", [math.nan, math.inf, -0.1, 1.1, "1", None, True])
def test_bad_rewards_are_refused_and_the_decision_still_waits(agent, reward):
    decision, before = agent.choose(ARMS), state(agent)
    with pytest.raises(InvalidInput, match="reward"):
        agent.observe(decision.id, reward)
    assert state(agent) == before
    assert agent.export()["outcome"].to_list() == ["pending"]
    agent.observe(decision.id, 1)


@pytest.mark.parametrize(
    "wrong", ["", "nonsense", "a-b", "-1", "x-1", 7, None, "x-" + "9" * 30, "x-１", "\ud800-1"]
)
def test_unknown_decisions(agent, wrong):
    agent.choose(ARMS)
    with pytest.raises(
        UnknownDecision,
        match=r"(not a decision's id.*Decision|not in this agent's file.*forgotten)$",
    ):  # no quotes
        agent.observe(wrong, 1.0)
    for call in (agent.forget, agent.activate, lambda ids: agent.observe_ranking(ids, [])):
        with pytest.raises(UnknownDecision):
            call([wrong])
    assert agent.export()["outcome"].to_list() == ["pending"]


def test_a_decision_from_before_a_restart_is_known_by_its_own_id_only(path):
    with Agent.open(path, PROBLEM) as agent:
        first = agent.choose(ARMS)
    with Agent.open(path, PROBLEM) as agent:
        second = agent.choose(ARMS)
        prefix = second.id.split("-")[0]
        assert first.id.split("-")[0] != prefix
        with pytest.raises(UnknownDecision):
            agent.observe(f"{prefix}-1", 1.0)
        agent.observe(first.id, 1.0)
        agent.observe(second.id, 0.0)
        assert agent.export()["reward"].to_list() == [1.0, 0.0]


# -- expiry ----------------------------------------------------------------------------------------


def test_expiry_by_age_to_the_second(path, clock):
    with Agent.open(path, PROBLEM, expire_after=10.0) as agent:
        on_time, late = agent.choose(ARMS), agent.choose(ARMS)
        clock.now += 10.0
        agent.observe(on_time.id, 1.0)
        clock.now += 0.001
        with pytest.raises(DecisionExpired, match="expire_after = 10 s"):
            agent.observe(late.id, 1.0)
        assert agent.export()["outcome"].to_list() == ["observed", "expired"]
        assert agent.export()["x"].to_list()[1] is None
        clock.now -= 5.0  # a clock that is set back revives nothing
        with pytest.raises(DecisionExpired):
            agent.observe(late.id, 1.0)


def test_expiry_by_age_when_the_next_is_made(path, clock):
    with Agent.open(path, PROBLEM, expire_after=10.0) as agent:
        for _ in range(3):
            agent.choose(ARMS)
            clock.now += 5.0
        agent.choose(ARMS)  # 15, 10, 5 and 0 seconds old
        assert agent.export()["outcome"].to_list() == ["expired"] + ["pending"] * 3


def test_expiry_by_number_exactly(path):
    with Agent.open(path, PROBLEM, max_pending=3) as agent:
        first, second, third = (agent.choose(ARMS) for _ in range(3))
        assert set(agent.export()["outcome"]) == {"pending"}  # two newer ones wait
        agent.choose(ARMS)
        with pytest.raises(DecisionExpired, match="max_pending = 3"):
            agent.observe(first.id, 1.0)
        agent.observe(second.id, 1.0)  # makes room
        agent.choose(ARMS)
        agent.observe(third.id, 1.0)


def test_expiry_is_the_same_after_a_restart(path, clock):
    options = {"expire_after": 10.0, "max_pending": 2}
    with Agent.open(path, PROBLEM, **options) as agent:
        first, second = agent.choose(ARMS), agent.choose(ARMS)
    with Agent.open(path, PROBLEM, **options) as agent:
        third = agent.choose(ARMS)
        with pytest.raises(DecisionExpired):
            agent.observe(first.id, 1.0)
        clock.now += 10.0
        agent.observe(second.id, 1.0)
    clock.now += 0.5
    with Agent.open(path, PROBLEM, **options) as agent:
        with pytest.raises(DecisionExpired):
            agent.observe(third.id, 1.0)
        with pytest.raises(AlreadyObserved):
            agent.observe(second.id, 1.0)


def test_no_expiry_by_age(path, clock):
    with Agent.open(path, PROBLEM, expire_after=math.inf) as agent:
        decision = agent.choose(ARMS)
        clock.now += 1e9
        agent.observe(decision.id, 1.0)


def test_expiry_is_counted_and_logged_once_a_minute(path, caplog, monkeypatch):
    with Agent.open(path, PROBLEM, max_pending=2) as agent:
        for _ in range(7):
            agent.choose(ARMS)
        assert agent.status.expired == 5
        assert [r.getMessage().split(":")[0] for r in caplog.records] == [
            "1 decisions have expired without a reward (1 so far)"
        ]
        agent._calls._logged_at -= 60.0  # a minute later
        agent.choose(ARMS)
        assert "5 decisions have expired without a reward (6 so far)" in caplog.text
    with Agent.open(path, PROBLEM, max_pending=2) as agent:
        assert agent.status.expired == 6


def test_many_that_expire_do_so_a_few_at_a_time(path, clock):
    """After a long pause nobody waits until all of them are written."""
    with Agent.open(path, PROBLEM, expire_after=10.0) as agent:
        decisions = [agent.choose(ARMS) for _ in range(250)]
        clock.now += 20.0
        for expected in (100, 200, 250, 250):
            agent.choose(ARMS)
            assert agent.status.expired == expected
        with pytest.raises(DecisionExpired):
            agent.observe(decisions[-1].id, 1.0)


# -- export, status, close -------------------------------------------------------------------------


def test_export_has_every_decision(agent):
    before = time.time()
    one = agent.choose(ARMS, ids=["a", "b", "c"])
    two = agent.choose(ARMS[:2])
    agent.observe(two.id, 0.0)
    frame = agent.export()
    assert frame.columns == [
        "id", "made", "arms", "arm", "arm_id", "x", "score", "width", "propensity", "model",
        "reward", "rewarded", "outcome", "propensity_error", "offered", "record",
        "proposed", "defaulted",
    ]  # fmt: skip
    assert frame["id"].to_list() == [one.id, two.id]
    assert frame["arms"].to_list() == [3, 2]
    assert frame["x"].to_list() == [ARMS[one.arm].tolist(), ARMS[two.arm].tolist()]
    assert frame["score"].to_list() == [one.score, two.score]
    assert frame["width"].to_list() == [one.width, two.width]
    assert frame["reward"].to_list() == [None, 0.0]
    assert frame["outcome"].to_list() == ["pending", "observed"]
    assert frame["rewarded"][0] is None
    assert abs(frame["made"][0].timestamp() - before) < 3600.0 * 24


def test_a_closed_agent_says_so(path):
    agent = Agent.open(path, PROBLEM)
    decision = agent.choose(ARMS)
    agent.close()
    agent.close()
    for call in (
        lambda: agent.choose(ARMS), lambda: agent.observe(decision.id, 1.0), agent.export,
        lambda: agent.forget([decision.id]), lambda: agent.status, agent.request_update,
    ):  # fmt: skip
        with pytest.raises(Unavailable, match="closed"):
            call()


def test_alone_there_is_nobody_to_ask(agent):
    with pytest.raises(Unavailable, match="bundle"):
        agent.request_update()
    status = agent.status
    assert (status.connected, status.admitted, status.refused, status.model) == (
        False, False, None, 0,
    )  # fmt: skip


# -- opening ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"explore": -0.1}, "explore"), ({"explore": 1.1}, "explore"),
        ({"explore": math.nan}, "explore"), ({"durable": "often"}, "durable"),
        ({"expire_after": 0.0}, "expire_after"), ({"max_pending": 0}, "max_pending"),
        ({"max_pending": 1.5}, "max_pending"), ({"beat": 0.0}, "beat"), ({"wait": -1.0}, "wait"),
        ({"log": "maybe"}, "log"), ({"on_full_disk": "maybe"}, "on_full_disk"),
        ({"algorithm": "fedglb"}, "algorithm"), ({"problem": 3}, "problem"),
        ({"algorithm": fg.fedglb_ucb_1(5)}, "horizon"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_before_there_is_a_file(path, wrong, name):
    with pytest.raises(InvalidInput, match=name):
        Agent.open(path, **{"problem": PROBLEM, **wrong})
    assert not path.exists()


@pytest.mark.parametrize(
    ("problem", "algorithm", "name"),
    [
        (fg.Problem(dim=4), None, "problem.dim"),
        (fg.Problem(dim=3, radius=2.0), None, "problem.radius"),
        (fg.Problem(dim=3, link=fg.Probit()), None, "problem.link"),
        (PROBLEM, fg.fedglb_auto(11.0), "algorithm.trigger.threshold"),
        (PROBLEM, fg.fedglb_auto(solver=fg.Newton()), "algorithm.global_update"),
        (PROBLEM, fg.fedglb_ucb(0.1), "algorithm.name"),
    ],
)
def test_a_file_of_another_agreement_is_refused_by_name(path, problem, algorithm, name):
    with Agent.open(path, PROBLEM) as agent:
        agent.observe(agent.choose(ARMS).id, 1.0)
    with pytest.raises(InvalidInput, match=f"^{name}"):
        Agent.open(path, problem, algorithm=algorithm)
    with Agent.open(path, PROBLEM) as agent:  # and let go of
        assert agent.status.samples == 1


def test_what_is_no_agents_file_is_refused_and_left_alone(tmp_path: Path):
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"no database, " * 100)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE theirs(a)")
    db.close()
    for path, why in ((garbage, "not a database"), (foreign, "a file of an agent")):
        before = path.read_bytes()
        with pytest.raises(InvalidInput, match=why):
            Agent.open(path, PROBLEM)
        assert path.read_bytes() == before
    for path in (tmp_path, tmp_path / "no folder" / "a.db"):
        with pytest.raises(InvalidInput, match="path"):
            Agent.open(path, PROBLEM)


def test_the_file_is_nobody_elses_to_read(agent, path):
    agent.choose(ARMS)
    for file in (path, path.with_name(path.name + "-wal")):
        assert file.stat().st_mode & 0o077 == 0


def test_a_width_is_not_below_0_by_rounding(tmp_path):
    """Of a draw below its mean it is, by much more."""
    for name, rule in (("bayes", fg.Bayes()), ("thompson", fg.Thompson())):
        algorithm = fg.fedglb_auto(choice=rule)
        with Agent.open(tmp_path / f"{name}.db", PROBLEM, algorithm=algorithm) as agent:
            found = [agent.choose(ARMS[:1]) for _ in range(30)]
            shown = agent.export()["width"].to_list()
        assert shown == [each.width for each in found]
        if name == "bayes":
            assert found[0].score < 0.0  # the median, by rounding
            assert min(shown) >= 0.0
        else:
            assert min(shown) < -0.01
