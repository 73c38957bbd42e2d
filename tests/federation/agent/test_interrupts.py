"""An exception out of a signal, at any moment of a call: file and memory stay in step."""

from __future__ import annotations

import itertools
import linecache
import sys

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation import Agent, AlreadyObserved, DecisionExpired, UnknownDecision, sqlite
from fedglb.federation.agent import (
    application_calls,
    durable_client,
    store,
    update_answers,
    update_store,
)
from tests.protocol.driver import equal_arrays

PROBLEM = fg.Problem(dim=2)
ARMS = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -1.0]])
STRUCK = {
    module.__file__
    for module in (
        application_calls,
        durable_client,
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
