"""What one client can do to the others by odd but well-formed messages: as little as possible."""

from __future__ import annotations

import asyncio

import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.service import Inbox
from fedglb.federation.coordinator.updates import FARTHEST
from fedglb.federation.names import one_line, up
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.federation.wire.messages import Heartbeat, Hello
from fedglb.protocol.messages import Covariance, SumsRequest, SyncRequest
from tests.federation.helpers.in_process import Serving, honest
from tests.federation.helpers.lossy_network import DIM, agreed, ask, texts, updated
from tests.federation.helpers.nats_federation import PATIENCE, connected


def test_a_leap_of_the_clock_is_invalid_and_moves_nobodys_clock(running):
    node = running.nodes["b"]
    node.agent_session.note_trigger(2**50)
    running.request("b")
    running.until(lambda: "invalid" in running.kinds())
    assert "t = 1125899906842624" in texts(running, "invalid")[0]
    assert running.coordinator.t == 0
    assert all(n.learner.clock < 10 for n in running.nodes.values())
    updated(running, "a")


@pytest.mark.parametrize("algorithm", [fg.fedglb_ucb(1e9, fg.Newton()), fg.fedglb_auto(1e9)])
def test_more_samples_than_allowed_are_invalid(join, algorithm):
    policy = CoordinatorPolicy(quorum=2, max_samples=6)
    running = join(policy=policy, agreement=agreed(algorithm=algorithm))
    running.nodes["c"].feed(3)
    ask(running)
    running.until(lambda: "updated" in running.kinds())
    assert texts(running, "invalid") == [
        "c sent an invalid message: samples = 7: expected a whole number >= 0 and <= 6"
    ]
    assert running.events[-1].facts["clients"] == 2


def test_text_from_a_client_is_one_short_line_of_the_log(running):
    hello = running.nodes["a"].agent_session.hello()
    software = "x\n2026-01-01 update 9 is done\x1b[2J" + "y" * 100
    running.hear("d", Hello("other", 0, software, hello.agreement), "s")
    facts = {f"fact\n{k}" + "z" * 150: "\r" * 200 for k in range(150)}
    running.hear("e", Hello("i", 0, "y", facts), "s")
    lines = texts(running, "joined")[-1:] + texts(running, "rejected")
    assert len(lines) == 2
    for line in lines:
        assert line.isprintable()
        assert len(line) <= 1000
    assert one_line("a\tb") == "a?b"


def test_another_version_is_told_so(running):
    payload = bytearray(encode(running.nodes["a"].agent_session.beat(), "s"))
    payload[3] = 9
    [answer] = running.hear("b", bytes(payload))
    assert answer.reason == ("message = 'wire format 9': expected a message of wire format 5")


@pytest.mark.parametrize("connects", [False, True])
def test_a_coordinator_that_stood_still_does_not_count_the_others_as_silent(running, connects):
    """A machine that slept, or had no connection for a while."""
    running.lost = lambda way, name, message: isinstance(message, Covariance)
    ask(running)
    running.until(lambda: "updating" in running.kinds())
    later = running.now + 100.0
    if connects:
        running.session._ticked = None  # it is the connection that counts
        running.session.start(later)
    out = running.session.tick(later)
    assert "left" not in running.kinds()
    assert "excluded" not in running.kinds()
    assert [decode_down(p, c, DIM)[1] for c, p in out] == [
        SumsRequest(c, 1) for c in ("a", "b", "c")
    ]


def test_a_quorum_beyond_all_clients_is_refused(join):
    with pytest.raises(InvalidInput, match="quorum"):
        join(policy=CoordinatorPolicy(quorum=6), agreement=agreed(max_clients=5))


def test_one_client_cannot_fill_the_inbox_for_the_others():
    inbox = Inbox()
    large = bytes(8 * 1024 * 1024)
    assert [inbox.put("bad", large) for _ in range(6)] == [True] * 4 + [False] * 2
    assert inbox.put("good", large)


@pytest.mark.parametrize("more", [{"headers": {"Nats-Msg-Id": "1"}}, {"reply": "fed.demo.up.a"}])
def test_a_message_with_headers_or_a_reply_subject_is_dropped(shared, tmp_path, more):
    """No member sends such messages: an attacker made the server send them."""
    bundle = shared.bundle("c")
    hello, subject = Hello("file", 0, "test", bundle.agreement.facts()), up("demo", "c")
    with (
        Serving(shared, tmp_path / "state.db") as serving,
        honest(shared, tmp_path, serving, {"a": 1}),  # the coordinator listens
    ):

        async def scene():
            async with connected(bundle) as c:
                await c.say(subject, b"garbage", **more)
                await c.say(subject, encode(hello, "s"))
                await asyncio.to_thread(serving.wait, "joined", client="c")

        asyncio.run(asyncio.wait_for(scene(), PATIENCE))
        assert not serving.texts("invalid")  # as it says of any other garbage


