"""The coordinator's conversation, on a clock of its own."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fedglb.errors import InvalidInput
from fedglb.federation.coordinator.policy import Policy
from fedglb.federation.wire.codec import encode
from fedglb.federation.wire.messages import Hello, HelloRequest, Rejected, Welcome, Withdrawal
from fedglb.protocol.messages import (
    Covariance,
    CovarianceRequest,
    Derivatives,
    Evaluate,
    NewModel,
    SyncRequest,
)
from fedglb.protocol.update import Update
from tests.federation.helpers.lossy_network import POLICY, TICK, agreed, ask, begun, harness, texts


@pytest.fixture
def running(tmp_path):
    out = begun(tmp_path)
    yield out
    out.close()


def test_an_update_goes_through_and_is_told(running):
    ask(running)
    running.until(running.shared)
    assert running.kinds() == ["joined"] * 3 + ["begun", "updated"]
    facts = running.events[-1].facts
    assert (facts["number"], facts["clients"], facts["samples"], facts["asked_by"]) == (
        1,
        3,
        12,
        "a",
    )
    row = running.file.updates().row(0, named=True)
    assert {k: facts[k] for k in ("t", "rounds", "bytes")} == {
        k: row[k] for k in ("t", "rounds", "bytes")
    }
    sent = running.coordination.traffic.entries
    assert sent["NewModel.down"][0] == 3
    assert sent["CovarianceRequest.down"][0] == 3


def test_resends_come_after_a_pause_that_doubles_up_to_four_seconds(tmp_path):
    running = begun(
        tmp_path, policy=dataclasses.replace(POLICY, time_limit=60.0, absent_after=90.0)
    )
    running.lost = lambda way, name, m: way == "up" and name == "b" and isinstance(m, Covariance)
    ask(running)
    running.run(30.0)
    times = [
        when
        for when, way, name, m in running.said
        if way == "down" and name == "b" and isinstance(m, CovarianceRequest)
    ]
    pauses = np.diff(times)
    assert pauses[:6] == pytest.approx([0.25, 0.5, 1.0, 2.0, 4.0, 4.0], abs=1.5 * TICK)
    assert len(running.heard("down", CovarianceRequest, "a")) == 1  # only to who is missing
    assert running.coordinator.ledger.entries["CovarianceRequest", "down"].messages == 3
    running.lost = lambda *_: False
    running.until(running.shared)
    running.close()


def test_who_does_not_answer_in_time_is_left_out_and_gets_the_model(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives) and name == "c"
    ask(running)
    running.until(running.shared)
    assert texts(running, "left out") == ["c is left out: no answer within 5 s"]
    assert running.coordinator.last_update.samples == 8
    assert running.nodes["c"].learner.client.covered == 0
    assert running.nodes["a"].learner.client.covered == 4


def test_below_the_quorum_an_update_is_off_and_the_next_has_another_number(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Covariance) and name != "a"
    running.say(running.nodes["a"], SyncRequest("a", 4, 0))
    running.until(lambda: "abandoned" in running.kinds())
    assert texts(running, "abandoned") == ["update 1 is off: too few of 3 are left"]
    assert running.idle
    assert running.file.last_begun() == (1, None)  # not to be begun anew
    running.lost = lambda *_: False
    running.crash()
    running.until(running.everybody_here)
    ask(running)
    running.until(running.shared)
    assert running.coordinator.finished == 2


def test_below_the_quorum_none_begins_and_the_request_stands(tmp_path):
    running = begun(tmp_path, names=["a"])
    ask(running)
    running.run(5.0)
    assert "begun" not in running.kinds()
    running.add("b")
    running.until(running.shared)
    assert running.coordinator.finished == 1
    running.close()


def test_silence_ends_membership_until_the_agent_is_heard_again(running):
    running.lost = lambda way, name, m: name == "c"
    running.until(lambda: "left" in running.kinds())
    assert texts(running, "left") == ["c is gone: silent for too long"]
    assert list(running.coordinator.clients) == ["a", "b"]
    ask(running)
    running.until(lambda: running.nodes["a"].model == 1)
    running.lost = lambda *_: False
    session = running.nodes["c"].participation.session
    running.until(running.shared)
    assert running.nodes["c"].participation.session == session
    assert running.coordination.roster.session("c") == session
    assert running.coordinator.ledger.entries["NewModel", "down"].messages == 3  # counted once


def test_goodbye_in_an_update_and_late_words_of_that_session(running):
    late = encode(
        running.nodes["c"].participation.hello(), running.nodes["c"].participation.session
    )
    ask(running)
    running.leave("c")
    running.until(running.shared)
    assert texts(running, "left") == ["c is gone: it said goodbye"]
    assert running.coordinator.last_update.samples == 8
    running.tell(running.coordination.receive("c", late, running.now))
    assert "c" not in running.coordination.roster
    assert running.heard("down", Rejected, "c")


def test_a_model_that_was_lost_is_sent_again_and_counted_once(running):
    running.lost = lambda way, name, m: isinstance(m, NewModel) and name == "b"
    ask(running)
    running.run(6.0)
    assert running.nodes["b"].model == 0
    assert len(running.heard("down", NewModel, "b")) > 5
    running.lost = lambda *_: False
    running.until(running.shared)
    assert running.coordinator.ledger.entries["NewModel", "down"].messages == 3
    assert running.coordination.traffic.entries["NewModel.down"][0] > 8


def test_after_a_crash_the_update_waits_for_those_who_were_there(running):
    ask(running)
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives)
    running.run(1.0)
    assert not running.idle
    running.lost = lambda way, name, m: name == "c"
    running.crash()
    before = running.now
    running.until(lambda: texts(running, "begun")[-1].startswith("update 2"))
    assert running.now - before == pytest.approx(POLICY.grace, abs=2 * TICK)
    assert texts(running, "begun")[-1] == "update 2 begins with 2"


def test_after_a_crash_it_is_begun_at_once_when_all_are_back(running):
    ask(running)
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives)
    running.run(1.0)
    running.lost = lambda *_: False
    running.crash()
    before = running.now
    running.until(running.shared)
    assert running.now - before < POLICY.grace
    assert running.coordinator.finished == 2
    assert running.coordinator.last_update.samples == 12
    assert running.coordinator.last_update.client == "a"
    running.run(10.0)
    assert running.coordinator.started == 2  # once


def test_after_a_crash_with_too_few_the_update_is_over(running):
    ask(running)
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives)
    running.run(1.0)
    running.lost = lambda way, name, m: True
    running.crash()
    running.run(POLICY.grace + 1.0)
    assert running.file.last_begun() == (1, None)
    running.lost = lambda *_: False
    running.until(running.shared)  # a's request still stands
    assert running.coordinator.finished == 2


def test_a_restart_calls_everybody_and_totals_survive_it(running):
    ask(running)
    running.until(running.shared)
    traffic = dict(running.coordination.traffic.entries)
    ledger = running.coordinator.ledger.messages
    del running.said[:]
    running.stop()
    assert running.coordination.traffic.entries["NewModel.down"] == traffic["NewModel.down"]
    assert running.coordinator.ledger.messages == ledger
    assert len(running.heard("down", HelloRequest)) == 3
    running.run(2 * TICK)
    assert running.everybody_here()
    assert len(running.heard("down", Welcome)) == 3
    assert not running.heard("down", NewModel)  # all hold it


def test_a_lost_file_is_named_and_after_makes_good_for_it(running):
    ask(running)
    running.until(running.shared)
    running.file.close()
    for file in running.folder.glob("coordinator.db*"):
        file.unlink()
    running.begin()
    running.run(1.0)
    reason = running.nodes["a"].participation.refused
    assert "--after 1" in reason
    assert not running.coordinator.clients
    running.file.close()
    for file in running.folder.glob("coordinator.db*"):
        file.unlink()
    running.begin(after=1)
    running.until(running.everybody_here)
    ask(running, "b")
    running.until(lambda: running.shared(2))
    assert running.coordinator.finished == 2
    assert running.nodes["c"].learner.client.covered == 4


def test_a_former_session_is_refused_and_there_is_no_back_and_forth(running):
    first = running.nodes["a"].participation
    hello, beat = first.hello(), first.beat()
    running.nodes["a"].close()
    running.come_back("a")
    running.run(1.0)
    second = running.nodes["a"].participation.session
    for message, said in ((beat, Rejected), (hello, Rejected)):
        answers = running.coordination.receive("a", encode(message, first.session), running.now)
        assert len(answers) == 1
        del running.said[:]
        running.tell(answers)
        assert running.heard("down", said, "a")
        assert running.coordination.roster.session("a") == second
    running.run(5.0)
    assert not running.heard("up", Hello)
    assert texts(running, "refused")[0].startswith("another agent")


def test_another_file_under_the_same_certificate_waits(running):
    twin = Hello("elsewhere", 0, "test", running.agreement.facts())
    [(_, _)] = running.coordination.receive("a", encode(twin, "twin"), running.now)
    assert "another file" in texts(running, "refused")[0]
    ask(running)
    running.until(running.shared)
    assert running.coordinator.last_update.samples == 12


def test_what_a_new_file_has_is_not_covered_also_after_a_crash(running):
    ask(running)
    running.until(running.shared)
    running.nodes.pop("c").close()
    (running.folder / "c.db").unlink()
    running.run(POLICY.absent_after + 1.0)
    running.lost = lambda way, name, m: isinstance(m, NewModel)
    running.add("c").feed(6)
    running.run(1.0)
    assert "c" in running.coordination.roster
    running.crash()
    running.lost = lambda *_: False
    running.until(running.shared)
    client = running.nodes["c"].learner.client
    assert (len(client.samples), client.covered) == (6, 0)


def test_a_new_file_in_the_midst_of_an_update(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives)
    ask(running)
    running.run(1.0)
    running.nodes.pop("c").close()
    (running.folder / "c.db").unlink()
    running.policy = None  # not used any more
    running.coordination.roster.drop("c")  # as if it had been silent
    running.add("c").feed(6)
    running.lost = lambda *_: False
    running.until(running.shared)
    assert running.coordinator.last_update.samples == 8
    assert running.nodes["c"].learner.client.covered == 0


def test_a_withdrawal_leaves_the_client_out(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives) and name == "b"
    ask(running)
    running.run(0.5)
    running.nodes["b"].learner.forget([running.nodes["b"].ids[0]])
    running.lost = lambda *_: False
    running.until(running.shared)
    assert running.heard("up", Withdrawal, "b")
    assert texts(running, "left out") == ["b is left out: it withdrew"]
    assert running.coordinator.last_update.samples == 8
    client = running.nodes["b"].learner.client
    assert (client.covered, len(client.samples)) == (0, 3)
    running.tell(  # of an update that is over
        running.coordination.receive(
            "b", encode(Withdrawal(1), running.nodes["b"].participation.session), running.now
        )
    )
    assert len(texts(running, "left out")) == 1


def test_who_sends_what_cannot_be_is_left_out_and_cannot_ask_for_a_while(running):
    node = running.nodes["c"]
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Covariance) and name == "c"
    ask(running)
    running.run(0.2)
    wrong = Covariance("c", 1, 1, np.eye(2) * 9.0)
    running.tell(
        running.coordination.receive("c", encode(wrong, node.participation.session), running.now)
    )
    running.lost = lambda *_: False
    running.until(running.shared)
    assert running.coordinator.last_update.samples == 8
    assert "c sent what cannot be" in texts(running, "offence")[0]
    assert "matrix" in node.participation.refused
    ask(running, "c")
    running.run(50.0)
    assert running.coordinator.started == 1
    running.run(12.0)
    assert running.shared(2)
    assert running.coordinator.last_update.samples == 12


def test_bytes_that_are_no_message_are_an_offence_named_once(running):
    told = [running.coordination.receive("b", b"garbage", running.now) for _ in range(20)]
    assert [len(answers) for answers in told] == [1] + [0] * 19  # it is told once, too
    assert len(texts(running, "offence")) == 1
    assert running.coordination.traffic.entries["Malformed.up"] == (20, 140)
    assert [c for c, _ in running.coordination.receive("nobody", b"", running.now)] == ["nobody"]
    ask(running)
    running.until(running.shared)


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
    running.until(running.shared)  # asked for again with the next beat
    assert running.coordinator.finished == running.coordinator.started > 1


def test_one_who_comes_during_an_update_gets_its_model_and_is_in_the_next(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives)
    ask(running)
    running.run(0.5)
    running.add("d").feed(3)
    running.run(0.5)
    assert "d" in running.coordination.roster
    ask(running, "d")
    running.lost = lambda *_: False
    running.until(lambda: running.shared(2))  # d's request stands: update 1 does not cover it
    assert running.nodes["d"].learner.client.covered == 3
    assert running.coordinator.finished == 2


def test_unknown_sessions_are_called_and_goodbyes_of_them_are_not(running):
    beat = running.nodes["a"].participation.beat()
    [(client, _)] = running.coordination.receive("z", encode(beat, "s"), running.now)
    assert client == "z"
    running.tell(running.coordination.receive("z", encode(beat, "s"), running.now))
    assert running.heard("down", HelloRequest, "z")


def test_late_answers_to_an_abandoned_update_are_dropped(running):
    kept = []

    def hold(way, name, m):
        if way == "up" and isinstance(m, Derivatives) and name == "b" and m.update == 1:
            kept.append(m)
            return True
        return False

    running.lost = hold
    ask(running)
    running.run(0.5)
    running.crash()
    running.until(running.shared)
    node = running.nodes["b"].participation
    before = running.coordinator.ledger.messages
    assert running.coordination.receive("b", encode(kept[0], node.session), running.now) == []
    assert running.coordinator.ledger.messages == before


def test_evaluate_is_sent_again_alike(running):
    running.lost = lambda way, name, m: way == "up" and isinstance(m, Derivatives)
    ask(running)
    running.run(2.0)
    asked = running.heard("down", Evaluate, "a")
    assert len(asked) > 2
    assert len({(m.update, m.round, m.theta.tobytes()) for m in asked}) == 1
    answers = running.heard("up", Derivatives, "a")
    assert len({m.gradient.tobytes() for m in answers}) == 1


@pytest.mark.parametrize(
    "wrong", [{"quorum": 0}, {"time_limit": 0.0}, {"resend": -1.0}, {"grace": float("nan")}]
)
def test_a_policy_is_checked(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Policy(**wrong)


def test_the_file_of_another_federation_is_refused(tmp_path):
    with harness(tmp_path, names=[]) as running:
        running.file.close()
        running.agreement = agreed(7.0)
        with pytest.raises(InvalidInput, match=r"threshold: '0', the federation has '7'"):
            running.begin()
