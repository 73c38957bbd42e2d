"""One secure sum from offer to total, with members that drop out, restart and come late."""

from __future__ import annotations

import numpy as np
import pytest

from fedglb.errors import InvalidInput
from fedglb.federation.secure_sums.attempts import SumAttempts
from fedglb.federation.secure_sums.member import SumMember, SumState
from fedglb.federation.secure_sums.transcript import (
    SumRules,
    agreement_digest,
    model_digest,
)
from fedglb.model import SharedModel
from tests.federation.helpers.sum_members import (
    FEDERATION,
    MODEL,
    SIZE,
    Group,
    Log,
    roster_of,
    session_keys,
)


def test_a_member_that_is_too_late_for_the_offer_is_not_in_the_set():
    group = Group(5)
    attempts = SumAttempts(group.rules, 1, MODEL, group.names, SIZE)
    for name in group.names[:4]:
        group.members[name].offer(1)
        attempts.note_ready(name)
    assert attempts.missing() == group.names[4:]
    assert attempts.drop(group.names[4:])
    attempts.note_ready(group.names[4])
    assert group.run(attempts).tolist() == group.expected(group.names[:4]).tolist()


def test_the_state_is_written_before_anything_is_said():
    group = Group(3)
    member, log = group.members[group.names[0]], group.logs[group.names[0]]
    attempts = group.attempts()
    assert log.state == SumState(1)
    call = group.start(attempts)

    member.call(call, MODEL, lambda: np.zeros(SIZE, np.int64))
    assert log.state == SumState(1, 1, call.transcript, call.members)
    for name in group.names:
        group.answer(name, call)

    class Full(Exception):
        pass

    def fails(state):
        raise Full

    log.write_sum_state = fails
    with pytest.raises(Full):
        group.consent(group.names[0], call)
    with pytest.raises(Full):
        member.offer(2)
    again = group.start(attempts)
    group.logs[group.names[2]].write_sum_state = fails
    for _ in range(2):
        with pytest.raises(Full):
            group.answer(group.names[2], again)
    assert len(group.sent[group.names[2]]) == 3, "what was not written is made anew"


def test_after_all_here_nobody_is_dropped_and_nothing_is_tried_again():
    group = Group(4)
    attempts = group.attempts()
    call = group.start(attempts)
    for name in group.names:
        group.receive(attempts, name, call)
    assert not attempts.drop(group.names[:1])
    with pytest.raises(InvalidInput, match="revealed"):
        group.start(attempts)
    for name in group.names[1:]:
        attempts.receive_seed(name, 1, group.consent(name, call))
    assert attempts.missing() == group.names[:1]
    with pytest.raises(InvalidInput, match="a complete sum"):
        attempts.total()
    # the update is lost; the next one is as any other
    assert group.run(group.attempts(2)).tolist() == group.expected(group.names).tolist()


def test_a_member_that_answered_and_restarted_is_not_asked_again():
    group = Group(4)
    attempts = group.attempts()
    call = group.start(attempts)
    name = group.names[1]
    group.receive(attempts, name, call)
    group.restart(name, "s2")
    assert not attempts.is_stale(group.members[name].keys.own)


def test_what_comes_twice_or_late_changes_nothing():
    group = Group(3)
    attempts = group.attempts()
    call = group.start(attempts)
    first = group.names[0]
    vector = group.answer(first, call)
    signature = group.signed[first, call.transcript]
    attempts.receive_vector(first, 1, vector, signature)
    assert not attempts.receive_vector(first, 1, vector + np.uint64(1), signature)
    assert not attempts.receive_vector("stranger", 1, vector, signature)
    assert not attempts.receive_seed(first, 1, bytes(32))
    call = group.start(attempts)
    assert not attempts.receive_vector(first, 1, vector, signature)
    assert attempts.missing() == group.names
    for name in group.names:
        group.receive(attempts, name, call)
    for name in group.names:
        seed = group.consent(name, call)
        assert not attempts.receive_seed(name, 1, seed)
        attempts.receive_seed(name, 2, seed)
        assert not attempts.receive_seed(name, 2, bytes(32))
    assert attempts.total().tolist() == group.expected(group.names).tolist()


def test_vectors_and_seeds_of_another_size_are_refused():
    group = Group(3)
    attempts = group.attempts()
    call = group.start(attempts)
    with pytest.raises(InvalidInput, match="numbers mod"):
        attempts.receive_vector(group.names[0], 1, np.zeros(SIZE + 1, np.uint64), b"")
    for name in group.names:
        group.receive(attempts, name, call)
    with pytest.raises(InvalidInput, match="32 bytes"):
        attempts.receive_seed(group.names[0], 1, b"short")


def test_the_rules_are_checked():
    roster = roster_of(["a", "b", "c"])
    for minimum in (0, 1, 2, 4):
        with pytest.raises(InvalidInput, match="minimum"):
            SumRules(FEDERATION, roster, b"", minimum)
    rules = SumRules(FEDERATION, roster, b"", 3)
    with pytest.raises(InvalidInput, match="secret"):
        SumMember(rules, session_keys(roster, "a"), b"short", Log())
    with pytest.raises(InvalidInput, match="stranger"):
        SumAttempts(rules, 1, MODEL, ["a", "stranger"], SIZE)


def test_every_fact_is_in_the_transcript():
    roster, other = roster_of(["a", "b", "c"]), roster_of(["a", "b", "d"])
    rules = [
        SumRules("demo", roster, b"facts", 3),
        SumRules("other", roster, b"facts", 3),
        SumRules("demo", other, b"facts", 3),
        SumRules("demo", roster, b"other", 3),
    ]
    given = (1, 1, b"\x07", b"model", [b"x", b"y"])
    found = {each.transcript(*given) for each in rules}
    changed = [
        (2, 1, b"\x07", b"model", [b"x", b"y"]),
        (1, 2, b"\x07", b"model", [b"x", b"y"]),
        (1, 1, b"\x05", b"model", [b"x", b"y"]),
        (1, 1, b"\x07", b"Model", [b"x", b"y"]),
        (1, 1, b"\x07", b"model", [b"y", b"x"]),
        (1, 1, b"\x07", b"model", [b"xy"]),
    ]
    found |= {rules[0].transcript(*each) for each in changed}
    assert len(found) == len(rules) + len(changed)
    facts = agreement_digest({"a": "1", "b": "2"})
    assert facts == agreement_digest({"b": "2", "a": "1"})
    assert facts != agreement_digest({"a": "1b", "": "2"})


def test_every_bit_of_a_model_is_in_its_digest():
    matrix, theta = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.1, -0.0])
    model = SharedModel(3, matrix, np.array([1.0]), theta)
    others = [
        SharedModel(4, matrix, np.array([1.0]), theta),
        SharedModel(3, np.nextafter(matrix, 9.0), np.array([1.0]), theta),
        SharedModel(3, matrix, np.array([1.0, 0.0]), theta),
        SharedModel(3, matrix, np.array([1.0]), np.array([0.1, 0.0])),
        SharedModel(3, matrix, np.array([1.0]), None, theta),
        SharedModel(3, matrix, np.array([1.0]), theta, ridge=1.0),
    ]
    found = {model_digest(1, each) for each in (model, *others)}
    assert len(found) == 7
    assert model_digest(2, model) not in found
    assert model_digest(0, None) not in found
    fortran = SharedModel(3, np.asfortranarray(matrix), np.array([1.0]), theta)
    assert model_digest(1, fortran) == model_digest(1, model)
