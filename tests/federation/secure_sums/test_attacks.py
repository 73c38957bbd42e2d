"""What a coordinator tries that wants one member's numbers: it is refused, or gets noise."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from fedglb.errors import InvalidInput
from fedglb.federation.secure_sums.masks import unmasked
from fedglb.federation.secure_sums.session_keys import MissingKeys
from fedglb.federation.wire.sum_messages import SumCall
from tests.federation.helpers.sum_members import MODEL, SIZE, Group, session_keys
from tests.federation.secure_sums.test_masks import is_uniform


def forge(group: Group, call: SumCall, **changed) -> SumCall:
    """A call with other facts, and the transcript that follows from them."""
    made = replace(call, **changed)
    keys = {name: member.keys.own.digest for name, member in group.members.items()}
    digests = [keys[name] for name in group.roster.members_of(made.members)]
    transcript = group.rules.transcript(
        made.update, made.attempt, made.members, made.digest, digests
    )
    return replace(made, transcript=transcript)


@pytest.fixture
def group() -> Group:
    return Group(6, minimum=4)


def everybody(group: Group, call: SumCall) -> np.ndarray:
    """The sum of all masked vectors."""
    members = group.roster.members_of(call.members)
    return sum((group.answer(name, call) for name in members), np.zeros(SIZE, np.uint64))


def test_a_second_set_for_an_update_gets_no_consent(group):
    """It claims that one dropped out, and would subtract the second sum from the first."""
    whole = group.start(group.attempts())
    everybody(group, whole)
    without = forge(group, whole, attempt=2, members=group.roster.bitmap(group.names[1:]))
    for name in group.names[1:]:
        group.members[name].consent(1, whole.transcript)
        with pytest.raises(InvalidInput, match="no sum was made yet"):
            group.answer(name, without)
        with pytest.raises(InvalidInput, match="made last"):
            group.members[name].consent(1, without.transcript)


def test_of_two_masked_sets_one_is_consented_to(group):
    whole = group.start(group.attempts())
    everybody(group, whole)
    without = forge(group, whole, attempt=2, members=group.roster.bitmap(group.names[1:]))
    everybody(group, without)
    for name in group.names[1:]:
        group.members[name].consent(1, without.transcript)
        with pytest.raises(InvalidInput, match="made last"):
            group.members[name].consent(1, whole.transcript)
    # the one that was left out may consent to the first: alone it opens nothing
    group.members[group.names[0]].consent(1, whole.transcript)


def test_two_sets_in_one_attempt_are_refused(group):
    whole = group.start(group.attempts())
    everybody(group, whole)
    other = forge(group, whole, members=group.roster.bitmap(group.names[1:]))
    for name in group.names[1:]:
        with pytest.raises(InvalidInput, match="attempt"):
            group.answer(name, other)


def test_late_consent_is_refused(group):
    """An update whose vectors it has is opened when the next one, with the same samples, is."""
    first = group.start(group.attempts(1))
    everybody(group, first)
    second = group.attempts(2)
    for name in group.names:
        with pytest.raises(InvalidInput, match="newest update"):
            group.members[name].consent(1, first.transcript)
    call = group.start(second)
    everybody(group, call)
    for name in group.names:
        group.members[name].consent(2, call.transcript)
        with pytest.raises(InvalidInput):
            group.members[name].consent(1, first.transcript)
        with pytest.raises(InvalidInput):
            group.members[name].consent(2, first.transcript)
        assert not group.members[name].offer(1)
        assert not group.members[name].offer(2)


def test_a_restart_forgets_nothing_of_this(group):
    first = group.start(group.attempts(1))
    everybody(group, first)
    name = group.names[0]
    seed = group.members[name].consent(1, first.transcript)
    group.restart(name, "s2")
    assert group.members[name].consent(1, first.transcript) == seed
    assert not group.members[name].offer(1)
    again = forge(group, first, attempt=2)
    with pytest.raises(InvalidInput, match="no sum was made yet"):
        group.answer(name, again)
    assert group.members[name].offer(2)
    group.restart(name, "s3")
    with pytest.raises(InvalidInput):
        group.members[name].consent(1, first.transcript)


def test_another_model_is_refused(group):
    call = group.start(group.attempts())
    with pytest.raises(InvalidInput, match="model"):
        group.answer(group.names[0], forge(group, call, digest=b"x" * 32))
    with pytest.raises(InvalidInput, match="model"):
        group.answer(group.names[0], call, model=b"x" * 32)
    assert not group.sent[group.names[0]]


def test_small_sets_strangers_and_other_sets_are_refused(group):
    call = group.start(group.attempts())
    name, bitmap = group.names[0], group.roster.bitmap
    for size in (1, 2, 3):
        with pytest.raises(InvalidInput, match="at least 4"):
            group.answer(name, forge(group, call, members=bitmap(group.names[:size])))
    with pytest.raises(InvalidInput, match="has shop-00"):
        group.answer(name, forge(group, call, members=bitmap(group.names[1:])))
    for members in (b"\xff", b"", b"\x3f\x01"):
        with pytest.raises(InvalidInput):
            group.answer(name, replace(call, members=members))
    assert not group.sent[name]


def test_updates_beyond_the_budget_are_refused_also_after_a_restart(group):
    name = group.names[0]
    for session in ("s1", "s2"):
        for slot in (11, 12, 2**40):
            with pytest.raises(InvalidInput, match="at most 10"):
                group.members[name].offer(slot)
        group.restart(name, session)
    assert group.members[name].offer(10)
    for slot in range(10):
        assert not group.members[name].offer(slot), "a coordinator that renumbers"


def test_a_call_without_an_offer_ends_all_updates_before_it(group):
    call = group.start(group.attempts(2))
    name = group.names[0]
    group.answer(name, call)
    with pytest.raises(InvalidInput, match="the newest"):
        group.answer(name, forge(group, call, update=1))
    later = forge(group, call, update=4)
    group.answer(name, later)
    with pytest.raises(InvalidInput, match="newest update"):
        group.members[name].consent(2, call.transcript)
    for slot in (1, 2, 3):
        with pytest.raises(InvalidInput, match="the newest"):
            group.answer(name, forge(group, call, update=slot))
        assert not group.members[name].offer(slot)
    with pytest.raises(InvalidInput, match="at most 10"):
        group.answer(name, forge(group, call, update=11))
    group.members[name].consent(4, later.transcript)


def test_a_repeated_call_gets_the_same_bytes_and_a_replayed_one_nothing(group):
    first = group.start(group.attempts())
    name = group.names[0]
    vector = group.answer(name, first)
    assert group.answer(name, first).tobytes() == vector.tobytes()
    assert len(group.sent[name]) == 1, "no fresh noise under the same masks"
    second = forge(group, first, attempt=2)
    assert group.answer(name, second).tobytes() != vector.tobytes()
    with pytest.raises(InvalidInput, match="each is new"):
        group.answer(name, first)
    group.members[name].consent(1, second.transcript)
    assert group.answer(name, second).tobytes() == group.answer(name, second).tobytes()
    group.members[name].offer(2)
    for replayed in (first, second):
        with pytest.raises(InvalidInput):
            group.answer(name, replayed)
    assert len(group.sent[name]) == 2


def test_the_same_call_after_a_restart_is_not_answered_with_other_noise(group):
    call = group.start(group.attempts())
    name = group.names[0]
    group.answer(name, call)
    group.restart(name, "s2")
    for given in (call, forge(group, call)):
        with pytest.raises(InvalidInput):
            group.answer(name, given)
    assert len(group.sent[name]) == 1


def test_a_forged_key_is_not_used_and_the_call_not_answered(group):
    """A coordinator in the middle of all pairs would know their masks."""
    attempts = group.attempts()
    own = session_keys(group.roster, group.names[1], "made up").own
    forged = replace(own, name=group.names[0])
    for name in group.names[1:]:
        with pytest.raises(InvalidInput):
            group.members[name].keys.add(forged)
    keys = {name: member.keys.own for name, member in group.members.items()}
    call = attempts.start({**keys, group.names[0]: forged})
    for name in group.names:
        with pytest.raises(MissingKeys):
            group.answer(name, call)


def test_two_sessions_of_one_name_are_told_apart(group):
    """Some are given the key of one process of a member, some that of another."""
    attempts, name = group.attempts(), group.names[0]
    second = session_keys(group.roster, name, "s2").own
    for other in group.names[1:3]:
        group.members[other].keys.add(second)
    call = group.start(attempts)
    for other in group.names:
        if other in group.names[1:3]:
            with pytest.raises(MissingKeys):
                group.answer(other, call)
        else:
            group.answer(other, call)


def all_opened(group: Group, calls: dict[str, SumCall]) -> list[np.ndarray]:
    """What one sees who has all vectors and all seeds, of members that were told different things.

    For every transcript: the sum of its vectors without the masks whose seeds are known.
    """
    vectors = {name: group.answer(name, call) for name, call in calls.items()}
    seeds = {name: group.members[name].consent(1, c.transcript) for name, c in calls.items()}
    out = []
    for transcript in {call.transcript for call in calls.values()}:
        told = [name for name, call in calls.items() if call.transcript == transcript]
        for count in range(1, len(told) + 1):
            for some in itertools.combinations(told, count):
                total = sum((vectors[name] for name in some), np.zeros(SIZE, np.uint64))
                out.append(unmasked(total, [seeds[name] for name in some], transcript))
    return out


def test_different_sets_for_different_members_give_noise():
    """Everybody consents, and no combination of vectors is a sum of numbers."""
    seen: list[np.ndarray] = []
    for seed in range(60):
        group = Group(6, minimum=4, seed=seed)
        whole = group.start(group.attempts())
        without = forge(group, whole, members=group.roster.bitmap(group.names[1:]))
        calls = {n: whole if k < 3 else without for k, n in enumerate(group.names)}
        seen += all_opened(group, calls)
    assert is_uniform(np.concatenate(seen))


def test_different_models_for_different_members_give_noise():
    seen: list[np.ndarray] = []
    for seed in range(60):
        group = Group(6, minimum=4, seed=seed)
        call = group.start(group.attempts())
        other = forge(group, call, digest=b"x" * 32)
        vectors = [
            group.answer(n, call if k < 3 else other, MODEL if k < 3 else b"x" * 32)
            for k, n in enumerate(group.names)
        ]
        seeds = [
            group.members[n].consent(1, (call if k < 3 else other).transcript)
            for k, n in enumerate(group.names)
        ]
        half = sum(vectors[:3], np.zeros(SIZE, np.uint64))
        seen.append(unmasked(half, seeds[:3], call.transcript))
        rest = sum(vectors[3:], np.zeros(SIZE, np.uint64))
        both = unmasked(half, seeds[:3], call.transcript).view(np.uint64)
        both = both + unmasked(rest, seeds[3:], other.transcript).view(np.uint64)
        seen.append(both.view(np.int64))
    assert is_uniform(np.concatenate(seen))


def test_what_is_recorded_without_consent_is_uniform():
    """Single vectors, sums of all, and differences of attempts, of members that send zeros."""
    single, sums, differences = [], [], []
    group = Group(5, minimum=3, last=None)
    zeros = np.zeros(SIZE, np.int64)
    for slot in range(1, 81):
        attempts = group.attempts(slot)
        vectors = []
        for _ in range(2):
            call = group.start(attempts)
            found = [group.members[n].call(call, MODEL, lambda: zeros) for n in group.names]
            vectors.append(np.array(found))
        single += list(vectors[0])
        sums += [each.sum(axis=0, dtype=np.uint64) for each in vectors]
        differences += list(vectors[0] - vectors[1])
    for seen in (single, sums, differences):
        assert is_uniform(np.concatenate(seen))


def test_seeds_without_one_members_leave_its_numbers_hidden():
    """All but one are the coordinator's own, and the one does not consent."""
    seen = []
    group = Group(4, minimum=4, last=None)
    zeros = np.zeros(SIZE, np.int64)
    for slot in range(1, 201):
        call = group.start(group.attempts(slot))
        vectors = [group.members[n].call(call, MODEL, lambda: zeros) for n in group.names]
        seeds = [group.members[n].consent(slot, call.transcript) for n in group.names[1:]]
        seen.append(unmasked(sum(vectors, np.zeros(SIZE, np.uint64)), seeds, call.transcript))
    assert is_uniform(np.concatenate(seen))
