"""A file that an older release has made goes on with all that it has: one is kept of each."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fedglb.errors import InvalidInput
from fedglb.federation import Agent, AlreadyObserved, DecisionExpired, UnknownDecision
from fedglb.federation.agent import store
from tests.federation.agent.files.make import PROBLEM, RULES
from tests.federation.helpers.agent_driver import client, feed, state

FILES = Path(__file__).parent / "files"


@pytest.fixture(params=["version-3", "version-4"])
def older(request, tmp_path):
    """A copy of the file, its log and its client's arrays, as they were then."""
    path = shutil.copy(FILES / f"{request.param}.db", tmp_path / "agent.db")
    log = pl.read_ndjson(FILES / f"{request.param}.db.ndjson").with_columns(
        pl.col("made", "rewarded").str.to_datetime(time_unit="us")
    )
    return Path(path), log, dict(np.load(FILES / f"{request.param}.db.npz"))


def test_its_log_its_samples_and_its_state(older):
    path, log, arrays = older
    with Agent.open(path, PROBLEM, **RULES) as agent:
        assert_frame_equal(agent.export().drop("offered"), log)
        assert agent.export()["offered"].null_count() == log.height
        found = client(agent).to_arrays()
        assert set(found) == set(arrays)
        for name in ("X", "y", "covered", "frozen", "update", "adopted", "last_t"):
            assert found[name].tobytes() == arrays[name].tobytes(), name
        for name, value in arrays.items():  # another processor has other last bits
            np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12, err_msg=name)
        assert (agent.status.samples, agent.status.model, agent.status.expired) == (8, 1, 1)


def test_and_it_goes_on(older):
    path, log, _ = older
    ids = dict(zip(log["outcome"], log["id"], strict=True))
    with Agent.open(path, PROBLEM, **RULES) as agent:
        with pytest.raises(AlreadyObserved):
            agent.observe(ids["observed"], 1.0)
        with pytest.raises(DecisionExpired):
            agent.observe(ids["expired"], 1.0)
        agent.observe(ids["pending"], 1.0)
        agent.forget([ids["observed"]])
        with pytest.raises(UnknownDecision):
            agent.observe(ids["observed"], 1.0)
        assert feed(agent, np.random.default_rng(0), 3)[0].endswith("-14")
        assert agent.status.samples == 11
        before = state(agent)
    with Agent.open(path, PROBLEM, **RULES) as back:
        assert state(back) == before
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_a_migration_that_fails_leaves_it_as_it_was(older, monkeypatch):
    path, log, _ = older
    before = list(sqlite3.connect(path).iterdump())
    broken = {k: f"{text};\nDROP TABLE missing" for k, text in store._MIGRATIONS.items()}
    with monkeypatch.context() as patch:
        patch.setattr(store, "_MIGRATIONS", broken)
        with pytest.raises(InvalidInput, match="no such table"):
            Agent.open(path, PROBLEM, **RULES)
    assert list(sqlite3.connect(path).iterdump()) == before
    with Agent.open(path, PROBLEM, **RULES) as agent:
        assert_frame_equal(agent.export().drop("offered"), log)
