"""What a coordinator tries against real agents with their files, and deaths at every write.

Agents give nothing, or what they give is noise; nobody ever agrees to two sums of one update.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedglb.federation.secure_sums.masks import unmasked
from fedglb.federation.secure_sums.session_keys import SignedKey
from fedglb.federation.secure_sums.transcript import NO_MODEL
from fedglb.federation.wire.messages import Withdrawal
from fedglb.federation.wire.sum_messages import SumCall, SumOffer, SumReady
from fedglb.protocol.messages import BatchSums, Derivatives, Evaluate, MaskedSum, SumsRequest
from tests.federation.helpers.evil_coordinator import NAMES, Evil
from tests.federation.helpers.secure_network import plain_sums
from tests.federation.secure_sums.test_masks import is_uniform


@pytest.fixture(scope="module")
def evil(tmp_path_factory):
    """One federation for all attacks: an update that was attacked is over, and the next begins.

    All samples are in its first sum, which is honest; later sums have nothing new in them.
    """
    out = Evil(tmp_path_factory.mktemp("evil"))
    call, vectors, seeds = honest_sum(out)
    wanted = plain_sums(out, NAMES, np.zeros(2)).tolist()
    assert total(vectors.values(), seeds.values(), call.transcript) == wanted
    yield out
    out.close()


def honest_sum(evil: Evil) -> tuple[SumCall, dict[str, Any], dict[str, bytes]]:
    """Let all agents make one sum: the call, and each one's vector and seed."""
    evil.offer()
    call = evil.call()
    vectors = {name: evil.masked(name, call) for name in NAMES}
    return call, vectors, {name: evil.consent(name, call) for name in NAMES}


def total(vectors, seeds, transcript) -> list[int]:
    added = np.sum(list(vectors), axis=0, dtype=np.uint64)
    return unmasked(added, list(seeds), transcript).tolist()


def test_an_honest_sum_and_then_a_second_set(evil):
    """First what it may have: the sum. Then it claims that one dropped out, to subtract."""
    whole, _, seeds = honest_sum(evil)
    without = evil.call(NAMES[1:], attempt=2)
    for name in NAMES[1:]:
        assert evil.refuses(name, without)
        assert evil.refuses(name, evil.all_here(without))
        assert evil.consent(name, whole) == seeds[name], "the same again is nothing new"


def test_two_sets_are_masked_and_one_is_agreed_to(evil):
    evil.offer()
    whole = evil.call()
    for name in NAMES:
        evil.masked(name, whole)
    without = evil.call(NAMES[1:], attempt=2)
    vectors = {name: evil.masked(name, without) for name in NAMES[1:]}
    seeds = {name: evil.consent(name, without) for name in NAMES[1:]}
    for name in NAMES[1:]:
        assert evil.refuses(name, evil.all_here(whole))
    # the samples were in the first sum: now there are none
    assert total(vectors.values(), seeds.values(), without.transcript) == [0] * 5


def test_late_consent(evil):
    """It keeps the vectors of an update, begins another, and asks to agree to the first."""
    evil.offer()
    first = evil.call()
    for name in NAMES:
        evil.masked(name, first)
    evil.offer()
    second = evil.call()
    for name in NAMES:
        assert evil.refuses(name, evil.all_here(first))
        assert evil.refuses(name, replace(evil.all_here(first), update=second.update))
        evil.masked(name, second)
    for name in NAMES:
        evil.consent(name, second)
        assert evil.refuses(name, evil.all_here(first))
        assert evil.refuses(name, replace(evil.all_here(first), update=second.update))
        assert evil.refuses(name, SumOffer(first.update, NO_MODEL))


def test_another_model(evil):
    other = b"x" * 32
    for name in NAMES:
        assert evil.refuses(name, SumOffer(evil.slot + 1, other))
    evil.offer()
    for name in NAMES:
        assert evil.refuses(name, evil.call(digest=other))


def test_plain_requests(evil):
    """It asks for the sums of one agent, as in a federation without secure sums."""
    evil.slot += 1
    for request in (
        SumsRequest("a", evil.slot),
        Evaluate("a", evil.slot, 1, 0, np.zeros(2), hessian=True, loss=True),
    ):
        mark = len(evil.heard)
        assert evil.refuses("a", request)
        answers = [said for who, said in evil.heard[mark:] if who == "a"]
        assert Withdrawal(evil.slot) in answers
        assert not any(isinstance(said, BatchSums | Derivatives) for said in answers)


def test_small_sets_strangers_and_sets_without_the_one_who_is_asked(evil):
    evil.offer()
    for size in (1, 2, 3):
        assert evil.refuses("a", evil.call(NAMES[:size]))
    assert evil.refuses("a", evil.call(NAMES[1:]))
    for members in (b"\x3f", b"\xff", b"\x1f\x00", b""):
        assert evil.refuses("a", replace(evil.call(), members=members))


def test_a_forged_key(evil):
    """Somebody in the middle of all pairs would know their masks."""
    evil.offer()
    real = evil.keys["b"]
    forged = SignedKey("b", real.generation, real.session, evil.keys["c"].key, real.signature)
    evil.share_keys(["a"], b=forged)
    assert evil.refuses("a", evil.call(keys={"b": forged}))
    stranger = replace(evil.keys["c"], name="f")
    evil.share_keys(["a"], f=stranger)
    evil.masked("a", evil.call())  # the real keys are still the ones that it uses


