"""An agent that chooses with an earlier model: its choices are that model's, and it learns on."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from fedglb.federation.wire.messages import Freeze
from tests.federation.helpers.agent_driver import Alone, arms, copied, feed, killed, state

PROBLEM = fg.Problem(dim=3)
UCB = fg.fedglb_ucb(threshold=10.0, solver=fg.Newton())


class Updated:
    """An agent after some updates, with five samples more in each, and one copy after the first."""

    def __init__(self, path, rng, updates, algorithm=UCB, **more) -> None:
        self.agent = Agent.open(path, PROBLEM, algorithm=algorithm, **more)
        self.alone, self.rng = Alone(self.agent), rng
        self.ids: list[str] = []
        for k in range(updates):
            self.more()
            if k == 0:
                self.agent.backup(path.with_name("one.db"))

    def more(self) -> None:
        self.ids += feed(self.agent, self.rng, 5)
        self.alone.update(self.agent, t=len(self.ids))

    @property
    def kept(self) -> list[int]:
        return self.agent._client.store.updates.kept_models()


@pytest.mark.parametrize("algorithm", [UCB, fg.fedglb_mix(threshold=10.0)])
def test_choices_are_those_of_the_earlier_model(path, rng, tmp_path, algorithm):
    here = Updated(path, rng, 3, algorithm, explore=0.3)
    with here.agent as agent, Agent.open(tmp_path / "one.db", PROBLEM, algorithm=algorithm) as one:
        frozen = agent.freeze(1)
        assert (frozen.update, frozen.by) == (1, "agent")
        assert agent.status.frozen == frozen
        ids, others = ["x", "y", "z", "u", "v"], 0
        for _ in range(60):
            table = arms(rng, 5)
            wanted, made = one.choose(table, ids), agent.choose(table, ids)
            greedy = made.arm == wanted.arm
            others += not greedy
            assert made.propensity == pytest.approx(0.3 / 5 + 0.7 * greedy, abs=1e-12)
            assert made.model == wanted.model == 1
            if greedy:
                assert (made.score, made.width) == (wanted.score, wanted.width)
            agent.observe(made.id, 1.0)
        assert others
        assert [p.estimate for p in agent.preview(table)] == [
            p.estimate for p in one.preview(table)
        ]
        assert (agent.model().update, agent.status.samples) == (3, 75)
        agent.unfreeze()
        assert agent.status.frozen is None
        assert agent.choose(table).model == 3


def test_it_learns_as_if_it_were_not_frozen(path, rng, tmp_path):
    """Also the name of an arm that only the newest model knows, and no decision since the start."""
    here = Updated(path, rng, 1, None)
    item = arms(rng, 1)
    with here.agent as agent:
        for _ in range(5):
            agent.observe(agent.choose(item).id, 1.0)
        here.alone.update(agent, t=20)
        twin = copied(path, tmp_path / "twin.db")
    with Agent.open(path, PROBLEM) as agent, Agent.open(twin, PROBLEM) as other:
        agent.freeze(1)
        for each in (agent, other):
            alone = Alone(each)
            alone.coordinator.started = alone.coordinator.finished = 2
            each.observe(each.choose(item).id, 0.0)
            alone.update(each, t=30)
        assert agent._client.protocol_client.samples.X[-1, -1] >= 0.0  # it has its name
        assert (agent.status.model, agent.choose(item).model) == (3, 1)
        assert state(agent) == state(other)


def test_the_last_ten_are_kept_and_the_frozen_one(path, rng):
    here = Updated(path, rng, 11)
    with here.agent as agent:
        assert here.kept == list(range(2, 12))
        with pytest.raises(InvalidInput, match=r"update = 1: expected .* kept: 2, 3, .*, 11$"):
            agent.freeze(1)
        for bad in (0, -1, 1.0, True, "2"):
            with pytest.raises(InvalidInput, match=r"^update = "):
                agent.freeze(bad)
        assert agent.status.frozen is None
        agent.freeze(2)
        here.more()
        assert here.kept == list(range(3, 13))
    with Agent.open(path, PROBLEM, algorithm=UCB) as agent:  # also after a restart
        assert agent.status.frozen.update == 2
        assert agent.choose(np.eye(3)).model == 2
        assert agent.freeze().update == 12
        assert agent.choose(np.eye(3)).model == 12


def test_without_a_model_there_is_nothing_to_freeze(path):
    with Agent.open(path, PROBLEM) as agent:
        with pytest.raises(InvalidInput, match="update = None: expected none yet: no model"):
            agent.freeze()
        agent.unfreeze()  # no effect


def test_forgotten_samples_are_in_no_kept_model(path, rng, caplog):
    caplog.set_level("WARNING", "fedglb")
    here = Updated(path, rng, 4)
    with here.agent as agent:
        agent.freeze(2)
        agent.forget([here.ids[15]])  # of update 4
        assert here.kept == [1, 2, 3]
        assert agent.choose(np.eye(3)).model == 2
        with pytest.raises(InvalidInput, match="kept: 1, 2, 3"):
            agent.freeze()  # the newest was fitted with it
        assert not caplog.records
        agent.forget([here.ids[5]])  # of update 2
        assert here.kept == [1]
        assert agent.status.frozen is None
        assert [r.levelname for r in caplog.records] == ["WARNING"]
        assert "no longer frozen at the model of update 2" in caplog.text
        assert agent.choose(np.eye(3)).model == 4
        here.more()
        assert here.kept == [1, 5]  # and update 4 is gone


def test_another_schema_ends_it(tmp_path, caplog):
    first = fg.Features(arm={"price": fg.Number([5, 50])})
    second = fg.Features(arm={"price": fg.Number([5, 20, 50])})
    path = tmp_path / "shop.db"
    with Agent.open(path, features=first) as agent:
        agent.absorb([{"price": 7.0}, {"price": 30.0}] * 4, [1.0, 0.0] * 4)
        Alone(agent).update(agent, t=8)
        agent.freeze()
    with Agent.open(path, features=second) as agent:
        assert agent.status.frozen is None
        with pytest.raises(InvalidInput, match="no model"):
            agent.freeze()
        assert agent.choose([{"price": 7.0}]).model == 1


# -- the operator ----------------------------------------------------------------------------------


def word(here: Updated, update: int) -> Freeze:
    return Freeze(update, 1, here.alone.coordinator.model)


def test_the_operators_word_comes_first(path, rng):
    here = Updated(path, rng, 3)
    with here.agent as agent:
        at_three = word(here, 3)
        here.more()
        agent.freeze(1)
        for _ in range(2):  # and once more: nothing changes
            assert agent._session.receive(at_three) == []
            frozen = agent.status.frozen
            assert (frozen.update, frozen.by) == (3, "operator")
            assert agent.choose(np.eye(3)).model == 3
        assert agent._session.beat().frozen == 3
        agent.unfreeze()
        agent.freeze(2)
        assert agent.status.frozen == frozen
        agent.forget(here.ids[:1])  # its own word ends, and the operator's stays
        assert agent.status.frozen == frozen
    with Agent.open(path, PROBLEM, algorithm=UCB) as agent:
        assert agent.status.frozen == frozen
        assert agent._session.receive(Freeze(0)) == []
        assert agent.status.frozen is None
        agent._session.admitted = True
        assert agent._session.beat().frozen == 0


def test_an_invalid_word_changes_nothing(path, rng, caplog):
    here = Updated(path, rng, 2)
    with here.agent as agent:
        model = here.alone.coordinator.model
        wrong = replace(model, matrix=-model.matrix)
        for message in (Freeze(2), Freeze(0, 1, model), Freeze(2, 1, wrong)):
            caplog.clear()
            assert agent._session.receive(message) == []
            assert "ignored an invalid message" in caplog.text
            assert agent.status.frozen is None


# -- without exploration ---------------------------------------------------------------------------


def test_a_decision_without_exploration(path, rng):
    here = Updated(path, rng, 2, explore=1.0)
    with here.agent as agent:
        table, ids = arms(rng, 6), list("abcdef")
        plain = [agent.choose(table, ids, explore=0.0) for _ in range(20)]
        assert {(d.arm, d.propensity) for d in plain} == {(plain[0].arm, 1.0)}
        drawn = [agent.choose(table, ids) for _ in range(40)]
        assert {d.propensity for d in drawn} == {1.0 / 6.0}
        assert len({d.arm for d in drawn}) > 1
        half = [agent.choose(table, ids, explore=0.5) for _ in range(40)]
        assert {d.propensity for d in half} == {0.5 + 0.5 / 6.0, 0.5 / 6.0}
        agent.freeze(1)
        assert agent.choose(table, ids, explore=0.0).propensity == 1.0
        count = agent.export().height
        for bad in (-0.1, 1.1, "0"):
            with pytest.raises(InvalidInput, match=r"^explore = "):
                agent.choose(table, explore=bad)
        assert agent.export().height == count


# -- kill -9 ---------------------------------------------------------------------------------------

_BEFORE = """
from tests.federation.helpers.agent_driver import Alone, feed
rng = np.random.default_rng(1)
alone = Alone(agent)
for k in (1, 2):
    feed(agent, rng, 5)
    alone.update(agent, t=5 * k)