def test_a_rejection_does_not_hide_an_invalid_message(running):
    hello = running.nodes["a"].agent_session.hello()
    other = Hello("another file", 0, "test", hello.agreement)
    running.hear("a", other, "second")
    [answer] = running.hear("a", b"garbage")
    assert len(texts(running, "rejected")) == len(texts(running, "invalid")) == 1
    assert answer.member  # excluded from the update, but still a member


def test_a_request_of_a_client_that_lacks_the_model_is_answered_with_the_model(running):
    updated(running)
    [model] = running.hear("b", SyncRequest("b", 5, 0))
    assert (model.update, running.session.driver.idle) == (1, True)


def test_a_client_excluded_at_the_end_is_not_counted(join):
    """With sums alone there are no rounds: excluding the last one missing finishes the update."""
    running = join(agreement=agreed(algorithm=fg.dislinucb(1e9)))
    running.lost = lambda way, name, message: isinstance(message, Covariance) and name == "c"
    ask(running)
    running.until(lambda: "updated" in running.kinds())
    facts = running.events[-1].facts
    assert (facts["clients"], facts["samples"]) == (2, 8)


# -- the update that a client says it holds the model of -----------------------------------------

HUGE = 2**53 - 1


@pytest.fixture
def at_model(join):
    return join(agreement=agreed(algorithm=fg.fedglb_mix(1e9), max_clients=9))


def hello(running, name, update):
    """Say hello with this update's model; return the reason for which it is rejected."""
    [answer] = running.hear(name, Hello(name, update, "test", running.agreement.facts()), name)
    return answer.reason


@pytest.mark.parametrize("update", [HUGE, 2**52, FARTHEST + 1])
def test_a_huge_number_is_not_advised(at_model, update):
    reason = hello(at_model, "x", update)
    assert reason == (
        f"x claims to have the model of update {update}, which cannot exist: the "
        "coordinator's last update is 0"
    )
    assert "--after" not in reason


def test_a_number_between_two_updates_is_not_believed_and_the_model_stays(at_model):
    """Nobody holds the model of an update that is in progress."""
    updated(at_model)
    at_model.lost = lambda way, *_: way == "up"
    at_model.session.driver.restart_interrupted(at_model.now)
    ask(at_model, "b")
    at_model.lost = lambda *_: False
    at_model.coordinator.start_update(9, "b")
    assert (at_model.coordinator.started, at_model.coordinator.finished) == (2, 1)
    assert "which cannot exist" in hello(at_model, "x", 2)
    assert at_model.coordinator.model is not None


def test_the_majority_is_named_and_who_says_more(at_model):
    assert "--after 41" in hello(at_model, "w", 41)
    assert "--after 41" in hello(at_model, "x", 41)
    reason = hello(at_model, "y", FARTHEST - 1)
    assert "--after 41 (of 3 such clients at least half have the model of update 41 or" in reason
    assert reason.endswith("earlier one; y claim a later one)")
    assert str(FARTHEST - 1) in reason  # what it says is in the log
    assert "--after 41" in hello(at_model, "z", 40)
    assert not at_model.session.records.keys() & {"w", "x", "y", "z"}


def test_after_is_bounded_survives_a_crash_and_can_be_used_again(join):
    running = join(after=FARTHEST)
    running.crash()
    assert running.coordinator.started == FARTHEST
    running.until(running.everybody_here)
    updated(running)
    assert running.coordinator.finished == FARTHEST + 1
    for wrong in (HUGE, 2 * FARTHEST + 2, -1):
        running.file.close()
        with pytest.raises(InvalidInput, match="after"):
            running.begin(after=wrong)
    running.file.close()
    running.begin(after=FARTHEST + 50)
    assert running.coordinator.started == FARTHEST + 50


def test_a_heartbeat_with_a_huge_number_changes_nothing(at_model):
    updated(at_model)
    at_model.hear("c", Heartbeat(HUGE, HUGE))
    at_model.run(1.0)
    assert at_model.coordinator.finished == 1
    updated(at_model, "a")
    assert not texts(at_model, "restored")
