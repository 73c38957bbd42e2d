"""Secure sums between real agents and a coordinator, over a network that loses and doubles.

Sums are right to the bit, whoever restarts when; and what was written binds an agent for ever.
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack

import numpy as np
import pytest

from fedglb.federation.agent.sums import AgentSums
from fedglb.federation.agreement import AgreementTable
from fedglb.federation.secure_sums.transcript import NO_MODEL
from fedglb.federation.wire.codec import decode_down, encode
from fedglb.federation.wire.messages import Heartbeat, HelloRequest, Rejected, Withdrawal
from fedglb.federation.wire.sum_messages import (
    AllHere,
    Consent,
    SessionKey,
    SessionKeys,
    SumCall,
    SumOffer,
    SumReady,
)
from fedglb.privacy import PreparedNoise, discrete_gaussian
from fedglb.problem_table import ProblemTable
from fedglb.protocol.messages import BatchSums, Evaluate, MaskedSum, NewModel, SumsRequest
from tests.federation.helpers.in_process import Serving, honest
from tests.federation.helpers.lossy_network import texts
from tests.federation.helpers.nats_federation import PATIENCE, federation
from tests.federation.helpers.secure_network import (
    NAMES,
    POLICY,
    PRIVATE,
    SecureHarness,
    plain_sums,
    secure,
)
from tests.federation.secure_sums.test_masks import is_uniform

ZERO = np.zeros(2)


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a federation, in which everybody has five samples."""
    with ExitStack() as stack:

        def make(**more):
            out = SecureHarness(tmp_path, **more)
            stack.callback(out.close)
            out.until(out.everybody_here)
            out.feed(5)
            return out

        yield make


@pytest.fixture
def running(start):
    return start()


def numbers(running, update=1):
    return running.coordinator.releases[update].numbers.tolist()


def lose(running, kind, name, times=1):
    """Lose the first so many messages of a kind from or to an agent."""
    left = [times]

    def lost(way, who, message):
        hit = isinstance(message, kind) and who == name and left[0] > 0
        left[0] -= hit
        return hit

    running.lost = lost


def offer_first(running):
    """Let the coordinator ask who is ready before every call."""
    running.session.driver._is_current = lambda client: False


def consents(running):
    """All that agents have agreed to: by agent and update, a set of seeds."""
    out: dict[tuple[str, int], set[bytes]] = {}
    for _, way, name, message in running.said:
        if way == "up" and isinstance(message, Consent):
            out.setdefault((name, message.update), set()).add(message.seed)
    return out


def test_an_update_is_the_plain_sum_and_one_message_with_numbers_each_way(running):
    running.until_update(1)
    assert numbers(running) == plain_sums(running, NAMES, ZERO).tolist()
    ledger = running.coordinator.ledger
    entries = {kind: entry for (kind, _), entry in ledger.entries.items()}
    assert (entries["MaskedSum"].transfers, entries["MaskedSum"].scalars) == (5, 25)
    assert entries["NewModel"].transfers == 5
    assert ledger.transfers == 10
    assert "SumsRequest" not in entries  # what nobody is sent is not counted
    assert running.coordinator.releases[1].clients == 5
    assert not running.heard("down", SumsRequest)
    assert not running.heard("up", BatchSums)
    order = [SumOffer, SumReady, SumCall, MaskedSum, AllHere, Consent, NewModel]
    assert said(running, order) == order[2:], "everybody was there: the call is the first word"
    offer_first(running)
    running.said.clear()
    running.until_update(2)
    assert said(running, order) == order


def said(running, kinds):
    """What was said of these kinds, from and to one agent."""
    every = [type(m) for _, way, name, m in running.said if name == "a"]
    return [kind for kind in every if kind in kinds]


def test_who_came_just_now_is_offered_the_sum_first(tmp_path):
    """Its session key has not arrived when the update begins."""
    running = SecureHarness(tmp_path)
    running.lost = lambda way, name, m: name == "c" and isinstance(m, SessionKey)
    running.until(lambda: bool(running.heard("down", SumOffer)))
    assert not running.heard("down", SumCall)
    running.lost = lambda way, name, m: False
    running.until_update(1)
    assert running.coordinator.releases[1].clients == 5
    running.close()


def test_who_lacks_the_model_is_sent_it(running):
    """It was lost on its way, and no heartbeat has said so."""
    running.lost = lambda way, name, m: name == "c" and isinstance(m, NewModel | Heartbeat)
    running.until(lambda: running.coordinator.finished == 1 and running.idle)
    running.until(lambda: running.coordinator.started == 2)
    assert running.nodes["c"].model == 0
    running.lost = lambda way, name, m: False
    running.until_update(2)
    assert running.coordinator.releases[2].clients == 5


