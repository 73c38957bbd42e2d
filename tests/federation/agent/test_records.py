"""Records in an agent that is alone: what is chosen, learned, kept, shown and forgotten."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent
from fedglb.federation.agent import own_updates, schema_change
from fedglb.federation.agent.store import AgentStore
from fedglb.federation.errors import DecisionExpired
from tests.federation.helpers.agent_driver import client, copied, state
from tests.federation.helpers.nats_federation import PATIENCE
from tests.federation.helpers.shop import (
    EQUAL,
    NEW,
    OLD,
    calm,
    item,
    learned,
    no_updates,
    past,
    visit,
    visitor,
)

ARMS = [{"kind": "shoes", "price": 7.5}, {"kind": "books", "price": None}, {"kind": "toys"}]
IDS = ["x", "y", 3]
CONTEXT = {"country": "DE"}
UCB = fg.fedglb_ucb(1.0, fg.Newton())


@pytest.fixture(params=[None, UCB], ids=["auto", "ucb"])
def shop(request, path) -> Iterator[Agent]:
    with Agent.open(path, features=OLD, algorithm=request.param, explore=0.3) as out:
        yield no_updates(out)


def rows(path: Path, what: str) -> list[tuple]:
    """Read a file that an agent has open."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return db.execute(what).fetchall()
    finally:
        db.close()


