"""A client that is there and does not answer: it costs a few updates their time, not all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import fedglb as fg
from fedglb.federation.coordinator.members import Stragglers
from fedglb.protocol.messages import Covariance, Derivatives, SumsRequest
from tests.federation.helpers.lossy_network import POLICY, agreed, ask, texts

LIMIT = POLICY.time_limit


def mute(running, name="c"):
    answers = Covariance | Derivatives
    running.lost = lambda way, who, m: way == "up" and who == name and isinstance(m, answers)


def update(running, seconds=60.0):
    """Let `a` ask for an update; return how long it took and how many samples it has."""
    number, since = running.coordinator.finished, running.now
    running.nodes["a"].feed(1)
    ask(running)
    running.until(lambda: running.coordinator.finished > number and running.idle, seconds)
    return running.now - since, running.coordinator.last_update.samples


def test_it_is_asked_last_then_not_at_all_for_a_growing_while(running):
    mute(running)
    taken = [update(running)[0] for _ in range(12)]
    assert sum(seconds > LIMIT for seconds in taken) == 2
    assert all(seconds < 1.0 for seconds in taken[2:])
    asked = running.heard("down", SumsRequest, "c")
    assert {m.update for m in asked} == {1, 2}
    second = [m.client for m in running.heard("down", SumsRequest) if m.update == 2]
    assert second[:3] == ["a", "b", "c"]
    assert texts(running, "excluded")[2].startswith("c is not asked: 2 updates without its")
    pauses = []
    for _ in range(3):
        pauses.append(running.session.driver.stragglers.pause("c", LIMIT, running.now))
        running.run(pauses[-1] + 1.0)
        assert update(running)[0] > LIMIT  # it is tried again, and misses again
    assert pauses[0] < 2**2 * LIMIT
    assert pauses[1:] == pytest.approx([2**3 * LIMIT, 2**4 * LIMIT], abs=1.0)


def test_asked_last_where_its_name_is_the_first(running):
    mute(running, "a")
    ask(running, "b")
    running.until(lambda: running.coordinator.finished == 1)
    ask(running, "c")
    running.run(0.1)
    asked = [m.client for m in running.heard("down", SumsRequest) if m.update == 2]
    assert asked[:3] == ["b", "c", "a"]


def test_its_samples_enter_with_its_first_good_answer_which_resets_it(running):
    mute(running)
    for _ in range(4):
        update(running)
    covered = running.nodes["c"].learner.protocol_client
    assert (covered.adopted, covered.covered) == (4, 0)  # it gets every model all the same
    running.lost = lambda *_: False
    assert running.session.driver.is_paused("c", running.now)
    assert "c" not in running.coordinator.covered
    running.run(4 * LIMIT)
    _, samples = update(running)
    assert samples == sum(len(node.ids) for node in running.nodes.values())
    assert running.session.driver.stragglers.count("c") == 0
    mute(running)
    assert update(running)[0] > LIMIT  # it is waited for as at first
    assert not running.session.driver.is_paused("c", running.now)


def test_the_model_is_that_of_those_who_answered(join):
    exact = agreed(algorithm=fg.fedglb_ucb(1e9, fg.Newton(tolerance=1e-14)))
    models = []
    for names, updates in ((["a", "b", "c"], 4), (["a", "b"], 1)):
        running = join(names=names, agreement=exact)
        mute(running)
        running.nodes["a"].feed(4 - updates)
        for _ in range(updates):
            update(running)
        models.append(running.coordinator.model)
    ours, theirs = models
    assert ours.matrix.tobytes() == theirs.matrix.tobytes()
    # each solve starts at the model before: within the tolerance of 1e-14 on F, which is quadratic
    np.testing.assert_allclose(ours.theta, theirs.theta, rtol=1e-6)


def test_it_cannot_ask_for_updates_meanwhile(running):
    mute(running)
    for _ in range(2):
        update(running)
    ask(running, "c")
    running.run(3 * LIMIT)
    assert running.coordinator.started == 2


def test_below_the_quorum_everybody_is_asked(join):
    running = join(policy=dataclasses.replace(POLICY, quorum=3))
    mute(running)
    for number in (1, 2, 3):
        ask(running)
        running.until(lambda: running.coordinator.started == number and running.idle)  # noqa: B023
        running.nodes["a"].feed(1)
    asked = running.heard("down", SumsRequest, "c")
    assert {m.update for m in asked} >= {1, 2, 3}


def test_a_pause_ends_at_an_hour():
    stragglers = Stragglers()
    for _ in range(100):
        stragglers.missed("a", now=0.0)
    assert stragglers.pause("a", 30.0, now=0.0) == 3600.0
    assert stragglers.pause("a", 7200.0, now=0.0) == 7200.0
