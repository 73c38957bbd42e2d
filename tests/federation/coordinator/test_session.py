"""The coordinator's session, on a simulated clock."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.wire.messages import (
    Admitted,
    Goodbye,
    Heartbeat,
    Hello,
    HelloRequest,
    Rejected,
    Withdrawal,
)
from fedglb.protocol.messages import (
    Covariance,
    Derivatives,
    ModelSums,
    NewModel,
    SumsRequest,
    SyncRequest,
)
from fedglb.protocol.update import Update
from tests.federation.helpers.in_process import same
from tests.federation.helpers.lossy_network import (
    POLICY,
    TICK,
    agreed,
    ask,
    harness,
    recover,
    stuck,
    texts,
    updated,
)


def test_an_update_is_finished_and_reported(running):
    updated(running)
    assert running.kinds() == ["joined"] * 3 + ["updating", "updated"]
    facts = running.events[-1].facts
    wanted = {"number": 1, "clients": 3, "samples": 12, "asked_by": "a"}
    assert wanted.items() <= facts.items()
    [row] = running.file.last_updates(9)
    assert (row.t, row.rounds, row.bytes) == (facts["t"], facts["rounds"], facts["bytes"])
    sent = running.session.traffic.entries
    assert sent["NewModel.down"][0] == 3
    assert sent["SumsRequest.down"][0] == 3


def test_resends_come_after_a_pause_that_doubles_up_to_four_seconds(join):
    running = join(policy=dataclasses.replace(POLICY, time_limit=60.0, absent_after=90.0))
    running.lost = lambda way, name, m: way == "up" and name == "b" and isinstance(m, Covariance)
    ask(running)
    running.run(30.0)
    times = [
        when
        for when, way, name, m in running.said
        if way == "down" and name == "b" and isinstance(m, SumsRequest)
    ]
    pauses = np.diff(times)
    assert pauses[:6] == pytest.approx([0.25, 0.5, 1.0, 2.0, 4.0, 4.0], abs=1.5 * TICK)
    assert len(running.heard("down", SumsRequest, "a")) == 1  # only to who is missing
    assert running.coordinator.ledger.entries["SumsRequest", "down"].messages == 3
    recover(running)


def test_nothing_is_resent_while_answers_come_in(running):
    """Where a round takes long because there are many clients, repetitions would only add to it."""
    running.lost = lambda way, _, m: way == "up" and isinstance(m, Covariance)
    ask(running)
    running.run(TICK)
    answers = {name: running.heard("up", Covariance, name)[0] for name in "abc"}
    running.lost = lambda *_: False
    for name in "ab":
        running.run(3 * TICK)
        assert len(running.heard("down", SumsRequest)) == 3
        running.say(running.nodes[name], answers[name])
    running.run(3 * TICK)
    assert running.coordinator.missing() == ["c"]
    assert len(running.heard("down", SumsRequest)) == 3
    running.until(running.shared)
    assert len(running.heard("down", SumsRequest, "c")) == 2
    assert len(running.heard("down", SumsRequest)) == 4


def test_a_client_that_does_not_answer_in_time_is_excluded_and_gets_the_model(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives) and name == "c"
    updated(running)
    assert texts(running, "excluded") == ["excluded c: no answer within 5 s"]
    assert running.coordinator.last_update.samples == 8
    assert running.nodes["c"].learner.protocol_client.covered == 0
    assert running.nodes["a"].learner.protocol_client.covered == 4


def test_below_the_quorum_an_update_is_abandoned_and_the_next_has_another_number(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Covariance) and name != "a"
    running.say(running.nodes["a"], SyncRequest("a", 4, 0))
    running.until(lambda: "abandoned" in running.kinds())
    assert texts(running, "abandoned") == ["abandoned update 1: fewer than 2 of 3 clients remain"]
    assert running.idle
    assert running.file.last_started() == (1, None)  # it is not started again
    running.lost = lambda *_: False
    running.crash()
    running.until(running.everybody_here)
    updated(running)
    assert running.coordinator.finished == 2


def test_below_the_quorum_no_update_starts_and_the_request_stands(join):
    running = join(names=["a"])
    ask(running)
    running.run(5.0)
    assert "updating" not in running.kinds()
    assert texts(running, "waiting") == ["a requests an update; 1 present, the quorum is 2"]
    running.add("b")
    running.until(running.shared)
    assert running.coordinator.finished == 1


def test_a_silent_agent_is_absent_until_its_next_message(running):
    running.lost = lambda way, name, m: name == "c"
    running.until(lambda: "left" in running.kinds())
    assert texts(running, "left") == ["c has left: silent for too long"]
    assert list(running.coordinator.clients) == ["a", "b"]
    ask(running)
    running.until(lambda: running.nodes["a"].model == 1)
    running.lost = lambda *_: False
    session = running.nodes["c"].agent_session.session
    running.until(running.shared)
    assert running.nodes["c"].agent_session.session == session
    assert running.session.members.session("c") == session
    assert running.coordinator.ledger.entries["NewModel", "down"].messages == 3  # counted once


def test_goodbye_in_an_update_and_late_messages_of_that_session(running):
    part = running.nodes["c"].agent_session
    late = part.hello()
    ask(running)
    running.leave("c")
    running.until(running.shared)
    assert texts(running, "left") == ["c has left: goodbye"]
    assert running.coordinator.last_update.samples == 8
    [answer] = running.hear("c", late, part.session)
    assert isinstance(answer, Rejected)
    assert "c" not in running.session.members


def test_after_a_crash_the_update_waits_for_those_who_were_present(running):
    stuck(running)
    assert not running.idle
    running.lost = lambda way, name, m: name == "c"
    running.crash()
    before = running.now
    running.until(lambda: texts(running, "updating")[-1].startswith("update 2"))
    assert running.now - before == pytest.approx(POLICY.grace, abs=2 * TICK)
    assert texts(running, "updating")[-1] == "update 2 starts with 2 clients"


@pytest.mark.parametrize("who", [None, "a", "b"])
def test_after_a_crash_there_is_one_update_whoever_asks_first(running, who):
    running.lost = lambda way, name, m: way == "down" and isinstance(m, SumsRequest)
    ask(running)
    running.run(TICK)
    running.lost = lambda *_: False
    running.crash()
    for name, node in running.nodes.items():
        running.hear(name, node.agent_session.hello())
    if who is not None:
        running.hear(who, Heartbeat(0, running.nodes[who].learner.clock))
    before = running.now
    running.until(running.shared)
    assert running.now - before < POLICY.grace  # at once: all are back
    assert running.coordinator.last_update.client == (who or "a")
    running.crash()  # and not after the next crash, either
    running.run(POLICY.grace + 1.0)
    assert texts(running, "updating") == [f"update {k} starts with 3 clients" for k in (1, 2)]
    assert [u.samples for u in running.file.last_updates(9)] == [12]
    assert (running.coordinator.finished, running.coordinator.syncs) == (2, 1)


def test_after_a_crash_with_too_few_the_update_has_ended(running):
    stuck(running)
    running.lost = lambda way, name, m: True
    running.crash()
    running.run(POLICY.grace + 1.0)
    assert running.file.last_started() == (1, None)
    recover(running)  # a's request still stands
    assert running.coordinator.finished == 2


def test_a_restart_asks_everybody_for_a_hello_and_totals_survive_it(running):
    updated(running)
    traffic = dict(running.session.traffic.entries)
    ledger = running.coordinator.ledger.messages
    del running.said[:]
    running.stop()
    assert running.session.traffic.entries["NewModel.down"] == traffic["NewModel.down"]
    assert running.coordinator.ledger.messages == ledger
    assert len(running.heard("down", HelloRequest)) == 3
    running.run(2 * TICK)
    assert running.everybody_here()
    assert len(running.heard("down", Admitted)) == 3
    assert not running.heard("down", NewModel)  # all hold it


def test_a_lost_file_is_named_and_after_replaces_it(running):
    updated(running)
    running.file.close()
    running.restore("coordinator")
    running.begin()
    running.run(1.0)
    reason = running.nodes["a"].agent_session.refused
    assert "--after 1" in reason
    assert not running.coordinator.clients
    running.file.close()
    running.restore("coordinator")
    running.begin(after=1)
    running.until(running.everybody_here)
    updated(running, "b")
    assert running.coordinator.finished == 2
    assert running.nodes["c"].learner.protocol_client.covered == 4


def test_an_ended_session_is_rejected_and_does_not_come_back(running):
    first = running.nodes["a"].agent_session
    hello, beat = first.hello(), first.beat()
    running.nodes["a"].close()
    running.come_back("a")
    running.run(1.0)
    second = running.nodes["a"].agent_session.session
    for message in (beat, hello):
        [answer] = running.hear("a", message, first.session)
        assert isinstance(answer, Rejected)
        assert running.session.members.session("a") == second
    del running.said[:]
    running.run(5.0)
    assert not running.heard("up", Hello)
    assert texts(running, "rejected")[0].startswith("another agent")


def test_another_file_waits_until_the_first_has_been_silent_long_enough(running):
    twin = Hello("elsewhere", 0, "test", running.agreement.facts())
    [answer] = running.hear("a", twin, "twin")
    assert "another file already uses" in answer.reason
    assert texts(running, "rejected") == [answer.reason]
    updated(running)
    assert running.coordinator.last_update.samples == 12
    running.nodes["a"].next_beat = 1e6
    running.run(1.0)
    since = running.session.members._sessions["a"].last_seen
    for late, admitted in ((0.0, False), (0.001, True)):
        running.now = since + POLICY.absent_after + late
        running.hear("a", twin, "twin")
        assert (running.session.members.session("a") == "twin") is admitted


def test_the_newest_ended_sessions_are_remembered(running):
    first = running.nodes["a"].agent_session
    hello = first.hello()
    for k in range(70):
        running.hear("a", hello, f"s{k}")
    assert running.session.members.has_ended("a", "s68")
    assert not running.session.members.has_ended("a", first.session)


def test_one_client_too_many_is_told_so(join):
    """All that ever came count, also those that are gone."""
    running = join(agreement=agreed(1e9, max_clients=3))
    running.leave("c")
    running.run(1.0)
    [answer] = running.hear("d", Hello("d", 0, "test", running.agreement.facts()), "s")
    assert answer.reason == "too many clients with d: max_clients is 3"


def test_what_a_new_file_has_is_not_covered_also_after_a_crash(running):
    updated(running)
    running.nodes.pop("c").close()
    running.restore("c")
    running.run(POLICY.absent_after + 1.0)
    running.lost = lambda way, name, m: isinstance(m, NewModel)
    running.add("c").feed(6)
    running.run(1.0)
    assert "c" in running.session.members
    running.crash()
    recover(running)
    client = running.nodes["c"].learner.protocol_client
    assert (len(client.samples), client.covered) == (6, 0)


def test_a_new_file_in_the_midst_of_an_update(running):
    stuck(running)
    running.nodes.pop("c").close()
    running.restore("c")
    running.session.members.drop("c")  # as if it had been silent
    running.add("c").feed(6)
    recover(running)
    assert running.coordinator.last_update.samples == 8
    assert running.nodes["c"].learner.protocol_client.covered == 0


def test_a_withdrawal_excludes_the_client(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives) and name == "b"
    ask(running)
    running.run(0.5)
    running.nodes["b"].calls.forget([running.nodes["b"].ids[0]])
    recover(running)
    assert running.heard("up", Withdrawal, "b")
    assert texts(running, "excluded") == ["excluded b: it withdrew"]
    assert running.coordinator.last_update.samples == 8
    client = running.nodes["b"].learner.protocol_client
    assert (client.covered, len(client.samples)) == (0, 3)
    running.hear("b", Withdrawal(1))  # of an update that is over
    assert len(texts(running, "excluded")) == 1


def test_a_client_with_an_invalid_message_is_excluded_and_cannot_ask_for_a_while(running):
    node = running.nodes["c"]
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Covariance) and name == "c"
    ask(running)
    running.run(0.2)
    running.hear("c", Covariance("c", 1, 1, np.eye(2) * 9.0))
    recover(running)
    assert running.coordinator.last_update.samples == 8
    assert "c sent an invalid message" in texts(running, "invalid")[0]
    assert "matrix" in node.agent_session.refused
    ask(running, "c")
    running.run(50.0)
    assert running.coordinator.started == 1
    running.run(12.0)
    assert running.shared(2)
    assert running.coordinator.last_update.samples == 12


def test_bytes_that_are_no_message_are_reported_once(running):
    told = [running.session.receive("b", b"garbage", running.now) for _ in range(20)]
    assert [len(answers) for answers in told] == [1] + [0] * 19  # it is told once, too
    assert len(texts(running, "invalid")) == 1
    assert running.session.traffic.entries["Malformed.up"] == (20, 140)
    assert [c for c, _ in running.session.receive("nobody", b"", running.now)] == ["nobody"]
    updated(running)


def test_a_solver_that_fails_ends_the_update_and_nothing_else(running, monkeypatch):
    original, failing = Update.tell, [True]

    def tell(self, sums):
        if failing[0]:
            raise FloatingPointError("no luck")
        original(self, sums)

    monkeypatch.setattr(Update, "tell", tell)
    ask(running)
    running.until(lambda: "abandoned" in running.kinds())
    assert "no luck" in texts(running, "abandoned")[0]
    failing[0] = False
    running.until(running.shared)  # requested again with the next heartbeat
    assert running.coordinator.finished == running.coordinator.started > 1


def test_a_client_that_joins_during_an_update_gets_its_model_and_is_in_the_next(running):
    stuck(running, seconds=0.5)
    running.add("d").feed(3)
    running.run(0.5)
    assert "d" in running.session.members
    ask(running, "d")
    recover(running, 2)  # d's request stands: update 1 does not cover it
    assert [(u.clients, u.samples) for u in running.file.last_updates(9)] == [(3, 12), (4, 15)]
    assert running.nodes["d"].learner.protocol_client.covered == 3
    assert running.coordinator.finished == 2


def test_unknown_sessions_are_asked_for_a_hello_unless_they_say_goodbye(running):
    assert running.hear("z", Heartbeat(0, 0), "s") == [HelloRequest()]
    assert running.hear("z", Goodbye(), "s") == []


def test_a_request_that_is_said_twice_is_counted_once(running):
    """A heartbeat says it as well, and may be faster."""
    running.hear("c", Heartbeat(0, 5))
    running.hear("c", SyncRequest("c", 5, 0))
    running.until(running.shared)
    assert running.coordinator.last_update.client == "c"
    assert running.coordinator.ledger.entries["SyncRequest", "up"].messages == 1


@pytest.mark.parametrize(
    "wrong", [{"quorum": 0}, {"time_limit": 0.0}, {"resend": -1.0}, {"grace": float("nan")}]
)
def test_a_policy_is_checked(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        CoordinatorPolicy(**wrong)


def test_the_file_of_another_federation_is_refused(tmp_path):
    with harness(tmp_path, names=[]) as running:
        running.file.close()
        running.agreement = agreed(7.0)
        with pytest.raises(InvalidInput, match=r"threshold: '0', the federation has '7'"):
            running.begin()


# -- one exchange: all answer at the same model ----------------------------------------------------

ONE_EXCHANGE = agreed(algorithm=fg.fedglb_auto(1e9))


def at_the_model(join):
    """Three agents, and the model of the first update with everybody."""
    running = join(agreement=ONE_EXCHANGE)
    updated(running)
    running.feed()
    return running


def test_who_lacks_the_model_of_the_request_is_sent_it_and_then_answers(join):
    """The model of update 2 never reaches b, and update 3 asks for sums at it."""
    wanted, running = at_the_model(join), at_the_model(join)
    for each in (wanted, running):
        ask(each)
        if each is running:
            each.lost = lambda way, name, m: name == "b" and isinstance(m, NewModel)
            # its heartbeats are lost as well, or it would get the model from them before
            beats = each.nodes["b"]
            beats.next_beat = each.now + 1e6
            each.until(lambda each=each: each.idle and each.coordinator.finished == 2)
            assert (each.nodes["b"].model, each.nodes["a"].model) == (1, 2)
            each.lost = lambda way, name, m: False
        else:
            each.until(lambda each=each: each.shared(2))
        each.feed()
        before = len(each.said)
        ask(each)
        each.until(lambda each=each: each.shared(3))
    said = [m for _, _, name, m in running.said[before:] if name == "b"]
    kinds = [type(m) for m in said]
    assert Withdrawal not in kinds
    first = kinds.index(SumsRequest)
    assert said[first].model == 2
    assert kinds[first + 1] is Heartbeat
    assert kinds.index(NewModel) < kinds.index(ModelSums)
    assert texts(running, "excluded") == []
    assert running.coordinator.last_update.samples == 36
    assert same(running.coordinator.model, wanted.coordinator.model)
    ours, theirs = running.coordinator.ledger.entries, wanted.coordinator.ledger.entries
    assert ours == theirs  # a model that is sent again is counted once


def test_a_lost_file_and_sums_at_the_model(join):
    """Nobody has the model of which the agents hold the sums: they are taken at θ = 0."""
    running = at_the_model(join)
    running.file.close()
    running.restore("coordinator")
    running.begin(after=1)
    running.until(running.everybody_here)
    updated(running, "b")
    assert {m.model for m in running.heard("down", SumsRequest) if m.update == 2} == {0}
    check_all_at_zero(running)


def check_all_at_zero(running):
    """The last update is that of a first one with all samples."""
    algorithm, setting = ONE_EXCHANGE.algorithm, ONE_EXCHANGE.setting
    clients = {}
    for node in running.all():
        samples = node.learner.protocol_client.samples
        clients[node.name] = fg.Client(node.name, algorithm, setting)
        for x, y in zip(samples.X, samples.y, strict=True):
            clients[node.name].observe_unchecked(x, float(y), 1)
    coordinator = fg.Coordinator(algorithm, setting, clients)
    queue = coordinator.begin(running.coordinator.t)
    while queue:
        message = queue.pop(0)
        receiver = coordinator if message.upward else clients[message.client]
        queue += receiver.receive(message)
    ours, theirs = running.coordinator.model, coordinator.model
    # up to rounding: what a model covered is summed in one pass, and here sample by sample
    for name in ("theta", "matrix", "ridge", "effects"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12)
    assert running.coordinator.last_update.samples == coordinator.last_update.samples


@pytest.mark.parametrize("crash", [False, True])
def test_an_old_copy_of_the_file_and_sums_at_the_model(join, crash):
    """The coordinator has model 1, the agents 2: sums at model 1 nobody could give any more."""
    running = at_the_model(join)
    running.session.stop()
    running.file.close()
    kept = running.backup("coordinator")
    running.begin()
    running.until(running.everybody_here)
    updated(running)
    running.file.close()
    running.restore("coordinator", kept)
    running.begin(after=2)
    running.until(running.everybody_here)
    if crash:  # without the option, which has done its work
        running.crash()
        running.until(running.everybody_here)
    running.feed()
    updated(running, "c")
    assert {m.model for m in running.heard("down", SumsRequest) if m.update == 3} == {0}
    assert not running.heard("up", Withdrawal)
    check_all_at_zero(running)
