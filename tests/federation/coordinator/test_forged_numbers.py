"""A client may say that it holds any model: nobody is led astray by it."""

from __future__ import annotations

import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation.coordinator.updates import FARTHEST
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.federation.wire.messages import Heartbeat, Hello, Rejected
from tests.federation.helpers.lossy_network import DIM, agreed, ask, texts, updated

HUGE = 2**53 - 1


@pytest.fixture
def running(join):
    return join(agreement=agreed(algorithm=fg.fedglb_mix(1e9), max_clients=9))


def hello(running, name, update):
    """Say hello with this update's model; return the reason for which it is rejected, or None."""
    payload = encode(Hello(name, update, "test", running.agreement.facts()), name)
    out = [
        decode_down(p, c, DIM)[1] for c, p in running.session.receive(name, payload, running.now)
    ]
    return next((m.reason for m in out if isinstance(m, Rejected)), None)


@pytest.mark.parametrize("update", [HUGE, 2**52, FARTHEST + 1])
def test_a_huge_number_is_not_advised(running, update):
    reason = hello(running, "x", update)
    assert reason == (
        f"x says that it holds the model of update {update}, which there cannot be: the "
        "coordinator's last update is 0"
    )
    assert "--after" not in reason


def test_a_number_between_two_updates_is_not_believed_and_the_model_stays(running):
    """Nobody holds the model of an update that is in progress."""
    updated(running)
    running.lost = lambda way, *_: way == "up"
    running.session.driver.restart_interrupted(running.now)
    ask(running, "b")
    running.lost = lambda *_: False
    running.coordinator.start_update(9, "b")
    assert (running.coordinator.started, running.coordinator.finished) == (2, 1)
    assert "which there cannot be" in hello(running, "x", 2)
    assert running.coordinator.model is not None


def test_the_majority_is_named_and_who_says_more(running):
    assert "--after 41" in hello(running, "w", 41)
    assert "--after 41" in hello(running, "x", 41)
    reason = hello(running, "y", FARTHEST - 1)
    assert "--after 41 (of 3 such clients at least half hold the model of update 41 or" in reason
    assert reason.endswith("earlier one; y claim a later one)")
    assert str(FARTHEST - 1) in reason  # what it says is in the log
    assert "--after 41" in hello(running, "z", 40)
    assert not running.session.records.keys() & {"w", "x", "y", "z"}


def test_after_is_bounded_and_can_be_used_again(join):
    running = join(after=FARTHEST)
    updated(running)
    assert running.coordinator.finished == FARTHEST + 1
    for wrong in (HUGE, 2 * FARTHEST + 2, -1):
        running.file.close()
        with pytest.raises(InvalidInput, match="after"):
            running.begin(after=wrong)
    running.file.close()
    running.begin(after=FARTHEST + 50)
    assert running.coordinator.started == FARTHEST + 50


def test_a_heartbeat_with_a_huge_number_changes_nothing(running):
    updated(running)
    session = running.nodes["c"].agent_session.session
    beat = encode(Heartbeat(HUGE, HUGE), session)
    running.tell(running.session.receive("c", beat, running.now))
    running.run(1.0)
    assert running.coordinator.finished == 1
    updated(running, "a")
    assert not texts(running, "restored")