"""
_CALLS = {
    "freeze": "agent.freeze(1)",
    "again": "agent.freeze(1); agent.freeze(2)",
    "unfreeze": "agent.freeze(2); agent.unfreeze()",
    "adopt": "agent.freeze(1); feed(agent, rng, 5); alone.update(agent, t=15)",
    "forget": "agent.freeze(1); agent.forget([agent.export()['id'][0]])",
}
#: What may be found after a death at a moment of each call: the frozen model, and the newest.
_AFTER = {
    ("freeze", "REPLACE INTO frozen"): (None, 2),
    ("freeze", "after"): (1, 2),
    ("again", "after"): (2, 2),
    ("unfreeze", "DELETE FROM frozen"): (2, 2),
    ("unfreeze", "after"): (None, 2),
    ("adopt", "INSERT INTO models"): (1, 2),
    ("adopt", "DELETE FROM models"): (1, 2),
    ("adopt", "COMMIT"): (1, 2),
    ("adopt", "after"): (1, 3),
    ("forget", "UPDATE models"): (1, 2),
    ("forget", "DELETE FROM frozen"): (1, 2),
    ("forget", "after"): (None, 2),
}


@pytest.mark.parametrize(
    ("call", "moment"), random.Random(1).sample(sorted(_AFTER), len(_AFTER)), ids=str
)
def test_killed_it_is_as_before_or_as_after(path, call, moment):
    killed(path, moment, _BEFORE, _CALLS[call])
    with Agent.open(path, PROBLEM) as agent:
        frozen, newest = _AFTER[call, moment]
        found = agent.status.frozen
        assert (None if found is None else found.update, agent.status.model) == (frozen, newest)
        assert agent.choose(np.eye(3)).model == (frozen or newest)