def test_each_sample_is_in_one_sum(running):
    running.until_update(1)
    before = plain_sums(running, NAMES, ZERO)
    running.feed(3)
    running.until_update(2)
    samples = [len(n.learner.protocol_client.samples) for n in running.all()]
    taken = [n.learner.protocol_client.batches.taken for n in running.all()]
    assert samples == taken == [8] * 5
    assert numbers(running, 1) == before.tolist()
    _, H = running.total(2)
    assert 0.0 < np.trace(H) <= 0.25 * 15


@pytest.mark.parametrize("seed", range(4))
def test_a_network_that_loses_doubles_and_delays(start, seed):
    agreement = secure(first=3.0, privacy=PRIVATE if seed % 2 else None)
    running = start(agreement=agreement, seed=seed, loss=0.1, twice=0.2, delay=0.2)
    for update in (1, 2, 3):
        running.feed(3)
        running.until_update(update)
    assert all(len(seeds) == 1 for seeds in consents(running).values())


@pytest.mark.parametrize("kind", [SessionKey, SumOffer, SumReady, SessionKeys, SumCall, MaskedSum,
                                  AllHere, Consent])  # fmt: skip
def test_every_message_may_be_lost(tmp_path, kind):
    running = SecureHarness(tmp_path)
    if kind in (SumOffer, SumReady):
        offer_first(running)
    lose(running, kind, "c", times=2)
    running.until(running.everybody_here)
    running.feed(5)
    running.until_update(1)
    assert numbers(running) == plain_sums(running, NAMES, ZERO).tolist()
    assert running.now < 6.0, "nobody had to be left out"
    running.close()


@pytest.mark.parametrize(
    ("kind", "way"),
    [(SumOffer, "down"), (SumReady, "up"), (SumCall, "down"), (MaskedSum, "up"), (AllHere, "down"),
     (Consent, "up")],
)  # fmt: skip
@pytest.mark.parametrize("lost", [False, True], ids=["arrives", "is lost"])
def test_an_agent_dies_around_every_message(running, kind, way, lost):
    """It comes back with its file, and with another session key; the update ends with it."""
    done = []
    if kind in (SumOffer, SumReady):
        offer_first(running)

    def strikes(direction, name, message):
        if name == "c" and direction == way and isinstance(message, kind) and not done:
            done.append(message)
            running.take_down("c")
            return lost
        return False

    running.lost = strikes
    running.until(lambda: bool(done))
    running.until_update(1)
    assert numbers(running) == plain_sums(running, NAMES, ZERO).tolist()
    assert all(len(seeds) == 1 for seeds in consents(running).values())
    assert running.coordinator.releases[1].clients == 5


def test_who_does_not_answer_is_left_out_and_what_was_sent_before_stays_hidden(running):
    running.lost = lambda way, name, m: name == "c" and isinstance(m, MaskedSum)
    running.until(lambda: running.coordinator.finished == 1)
    rest = [name for name in NAMES if name != "c"]
    assert numbers(running) == plain_sums(running, rest, ZERO).tolist()
    assert running.coordinator.releases[1].clients == 4
    calls = running.heard("down", SumCall, "a")
    assert {call.attempt for call in calls} == {1, 2}
    assert ("c", 1) not in consents(running)
    # its samples are in its next batch
    running.lost = lambda way, name, m: False
    running.until_update(2)
    taken = {n.name: n.learner.protocol_client.batches.taken for n in running.all()}
    assert taken == dict.fromkeys(NAMES, 5)


def test_who_has_restarted_is_called_when_its_new_key_is_here(start):
    """It had masked its numbers: it would refuse the old call, and all are needed."""
    running = start(agreement=secure(minimum=5))
    masked, late = [], []

    def lost(way, name, message):
        if name != "c" or way != "up":
            return False
        if isinstance(message, MaskedSum) and not masked:
            masked.append(message)
            running.take_down("c")
            return True
        if isinstance(message, SessionKey) and masked:
            late.append(message)
            return True
        return False

    running.lost = lost
    running.until(lambda: bool(late))
    running.said.clear()
    running.run(1.5)  # requests are repeated
    assert running.heard("down", SumCall, "c") == []
    assert running.heard("up", Withdrawal) == []
    running.lost = lambda way, name, m: False
    running.say(running.nodes["c"], late[0])
    running.until_update(1)
    assert "abandoned" not in running.kinds()
    calls = running.heard("down", SumCall, "c")
    assert {call.attempt for call in calls if call.update == 1} == {2}
    assert numbers(running) == plain_sums(running, NAMES, ZERO).tolist()


