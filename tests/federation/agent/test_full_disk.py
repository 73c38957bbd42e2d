"""A disk without room: by default an error, and if so configured a choice that is not kept."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent, UnknownDecision
from tests.federation.helpers.agent_driver import arms, feed, state
from tests.federation.helpers.nats_federation import PATIENCE

PROBLEM = fg.Problem(dim=3)


def fill(agent: Agent) -> None:
    """Let the file grow no further."""
    db = agent._client.store._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count={pages}")


def make_room(agent: Agent) -> None:
    agent._client.store._db.execute("PRAGMA max_page_count=1000000")


@pytest.mark.parametrize("log", ["chosen", "offered"])
def test_it_answers_and_says_that_it_is_not_kept(path, rng, log):
    with Agent.open(path, PROBLEM, on_full_disk="choose", explore=0.5, log=log) as agent:
        feed(agent, rng, 5)
        waiting = agent.choose(arms(rng, 2))
        assert waiting.kept
        fill(agent)
        decisions = [agent.choose(np.eye(3)) for _ in range(400)]
        lost = [d for d in decisions if not d.kept]
        assert len(lost) > 100
        assert len({d.id for d in decisions}) == 400
        assert {d.arm for d in lost} == {0, 1, 2}  # the random ones are drawn anew
        before = state(agent)
        for decision in lost[:3]:
            with pytest.raises(UnknownDecision, match="not kept, because the disk was full"):
                agent.observe(decision.id, 1.0)
        assert state(agent) == before
        make_room(agent)
        assert agent.choose(np.eye(3)).kept
        agent.observe(waiting.id, 1.0)
        assert not set(agent.export()["id"]) & {d.id for d in lost}
        assert agent.status.samples == 6
        before = state(agent)
    with Agent.open(path, PROBLEM) as back:
        assert state(back) == before
        with pytest.raises(UnknownDecision, match="not kept"):  # the id says so, also later
            back.observe(lost[0].id, 1.0)


def test_by_default_it_is_an_error_and_nothing_is_read_again(path, rng, monkeypatch):
    with Agent.open(path, PROBLEM) as agent:
        feed(agent, rng, 5)
        fill(agent)
        read = []
        monkeypatch.setattr(type(agent._client), "_read", lambda self: read.append(1))

        def choose_many() -> None:
            for _ in range(400):
                agent.choose(np.eye(3))

        with pytest.raises(sqlite3.OperationalError, match="full"):
            choose_many()
        make_room(agent)
        agent.choose(np.eye(3))
        assert not read


def test_nothing_has_expired_by_a_choice_that_is_not_kept(path):
    with Agent.open(path, PROBLEM, on_full_disk="choose", max_pending=2) as agent:
        first, _ = agent.choose(np.eye(3)), agent.choose(np.eye(3))
        agent._client.store._db.execute("PRAGMA query_only=ON")  # no write of any kind
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            agent.choose(np.eye(3))  # that is no full disk
        agent._client.store._db.execute("PRAGMA query_only=OFF")
        assert agent.status.expired == 0
        agent.observe(first.id, 1.0)


def test_on_a_disk_that_takes_no_more(path):
    """A limit of the system's on the size of files stands for the small disk."""
    script = """
import json, resource, sys
import numpy as np
import fedglb as fg
agent = fg.Agent.open(sys.argv[1], fg.Problem(dim=3), on_full_disk="choose")
for _ in range(20):
    agent.observe(agent.choose(np.eye(3)).id, 1.0)
waiting = agent.choose(np.eye(3))
import os
size = max(os.path.getsize(sys.argv[1] + end) for end in ("", "-wal", "-shm"))
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, resource.RLIM_INFINITY))
kept = [agent.choose(np.eye(3)).kept for _ in range(100)]
try:
    agent.observe(waiting.id, 1.0)
    observed = True
except Exception as error:
    observed = str(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
after = agent.choose(np.eye(3)).kept
if observed is not True:
    agent.observe(waiting.id, 1.0)
print(json.dumps([sum(kept), observed, after, agent.status.samples, agent.export().height]))
agent.close()
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    kept, observed, after, samples, rows = json.loads(done.stdout)
    assert kept < 100
    assert observed is True or "disk" in observed
    assert after is True
    assert (samples, rows) == (21, 21 + kept + 1)
    with Agent.open(path, PROBLEM) as back:
        assert (back.status.samples, back.export().height) == (samples, rows)


def test_readiness_on_a_disk_that_takes_no_more(path):
    script = """
import os, resource, sqlite3, sys
import numpy as np
import fedglb as fg

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

with fg.Agent.open(sys.argv[1], fg.Problem(dim=3)) as agent:
    agent.choose(np.eye(3))
    limit(max(os.path.getsize(sys.argv[1] + end) for end in ("", "-wal", "-shm")) + 8192)
    for call in (lambda: agent.choose(np.eye(3)), agent.check_ready):
        for _ in range(100):
            try:
                call()
            except sqlite3.Error:
                break
        else:
            print("no error", call)
    limit(resource.RLIM_INFINITY)
    agent.check_ready()
    agent.choose(np.eye(3))
"""
    command = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
