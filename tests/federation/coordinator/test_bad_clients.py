"""What one client can do to the others by odd but well-formed messages: as little as possible."""

from __future__ import annotations

import dataclasses
import math

import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.service import Inbox
from fedglb.federation.names import one_line
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.federation.wire.messages import Hello, Rejected
from fedglb.protocol.messages import Covariance, SumsRequest, SyncRequest
from tests.federation.helpers.lossy_network import DIM, agreed, ask, texts, updated


def said_to(out, client):
    return [decode_down(payload, client, DIM)[1] for name, payload in out if name == client]


def test_a_leap_of_the_clock_is_invalid_and_moves_nobodys_clock(running):
    node = running.nodes["b"]
    node.agent_session.note_trigger(2**50)
    running.request("b")
    running.until(lambda: "invalid" in running.kinds())
    assert "t = 1125899906842624" in texts(running, "invalid")[0]
    assert running.coordinator.t == 0
    assert all(n.learner.clock < 10 for n in running.nodes.values())
    updated(running, "a")


def test_more_samples_than_allowed_are_invalid(join):
    policy = CoordinatorPolicy(quorum=2, max_samples=6)
    running = join(policy=policy)
    running.nodes["c"].feed(3)
    ask(running)
    running.until(lambda: "updated" in running.kinds())
    assert texts(running, "invalid") == [
        "c sent an invalid message: samples = 7 is not allowed: give a whole number >= 0 and <= 6"
    ]
    assert running.events[-1].facts["clients"] == 2


def test_text_from_a_client_is_one_short_line_of_the_log(running):
    hello = running.nodes["a"].agent_session.hello()
    software = "x\n2026-01-01 update 9 is done\x1b[2J" + "y" * 100
    running.session.receive(
        "d", encode(Hello("other", 0, software, hello.agreement), "s"), running.now
    )
    facts = {f"fact\n{k}" + "z" * 150: "\r" * 200 for k in range(150)}
    running.session.receive("e", encode(Hello("i", 0, "y", facts), "s"), running.now)
    lines = texts(running, "joined")[-1:] + texts(running, "rejected")
    assert len(lines) == 2
    for line in lines:
        assert line.isprintable()
        assert len(line) <= 1000
    assert one_line("a\tb") == "a?b"


def test_another_version_is_told_so(running):
    payload = bytearray(encode(running.nodes["a"].agent_session.beat(), "s"))
    payload[3] = 9
    out = running.session.receive("b", bytes(payload), running.now)
    [answer] = said_to(out, "b")
    assert isinstance(answer, Rejected)
    assert answer.reason == (
        "message = 'wire format 9' is not allowed: give a message of wire format 1"
    )


def test_a_coordinator_that_stood_still_does_not_count_the_others_as_silent(running):
    running.lost = lambda way, name, message: isinstance(message, Covariance)
    ask(running)
    running.until(lambda: "updating" in running.kinds())
    running.session.tick(running.now)
    out = running.session.tick(running.now + 100.0)  # a machine that slept
    assert "left" not in running.kinds()
    assert "excluded" not in running.kinds()
    assert [decode_down(p, c, DIM)[1] for c, p in out] == [
        SumsRequest(c, 1) for c in ("a", "b", "c")
    ]


def test_a_new_file_during_an_update_is_kept_before_a_crash(running):
    ask(running)
    running.until(running.shared)  # the model covers what c has
    assert running.coordinator.covered["c"].samples == 4
    running.lost = lambda way, name, message: isinstance(message, Covariance)
    ask(running)
    running.until(lambda: not running.session.driver.idle)
    running.nodes["c"].close()
    running.session.members.drop("c")  # the old one was silent for long enough
    other = Hello("a new file", 0, "test", running.nodes["a"].agent_session.hello().agreement)
    running.session.receive("c", encode(other, "new"), running.now)
    running.crash()
    assert "c" not in running.coordinator.covered
    running.session.receive("c", encode(other, "new"), running.now)
    message = running.coordinator.model_for("c")
    assert message.covered == 0


def test_a_quorum_beyond_all_clients_is_refused(join):
    with pytest.raises(InvalidInput, match="quorum"):
        join(policy=CoordinatorPolicy(quorum=6), agreement=agreed(max_clients=5))


def test_below_the_quorum_the_operator_is_told(join):
    running = join(policy=CoordinatorPolicy(quorum=4))
    ask(running)
    running.until(lambda: "waiting" in running.kinds())
    assert texts(running, "waiting") == ["a asks for an update; 3 are present, the quorum is 4"]


def test_one_client_cannot_fill_the_inbox_for_the_others():
    inbox = Inbox()
    large = bytes(8 * 1024 * 1024)
    assert [inbox.put("bad", large) for _ in range(6)] == [True] * 4 + [False] * 2
    assert inbox.put("good", large)


class UnknownCurvature(fg.Poisson):
    """A link without self-concordance: Newton's steps need losses."""

    def self_concordance(self, radius):
        return None


def test_an_infinite_loss_is_taken_only_where_a_sample_can_have_one():
    problem = fg.Problem(dim=2, link=UnknownCurvature(), noise=1.0)
    algorithm = fg.fedglb_ucb(1.0, fg.Newton())
    setting = algorithm.setting(problem, 1, None)
    coordinator = fg.Coordinator(algorithm, setting, ["a"], reward_limit=5.0)
    client = fg.Client("a", algorithm, setting)
    client.observe([1.0, 0.0], 1.0, t=1)
    [request] = coordinator.begin(1)
    [evaluate] = coordinator.receive(client.receive(request)[0])
    [answer] = client.receive(evaluate)
    assert answer.loss is not None
    with pytest.raises(InvalidInput, match="loss"):
        coordinator.receive(dataclasses.replace(answer, loss=math.inf))


def test_a_rejection_does_not_hide_an_invalid_message(running):
    hello = running.nodes["a"].agent_session.hello()
    other = Hello("another file", 0, "test", hello.agreement)
    running.session.receive("a", encode(other, "second"), running.now)
    out = running.session.receive("a", b"garbage", running.now)
    assert len(texts(running, "rejected")) == len(texts(running, "invalid")) == 1
    [answer] = said_to(out, "a")
    assert answer.member  # excluded from the update, but still a member


def test_a_request_of_a_client_that_lacks_the_model_is_answered_with_the_model(running):
    updated(running)
    request = SyncRequest("b", 5, 0)
    session = running.nodes["b"].agent_session.session
    out = running.session.receive("b", encode(request, session), running.now)
    [model] = said_to(out, "b")
    assert (model.update, running.session.driver.idle) == (1, True)


def test_a_client_excluded_at_the_end_is_not_counted(join):
    """With sums alone there are no rounds: excluding the last one missing finishes the update."""
    running = join(agreement=agreed(algorithm=fg.dislinucb(1e9)))
    running.lost = lambda way, name, message: isinstance(message, Covariance) and name == "c"
    ask(running)
    running.until(lambda: "updated" in running.kinds())
    facts = running.events[-1].facts
    assert (facts["clients"], facts["samples"]) == (2, 8)


def test_the_number_given_for_a_lost_file_survives_a_crash(join):
    running = join(after=41)
    running.crash()
    assert running.coordinator.started == 41
    running.until(running.everybody_here)
    updated(running)
    assert running.coordinator.finished == 42