def whole(path: Path) -> list[tuple]:
    """All that a file has."""
    tables = [t for (t,) in rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [(table, row) for table in tables for row in rows(path, f"SELECT * FROM {table}")]


def test_records_are_the_vectors_that_the_schema_makes_of_them(tmp_path):
    rng = np.random.default_rng(0)
    with (
        Agent.open(tmp_path / "a.db", features=OLD) as one,
        Agent.open(tmp_path / "b.db", features=OLD) as other,
    ):
        no_updates(one), no_updates(other)
        for k in range(30):
            arms, context = [item(rng) for _ in range(3)], visitor(rng)
            made = one.choose(arms, IDS, context=context)
            x = OLD.encode(arms, context)[made.arm]
            again = other.choose([x], [IDS[made.arm]])
            one.observe(made.id, float(k % 2))
            other.observe(again.id, float(k % 2))
        assert {k: v.tobytes() for k, v in learned(one).items()} == {
            k: v.tobytes() for k, v in learned(other).items()
        }
        assert one.export()["x"].to_list() == other.export()["x"].to_list()
        assert other.export()["record"].null_count() == 30


def test_without_ids_an_arm_is_known_by_its_record(shop):
    """Two records that are encoded alike are two arms."""
    alike = [{"kind": "toys", "price": 90.0}, {"kind": "games", "price": 99.0}]
    assert np.array_equal(*OLD.encode(alike))
    for k in range(12):
        shop.observe(shop.choose([alike[k % 2]]).id, float(k % 2))
    if not client(shop).setting.effect_ridge:
        return
    names = client(shop).samples.X[:, -1]
    assert len({*names[-6::2]}) == len({*names[-5::2]}) == 1
    assert names[-1] != names[-2]
    low, high = (shop.preview([each])[0].estimate for each in alike)
    assert high > low + 0.05


def test_absorbed_records_teach_what_decisions_teach(tmp_path):
    arms, rewards, contexts, ids = past(1, 25)
    found = []
    for name in "ab":
        with Agent.open(tmp_path / name, features=OLD) as agent:
            no_updates(agent)
            if name == "a":
                visit(agent, 1, 0, 25)
            else:
                assert agent.absorb(arms, rewards, contexts=contexts, ids=ids, key="k") == 25
                assert agent.absorb(arms, rewards, contexts=contexts, ids=ids, key="k") == 0
            found.append((learned(agent), agent.export()))
    (one, log), (other, absorbed) = found
    assert all(one[k].tobytes() == other[k].tobytes() for k in one)
    kept = [json.loads(each) for each in absorbed["record"]]
    assert kept == [{"arm": a, "context": c} for a, c in zip(arms, contexts, strict=True)]
    assert [json.loads(each) for each in log["record"]] == kept
    assert absorbed["outcome"].unique().to_list() == ["absorbed"]


def test_what_is_excluded_is_not_played(shop, path):
    for k in range(30):
        made = shop.choose(ARMS, IDS, context=CONTEXT, exclude=["y"], key=f"k{k}")
        assert (made.arm, made.arm_id) in [(0, "x"), (2, 3)]
        again = shop.choose(ARMS, IDS, context=CONTEXT, exclude=["y"], key=f"k{k}")
        assert again == made
        shop.observe(made.id, 1.0)
    log = shop.export()
    assert set(log["arms"]) == {2}
    assert set(log["arm"]) == {0, 1}  # of those that were left
    assert set(log["arm_id"]) == {"x", "3"}
    for k, record in enumerate(log["record"]):
        kept = json.loads(record)
        assert {kept["arm"]["kind"], kept["runner_up"]["kind"]} == {"shoes", "toys"}, k
    with pytest.raises(fg.InvalidInput, match="another request"):
        shop.choose(ARMS, IDS, context=CONTEXT, key="k1")
    with pytest.raises(fg.InvalidInput, match="another request"):
        shop.choose(ARMS, IDS, context={"country": "FR"}, exclude=["y"], key="k1")
    for exclude, ids in ((IDS, IDS), (["x"], None), ("x", IDS), (["x"], IDS[:2])):
        with pytest.raises(fg.InvalidInput, match="exclude"):
            shop.choose(ARMS, ids, context=CONTEXT, exclude=exclude)
    assert len(rows(path, "SELECT 1 FROM decisions")) == 30


@pytest.mark.parametrize(
    ("arms", "context", "said"),
    [
        ([{"kind": 3}], None, r"arms\[0\].kind = 3"),
        ([{"kind": "toys"}, {"price": "7"}], None, r"arms\[1\].price = '7'"),
        ([{"price": float("nan")}], None, r"arms\[0\].price = nan"),
        ([{"kind": "toys"}, [1.0]], None, r"arms\[1\]"),
        ([{"kind": "toys"}], {"country": 1}, r"context.country = 1"),
        ([{"kind": "toys"}], 3, "context"),
        ([], {"country": "DE"}, "arms"),
        ([{"kind": "toys", "other": {1: 2, "a": 3}}], None, "record"),
    ],
)
def test_wrong_records_leave_the_file_as_it_is(shop, path, arms, context, said):
    visit(shop, 1, 0, 3)
    before, known = whole(path), state(shop)
    with pytest.raises(fg.InvalidInput, match=said):
        shop.choose(arms, context=context)
    with pytest.raises(fg.InvalidInput):
        shop.absorb(arms or [3], [1.0] * max(1, len(arms)), contexts=[context] * len(arms))
    assert (whole(path), state(shop)) == (before, known)


def test_absorb_takes_all_records_or_none(shop, path):
    arms, rewards, contexts, ids = past(1, 6)
    before, known = whole(path), state(shop)
    wrong = [
        ([*arms[:5], {"kind": 1}], rewards, contexts, ids, r"arms\[5\].kind"),
        (arms, rewards, contexts[:5], ids, "contexts"),
        (arms, [*rewards[:5], 7.0], contexts, ids, r"y\[5\]"),
        (arms, rewards, contexts, ids[:5], "ids"),
        (arms, rewards, [*contexts[:5], "DE"], ids, r"contexts\[5\]"),
    ]
    for X, y, c, names, said in wrong:
        with pytest.raises(fg.InvalidInput, match=said):
            shop.absorb(X, y, contexts=c, ids=names)
        assert (whole(path), state(shop)) == (before, known)


def test_fields_that_the_schema_does_not_have_are_counted_or_refused(tmp_path):
    arm = {"kind": "toys", "price": 3.0, "shelf": 9}
    with Agent.open(tmp_path / "a.db", features=OLD) as agent:
        agent.choose([arm, ARMS[0]], context={"country": "DE", "age": 3, "name": "x"})
        assert agent.status.ignored == 3
        agent.absorb([arm], [1.0])
        assert agent.status.ignored == 4
        kept = json.loads(agent.export()["record"][0])
        assert kept["context"] == {"country": "DE", "age": 3, "name": "x"}
    with Agent.open(tmp_path / "b.db", features=OLD, strict=True) as agent:
        with pytest.raises(fg.InvalidInput, match=r"arms\[1\].shelf = 9"):
            agent.choose([ARMS[0], arm])
        with pytest.raises(fg.InvalidInput, match="age"):
            agent.choose(ARMS, context={"age": 3})
        with pytest.raises(fg.InvalidInput, match=r"arms\[0\].shelf"):
            agent.absorb([arm], [1.0])
        assert (agent.export().height, agent.status.ignored) == (0, 0)


def test_an_agent_without_a_schema_takes_no_records(path):
    with Agent.open(path, fg.Problem(dim=2)) as agent:
        for call in (lambda: agent.choose(ARMS), lambda: agent.absorb(ARMS, [1.0] * 3)):
            with pytest.raises(fg.InvalidInput, match="opened without features"):
                call()
        assert agent.export().height == 0


def test_values_of_numpy_are_kept_as_numbers(shop):
    made = shop.choose([{"price": np.float32(7.5), "shelf": np.int64(3)}], context={})
    kept = json.loads(shop.export()["record"][0])
    assert kept == {"arm": {"price": 7.5, "shelf": 3}, "context": {}}
    shop.observe(made.id, 1.0)


def test_an_expired_decision_keeps_no_record(path):
    with Agent.open(path, features=OLD, max_pending=2, log="offered") as agent:
        made = [agent.choose(ARMS, IDS, context={"country": f"land-{k}"}) for k in range(5)]
        assert agent.export()["record"].is_null().to_list() == [True] * 3 + [False] * 2
        assert agent.export()["offered"].is_null().to_list() == [True] * 3 + [False] * 2
        assert [r[0] is None for r in rows(path, "SELECT record FROM decisions")] == [True] * 3 + [
            False
        ] * 2
        for call in (agent.explain, lambda id_: agent.observe(id_, 1.0)):
            with pytest.raises(DecisionExpired):
                call(made[0].id)


@pytest.mark.parametrize("kept", ["chosen", "offered"])
@pytest.mark.parametrize("size", [1, 500])
def test_forgotten_records_are_gone_from_the_bytes_of_both_files(path, kept, size):
    """Also those that are longer than a page."""
    rng = np.random.default_rng(11)
    words = [rng.bytes(12).hex() for _ in range(400)]
    with Agent.open(path, features=OLD, log=kept, max_pending=150) as agent:
        no_updates(agent)
        made = []
        for k, word in enumerate(words):
            others = [f"{word}-{n}" for n in ("shown", "user", "fill")]
            arms = [{"kind": word}, {"kind": others[0]}]
            long = {"country": others[1], "notes": [others[2]] * size}
            made.append(agent.choose(arms, [k, f"id-{word}"], context=long))
            if k % 2:
                agent.observe(made[-1].id, 1.0)
        assert agent.status.expired == 51
        alive = [k for k in range(400) if k % 2 or k > 100]
        gone = rng.choice(alive, 150, replace=False)
        agent.forget(made[k].id for k in gone)
        folder = copied(path, path.parent / "copy").parent
        data = b"".join(f.read_bytes() for f in folder.iterdir())
        left = set(alive) - set(gone.tolist())
        assert all(words[k].encode() in data for k in left)
        assert sum(words[k].encode() in data for k in gone) == 0


# -- looking inside ------------------------------------------------------------------------------


def test_weights_are_what_a_feature_adds_where_it_is_fully_present(shop):
    visit(shop, 1, 0, 60)
    model, learner = shop.model(), client(shop)
    theta, scale = learner.state.centre, OLD.encode([{}])[0][0]  # all blocks weigh the same
    assert [w.feature for w in model.weights] == list(OLD.names)
    assert [w.weight for w in model.weights] == pytest.approx((theta * scale).tolist(), rel=1e-12)
    assert all(w.sd > 0.0 for w in model.weights)
    assert (model.update, model.samples) == (0, 60)
    ratio = [abs(w.weight) / w.sd for w in model.strongest(5)]
    assert ratio == sorted(ratio, reverse=True)
    assert ratio[0] == max(abs(w.weight) / w.sd for w in model.weights)
    # an arm of which the features are there or not: its predictor is the sum of their weights
    x = OLD.encode([{"kind": "shoes", "price": 5}], {"country": "DE"})[0]
    weights = {w.feature: w.weight for w in model.weights}
    present = [name for name, value in zip(OLD.names, x, strict=True) if value]
    assert sum(weights[name] for name in present) == pytest.approx(float(x @ theta), rel=1e-12)


def test_contributions_add_up_to_the_linear_predictor(shop):
    rng = np.random.default_rng(3)
    visit(shop, 1, 0, 40)
    made = []
    for _ in range(20):
        arms, context = [item(rng) for _ in range(3)], visitor(rng)
        ids = [f"item-{k}" for k in rng.choice(6, 3, replace=False)]
        made.append((shop.choose(arms, ids, context=context), arms, ids, context))
    before = state(shop)
    link = client(shop).setting.problem.link
    for decision, arms, ids, context in made:
        found = shop.explain(decision.id)
        estimates = {
            each.arm_id: each.estimate for each in shop.preview(arms, ids, context=context)
        }
        assert found.id == decision.id
        assert found.played.arm_id == decision.arm_id
        assert found.runner_up is not None
        assert found.runner_up.arm_id in set(ids) - {decision.arm_id}
        X = OLD.encode(arms, context)
        for arm in (found.played, found.runner_up):
            total = sum(each.value for each in arm.contributions)
            assert link.mean(total) == pytest.approx(arm.estimate, rel=1e-12)
            assert estimates[arm.arm_id] == pytest.approx(arm.estimate, rel=1e-12)
            own = [e.value for e in arm.contributions if e.feature == "effect of the arm"]
            assert len(own) == bool(client(shop).setting.effect_ridge)
            plain = float(X[ids.index(arm.arm_id)] @ client(shop).state.centre)
            assert total - sum(own) == pytest.approx(plain, rel=1e-12, abs=1e-12)
            sizes = [abs(each.value) for each in arm.contributions]
            assert sizes == sorted(sizes, reverse=True)
    assert state(shop) == before


def test_the_runner_up_has_the_next_score(path):
    with Agent.open(path, features=OLD, algorithm=UCB) as agent:
        no_updates(agent)
        visit(agent, 1, 0, 40)
        rng = np.random.default_rng(4)
        for _ in range(20):
            arms, context = [item(rng) for _ in range(4)], visitor(rng)
            scores = {}
            for k, arm in enumerate(arms):
                scores[k] = agent.choose([arm], [k], context=context).score
            made = agent.choose(arms, list(range(4)), context=context)
            second = sorted(scores, key=lambda k: -scores[k])[:2]
            if scores[second[0]] > scores[second[1]]:
                assert made.arm == second[0]
            kept = json.loads(agent.export()["record"][-1])
            assert scores[kept["runner_up_id"]] == scores[second[1]]
            assert agent.explain(made.id).runner_up.arm_id == kept["runner_up_id"]


def test_without_ids_the_runner_ups_effect_counts_too(path):
    arms = [{"kind": "toys", "price": 90.0}, {"kind": "games", "price": 99.0}]
    with Agent.open(path, features=OLD) as agent:
        no_updates(agent)
        for k in range(20):
            agent.observe(agent.choose([arms[k % 2]]).id, float(k % 2))
        found = agent.explain(agent.choose(arms).id)
        estimates = sorted(each.estimate for each in agent.preview(arms))
        assert sorted([found.played.estimate, found.runner_up.estimate]) == pytest.approx(estimates)
        assert estimates[1] > estimates[0] + 0.05


def test_a_preview_changes_nothing(tmp_path):
    played = []
    for name in "ab":
        path = tmp_path / name
        with Agent.open(path, features=OLD, explore=0.5) as agent:
            no_updates(agent)
            agent._client.seed = agent._client.protocol_client.seed = 5
            agent._client.protocol_client.choosing = type(
                agent._client.protocol_client.choosing
            ).after(client(agent).algorithm, client(agent).agreed, None, 5)
            for k in range(40):
                if name == "b":
                    before = whole(path), state(agent)
                    for ids in (IDS, None):
                        seen = agent.preview(ARMS, ids, context=CONTEXT)
                        assert sum(each.probability for each in seen) == pytest.approx(1.0)
                        assert [each.arm for each in seen] == [0, 1, 2]
                    left = agent.preview(ARMS, IDS, context=CONTEXT, exclude=["x"])
                    assert [(each.arm, each.arm_id) for each in left] == [(1, "y"), (2, 3)]
                    assert (whole(path), state(agent)) == before
                made = agent.choose(ARMS, IDS if k % 2 else None, context=CONTEXT)
                agent.observe(made.id, float(made.arm == 1))
                played.append((name, made.arm, made.propensity))
    assert [each[1:] for each in played[:40]] == [each[1:] for each in played[40:]]
    assert len({each[1] for each in played}) == 3


def test_a_preview_foretells_what_is_played(path):
    with Agent.open(path, features=OLD, explore=0.4) as agent:
        no_updates(agent)
        for k in range(60):
            agent.observe(agent.choose([ARMS[k % 3]], [IDS[k % 3]]).id, float(k % 3 == 0))
        seen = agent.preview(ARMS, IDS)
        counts = np.zeros(3)
        for _ in range(300):
            counts[agent.choose(ARMS, IDS).arm] += 1
        assert [each.probability for each in seen] == pytest.approx(counts / 300, abs=0.15)
        assert seen[0].estimate > max(each.estimate for each in seen[1:])
        with pytest.raises(fg.InvalidInput):
            agent.preview([{"kind": 3}])


def test_a_schema_that_changes_while_arms_are_chosen(path):
    """Records are encoded again; vectors of the old one are refused, and not read as others."""
    with Agent.open(path, features=OLD, without_records="drop") as agent:
        no_updates(agent)
        visit(agent, 1, 0, 5)
        calls, first = agent._calls, agent._calls._arms
        for number, (arms, context, to) in enumerate(
            [(ARMS, CONTEXT, EQUAL), ([[0.1] * EQUAL.dim], None, NEW)], 2
        ):

            def arms_then_change(*given, number=number, to=to):
                calls._arms = first
                found = first(*given)
                agreement = agent._client.agreement.with_features(to, number)
                schema_change.change_schema(agent._client, agreement, 0)
                return found

            calls._arms = arms_then_change
            if context is None:
                with pytest.raises(fg.InvalidInput, match="arms"):
                    agent.choose(arms)
            else:
                made = agent.choose(arms, context=context)
                expected = EQUAL.encode(ARMS, CONTEXT)[made.arm].tolist()
                assert agent.export()["x"][-1].to_list() == expected
        assert agent.status.revision == 3


# -- updates of its own --------------------------------------------------------------------------


def absorb(agent: Agent, first: int, last: int) -> None:
    arms, rewards, contexts, ids = (each[first:last] for each in past(1, last))
    agent.absorb(arms, rewards, contexts=contexts, ids=ids)


@pytest.fixture
def one_step():
    """An update of its own is one step, and not repeated until θ stands still."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_updates, "USUAL", (1, 0.0))
        yield


def test_an_import_is_fitted_until_it_stands_still(path):
    rng = np.random.default_rng(3)
    kinds = sorted(OLD.arm["kind"].levels)[:2]
    arms = [{"kind": kinds[k % 2]} for k in range(2000)]
    rewards = (rng.random(2000) < np.where(np.arange(2000) % 2, 0.6, 0.2)).astype(float)
    with Agent.open(path, features=OLD) as agent:
        agent.absorb(arms, rewards)
        calm(agent)
        first, second = agent.preview([{"kind": kind} for kind in kinds])
        assert (first.estimate, second.estimate) == pytest.approx((0.2, 0.6), abs=0.04)
        assert agent.status.model < 10  # it stood still before


@pytest.mark.usefixtures("one_step")
def test_updates_come_as_samples_grow_and_survive_a_restart(path):
    with Agent.open(path, features=OLD) as agent:
        absorb(agent, 0, 9)
        calm(agent)
        assert agent.status.model == 0
        absorb(agent, 9, 10)
        calm(agent)
        assert (agent.status.model, client(agent).covered) == (1, 10)
        assert client(agent).state.base.ridge is not None
        visit(agent, 1, 10, 19)
        calm(agent)
        assert agent.status.model == 1
        visit(agent, 1, 19, 20)
        calm(agent)
        assert (agent.status.model, client(agent).covered) == (2, 20)
        before = state(agent)
        kept = agent._client.store.own_coordinator()
        assert int(kept["finished"]) == 2
    with Agent.open(path, features=OLD) as agent:
        assert state(agent) == before
        assert agent._own_updates.coordinator().finished == 2
        absorb(agent, 20, 40)
        calm(agent)
        after = learned(agent)
        assert agent.status.model == 3
    with Agent.open(path.parent / "other.db", features=OLD) as agent:  # without a restart
        absorb(agent, 0, 10)
        calm(agent)
        absorb(agent, 10, 20)
        calm(agent)
        absorb(agent, 20, 40)
        calm(agent)
        assert all(np.array_equal(after[k], v) for k, v in learned(agent).items())


@pytest.mark.usefixtures("one_step")
def test_killed_between_the_model_and_the_coordinators_state(path, monkeypatch):
    with Agent.open(path, features=OLD) as agent:
        absorb(agent, 0, 20)
        calm(agent)
        monkeypatch.setattr(AgentStore, "keep_coordinator", lambda *_: None)
        absorb(agent, 20, 40)
        calm(agent)
        assert agent.status.model == 2
        copy = copied(path, path.parent / "copy")
    monkeypatch.undo()
    with Agent.open(copy, features=OLD) as agent:
        assert agent._own_updates.coordinator().started == 2
        absorb(agent, 40, 60)
        calm(agent)
        assert (agent.status.model, client(agent).covered) == (3, 60)
        theta = client(agent).state.base.theta
    with Agent.open(path.parent / "fresh.db", features=OLD) as agent:  # at θ = 0 too
        absorb(agent, 0, 60)
        calm(agent)
        assert theta == pytest.approx(client(agent).state.base.theta, rel=1e-9, abs=1e-9)


class Held:
    """An update that waits in the middle until it is told to go on."""

    def __init__(self, agent: Agent, moment: str) -> None:
        self.there, self.go = threading.Event(), threading.Event()
        answers = agent._own_updates._answers
        real = getattr(answers, moment)

        def wait(message):
            self.there.set()
            assert self.go.wait(PATIENCE)
            setattr(answers, moment, real)
            return real(message)

        setattr(answers, moment, wait)


@pytest.mark.parametrize("moment", ["freeze", "adopt"])
def test_what_is_forgotten_during_an_update_is_not_in_its_model(path, moment):
    with Agent.open(path, features=OLD) as agent:
        ids = visit(agent, 1, 0, 9)
        held = Held(agent, moment)
        absorb(agent, 9, 30)
        assert held.there.wait(PATIENCE)
        agent.forget(ids[:4])
        visit(agent, 1, 30, 33)  # the application does not wait
        held.go.set()
        calm(agent)
        first = agent.status.model
        absorb(agent, 33, 80)
        calm(agent)
        assert agent.status.model > first
        assert client(agent).covered == len(client(agent).samples) == 76
        assert agent._client.snapshots == {}
        before = state(agent)
    with Agent.open(path, features=OLD) as agent:
        assert state(agent) == before


def test_closed_during_an_update(path):
    agent = Agent.open(path, features=OLD)
    held = Held(agent, "freeze")
    absorb(agent, 0, 30)
    assert held.there.wait(PATIENCE)
    closing = threading.Thread(target=agent.close)
    closing.start()
    held.go.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    with Agent.open(path, features=OLD) as agent:
        assert agent.status.samples == 30
        visit(agent, 1, 30, 50)
        calm(agent)
        assert agent.status.model >= 1


@pytest.mark.usefixtures("one_step")
def test_an_update_that_is_requested_during_another_comes_after_it(path, monkeypatch):
    begun, end, done = threading.Event(), threading.Event(), []
    real = own_updates.OwnUpdates._settle

    def slow(self, *given):
        real(self, *given)
        done.append(self._durable.protocol_client.covered)
        begun.set()
        assert end.wait(PATIENCE)

    monkeypatch.setattr(own_updates.OwnUpdates, "_settle", slow)
    with Agent.open(path, features=OLD) as agent:
        agent.request_update()  # without a sample
        assert begun.wait(PATIENCE)
        absorb(agent, 0, 3)  # not enough for an update
        agent.request_update()
        agent.request_update()
        end.set()
        calm(agent)
        assert done == [0, 3]
        agent.request_update()
        calm(agent)
        assert done == [0, 3, 3]


@pytest.mark.usefixtures("one_step")
def test_one_update_runs_at_a_time(path, monkeypatch):
    """Many threads see at once that one is due."""
    running, most = [], []
    lock = threading.Lock()
    real = own_updates.OwnUpdates._run

    def counted(self):
        with lock:
            running.append(1)
            most.append(len(running))
        real(self)
        with lock:
            running.pop()

    monkeypatch.setattr(own_updates.OwnUpdates, "_run", counted)
    start = threading.Thread.start

    def slow(thread):
        if thread.name == "fedglb-update":
            together.wait(0.05)
        start(thread)

    together = threading.Event()
    with Agent.open(path, features=OLD) as agent:
        own = agent._own_updates
        no_updates(agent)
        absorb(agent, 0, 30)
        agent._own_updates = own
        monkeypatch.setattr(threading.Thread, "start", slow)
        callers = [threading.Thread(target=own.consider, name=str(k)) for k in range(8)]
        for each in callers:
            each.start()
        for each in callers:
            each.join(PATIENCE)
        calm(agent)
        assert agent.status.model == 1
    assert max(most) == 1


@pytest.mark.usefixtures("one_step")
def test_a_failed_update_leaves_the_model_as_it_is(path, monkeypatch):
    with Agent.open(path, features=OLD) as agent:
        absorb(agent, 0, 20)
        calm(agent)
        before = state(agent)

        def fail(*_):
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(agent._client.store.updates, "adopt", fail)
        absorb(agent, 20, 40)
        calm(agent)
        assert agent.status.model == 1
        monkeypatch.undo()
        visit(agent, 1, 40, 41)
        calm(agent)
        assert (agent.status.model, client(agent).covered) == (3, 41)  # number 2 had no model
        assert state(agent) != before


def test_vectors_make_no_updates(path):
    with Agent.open(path, fg.Problem(dim=2)) as agent:
        assert agent._own_updates is None


def test_a_copy_at_any_time_has_all_samples(path):
    with Agent.open(path, features=OLD) as agent:
        for k in range(3):
            absorb(agent, 30 * k, 30 * (k + 1))
            copy = copied(path, path.parent / f"copy-{k}")
            with Agent.open(copy, features=OLD) as other:
                assert other.status.samples == 30 * (k + 1)