def test_who_leaves_before_all_are_here_is_left_out(running):
    done = []

    def strikes(way, name, message):
        if isinstance(message, SumCall) and name == "c" and not done:
            done.append(message)
            running.leave("c")
        return False

    running.lost = strikes
    running.until(lambda: running.coordinator.finished == 1)
    rest = [name for name in NAMES if name != "c"]
    assert numbers(running) == plain_sums(running, rest, ZERO).tolist()
    assert running.now < 4.0


def test_too_few_are_no_update(start):
    running = start(agreement=secure(minimum=5))
    running.lost = lambda way, name, m: name == "c" and isinstance(m, MaskedSum)
    running.until(lambda: "abandoned" in running.kinds())
    assert not consents(running)
    assert running.coordinator.finished == 0
    # all that was frozen is in the next one
    running.lost = lambda way, name, m: False
    running.until_update(2)
    assert numbers(running, 2) == plain_sums(running, NAMES, ZERO).tolist()


def test_without_one_consent_the_update_is_lost_and_the_sum_stays_hidden(running):
    running.lost = lambda way, name, m: name == "c" and isinstance(m, Consent)
    running.until(lambda: "abandoned" in running.kinds())
    (text,) = texts(running, "abandoned")
    assert "c did not agree to the sum" in text
    assert running.coordinator.finished == 0
    running.lost = lambda way, name, m: False
    running.feed(2)
    running.until_update(2)
    # without noise each batch is in one sum, ever: that of the lost update is in none
    assert numbers(running, 2) != plain_sums(running, NAMES, ZERO).tolist()
    taken = [n.learner.protocol_client.batches.taken for n in running.all()]
    assert taken == [7] * 5
    _, H = running.total(2)
    assert np.trace(H) <= 0.25 * 10 + 1e-6
    assert all(len(seeds) == 1 for seeds in consents(running).values())


def test_with_noise_a_lost_update_only_lowers_weights(start):
    running = start(agreement=secure(privacy=PRIVATE))
    running.lost = lambda way, name, m: name == "c" and isinstance(m, Consent)
    running.until(lambda: "abandoned" in running.kinds())
    running.lost = lambda way, name, m: False
    running.until_update(2)
    closed = [sorted(n.learner.protocol_client.batches.closed) for n in running.all()]
    assert closed == [[1, 2]] * 5, "everybody had agreed to the first one"


def test_the_coordinator_dies_around_every_message(start):
    """It goes on under the next number; nobody agrees to two sums of one update."""
    kinds = [SumOffer, SumReady, SumCall, MaskedSum, AllHere, Consent]
    running = start(agreement=secure(updates=20, growth=1.2, privacy=PRIVATE))
    for k, kind in enumerate(kinds):
        done = []
        if kind in (SumOffer, SumReady):
            offer_first(running)

        def strikes(way, name, message, kind=kind, done=done):
            if isinstance(message, kind) and name == "c":
                done.append(message)
            return False

        running.lost = strikes
        running.until(lambda done=done: bool(done))
        running.crash()
        before = running.coordinator.finished
        running.until(lambda before=before: running.shared(before + 1))
        running.feed(1)
        assert running.coordinator.started >= 2 * (k + 1) or k == 0
    assert all(len(seeds) == 1 for seeds in consents(running).values())


def test_each_attempt_has_its_own_noise_and_a_prepared_one_costs_no_draw(start, monkeypatch):
    real, drawn = discrete_gaussian.sample, []
    monkeypatch.setattr(discrete_gaussian, "sample", lambda *g: drawn.append(g) or real(*g))
    running = start(agreement=secure(privacy=PRIVATE))
    used = []
    for node in running.all():
        source = node.learner.noise
        source.prepare(running.agreement.setting.noise)

        def draw(*given, source=source):
            used.append(PreparedNoise.draw(source, *given))
            return used[-1]

        source.draw = draw
    assert len(drawn) == 2 * 5  # v and H
    running.lost = lambda way, name, m: name == "c" and isinstance(m, MaskedSum)
    running.until(lambda: len(running.heard("up", MaskedSum)) >= 5)
    assert len(drawn) == 2 * 5, "the first attempt draws nothing"
    running.until(lambda: running.coordinator.finished == 1)
    assert {call.attempt for call in running.heard("down", SumCall)} == {1, 2}
    assert len(used) == 5 + 4
    assert len(drawn) == 2 * 9
    assert len({tuple(each.tolist()) for each in used}) == 9


