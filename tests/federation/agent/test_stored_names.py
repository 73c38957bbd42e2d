"""The names in an agent's file. Files outlive programs: a change here raises the version."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest
from polars.testing import assert_frame_equal

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from fedglb.federation.agent import store
from fedglb.federation.agreement import Agreement
from fedglb.federation.npz import unpack
from tests.federation.helpers.agent_driver import Alone, client, feed
from tests.protocol.driver import equal_arrays

PROBLEM = fg.Problem(dim=3)
AGREED = Agreement(PROBLEM, fg.fedglb_auto(), max_clients=1)
VERSION = 5
APPLICATION_ID = 0x6167656E
COLUMNS = {
    "facts": ["name", "value"],
    "decisions": [
        "number", "prefix", "made", "t", "arms", "arm", "arm_id", "x", "score", "width",
        "propensity", "model", "sequence", "step", "reward", "rewarded", "propensity_error",
    ],
    "snapshots": ["number", "last_sequence", "withdrawn"],
    "adopted_model": ["one", "number", "last_sequence", "base"],
    "offers": ["number", "arms"],
    "absorbed": ["key", "samples", "at"],
    "releases": [
        "number", "at", "first_sequence", "last_sequence", "theta", "batch", "numbers",
    ],
    "secure_sum": [
        "one", "slot", "attempt", "transcript", "consented", "at", "first_sequence",
        "last_sequence", "theta", "batch",
    ],
}  # fmt: skip
INDEXES = {"decisions_by_key", "samples", "waiting"}
FACTS = {"agreement", "instance", "seed", "last_number", "expired"}
#: The arrays of adopted_model.base: a client's state, and in it the shared model. Its fields are
#: the stored names.
STATE = {"vectors", "matrices", "counters", "base.t", "base.matrix", "base.radius_terms"}


@pytest.fixture
def used(path):
    """A closed file in which every table and every fact was written."""
    with Agent.open(path, PROBLEM, most_pending=1) as agent:
        ids = feed(agent, np.random.default_rng(0), 4)
        Alone(agent).update(agent, t=4)
        agent.forget(ids[:1])
        for _ in range(2):
            agent.choose(np.eye(3))  # the first one expires
    return path


def test_tables_columns_and_facts(used):
    db = sqlite3.connect(used)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    found = {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in tables}
    indexes = {
        name
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='index'")
        if not name.startswith("sqlite_")
    }
    facts = dict(db.execute("SELECT name, value FROM facts"))
    ids = [
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    ]
    db.close()
    assert found == COLUMNS
    assert indexes == INDEXES
    assert set(facts) == FACTS
    agreement = json.loads(facts["agreement"])
    assert set(agreement) - set(AGREED.facts()) == {"federation", "client"}
    assert (agreement["federation"], agreement["client"]) == ("alone", "alone")
    assert ids == [APPLICATION_ID, VERSION]


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        (fg.fedglb_ucb(threshold=10.0), {"base.theta"}),
        (fg.dislinucb(threshold=10.0), {"base.b"}),
        (fg.fedglb_mix(threshold=10.0), {"base.theta"}),
        (fg.fedglb_auto(), {"base.theta", "base.ridge"}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_arrays_of_the_adopted_model(path, algorithm, more):
    with Agent.open(path, PROBLEM, algorithm=algorithm) as agent:
        feed(agent, np.random.default_rng(0), 4)
        Alone(agent).update(agent, t=4)
    db = sqlite3.connect(path)
    [(base,)] = db.execute("SELECT base FROM adopted_model").fetchall()
    db.close()
    assert set(unpack(base)) == STATE | more


def test_version_1_is_refused_with_what_to_do(used):
    db = sqlite3.connect(used)
    db.execute("PRAGMA user_version=1")
    db.close()
    before = used.read_bytes()
    with pytest.raises(InvalidInput, match=r"version 5, .* has version 1: export its log") as error:
        Agent.open(used, PROBLEM)
    assert error.value.value == str(used)
    assert used.read_bytes() == before


#: How version 2 made its table of decisions.
VERSION_2 = """
CREATE TABLE decisions(
    number INTEGER PRIMARY KEY, prefix TEXT NOT NULL, made REAL NOT NULL, t INTEGER,
    arms INTEGER NOT NULL, arm INTEGER NOT NULL, arm_id, x BLOB, score REAL NOT NULL,
    width REAL NOT NULL, propensity REAL NOT NULL, model INTEGER NOT NULL,
    sequence INTEGER, step INTEGER, reward REAL, rewarded REAL)
"""


def as_version_2(path):
    """Turn a file into what version 2 would have made of the same decisions."""
    db = sqlite3.connect(path)
    db.execute("ALTER TABLE decisions RENAME TO newer")
    db.execute(VERSION_2)
    named = ", ".join(COLUMNS["decisions"][:-1])
    db.execute(f"INSERT INTO decisions SELECT {named} FROM newer")
    db.execute("DROP TABLE newer")  # and its indexes
    db.execute("DROP TABLE offers")
    db.execute("DROP TABLE absorbed")
    db.execute("DROP TABLE releases")
    db.execute("DROP TABLE secure_sum")
    db.execute("PRAGMA user_version=2")
    db.commit()
    db.close()


def decided(path):
    """Every decision as it is stored, to the bit, and what else the file says."""
    db = sqlite3.connect(path)
    rows = db.execute("SELECT * FROM decisions ORDER BY number").fetchall()
    others = [
        db.execute(f"SELECT * FROM {name}").fetchall()
        for name in ("adopted_model", "facts", "snapshots")
    ]
    db.close()
    return rows, others


def test_a_file_of_version_2_goes_on_with_all_that_it_has(path):
    """It was made with the default of that version, and has decisions of every kind."""
    rng = np.random.default_rng(1)
    with Agent.open(path, PROBLEM, algorithm=fg.fedglb_ucb(10.0, fg.Newton()), explore=0.5) as a:
        ids = feed(a, rng, 6)
        Alone(a).update(a, t=6)
        feed(a, rng, 3)
        a.choose(np.eye(3), ids=["red", 2, "blue"])  # waits
        a.forget(ids[1:2])
        wanted, state = a.export(), client(a).to_arrays()
    rows, others = decided(path)
    as_version_2(path)
    assert {len(row) for row in decided(path)[0]} == {16}
    with Agent.open(path, PROBLEM) as agent:
        assert_frame_equal(agent.export(), wanted)
        assert equal_arrays(client(agent).to_arrays(), state)
        assert agent.export()["propensity_error"].to_list() == [0.0] * 9
        next_number = agent.choose(np.eye(3)).id.rpartition("-")[2]
        assert next_number == "11"
    assert decided(path) == ([*rows, decided(path)[0][-1]], others)
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_a_migration_that_is_cut_short_leaves_the_file_of_before(path, monkeypatch):
    with Agent.open(path, PROBLEM) as agent:
        feed(agent, np.random.default_rng(1), 5)
        wanted = agent.export()
    as_version_2(path)
    before = decided(path)
    broken = store._MIGRATIONS[2].replace("DROP TABLE decisions_before", "DROP TABLE missing")
    with monkeypatch.context() as patch:
        patch.setattr(store, "_MIGRATIONS", {2: broken})
        with pytest.raises(InvalidInput, match="no such table"):
            Agent.open(path, PROBLEM)
    assert decided(path) == before
    with Agent.open(path, PROBLEM) as agent:
        assert_frame_equal(agent.export(), wanted)
