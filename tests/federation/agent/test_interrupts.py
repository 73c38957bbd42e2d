"""An exception out of a signal, at any moment of a call: file and memory stay in step."""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent, AlreadyObserved, DecisionExpired, UnknownDecision, sqlite
from fedglb.federation.agent import (
    application_calls,
    choices,
    durable_client,
    removal,
    rewards,
    store,
    update_answers,
    update_store,
)
from tests.federation.helpers.agent_driver import replayed
from tests.protocol.driver import equal_arrays

PROBLEM = fg.Problem(dim=2)
ARMS = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]])
STRUCK = {
    module.__file__
    for module in (
        application_calls,
        choices,
        durable_client,
        removal,
        rewards,
        store,
        update_answers,
        update_store,
        sqlite,
    )
}


class Interrupt(BaseException):
    """What a signal handler raises."""


class AfterLines:
    """Raises once, after so many lines of the code that writes: where a signal may strike."""

    def __init__(self, lines: int) -> None:
        self.left = lines

    def __enter__(self):
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _trace(self, frame, event, argument):
        name = frame.f_code.co_filename
        if name not in STRUCK:
            return None
        line = linecache.getline(name, frame.f_lineno).lstrip()
        # Not on the way out of a `with` nor at `try:`, where the interpreter takes no signals.
        if event == "line" and not line.startswith(("with ", "try:")):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise Interrupt
        return self._trace


def interrupted(call, lines: int) -> bool:
    """Whether `call` was interrupted after so many lines, and not over before."""
    try:
        with AfterLines(lines):
            call()
    except Interrupt:
        return True
    return False


def test_wherever_it_strikes_the_agent_goes_on_as_its_file_says(tmp_path):
    agent = Agent.open(tmp_path / "a.db", PROBLEM)
    acknowledged = 0
    for lines in itertools.count(1):
        chose = interrupted(lambda: agent.choose(ARMS), lines)
        decision = agent.choose(ARMS)
        observed = interrupted(lambda d=decision: agent.observe(d.id, 1.0), lines)
        try:
            agent.observe(decision.id, 1.0)
        except AlreadyObserved:  # it was written before the interrupt: nothing is lost
            assert observed or lines > 1
        acknowledged += 1
        assert agent.status.samples == acknowledged
        if not chose and not observed:
            break
    assert lines > 20  # it did strike inside
    now = agent._client.protocol_client.to_arrays()
    agent.close()
    with Agent.open(tmp_path / "a.db", PROBLEM) as again:
        assert equal_arrays(again._client.protocol_client.to_arrays(), now)
        assert again.export()["outcome"].to_list().count("observed") == acknowledged


def test_forgetting_that_is_interrupted_is_done_or_not_done(tmp_path):
    agent = Agent.open(tmp_path / "a.db", PROBLEM)
    for lines in itertools.count(1, 3):
        decision = agent.choose(ARMS)
        agent.observe(decision.id, 0.0)
        struck = interrupted(lambda d=decision: agent.forget([d.id]), lines)
        rows = set(agent.export()["id"])
        assert agent.status.samples == len(rows)
        if decision.id in rows:
            assert struck
            agent.forget([decision.id])
        with pytest.raises((UnknownDecision, DecisionExpired)):
            agent.observe(decision.id, 0.0)
        if not struck:
            break
    assert lines > 20  # it did strike inside
    assert agent.status.samples == 0
    agent.close()


# -- the other calls: each is begun, perhaps interrupted, and made again -------------------------

Call = tuple[Callable[[], object], Callable[[], None]]  # what is interrupted; what must hold then


def ranking(agent: Agent, k: int) -> Call:
    def made() -> None:
        found = agent.rank(ARMS, 2, key=f"view {k}")
        assert agent.rank(ARMS, 2, key=f"view {k}") == found
        assert agent.export().height == agent._client.waiting == 2 * k

    return lambda: agent.rank(ARMS, 2, key=f"view {k}"), made


def clicks(agent: Agent, k: int) -> Call:
    shown = [decision.id for decision in agent.rank(ARMS, 3)]

    def call() -> None:
        agent.observe_ranking(shown, [shown[1]])

    def told() -> None:
        with suppress(AlreadyObserved):
            call()
        with pytest.raises(AlreadyObserved) as again:
            call()
        assert again.value.same
        assert agent.export()["outcome"].to_list() == ["observed", "observed", "unseen"] * k
        assert agent.export()["reward"].to_list() == [0.0, 1.0, None] * k
        assert agent.status.samples == 2 * k

    return call, told


def activation(agent: Agent, k: int) -> Call:
    made = agent.choose(ARMS, prefetch=True)

    def happened() -> None:
        agent.activate([made.id])
        assert agent.export()["id"].to_list()[-1] == made.id
        assert agent.export().height == agent._client.waiting == k

    return lambda: agent.activate([made.id]), happened


def silence(agent: Agent, k: int) -> Call:
    agent.choose(ARMS)

    def learned() -> None:
        agent._calls.learn_silence(10)
        assert agent.status.samples == agent.status.defaulted == agent.export().height == k

    return lambda: agent._calls.learn_silence(10), learned


def late_reward(agent: Agent, k: int) -> Call:
    made = agent.choose(ARMS)
    agent._calls.learn_silence(10)
    agent.observe(made.id, 1.0)

    def learned() -> None:
        agent._calls.learn_late()
        assert agent.export()["reward"].to_list() == [1.0] * k
        assert agent.status.samples == agent.status.defaulted == agent.status.replaced == k

    return agent._calls.learn_late, learned


def subject(agent: Agent, k: int) -> Call:
    agent.observe(agent.choose(ARMS).id, 1.0)
    agent.observe(agent.choose(ARMS, subject="ann").id, 0.0)
    agent.choose(ARMS, subject="ann")
    agent.choose(ARMS, subject="ann", prefetch=True)

    def gone() -> None:
        agent.forget(subject="ann")
        assert agent.export()["reward"].to_list() == [1.0] * k
        assert (agent.status.samples, agent._client.waiting) == (k, 0)

    return lambda: agent.forget(subject="ann"), gone


@pytest.mark.parametrize(
    "case",
    [ranking, clicks, activation, silence, late_reward, subject],
    ids=lambda case: case.__name__,
)
def test_a_call_that_is_interrupted_and_made_again_has_happened_once(tmp_path, case):
    rules = {"default_reward": 0.0, "reward_after": 1e-6} if case in (silence, late_reward) else {}
    agent = Agent.open(tmp_path / "a.db", PROBLEM, **rules)
    if agent._silence is not None:
        agent._silence.close()  # only this thread learns
    struck = True
    for k in itertools.count(1):
        call, check = case(agent, k)
        struck = interrupted(call, k)
        agent.export()  # whatever comes next
        memory, file = replayed(agent._client)
        assert memory == file
        check()
        if not struck:
            break
    assert k > 20  # it did strike inside
    now = agent._client.protocol_client.to_arrays()
    agent.close()
    with Agent.open(tmp_path / "a.db", PROBLEM) as again:
        assert equal_arrays(again._client.protocol_client.to_arrays(), now)
