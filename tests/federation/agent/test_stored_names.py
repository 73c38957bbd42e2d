"""The names in an agent's file. Files outlive programs: a change here raises the version."""

from __future__ import annotations

import json
import sqlite3

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent
from fedglb.federation.agreement import Agreement
from fedglb.federation.sqlite import unpack
from tests.federation.helpers.agent_driver import Alone, feed
from tests.federation.helpers.nats_federation import eventually

PROBLEM = fg.Problem(dim=3)
AGREED = Agreement(PROBLEM, fg.fedglb_auto(), max_clients=1)
VERSION = 6
APPLICATION_ID = 0x6167656E
DECISION = [
    "number", "prefix", "made", "t", "arms", "arm", "arm_id", "x", "score", "width", "propensity",
    "model", "sequence", "step", "reward", "rewarded", "propensity_error", "room", "revision",
    "record", "subject", "proposed", "defaulted",
]  # fmt: skip
COLUMNS = {
    "facts": ["name", "value"],
    "decisions": DECISION,
    "prefetched": DECISION,
    "late": ["number", "reward", "at"],
    "snapshots": ["number", "last_sequence", "withdrawn"],
    "models": ["number", "last_sequence", "base", "kept"],
    "frozen": ["by", "since", "number", "last_sequence", "base"],
    "offers": ["number", "arms", "records"],
    "absorbed": ["key", "samples", "at"],
    "releases": [
        "number", "at", "first_sequence", "last_sequence", "theta", "batch", "numbers",
    ],
    "secure_sum": [
        "one", "slot", "attempt", "transcript", "members", "consented", "at",
        "first_sequence", "last_sequence", "theta", "batch",
    ],
}  # fmt: skip
INDEXES = {
    "compared", "decisions_by_key", "prefetched_by_key", "prefetched_subjects", "samples",
    "subjects", "waiting",
}  # fmt: skip
FACTS = {"agreement", "instance", "seed", "last_number", "expired", "defaulted", "replaced"}
#: The arrays of models.base: a client's state, and in it the shared model. Its fields are
#: the stored names.
STATE = {"vectors", "matrices", "counters", "base.t", "base.matrix", "base.radius_terms"}


@pytest.fixture
def used(path):
    """A closed file in which every table and every fact was written."""
    with Agent.open(path, PROBLEM, max_pending=1) as agent:
        ids = feed(agent, np.random.default_rng(0), 4)
        Alone(agent).update(agent, t=4)
        agent.forget(ids[:1])
        for _ in range(2):
            agent.choose(np.eye(3))  # the first one expires
    with Agent.open(path, PROBLEM, default_reward=0.0, reward_after=0.01) as agent:
        eventually(lambda: agent.status.defaulted == 1, "a default reward")
        agent.observe(agent.export()["id"][-1], 1.0)
        eventually(lambda: agent.status.replaced == 1, "a late reward")
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
        (fg.fedglb_auto(), {"base.theta", "base.ridge", "base.effects"}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_arrays_of_the_adopted_model(path, algorithm, more):
    with Agent.open(path, PROBLEM, algorithm=algorithm) as agent:
        feed(agent, np.random.default_rng(0), 4)
        Alone(agent).update(agent, t=4)
    db = sqlite3.connect(path)
    [(base,)] = db.execute("SELECT base FROM models").fetchall()
    db.close()
    assert set(unpack(base)) == STATE | more