def test_the_budget_ends_for_agents_and_coordinator(start):
    running = start(agreement=secure(updates=2, growth=1.5, privacy=PRIVATE))
    running.until_update(2)
    running.until(lambda: "ended" in running.kinds())
    node = running.nodes["a"]
    for again in (False, True):  # a coordinator that goes on, or renumbers; also after a restart
        if again:
            node.close()
            node.open()
        digest = node.agent_session.answers.model_digest()
        for update in (1, 2, 3, 4, 2**40):
            answers = node.agent_session.receive(SumOffer(update, digest, 2))
            assert answers == [Withdrawal(update)], update


def test_an_agent_with_secure_sums_gives_no_plain_ones(running):
    running.until_update(1)
    session = running.nodes["a"].agent_session
    for request in (
        SumsRequest("a", 2, 1),
        SumsRequest("a", 2, 0),
        Evaluate("a", 2, 1, 0, np.zeros(2), hessian=True, loss=True),
    ):
        assert session.receive(request) == [Withdrawal(2)]


def test_forgetting_between_mask_and_consent_takes_the_consent_back(running):
    done = []

    def strikes(way, name, message):
        if isinstance(message, AllHere) and name == "c" and not done:
            done.append(message)
            running.nodes["c"].calls.forget(running.nodes["c"].ids[:1])
        return False

    running.lost = strikes
    running.until(lambda: "abandoned" in running.kinds())
    assert running.now < 4.0, "it says so at once"
    assert ("c", 1) not in consents(running)
    running.until_update(2)
    assert len(running.nodes["c"].learner.protocol_client.samples) == 4


def test_a_coordinator_that_lost_its_file_goes_on_at_zero(running):
    running.until_update(1)
    running.file.close()
    (running.folder / "coordinator.db").unlink()
    running.begin(after=1)
    running.feed(2)
    running.until_update(2)
    call = running.heard("down", SumCall)[-1]
    assert (call.update, call.digest) == (2, NO_MODEL)


def test_a_batch_that_was_agreed_to_is_in_no_other_sum(start):
    """The coordinator opens a sum, shows no model, and opens the next one without one agent.

    If the same samples were in both, without noise the difference would be that agent's own.
    """
    running = start(agreement=secure(minimum=3))
    mine = plain_sums(running, ["c"], ZERO)
    running.lost = lambda way, name, m: isinstance(m, NewModel)  # nobody sees a model
    running.until(lambda: running.coordinator.finished == 1)
    running.file.close()
    (running.folder / "coordinator.db").unlink()  # as if there had been no update
    whole = running.heard("down", AllHere)[-1].transcript
    running.begin(after=1)
    running.lost = lambda way, name, m: name == "c" or isinstance(m, NewModel)
    running.until(lambda: running.coordinator.finished >= 2)
    without = running.coordinator.releases[running.coordinator.finished].numbers
    assert without.tolist() == [0] * 5, "all samples are in the first sum, and in no other"
    assert np.abs(mine).min() > 0
    assert running.heard("down", AllHere)[-1].transcript != whole


def test_an_invalid_sum_is_not_used_and_the_next_one_is(running):
    """One member adds numbers at random: nobody can say who, but the model does not suffer."""

    def spoil(self, message, rng=np.random.default_rng(0)):  # noqa: B008
        answer = AgentSums._answer(self, message)
        if isinstance(answer, MaskedSum):
            noise = np.frombuffer(rng.bytes(answer.numbers.nbytes), np.int64)
            answer = dataclasses.replace(answer, numbers=answer.numbers + noise)
        return answer

    sums = running.nodes["c"].agent_session.sums
    sums._answer = spoil.__get__(sums)
    running.until(lambda: "abandoned" in running.kinds())
    (text,) = texts(running, "abandoned")
    assert "a member sent bad data" in text
    assert running.coordinator.finished == 0
    assert not running.coordinator.releases
    del sums._answer
    running.feed(1)
    running.until_update(2)


def test_a_member_that_does_not_sign_is_left_out_and_named(running):
    """Else nobody would agree to the sum, and the update would be lost."""
    sums = running.nodes["c"].agent_session.sums
    sums._member.keys.sign = lambda transcript: b"s" * 70
    running.until(lambda: running.coordinator.finished == 1)
    assert "c's signature of the attempt" in texts(running, "invalid")[0]
    rest = [name for name in NAMES if name != "c"]
    assert numbers(running) == plain_sums(running, rest, ZERO).tolist()