def test_repeated_and_replayed_calls(evil):
    evil.offer()
    first = evil.call()
    vector = evil.masked("a", first)
    assert evil.masked("a", first).tolist() == vector.tolist()
    second = evil.call(attempt=2)
    assert evil.masked("a", second).tolist() != vector.tolist()
    assert evil.refuses("a", first)
    assert evil.refuses("a", evil.call(NAMES[:4], attempt=2))
    evil.offer()
    for replayed in (first, second):
        assert evil.refuses("a", replayed)


def test_different_sets_told_to_different_agents_give_noise(evil):
    """Nobody agrees; and with all seeds, a sum of any of what was sent is still noise."""
    seen = []
    for _ in range(8):
        evil.offer()
        whole, without = evil.call(), evil.call(NAMES[1:])
        told = {name: whole if name in "abc" else without for name in NAMES}
        vectors = {name: evil.masked(name, told[name]) for name in NAMES}
        assert all(evil.refuses(name, evil.all_here(told[name])) for name in NAMES)
        seeds = {name: evil.seed(name, told[name]) for name in NAMES}
        for group in ("abc", "de", "ab", "a", "d"):
            parts = [vectors[name] for name in group], [seeds[name] for name in group]
            seen += total(*parts, told[group[0]].transcript)
    assert is_uniform(np.array(seen))


def test_two_sessions_of_one_agent(evil):
    """Some are given the key of the session that has ended, some that of the new one."""
    old = evil.keys["b"]
    evil.restart("b")
    new = evil.keys["b"]
    assert old.key != new.key
    evil.share_keys(["b"])
    evil.share_keys(["a", "c"], b=old)
    evil.share_keys(["d", "e"])
    evil.offer()
    with_old, with_new = evil.call(keys={"b": old}), evil.call()
    for name in ("a", "c"):
        assert evil.refuses(name, with_new)
    for name in ("b", "d", "e"):
        assert evil.refuses(name, with_old)
        evil.masked(name, with_new)
    evil.share_keys(["a", "c"])


def test_an_agent_dies_while_it_masks(evil):
    """It never answers a call with other noise, whichever session's keys the call is made with.

    It agrees to a sum only if its vector was heard. Else there may be another attempt.
    """
    written = []
    for at in itertools.count(1):
        evil.offer()
        call = evil.call()
        for name in NAMES[1:]:
            evil.masked(name, call)
        later = evil.dies("a", call, at)
        assert evil.refuses("a", call), at
        state = evil.nodes["a"].agent_session.answers.sum_state()
        written.append(state.transcript == call.transcript)
        if written[-1]:
            assert evil.refuses("a", evil.call()), at
        if not later:
            evil.consent("a", call)
            assert evil.refuses("a", evil.call(attempt=2)), at
            break
        assert evil.refuses("a", evil.all_here(call)), at
        again = evil.call(attempt=2)
        for name in NAMES:
            evil.masked(name, again)
        evil.consent("a", again)
    assert written == sorted(written)
    assert not written[0]
    assert written[-2:] == [True, True]  # before its answer is sent


def test_an_agent_dies_while_it_agrees(evil):
    """Consent survives the death, and there is never another one."""
    written = []
    for at in itertools.count(1):
        evil.offer()
        call = evil.call()
        vectors = {name: evil.masked(name, call) for name in NAMES}
        later = evil.dies("a", evil.all_here(call), at)
        other = evil.call(attempt=2)
        written.append(evil.nodes["a"].agent_session.answers.sum_state().consented)
        if written[-1]:
            assert evil.refuses("a", other), at
            assert evil.refuses("a", SumOffer(call.update, NO_MODEL)), at
        seeds = {name: evil.consent(name, call) for name in NAMES}
        assert total(vectors.values(), seeds.values(), call.transcript) == [0] * 5, at
        assert evil.refuses("a", other), at
        if not later:
            break
    assert len(written) > 6
    assert written == sorted(written)
    assert written[-2:] == [True, True]  # before its answer is sent


def test_an_agent_dies_while_it_is_offered_an_update(evil):
    for at in itertools.count(1):
        evil.slot += 1
        later = evil.dies("a", SumOffer(evil.slot, NO_MODEL), at)
        answers = evil.say("a", SumOffer(evil.slot, NO_MODEL))
        assert answers[-1] == SumReady(evil.slot), at
        if not later:
            break
    assert at > 2


def test_nobody_has_agreed_to_two_sums_of_one_update_or_sent_two_vectors_for_one_attempt(evil):
    """Over all that was tried above; and what it could record is uniform."""
    found = evil.consents()
    assert len(found) > 50
    assert all(len(each) == 1 for each in found.values())
    masked = [(n, m) for n, m in evil.heard if isinstance(m, MaskedSum)]
    vectors = {m.numbers.tobytes() for _, m in masked}
    assert len(vectors) == len({(n, m.update, m.attempt) for n, m in masked})
    assert is_uniform(np.concatenate([np.frombuffer(each, np.int64) for each in vectors]))
