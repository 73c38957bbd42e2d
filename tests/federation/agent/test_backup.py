"""A copy of a file that is in use: whole, as of one moment, and opened as any other."""

from __future__ import annotations

import os
import sqlite3
import threading

import numpy as np
import pytest
from polars.testing import assert_frame_equal

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation import Agent
from tests.federation.helpers.agent_driver import Alone, arms, feed, state
from tests.federation.helpers.nats_federation import PATIENCE

PROBLEM = fg.Problem(dim=3)


def test_it_goes_on_as_the_file_would(path, rng, tmp_path):
    with Agent.open(path, PROBLEM, log="offered") as agent:
        feed(agent, rng, 9)
        Alone(agent).update(agent, t=9)
        waiting = agent.choose(arms(rng, 3))
        agent.absorb(np.eye(3), np.ones(3), key="k")
        agent.backup(tmp_path / "copy.db")
        before, log = state(agent), agent.export()
        feed(agent, rng, 5)
    assert os.stat(tmp_path / "copy.db").st_mode & 0o777 == 0o600
    assert sorted(f.name for f in tmp_path.iterdir() if "copy" in f.name) == ["copy.db"]
    with Agent.open(tmp_path / "copy.db", PROBLEM) as back:
        assert state(back) == before
        assert_frame_equal(back.export(), log)
        back.observe(waiting.id, 1.0)
        assert back.absorb(np.eye(3), np.ones(3), key="k") == 0


def test_nothing_is_overwritten(agent, tmp_path):
    (tmp_path / "copy.db").write_bytes(b"mine")
    with pytest.raises(InvalidInput, match="a path without a file"):
        agent.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == b"mine"
    with pytest.raises(InvalidInput, match="a writable place"):
        agent.backup(tmp_path / "missing" / "copy.db")
    assert not [f for f in tmp_path.iterdir() if "unfinished" in f.name]


def test_beside_threads_that_write_and_one_that_forgets(path, rng, tmp_path):
    agent, failures, done = Agent.open(path, PROBLEM), [], threading.Event()
    ids = feed(agent, rng, 400)

    def learn() -> None:
        try:
            mine = np.random.default_rng(1)
            while not done.is_set():
                feed(agent, mine, 1)
        except BaseException as error:
            failures.append(error)

    def forget() -> None:
        try:
            for id_ in ids[:20]:
                agent.forget([id_])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=learn), threading.Thread(target=forget)]
    for thread in threads:
        thread.start()
    for k in range(5):
        agent.backup(tmp_path / f"{k}.db")
    threads[1].join(PATIENCE)
    done.set()
    threads[0].join(PATIENCE)
    agent.close()
    assert not failures
    counts = []
    for k in range(5):
        db = sqlite3.connect(tmp_path / f"{k}.db")
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
        with Agent.open(tmp_path / f"{k}.db", PROBLEM) as back:
            counts.append(back.export().height)
            assert back.status.samples >= counts[-1] - 1  # one may wait for its reward
    assert min(counts) >= 380
