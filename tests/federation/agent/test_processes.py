"""One file, one process: forks, second openers, kills, and many threads at once."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent, Unavailable
from fedglb.protocol.persistence import to_arrays
from tests.federation.helpers.agent_driver import Alone, arms, client, feed, state
from tests.federation.helpers.nats_federation import PATIENCE

PROBLEM = fg.Problem(dim=3)
ARMS = np.eye(3)
OPEN = """
import os, sys
import fedglb as fg
from fedglb.federation import Agent
agent = Agent.open(sys.argv[1], fg.Problem(dim=3))
"""


def script(path: Path, text: str, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", OPEN + text, str(path)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def outcome(path: Path, text: str) -> tuple[int, str, str]:
    process = script(path, text)
    out, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, out, errors


def test_a_forked_child_is_refused_and_does_its_parent_no_harm(tmp_path):
    """The child ends as any program does, with all that Python cleans up; then the parent dies."""
    path = tmp_path / "agent.db"
    code, out, errors = outcome(
        path,
        """
ARMS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
def learn():
    agent.observe(agent.choose(ARMS).id, 1.0)
for _ in range(5):
    learn()
waiting = agent.choose(ARMS)
from fedglb.federation import Unavailable
child = os.fork()
if child == 0:
    refused = 0
    for call in (lambda: agent.choose(ARMS), lambda: agent.observe(waiting.id, 1.0), agent.export,
                 lambda: agent.forget([waiting.id]), lambda: agent.status):
        try:
            call()
        except Unavailable as error:
            refused += "forked child" in str(error)
    agent.close()
    del agent, learn, call
    sys.exit(refused)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
for _ in range(5):
    learn()
agent.observe(waiting.id, 1.0)
sys.stdout.flush()
os._exit(0)
""",
    )
    assert (code, out.strip(), errors) == (0, "5", "")
    with Agent.open(path, PROBLEM) as agent:
        assert agent.status.samples == 11


def test_two_agents_on_one_file_in_one_process(tmp_path):
    path = tmp_path / "agent.db"
    with Agent.open(path, PROBLEM) as agent:
        feed(agent, np.random.default_rng(0), 2)
        (tmp_path / "link.db").symlink_to(path)
        for name in ("agent.db", "link.db"):
            with pytest.raises(Unavailable, match="already open"):
                Agent.open(tmp_path / name, PROBLEM)
        # and the attempts have not taken the first one's lock away
        code, _, errors = outcome(path, "agent.close()")
        assert code != 0
        assert "already open" in errors
        feed(agent, np.random.default_rng(1), 2)
        assert agent.status.samples == 4


def test_many_threads_beside_updates(tmp_path):
    threads, each = 8, 200
    path, failures = tmp_path / "agent.db", []
    done = threading.Event()
    agent = Agent.open(path, PROBLEM)
    world = Alone(agent)

    def play(k: int) -> None:
        rng, dice, waiting = np.random.default_rng(k), random.Random(k), []
        try:
            for _ in range(each):
                waiting.append(agent.choose(arms(rng, dice.randint(1, 5))).id)
                while waiting and dice.random() < 0.5:
                    id_ = waiting.pop(dice.randrange(len(waiting)))
                    agent.observe(id_, float(dice.random() < 0.5))
            for id_ in waiting:
                agent.observe(id_, 1.0)
        except BaseException as error:
            failures.append(error)

    def update() -> None:
        try:
            while not done.is_set() or world.coordinator.finished < 5:
                world.update(agent, t=max(1, client(agent).last_t))
        except BaseException as error:
            failures.append(error)

    players = [threading.Thread(target=play, args=(k,)) for k in range(threads)]
    updating = threading.Thread(target=update)
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in (*players, updating):
            thread.start()
        for thread in players:
            thread.join(timeout=PATIENCE)
        done.set()
        updating.join(timeout=PATIENCE)
    finally:
        sys.setswitchinterval(old)
    assert not failures
    assert not any(thread.is_alive() for thread in (*players, updating))
    feed(agent, np.random.default_rng(99), 7)
    assert agent.status.samples == threads * each + 7
    assert set(agent.export()["outcome"]) == {"observed"}
    live = state(agent)
    agent.close()
    with Agent.open(path, PROBLEM) as back:  # the replay, in the order of the samples
        assert state(back) == live


def test_a_sample_that_comes_during_the_replay_counts_once(tmp_path, monkeypatch):
    """The moment between two lines of an adoption, made to last."""
    with Agent.open(tmp_path / "agent.db", PROBLEM) as agent:
        rng = np.random.default_rng(0)
        feed(agent, rng, 5)
        world = Alone(agent)
        world.begin(t=5)
        while len(world.queue) == 1 and type(world.queue[0]).__name__ != "NewModel":
            world.deliver(agent)
        feed(agent, rng, 2)
        local = type(client(agent).algorithm.local_update)
        original, late = local.replay, [3]

        def replay(self, setting, state, samples, first):
            while late[0]:
                late[0] -= 1
                feed(agent, rng, 1)
            original(self, setting, state, samples, first)

        monkeypatch.setattr(local, "replay", replay)
        world.deliver(agent)
        monkeypatch.undo()
        assert (client(agent).covered, agent.status.samples) == (5, 10)
        live = to_arrays(client(agent).state)
        assert live["counters"][2] == 2  # its epoch
    with Agent.open(tmp_path / "agent.db", PROBLEM) as back:
        again = to_arrays(client(back).state)
        assert {k: v.tobytes() for k, v in live.items()} == {
            k: v.tobytes() for k, v in again.items()
        }


def test_alone_an_agent_needs_nothing_of_the_extra(tmp_path):
    script = """
import sys
sys.modules["nats"] = sys.modules["cryptography"] = None  # not installed
import fedglb as fg
from fedglb.federation import Agent
with Agent.open(sys.argv[1], fg.Problem(dim=2)) as agent:
    agent.observe(agent.choose([[1.0, 0.0]]).id, 1.0)
    print(agent.status.samples)
try:
    Agent.open(sys.argv[1], fg.Problem(dim=2), bundle="shop-1")
except fg.InvalidInput as error:
    print(error)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "a.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    samples, refusal = done.stdout.splitlines()
    assert samples == "1"
    assert "install fedglb[federation]" in refusal
