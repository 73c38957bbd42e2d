"""Rankings and decisions made ahead of time."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent, AlreadyObserved, UnknownDecision
from tests.federation.helpers.agent_driver import arms, client, feed, state

PROBLEM = fg.Problem(dim=3)
IDS = ["a", "b", "c", "d", "e"]


def test_a_ranking_has_the_best_arms_of_a_rule_without_chance(path, rng):
    ucb = fg.fedglb_ucb(1.0, choice=fg.Ucb("first"))
    with Agent.open(path, PROBLEM, algorithm=ucb) as agent:
        feed(agent, rng, 30)
        offer = arms(rng, 5)
        scores = client(agent).scores(offer)
        ranking = agent.rank(offer, 3, ids=IDS)
        best = np.argsort(-scores)[:3].tolist()
        assert [d.arm for d in ranking] == best
        assert [d.arm_id for d in ranking] == [IDS[k] for k in best]
        assert [d.score for d in ranking] == pytest.approx(scores[best], rel=1e-12)
        rows = agent.export()[-3:]
        assert rows["x"].to_list() == offer[best].tolist()
        assert rows["arms"].to_list() == [5, 4, 3]


def test_each_item_is_a_choice_among_those_that_are_left(path, rng):
    """Propensities are conditional: over many rankings, the shares are theirs."""
    with Agent.open(path, PROBLEM, log="offered") as agent:
        feed(agent, rng, 20)
        offer = arms(rng, 4)
        seen = [agent.rank(offer, 4) for _ in range(150)]
        for ranking in seen:
            assert sorted(d.arm for d in ranking) == [0, 1, 2, 3]
            assert ranking[3].propensity == 1.0
        firsts = np.array([r[0].arm for r in seen])
        for arm in range(4):
            share = float(np.mean(firsts == arm))
            stated = [r[0].propensity for r in seen if r[0].arm == arm]
            if stated:
                assert abs(np.mean(stated) - share) < 0.2
        frame = agent.export()[-4:]
        left = list(range(4))
        for arm, offered, x in frame.select("arm", "offered", "x").iter_rows():
            assert np.array_equal(offered, offer[left])
            assert offered[arm] == x
            left.pop(arm)


@pytest.mark.parametrize("count", [1, 5, 9])
def test_there_are_no_more_items_than_arms(agent, rng, count):
    ranking = agent.rank(arms(rng, 5), count, ids=IDS, exclude=["b", "d"])
    assert len(ranking) == min(count, 3)
    assert {d.arm_id for d in ranking} <= {"a", "c", "e"}
    assert all(IDS[d.arm] == d.arm_id for d in ranking)


def test_the_same_key_gives_the_same_ranking(path, rng):
    offer = arms(rng, 5)
    with Agent.open(path, PROBLEM) as agent:
        first = agent.rank(offer, 3, ids=IDS, exclude=["a"], key="view")
        agent.observe(first[1].id, 1.0)
        assert agent.rank(offer, 3, ids=IDS, exclude=["a"], key="view") == first
    with Agent.open(path, PROBLEM) as agent:
        assert agent.rank(offer, 3, ids=IDS, exclude=["a"], key="view") == first
        for other in (
            lambda: agent.rank(offer, 2, ids=IDS, exclude=["a"], key="view"),
            lambda: agent.rank(offer, 3, ids=IDS, exclude=[first[0].arm_id], key="view"),
            lambda: agent.rank(offer[::-1], 3, ids=IDS, exclude=["a"], key="view"),
            lambda: agent.choose(offer, ids=IDS, exclude=["a"], key="view"),
        ):
            with pytest.raises(InvalidInput) as refused:
                other()
            assert refused.value.argument == "key"
        assert agent.export().height == 3


def test_items_below_the_last_click_are_not_learned(path, rng):
    with Agent.open(path, PROBLEM) as agent:
        shown = [d.id for d in agent.rank(arms(rng, 5), 5)]
        agent.observe_ranking(shown, [shown[3], shown[1]])
        assert agent.export()["reward"].to_list() == [0.0, 1.0, 0.0, 1.0, None]
        assert agent.export()["outcome"].to_list() == ["observed"] * 4 + ["unseen"]
        assert client(agent).samples.y.tolist() == [0.0, 1.0, 0.0, 1.0]
        expected = state(agent)
        with pytest.raises(AlreadyObserved) as again:
            agent.observe_ranking(shown, [shown[3], shown[1]])
        assert again.value.same
        with pytest.raises(AlreadyObserved) as other:
            agent.observe_ranking(shown, [shown[0]])
        assert not other.value.same
        with pytest.raises(AlreadyObserved):
            agent.observe(shown[4], 1.0)
        assert state(agent) == expected
        assert agent._client.waiting == 0
    with Agent.open(path, PROBLEM) as agent:
        assert state(agent) == expected
        assert agent.forget([shown[4], shown[0]]) == 2


def test_without_a_click_all_were_seen(agent, rng):
    shown = [d.id for d in agent.rank(arms(rng, 3), 3)]
    agent.observe_ranking(shown, [])
    assert client(agent).samples.y.tolist() == [0.0, 0.0, 0.0]


def test_items_may_have_been_observed_one_by_one(agent, rng):
    shown = [d.id for d in agent.rank(arms(rng, 4), 4)]
    agent.observe(shown[1], 1.0)
    agent.observe_ranking(shown, [shown[1]])
    assert agent.export()["reward"].to_list() == [0.0, 1.0, None, None]


def test_a_ranking_is_learned_whole_or_not_at_all(agent, rng):
    shown = [d.id for d in agent.rank(arms(rng, 4), 4)]
    agent.observe(shown[2], 1.0)
    before = state(agent)
    for ids, clicked, error in (
        (shown, [shown[0]], AlreadyObserved),  # the third was clicked, and now was not seen
        ([*shown[:2], "nobody-77"], [], UnknownDecision),
        ([shown[0], shown[0]], [], InvalidInput),
        (shown[:2], [shown[3]], InvalidInput),
        ([], [], InvalidInput),
        (shown[0], [], InvalidInput),
        (shown, shown[0], InvalidInput),
        ([[1]], [], UnknownDecision),
        (7, [], InvalidInput),
    ):
        with pytest.raises(error):
            agent.observe_ranking(ids, clicked)
        assert state(agent) == before
    assert agent._client.waiting == 3


@pytest.mark.parametrize("count", [0, -1, 101, 2.5, True])
def test_a_count_out_of_range_is_refused(agent, count):
    with pytest.raises(InvalidInput) as refused:
        agent.rank(np.eye(3), count)
    assert refused.value.argument == "count"
    assert agent.export().height == 0


# -- ahead of time -------------------------------------------------------------------------------


def test_what_is_prefetched_happens_when_it_is_activated(path, rng):
    offer = arms(rng, 3)
    with Agent.open(path, PROBLEM, log="offered") as agent:
        one = agent.choose(offer, ids=["a", "b", "c"], prefetch=True, key="k")
        two = agent.choose(offer, prefetch=True)
        assert agent.choose(offer, ids=["a", "b", "c"], prefetch=True, key="k") == one
        assert agent.export().height == 0
        assert agent._client.waiting == 0
        with pytest.raises(UnknownDecision, match="activate"):
            agent.observe(one.id, 1.0)
    with Agent.open(path, PROBLEM, log="offered") as agent:
        third = agent.choose(offer)
        assert len({one.id, two.id, third.id}) == 3
        assert third.id.endswith("-3")
        agent.activate([one.id])
        agent.activate([one.id, third.id])  # no effect
        assert agent._client.waiting == 2
        agent.observe(one.id, 1.0)
        frame = agent.export()
        assert frame["id"].to_list() == [one.id, third.id]
        assert frame["reward"].to_list() == [1.0, None]
        assert frame["offered"].to_list()[0] == offer.tolist()
        assert agent.choose(offer, ids=["a", "b", "c"], prefetch=True, key="k") == one
        assert agent.forget([two.id]) == 1
        with pytest.raises(UnknownDecision):
            agent.activate([two.id])


def test_all_are_activated_or_none(agent, rng):
    ranking = agent.rank(arms(rng, 4), 3, prefetch=True)
    for wrong, error in ((7, InvalidInput), ("a-1", InvalidInput), ([7], UnknownDecision)):
        with pytest.raises(error):
            agent.activate(wrong)
    with pytest.raises(UnknownDecision):
        agent.activate([*(d.id for d in ranking), "nobody-9"])
    assert agent.export().height == 0
    agent.activate(d.id for d in ranking)
    assert agent.export()["id"].to_list() == [d.id for d in ranking]


def test_what_is_never_activated_never_happened(path, rng):
    with Agent.open(path, PROBLEM, max_pending=5) as agent:
        ahead = [agent.choose(arms(rng, 2), prefetch=True) for _ in range(12)]
        for old in ahead[:7]:
            with pytest.raises(UnknownDecision):
                agent.activate([old.id])
        agent.activate([each.id for each in ahead[7:]])
        assert agent.export().height == 5
        assert agent.status.expired == 0


def test_silence_about_what_has_not_happened_is_none(path, rng):
    with Agent.open(path, PROBLEM, default_reward=0.0, reward_after=0.001) as agent:
        ahead = agent.choose(arms(rng, 2), prefetch=True)
        agent._calls.learn_silence(10)
        assert agent.status.samples == 0
        agent.activate([ahead.id])
        assert agent._silence is not None


def test_a_change_of_the_schema_drops_what_has_not_happened(path):
    old = fg.Features(arm={"price": fg.Number([1, 10])})
    new = fg.Features(arm={"price": fg.Number([1, 5, 10])})
    with Agent.open(path, features=old) as agent:
        ahead = agent.choose([{"price": 3}, {"price": 7}], prefetch=True)
        made = agent.choose([{"price": 3}, {"price": 7}])
    with Agent.open(path, features=new) as agent:
        with pytest.raises(UnknownDecision):
            agent.activate([ahead.id])
        agent.observe(made.id, 1.0)
        assert agent.choose([{"price": 3}, {"price": 7}]).id.endswith("-3")
