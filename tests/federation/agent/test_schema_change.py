"""An agent that is alone and opened with another schema: it has learned all of it under this."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent, UnknownDecision
from fedglb.federation.agent import own_updates, schema_change
from tests.federation.helpers.agent_driver import client
from tests.federation.helpers.kill_points import Fault, Faults, install
from tests.federation.helpers.killable_process import _processes
from tests.federation.helpers.nats_federation import PATIENCE
from tests.federation.helpers.shop import (
    EQUAL,
    NEW,
    OLD,
    calm,
    contents,
    item,
    learned,
    no_updates,
    past,
    visit,
    visitor,
)

UCB = fg.fedglb_ucb(1.0, fg.Newton())
ALGORITHMS = {"auto": None, "ucb": UCB}
SCHEMAS = {"new": NEW, "old": OLD}


def opened(path: Path, features: fg.Features, **more) -> Agent:
    return no_updates(Agent.open(path, features=features, **more))


def fresh(path: Path, features: fg.Features, count: int, **more) -> dict[str, np.ndarray]:
    """What an agent has learned that took all samples under this schema."""
    with opened(path, features, **more) as agent:
        visit(agent, 1, 0, count)
        return learned(agent)


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    assert one.keys() == other.keys()
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


@pytest.mark.parametrize("to", [NEW, EQUAL], ids=["new", "equal"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_has_learned_everything_under_the_new_schema(tmp_path, name, to):
    given = {"algorithm": ALGORITHMS[name]}
    with opened(tmp_path / "a.db", OLD, **given) as agent:
        visit(agent, 1, 0, 40)
    with opened(tmp_path / "a.db", to, **given) as agent:
        assert same(learned(agent), fresh(tmp_path / "b.db", to, 40, **given))
        assert (agent.status.revision, agent.status.samples, agent.status.model) == (2, 40, 0)
        assert agent.status.ignored == 0
        visit(agent, 1, 40, 55)
        expected = fresh(tmp_path / "c.db", to, 55, **given)
        assert same(learned(agent), expected)
    with opened(tmp_path / "a.db", to, **given) as agent:
        assert same(learned(agent), expected)
        assert agent.status.revision == 2
    with opened(tmp_path / "a.db", OLD, **given) as agent:  # and back
        assert same(learned(agent), fresh(tmp_path / "d.db", OLD, 55, **given))
        assert agent.status.revision == 3


def test_absorbed_samples_and_arms_without_ids(tmp_path):
    arms, rewards, contexts, _ = past(2, 60)
    state = []
    for path, schemas in (("a.db", [OLD, NEW]), ("b.db", [NEW])):
        with opened(tmp_path / path, schemas[0]) as agent:
            agent.absorb(arms, rewards, contexts=contexts, key="past")
        with opened(tmp_path / path, schemas[-1]) as agent:
            state.append(learned(agent))
            assert agent.absorb(arms, rewards, contexts=contexts, key="past") == 0
    assert same(*state)
    assert len(state[0]["y"]) == 60


def test_updates_come_again(tmp_path, monkeypatch):
    monkeypatch.setattr(own_updates, "USUAL", (1, 0.0))
    arms, rewards, contexts, ids = past(1, 81)
    with Agent.open(tmp_path / "a.db", features=OLD) as agent:
        agent.absorb(arms[:80], rewards[:80], contexts=contexts[:80], ids=ids[:80])
        calm(agent)
        assert agent.status.model == 1
    with Agent.open(tmp_path / "a.db", features=NEW) as agent:
        assert client(agent).state.base is None
        assert (agent.status.model, client(agent).covered) == (1, 0)
        visit(agent, 1, 80, 81)
        calm(agent)
        assert (agent.status.model, client(agent).covered) == (2, 81)
        theta = client(agent).state.base.theta
    with Agent.open(tmp_path / "b.db", features=NEW) as agent:
        agent.absorb(arms, rewards, contexts=contexts, ids=ids)
        calm(agent)
        expected = client(agent).state.base.theta
    assert theta == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize("to", [NEW, EQUAL], ids=["new", "equal"])
def test_decisions_that_wait_get_their_rewards_under_the_new_schema(tmp_path, to):
    rng = np.random.default_rng(3)
    offers = [([item(rng) for _ in range(3)], visitor(rng)) for _ in range(12)]
    ids = ["x", "y", "z"]
    with opened(tmp_path / "a.db", OLD, explore=0.5) as agent:
        made = [
            agent.choose(arms, ids, context=c, key=f"k{n}") for n, (arms, c) in enumerate(offers)
        ]
        for each in made[:4]:
            agent.observe(each.id, 1.0)
    with opened(tmp_path / "a.db", to, explore=0.5) as agent:
        again = [
            agent.choose(arms, ids, context=c, key=f"k{n}") for n, (arms, c) in enumerate(offers)
        ]
        assert again == made
        with pytest.raises(fg.InvalidInput, match="another request"):
            agent.choose(offers[0][0][::-1], ids[::-1], context={"country": "DE"}, key="k1")
        for each in made[4:]:
            agent.observe(each.id, 0.0)
        found = learned(agent)
        rows = np.array(agent.export()["x"].to_list())
    with opened(tmp_path / "b.db", to) as agent:
        for n, each in enumerate(made):
            arms, context = offers[n]
            one = agent.choose([arms[each.arm]], [ids[each.arm]], context=context)
            agent.observe(one.id, 1.0 if n < 4 else 0.0)
        assert same(found, learned(agent))
        assert np.array_equal(rows, np.array(agent.export()["x"].to_list()))


def test_all_arms_offered_are_encoded_again(tmp_path):
    rng = np.random.default_rng(4)
    offers = [([item(rng) for _ in range(k % 3 + 1)], visitor(rng)) for k in range(9)]
    with opened(tmp_path / "a.db", OLD, explore=0.5, log="offered") as agent:
        for arms, context in offers:
            agent.observe(agent.choose(arms, context=context).id, 1.0)
    with opened(tmp_path / "a.db", NEW, explore=0.5, log="offered") as agent:
        frame = agent.export()
        problem = client(agent).setting.problem
    expected = [NEW.encode(arms, context).tolist() for arms, context in offers]
    assert frame["offered"].to_list() == expected
    logged = fg.Logged.from_export(frame, problem)
    assert logged.rewards.tolist() == [1.0] * 9


def test_samples_without_records_are_refused_or_dropped(tmp_path):
    path = tmp_path / "a.db"
    x = [0.5] + [0.0] * (OLD.dim - 1)
    with opened(path, OLD) as agent:
        kept = visit(agent, 1, 0, 12)
        agent.absorb([x, x], [1.0, 0.0])
        waits = agent.choose([x]).id
        vector = agent.choose([x])
        agent.observe(vector.id, 1.0)
        before = learned(agent)
    content = path.read_bytes()
    with pytest.raises(fg.InvalidInput, match=r"4 decisions have no record.*drop"):
        opened(path, NEW)
    assert path.read_bytes() == content
    with opened(path, OLD) as agent:
        assert same(learned(agent), before)
        assert agent.status.revision == 1
    with opened(path, NEW, without_records="drop") as agent:
        assert same(learned(agent), fresh(tmp_path / "b.db", NEW, 12))
        assert agent.export()["id"].to_list() == kept
        with pytest.raises(UnknownDecision):
            agent.observe(waits, 1.0)
        later = visit(agent, 1, 12, 13)
        assert later[0].rpartition("-")[2] > vector.id.rpartition("-")[2]  # no number comes twice
    with opened(path, NEW) as agent:
        assert same(learned(agent), fresh(tmp_path / "c.db", NEW, 13))


def test_what_a_new_schema_cannot_read_counts_as_missing(tmp_path):
    """Fields that the old schema did not have were not checked."""
    wild = [
        {"kind": "shoes", "tags": "no list"},
        {"kind": "books", "tags": [1]},
        {"kind": "toys", "tags": float("nan")},
        {"kind": "toys", "tags": ["sale"]},
    ]
    plain = [{**each, "tags": None} for each in wild[:3]] + wild[3:]
    state = []
    for path, arms in (("a.db", wild), ("b.db", plain)):
        with opened(tmp_path / path, OLD, log="offered", strict=False) as agent:
            for k, arm in enumerate(arms):
                made = agent.choose([arm, arm], ["x", "y"], context={"age": ["?", None][k % 2]})
                if k != 2:
                    agent.observe(made.id, 1.0)
        with opened(tmp_path / path, NEW, log="offered", strict=True) as agent:
            agent.explain(made.id)
            agent.observe(agent.export()["id"][2], 1.0)
            frame = agent.export()
            state.append((frame["x"].to_list(), frame["offered"].to_list()))
            found = learned(agent)
            assert agent.status.ignored == 0
            with pytest.raises(fg.InvalidInput, match="tags"):
                agent.choose([wild[0]])
        with opened(tmp_path / path, NEW) as agent:
            assert same(learned(agent), found)
    assert state[0] == state[1]


def test_fields_that_the_new_schema_lacks_do_not_stop_a_strict_agent(tmp_path):
    with opened(tmp_path / "a.db", OLD) as agent:
        visit(agent, 1, 0, 20)
    with opened(tmp_path / "a.db", NEW, strict=True) as agent:
        assert same(learned(agent), fresh(tmp_path / "b.db", NEW, 20))
        with pytest.raises(fg.InvalidInput, match="price"):
            agent.choose([{"kind": "toys", "price": 3.0}])


def test_forgotten_after_a_change_is_gone_from_the_bytes(tmp_path):
    """Rows grow when they are encoded again, and SQLite moves them about."""
    path, rng = tmp_path / "a.db", np.random.default_rng(5)
    big = fg.Features(arm={"word": fg.Category(buckets=60)})
    small = fg.Features(arm={"word": fg.Category(buckets=4)})
    words = [rng.bytes(12).hex() for _ in range(900)]
    with opened(path, small, log="offered") as agent:
        made = [agent.choose([{"word": word}], [word[::-1]]) for word in words]
        for k in rng.permutation(900)[:700]:
            agent.observe(made[k].id, 1.0)
    with opened(path, big, log="offered") as agent:
        gone = rng.choice(900, 300, replace=False)
        agent.forget(made[k].id for k in gone)
        # read through SQLite's own lock: the file stays open
        data = _bytes(path)
        kept = set(range(900)) - set(gone.tolist())
        assert sum(words[k].encode() in data for k in kept) == 600
        assert sum(words[k].encode() in data for k in gone) == 0
        assert sum(words[k][::-1].encode() in data for k in gone) == 0


def _bytes(path: Path) -> bytes:
    files = [str(each) for each in path.parent.glob(path.name + "*")]
    return subprocess.run(["cat", *files], check=True, capture_output=True).stdout


def test_the_file_says_by_which_schema_each_row_is_encoded(tmp_path):
    path = tmp_path / "a.db"
    with opened(path, OLD) as agent:
        visit(agent, 1, 0, 5)
    with opened(path, NEW):
        pass
    db = sqlite3.connect(path)
    assert (
        db.execute("SELECT revision, length(x) FROM decisions").fetchall()
        == [(2, 8 * (NEW.dim + 1))] * 5
    )
    records = [json.loads(row[0]) for row in db.execute("SELECT record FROM decisions")]
    db.close()
    arms, _, contexts, _ = past(1, 5)
    assert [(r["arm"], r["context"]) for r in records] == list(zip(arms, contexts, strict=True))


def test_another_schema_and_another_algorithm_is_refused_with_an_unchanged_file(tmp_path):
    path = tmp_path / "a.db"
    with opened(path, OLD) as agent:
        visit(agent, 1, 0, 5)
    before = contents(path)["a.db"]
    with pytest.raises(fg.InvalidInput, match="as in"):
        opened(path, NEW, algorithm=UCB)
    with pytest.raises(fg.InvalidInput, match="features"):
        Agent.open(path, fg.Problem(dim=OLD.dim))
    assert contents(path)["a.db"] == before


def test_the_application_goes_on_while_samples_are_encoded(tmp_path, monkeypatch):
    """More samples than are encoded at once, and others that come meanwhile."""
    monkeypatch.setattr(schema_change, "_AT_ONCE", 7)
    fed = [40]
    with opened(tmp_path / "a.db", OLD) as agent:
        visit(agent, 1, 0, 40)
        early = agent.choose([{"kind": "toys"}], ["x"], context={"age": 30})
        real = schema_change._next

        def next_ones(*given):
            found = real(*given)
            visit(agent, 1, fed[0], fed[0] + 2)
            fed[0] += 2
            if fed[0] == 46:
                agent.observe(early.id, 1.0)
                fed.append(fed[0])  # after so many
            return found

        monkeypatch.setattr(schema_change, "_next", next_ones)
        agreement = agent._client.agreement.with_features(NEW, 2)
        schema_change.change_schema(agent._client, agreement, 0)
        late = visit(agent, 1, fed[0], fed[0] + 3)
        found = learned(agent)
        waiting = agent._client.waiting
        assert agent.export()["id"][-1] == late[-1]
    assert fed[0] > 50
    with opened(tmp_path / "b.db", NEW) as agent:
        visit(agent, 1, 0, fed[1])
        one = agent.choose([{"kind": "toys"}], ["x"], context={"age": 30})
        agent.observe(one.id, 1.0)
        visit(agent, 1, fed[1], fed[0] + 3)
        assert same(found, learned(agent))
        assert waiting == agent._client.waiting == 0
    with opened(tmp_path / "a.db", NEW) as agent:
        assert same(found, learned(agent))


@pytest.mark.parametrize("name", ["change_schema", "renew"])
def test_a_disk_that_is_full_for_a_moment(tmp_path, monkeypatch, name):
    """Nothing has changed, or the change goes on at the next start."""

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    with opened(tmp_path / "a.db", OLD) as agent:
        visit(agent, 1, 0, 12)
        waits = agent.choose([{"kind": "toys"}], ["x"], key="k")
        agreement = agent._client.agreement.with_features(NEW, 2)
        with monkeypatch.context() as patch:
            patch.setattr(agent._client.store, name, full)
            with pytest.raises(sqlite3.OperationalError):
                schema_change.change_schema(agent._client, agreement, 0)
        now = OLD if name == "change_schema" else NEW
        assert same(learned(agent), fresh(tmp_path / "b.db", now, 12))
        hello = agent._session.hello()
        assert hello.agreement["features"] == now.digest
        assert agent.choose([{"kind": "toys"}], ["x"], key="k") == waits
        agent.observe(waits.id, 1.0)
        assert agent.status.samples == 13
        found = learned(agent)
    with opened(tmp_path / "a.db", now) as agent:
        assert same(learned(agent), found)
        assert agent.export()["x"].null_count() == 0


def test_too_many_wait_after_some_were_dropped(tmp_path):
    """Decisions that were dropped do not count as waiting."""
    x = [0.5] + [0.0] * (OLD.dim - 1)
    with opened(tmp_path / "a.db", OLD, max_pending=5) as agent:
        for _ in range(5):
            agent.choose([x])
    with opened(tmp_path / "a.db", OLD, max_pending=5, without_records="drop") as agent:
        agreement = agent._client.agreement.with_features(NEW, 2)
        schema_change.change_schema(agent._client, agreement, 0)
        for _ in range(5):
            agent.choose([{"kind": "toys"}])
        assert agent.status.expired == 0
        agent.choose([{"kind": "toys"}])
        assert agent.status.expired == 1


# -- death at every write ------------------------------------------------------------------------


def change(path: Path, features: fg.Features, fault: Fault | None, line: Connection) -> None:
    """In another process: open a file with a schema, and die on the way."""
    faults = Faults()
    install(faults)
    faults.arm(fault)
    with opened(path, features, log="offered"):
        line.send(dict(faults.seen))


def changed(path: Path, features: fg.Features, fault: Fault | None = None) -> dict[str, int]:
    """Open a file in another process; return the places that it came to, or {}: it died."""
    ours, theirs = _processes.Pipe()
    process = _processes.Process(target=change, args=(path, features, fault, theirs))
    process.start()
    theirs.close()
    process.join(PATIENCE)
    assert process.exitcode == (0 if fault is None else -signal.SIGKILL)
    return ours.recv() if fault is None else {}


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_any_write_it_ends_where_it_would_have(tmp_path, every):
    original = tmp_path / "original.db"
    with opened(original, OLD, log="offered") as agent:
        ids = visit(agent, 1, 0, 5)
        arms, _, contexts, names = past(1, 8)
        offers = [([arms[k], arms[k - 1]], [names[k], "other"], contexts[k]) for k in range(5, 8)]
        waiting = [agent.choose(a, i, context=c, key=f"k{n}") for n, (a, i, c) in enumerate(offers)]
    folder = tmp_path / "copies"
    folder.mkdir()

    def ending(path: Path, features: fg.Features) -> tuple[dict[str, np.ndarray], list[object]]:
        with opened(path, features, log="offered") as agent:
            again = [
                agent.choose(a, i, context=c, key=f"k{n}") for n, (a, i, c) in enumerate(offers)
            ]
            assert again == waiting
            for each in waiting:
                agent.observe(each.id, 1.0)
            frame = agent.export()
            assert frame["id"].to_list() == [*ids, *(each.id for each in waiting)]
            return learned(agent), [frame["x"].to_list(), frame["offered"].to_list()]

    def copy(name: str) -> Path:
        return Path(shutil.copy(original, folder / name))

    expected = {name: ending(copy(f"plain-{name}"), to) for name, to in SCHEMAS.items()}
    points = changed(copy("points.db"), NEW)
    assert {"INSERT INTO models", "UPDATE decisions", "UPDATE offers", "COMMIT"} <= set(points)
    faults = [
        Fault(when, name, k + 1)
        for name, count in points.items()
        for k in range(count)
        for when in ("before", "after")
    ]
    assert len(faults) > 30
    for n, fault in enumerate(faults[::every]):
        for name, to in SCHEMAS.items():
            path = copy(f"{n}-{name}.db")
            if name == "new":
                changed(path, NEW, fault)
                dead = {each: each.read_bytes() for each in folder.glob(f"{n}-new.db*")}
            else:  # the same death, and the old schema again
                for each, content in dead.items():
                    (folder / each.name.replace("new", name)).write_bytes(content)
            state, rows = ending(path, to)
            assert same(state, expected[name][0]), (fault, name)
            assert rows == expected[name][1], (fault, name)
