"""An apprentice: another system decides, the agent learns and notes what it would have played."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from tests.federation.helpers.agent_driver import arms, client, feed

PROBLEM = fg.Problem(dim=3)
TABLE = np.eye(3)


def test_it_learns_from_what_was_played(path, rng):
    ucb = fg.fedglb_ucb(1.0, choice=fg.Ucb("first"))
    with Agent.open(path, PROBLEM, algorithm=ucb) as agent:
        feed(agent, rng, 20)
        offer = arms(rng, 4)
        scores = client(agent).scores(offer)
        best, other = int(np.argmax(scores)), int(np.argmin(scores))
        made = agent.choose(offer, ids=list("abcd"), played=other, propensity=0.25)
        assert (made.arm, made.arm_id, made.proposed) == (other, "abcd"[other], best)
        assert (made.propensity, made.propensity_error) == (0.25, 0.0)
        assert made.score == pytest.approx(scores[other], rel=1e-12)
        agent.observe(made.id, 1.0)
        assert np.array_equal(client(agent).samples.X[-1], offer[other])
        row = agent.export()[-1]
        assert (row["arm"].item(), row["proposed"].item()) == (other, best)


def test_excluded_arms_and_a_key(agent, rng):
    offer, ids = arms(rng, 4), list("abcd")
    given = {"ids": ids, "exclude": ["a", "c"], "played": 3, "key": "view"}
    made = agent.choose(offer, **given)
    assert made.arm == 3
    assert made.proposed in (1, 3)
    assert math.isnan(made.propensity)
    again = agent.choose(offer, **given)
    assert (again.id, again.arm, again.proposed) == (made.id, 3, made.proposed)
    for other in ({"played": 1}, {"played": None}):
        with pytest.raises(InvalidInput):
            agent.choose(offer, **given | other)
    with pytest.raises(InvalidInput) as refused:
        agent.choose(offer, **given | {"played": 0})
    assert refused.value.argument == "played"


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"played": 3}, "played"),
        ({"played": -1}, "played"),
        ({"played": 1.5}, "played"),
        ({"propensity": 0.5}, "propensity"),
        ({"played": 1, "propensity": 0.0}, "propensity"),
        ({"played": 1, "propensity": 1e-101}, "propensity"),
        ({"played": 1, "propensity": 1.1}, "propensity"),
        ({"played": 1, "propensity": math.nan}, "propensity"),
        ({"played": 1, "prefetch": True}, "played"),
    ],
)
def test_invalid_requests_write_nothing(agent, given, argument):
    with pytest.raises(InvalidInput) as refused:
        agent.choose(TABLE, **given)
    assert refused.value.argument == argument
    assert agent.export().height == 0


def by_hand(rows) -> tuple[float, float, float, float]:
    """The agent's value, its error, the difference and its error, from the definition."""
    r = np.array([row["reward"] for row in rows])
    w = np.array([(row["proposed"] == row["arm"]) / row["propensity"] for row in rows])
    v, n = float(w @ r / w.sum()), len(r)
    terms = v + w * (r - v) / w.mean()
    gap = terms - r
    root = math.sqrt(n)
    return v, terms.std(ddof=1) / root, v - r.mean(), gap.std(ddof=1) / root


def shadow(agent, rng, count, weights=(0.2, 0.5, 0.3)) -> None:
    chances = np.array([0.1, 0.4, 0.7])
    for _ in range(count):
        k = int(rng.choice(3, p=weights))
        made = agent.choose(TABLE, played=k, propensity=weights[k])
        agent.observe(made.id, float(rng.random() < chances[k]))


def test_the_comparison_is_that_of_its_definition(agent, rng):
    shadow(agent, rng, 400)
    feed(agent, rng, 5)  # its own decisions do not count
    found = agent.compare()
    rows = [row for row in agent.export().iter_rows(named=True) if row["proposed"] is not None]
    value, error, gap, gap_error = by_hand(rows)
    assert found.decisions == 400
    assert found.agreed == np.mean([row["proposed"] == row["arm"] for row in rows])
    assert found.other.value == pytest.approx(np.mean([row["reward"] for row in rows]))
    assert found.agent.value == pytest.approx(value, rel=1e-9)
    assert found.agent.high - found.agent.low == pytest.approx(2 * 1.959964 * error, rel=1e-6)
    assert found.difference.value == pytest.approx(gap, rel=1e-9)
    width = found.difference.high - found.difference.low
    assert width == pytest.approx(2 * 1.959964 * gap_error, rel=1e-6)


def test_an_agent_that_has_learned_would_have_done_better(agent, rng):
    """True means: 0.43 for the other system, up to 0.7 for the agent."""
    shadow(agent, rng, 2000)
    found = agent.compare()
    assert found.verdict == "the agent would have done better"
    assert found.caveats == ()
    assert abs(found.other.value - 0.43) < 0.05
    assert 0.55 < found.agent.value < 0.75


@pytest.mark.slow
def test_intervals_cover(tmp_path):
    """The agent's value at the time of each decision is known here: coverage is near 95 %."""
    inside = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        with Agent.open(tmp_path / f"{seed}.db", PROBLEM) as agent:
            shadow(agent, rng, 300, (1 / 3, 1 / 3, 1 / 3))
            proposed = agent.export()["proposed"].to_numpy()
            truth = np.array([0.1, 0.4, 0.7])[proposed].mean()
            found = agent.compare().agent
            inside += found.low <= truth <= found.high
    assert inside >= 51  # P(fewer | 95 %) < 0.002


def test_nothing_to_compare(agent):
    found = agent.compare()
    assert (found.decisions, found.agreed, found.agent) == (0, None, None)
    assert found.verdict.startswith("too early")
    agent.choose(TABLE, played=1, propensity=0.5)  # no reward yet
    assert agent.compare().decisions == 0


def test_what_speaks_against_it_is_said(path, rng):
    with Agent.open(path, PROBLEM) as agent:
        for _ in range(30):
            agent.observe(agent.choose(TABLE, played=1).id, 1.0)
        found = agent.compare()
        assert found.agent is None
        assert "30 of 30 decisions have no propensity" in found.caveats[0]
        assert found.other.value == 1.0
        for k in range(300):
            agent.observe(agent.choose(TABLE, played=0, propensity=1.0).id, float(k % 2))
        found = agent.compare()
        assert any("could only play one arm" in text for text in found.caveats)


def test_numbers_whose_squares_are_none(path):
    """Rewards and propensities as extreme as `choose` and `observe` take them."""
    with Agent.open(path, fg.Problem(dim=3, link=fg.Identity())) as agent:
        for reward in (1.0, 0.0):
            made = agent.choose(TABLE[:1], played=0, propensity=1e-100)
            agent.observe(made.id, reward)
        found = agent.compare()
        assert found.agent.value == found.other.value == pytest.approx(0.5)
        assert found.effective == pytest.approx(2.0)
        agent.observe(agent.choose(TABLE[:1], played=0, propensity=1e-100).id, 1e200)
        found = agent.compare()
        assert (found.decisions, found.agent, found.other, found.difference) == (
            3,
            None,
            None,
            None,
        )
        assert found.verdict.startswith("too early")
