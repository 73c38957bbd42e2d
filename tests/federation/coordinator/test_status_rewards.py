"""Rewards that agents report: only those that agreed to, and only what can be right."""

from __future__ import annotations

import math

import numpy as np

import fedglb as fg
from fedglb.federation import Agent
from fedglb.federation.agent.session import RECENT, RewardTotals
from fedglb.federation.coordinator.rewards import ReportedRewards
from fedglb.federation.wire.messages import Heartbeat
from tests.federation.helpers.lossy_network import texts


def test_an_agent_reports_only_if_it_was_told_to(tmp_path):
    for report in (False, True):
        path = tmp_path / f"{report}.db"
        with Agent.open(path, fg.Problem(dim=2), report_rewards=report) as agent:
            for reward in (1.0, 0.0, 1.0):
                agent.observe(agent.choose([[1.0, 0.0]]).id, reward)
            agent._session.admitted = True
            beat = agent._session.beat()
        assert isinstance(beat, Heartbeat)
        if report:
            assert beat.rewards is not None
            assert beat.rewards.tolist() == [3.0, 2.0, 3.0, 2.0]
        else:
            assert beat.rewards is None


def test_the_recent_ones_are_the_last_thousand():
    totals = RewardTotals()
    for k in range(RECENT + 500):
        totals.add(float(k < 500))
    assert totals.numbers().tolist() == [RECENT + 500, 500.0, RECENT, 0.0]


def test_a_report_reaches_the_status(running):
    node = running.nodes["b"]
    node.agent_session.rewards = RewardTotals()
    node.agent_session.rewards.add(1.0)
    running.until(lambda: running.session.rewards.of("b") is not None)
    assert running.session.rewards.of("b").count == 1
    assert running.session.rewards.of("a") is None
    assert texts(running, "ignored") == []


def test_what_cannot_be_right_is_ignored_and_reported(running):
    running.hear("a", Heartbeat(0, 0, np.array([4.0, 2.0, 4.0, 2.0])))
    running.hear("a", Heartbeat(0, 0, np.array([2.0, 3.0, 1.0, 1.0])))
    assert running.session.rewards.of("a").count == 4
    assert texts(running, "ignored") == [
        "ignored a's report of its rewards: 2 rewards with the sum 3"
    ]
    assert "a" in running.session.members  # it stays a member, and nothing else changes


WRONG = [
    [], [1.0], [1.0, 1.0, 1.0, 1.0, 1.0], [math.nan, 0.0, 0.0, 0.0], [2.0, math.inf, 1.0, 1.0],
    [-1.0, 0.0, 0.0, 0.0], [1.5, 1.0, 1.0, 1.0], [1e300, 1.0, 1.0, 1.0], [2.0, 3.0, 1.0, 1.0],
    [2.0, -1.0, 1.0, 1.0], [2.0, 1.0, 3.0, 1.0], [5.0, 1.0, 1.0, 2.0], [2.0**60, 0.0, 0.0, 0.0],
]  # fmt: skip


def test_numbers_that_are_no_rewards():
    reported = ReportedRewards((0.0, 1.0))
    for numbers in WRONG:
        assert reported.objection("a", "s", np.array(numbers)) is not None, numbers
    assert reported.of("a") is None


def test_a_count_that_falls_is_ignored_unless_the_agent_has_restarted():
    reported = ReportedRewards((0.0, 1.0))
    assert reported.objection("a", "s1", np.array([9.0, 3.0, 9.0, 3.0])) is None
    assert reported.objection("a", "s1", np.array([8.0, 3.0, 8.0, 3.0])) == "8 rewards after 9"
    assert reported.objection("a", "s2", np.array([1.0, 1.0, 1.0, 1.0])) is None
    assert reported.of("a").count == 1


def test_rewards_without_bounds_may_be_large_but_not_absurd():
    reported = ReportedRewards((-math.inf, math.inf))
    assert reported.objection("a", "s", np.array([2.0, -1e6, 2.0, -1e6])) is None
    assert reported.objection("a", "s", np.array([2.0, 1e300, 2.0, 0.0])) is not None
