"""The names in an agent's file. Files outlive programs: a change here raises the version."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from tests.federation.helpers.agent_driver import Alone, feed

PROBLEM = fg.Problem(dim=3)
VERSION = 2
APPLICATION_ID = 0x6167656E
COLUMNS = {
    "facts": ["name", "value"],
    "decisions": [
        "number", "prefix", "made", "t", "arms", "arm", "arm_id", "x", "score", "width",
        "propensity", "model", "sequence", "step", "reward", "rewarded",
    ],
    "snapshots": ["number", "last_sequence", "withdrawn"],
    "adopted_model": ["one", "number", "last_sequence", "base"],
}  # fmt: skip
FACTS = {"agreement", "instance", "seed", "last_number"}


@pytest.fixture
def used(path):
    """A closed file in which every table and every fact was written."""
    with Agent.open(path, PROBLEM) as agent:
        ids = feed(agent, np.random.default_rng(0), 4)
        Alone(agent).update(agent, t=4)
        agent.forget(ids[:1])
    return path


def test_tables_columns_and_facts(used):
    db = sqlite3.connect(used)
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    found = {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})")] for name in tables}
    facts = {name for (name,) in db.execute("SELECT name FROM facts")}
    ids = [
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    ]
    db.close()
    assert found == COLUMNS
    assert facts == FACTS
    assert ids == [APPLICATION_ID, VERSION]


def test_version_1_is_refused_with_what_to_do(used):
    db = sqlite3.connect(used)
    db.execute("PRAGMA user_version=1")
    db.close()
    before = used.read_bytes()
    with pytest.raises(InvalidInput, match=r"version 2, .* has version 1: export its log") as error:
        Agent.open(used, PROBLEM)
    assert error.value.value == str(used)
    assert used.read_bytes() == before