def test_a_stranger_is_not_admitted_whatever_it_says(running):
    """The operator has made a certificate for it, and it knows all facts."""
    node = running.nodes["a"]
    hello = dataclasses.replace(node.agent_session.hello(), instance="f" * 32)
    out = running.session.receive("f", encode(hello, "s"), running.now)
    assert [decode_down(data, name, 2)[1] for name, data in out] == [
        Rejected("f is not in the agreed roster", member=False)
    ]
    for session, message in (("s", SumReady(1)), ("s", SessionKey(1, bytes(32), b""))):
        out = running.session.receive("f", encode(message, session), running.now)
        assert [type(decode_down(data, name, 2)[1]) for name, data in out] == [HelloRequest]
    running.until_update(1)
    assert running.coordinator.releases[1].clients == 5


def test_a_member_that_takes_up_another_roster_has_left(running):
    """No update waits for its answer; it comes back when both have the same one."""
    session = running.nodes["c"].agent_session
    before = session.client.agreement
    session.client.agreement = dataclasses.replace(before, roster="ab" * 32)
    out = running.session.receive("c", encode(session.hello(), session.session), running.now)
    [said] = [decode_down(data, name, 2)[1] for name, data in out]
    assert isinstance(said, Rejected)
    assert "newest roster.json" in said.reason
    assert "c" not in running.session.members
    assert texts(running, "left") == ["c has left: it is not admitted any more"]
    session.client.agreement = before
    running.until(lambda: "c" in running.session.members)


def test_a_member_whose_key_is_forged_is_not_in_the_sum(running):
    """Somebody else uses its name on the network: its key is not that of the roster."""
    session = running.session.members.session("c")
    key = SessionKey(1, b"k" * 32, b"s" * 70)
    running.session.receive("c", encode(key, session), running.now)
    (text,) = texts(running, "invalid")
    assert "a key signed by c" in text
    running.until(lambda: running.coordinator.finished == 1)


def test_what_was_recorded_is_uniform(start):
    """All that a coordinator gets of single agents, in as many updates as the test has time for."""
    agreement = secure(updates=40, first=1.0, growth=1.08, names=NAMES)
    policy = dataclasses.replace(POLICY, min_interval=0.1)
    running = start(agreement=agreement, policy=policy)
    while "ended" not in running.kinds():
        running.feed(1)
        running.run(1.0)
    recorded = running.recorded()
    assert recorded.size >= 20 * 5 * 5
    assert is_uniform(recorded)
    sums = np.concatenate([r.numbers for r in running.coordinator.releases.values()])
    assert not is_uniform(np.tile(sums, 4)), "what is under the masks is not"


def test_messages_at_random_do_no_harm(running):
    """Well-formed, and nonsense: nobody falls over, and the next update is as any other."""
    rng = np.random.default_rng(5)

    def number():
        return int(rng.choice([0, 1, 2, 3, 7, 2**40, 2**53 - 1]))

    def key():
        return bytes(32) if rng.random() < 0.2 else rng.bytes(32)

    def going_up():
        whole = np.frombuffer(rng.bytes(40), np.int64)
        return [
            SessionKey(number(), key(), rng.bytes(70)), SumReady(number()),
            MaskedSum("c", number(), number(), whole, rng.bytes(70)),
            Consent(number(), key(), key()),
        ]  # fmt: skip

    def going_down():
        one = ("abcdef"[rng.integers(6)], number(), "s", key(), rng.bytes(70))
        return [
            SessionKeys([one]), SumOffer(number(), key(), number()),
            AllHere(number(), key(), [rng.bytes(70)] * int(rng.integers(7))),
            SumCall(number(), number(), rng.bytes(int(rng.integers(3))), key(), key()),
        ]  # fmt: skip

    agent = running.nodes["b"].agent_session
    for k in range(200):
        up, down = going_up()[k % 4], going_down()[k % 4]
        session = running.session.members.session("c")
        running.tell(running.session.receive("c", encode(up, session), running.now))
        answers = agent.receive(down)
        assert not any(isinstance(m, MaskedSum | Consent) for m in answers)
    running.until(lambda: running.coordinator.finished > 0)


def test_over_a_real_server(tmp_path):
    given = {"name": "fedglb-private", "updates": 3, "first": 0.3, "growth": 2.0}
    agreed = AgreementTable(3, ProblemTable(2), given, minimum=3)
    with (
        federation(tmp_path, "abc", agreed) as running,
        Serving(running, tmp_path / "state.db") as serving,
        honest(running, tmp_path, serving, {"a": 3, "b": 4, "c": 5}) as agents,
    ):
        assert serving.wait("updated").facts["clients"] == 3
        assert all(agent.wait_for_model(1, PATIENCE) for agent in agents.values())
        sent = set(serving.session.traffic.entries)
    assert {"MaskedSum.up", "Consent.up"} <= sent
    assert not {"SumsRequest.down", "BatchSums.up"} & sent
