"""Many agents in one process: one loop, one pool, and none that disturbs another."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from fedglb.protocol.messages import NewModel, SumsRequest
from tests.federation.agent.test_closing import in_its_place, threads
from tests.federation.helpers.in_process import Serving, honest, opened, play, same, update
from tests.federation.helpers.nats_federation import PATIENCE, eventually, federation, table

THREE = {"a": 3, "b": 4, "c": 5}


@pytest.fixture(autouse=True)
def no_threads():
    """Those of the pool end a moment after the last agent, which does not wait for a pass."""
    eventually(lambda: threads() == [], "the end of threads of the test before")


@pytest.fixture
def running(tmp_path):
    with federation(tmp_path, list(THREE)) as made:
        yield made


@pytest.fixture
def serving(running, tmp_path):
    with Serving(running, tmp_path / "state.db") as made:
        yield made


def hold(agents, number):
    return all(agent.wait_for_model(number, PATIENCE) for agent in agents)


@pytest.mark.slow
def test_a_hundred_agents_have_no_more_threads_than_two(tmp_path):
    names = [f"n{k:03}" for k in range(100)]
    samples = {name: 1 + k % 3 for k, name in enumerate(names)}
    with (
        federation(tmp_path, names, table(len(names))) as running,
        Serving(running, tmp_path / "state.db") as serving,
        ExitStack() as stack,
    ):
        agents = {}
        for name in names:
            agents[name] = stack.enter_context(opened(running, tmp_path, name, samples[name]))
            assert threads() == ["fedglb-agents"]
        for name in names:
            serving.wait("joined", client=name)
        agents["n041"].request_update()
        assert hold(agents.values(), 1)
        assert threads() == ["fedglb-agents"]  # such short passes are made in the loop
        assert serving.wait("updated").facts["clients"] == len(names)
        agreement = running.coordinator_bundle.agreement
        assert same(serving.session.coordinator.model, update(agreement, samples))
    assert threads() == []


def test_closing_one_leaves_the_others_and_the_last_takes_the_thread(running, serving, tmp_path):
    with honest(running, tmp_path, serving, THREE) as agents:
        agents["b"].close()
        agents["b"].close()
        serving.wait("left", client="b")
        assert threads() == ["fedglb-agents"]
        agents["a"].request_update()
        assert hold([agents["a"], agents["c"]], 1)
    assert threads() == []
    with opened(running, tmp_path, "b", 2) as again:
        eventually(lambda: again.status.admitted, "admission")
        assert threads() == ["fedglb-agents"]
        again.request_update()
        assert again.wait_for_model(2, PATIENCE)
    assert threads() == []


@pytest.mark.parametrize("in_pool", [False, True])
def test_an_error_of_one_agent_is_its_own(running, serving, tmp_path, monkeypatch, caplog, in_pool):
    with honest(running, tmp_path, serving, THREE) as agents:
        session = agents["b"]._session

        def fail(message):
            raise RuntimeError("as if the disk were full")

        monkeypatch.setattr(session.answers, "adopt", fail)
        monkeypatch.setattr(session.answers, "is_quick", lambda: not in_pool)
        agents["a"].request_update()
        assert hold([agents["a"], agents["c"]], 1)
        eventually(lambda: "as if the disk were full" in caplog.text, "the error")
        assert agents["b"].status.model == 0
        monkeypatch.undo()
        assert hold([agents["b"]], 1)  # its heartbeats say that it lacks the model
        agents["b"].request_update()
        assert hold(agents.values(), 2)


def test_a_long_pass_of_one_agent_keeps_no_other_waiting(running, serving, tmp_path, monkeypatch):
    with honest(running, tmp_path, serving, THREE) as agents:
        session, go_on = agents["b"]._session, threading.Event()
        receive, order = session.receive, []

        def slowly(message):
            if isinstance(message, SumsRequest) and not order:
                order.append(message)
                assert go_on.wait(PATIENCE)
            elif isinstance(message, NewModel):
                order.append(message)
            return receive(message)

        monkeypatch.setattr(session, "receive", slowly)
        monkeypatch.setattr(session.answers, "is_quick", lambda: False)
        agents["a"].request_update()
        eventually(lambda: serving.session.coordinator.missing() == ["b"], "the others' answers")
        assert agents["b"].status.samples == 4  # nor does its own application wait
        play(agents["b"], "b", 1)
        assert len(threads()) == 2
        go_on.set()
        assert hold(agents.values(), 1)
        assert [type(message) for message in order[:2]] == [SumsRequest, NewModel]


def test_long_passes_use_a_bounded_pool(running, serving, tmp_path, monkeypatch):
    with honest(running, tmp_path, serving, THREE) as agents:
        for agent in agents.values():
            monkeypatch.setattr(agent._session.answers, "is_quick", lambda: False)
        for number in range(1, 6):
            agents["a"].request_update()
            assert hold(agents.values(), number)
            play(agents["a"], "a", 1)
        assert 2 <= len(threads()) <= 1 + 4
    eventually(lambda: threads() == [], "the end of the pool")


@pytest.mark.parametrize("answer", [None, b""])
def test_a_server_that_does_not_answer_holds_up_only_its_own_agents(
    running, serving, tmp_path, answer
):
    names = [f"n{k:02}" for k in range(20)]  # more than may shake hands at a time
    (tmp_path / "elsewhere").mkdir()
    other = federation(tmp_path / "elsewhere", names, table(len(names)))
    with in_its_place(other.port, answer) as taken, ExitStack() as stack:
        lost = [stack.enter_context(opened(other, tmp_path, name, 1)) for name in names]
        eventually(lambda: len(taken) >= 5, "attempts")
        with honest(running, tmp_path, serving, THREE) as agents:
            agents["a"].request_update()
            assert hold(agents.values(), 1)
        assert not any(agent.status.connected for agent in lost)


SCRIPT = """
import os, sys, time
import fedglb as fg
bundles, files = sys.argv[1:]
def opened(name):
    agent = fg.Agent.open(f"{files}/{name}-of-script.db", fg.Problem(dim=3),
                          bundle=f"{bundles}/{name}", beat=0.1)
    agent.observe(agent.choose([[1.0, 0.0, 0.0]]).id, 1.0)
    while not agent.status.admitted:
        time.sleep(0.01)
    return agent
def update(agent, number):
    agent.request_update()
    assert agent.wait_for_model(number, 300.0)
"""


def outcome(running, tmp_path, text):
    command = [sys.executable, "-c", SCRIPT + text, running.folder / "clients", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def test_a_forked_child_has_agents_of_its_own(running, serving, tmp_path):
    """Its thread is its own, and neither what it does nor its end disturbs its parent."""
    text = """
a = opened("a")
child = os.fork()
if child == 0:
    b, c = opened("b"), opened("c")
    update(b, 1)
    assert c.wait_for_model(1, 300.0)
    b.close()
    update(c, 2)
    c.close()
    a.close()  # the parent's: harmless
    sys.exit(7)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), a.status.connected, a.status.model >= 2)
a.request_update()
assert a.wait_for_model(a.status.model + 1, 300.0)
a.close()
a = opened("a")
print(a.status.model >= 3)
a.close()
"""
    code, out, errors = outcome(running, tmp_path, text)
    assert (code, out, errors) == (0, "7 True True\nTrue\n", "")


def test_the_interpreter_ends_without_a_close(running, serving, tmp_path):
    text = """
agents = [opened(name) for name in "abc"]
agents[0]._session.answers.is_quick = lambda: False  # so that there is a pool to end
update(agents[0], 1)
"""
    assert outcome(running, tmp_path, text) == (0, "", "")
