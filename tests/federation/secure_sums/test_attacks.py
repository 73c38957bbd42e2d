"""What a coordinator tries that wants one member's numbers: it is refused, or gets noise.

`test_secure_attacks.py` has what it tries against agents that are processes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedglb.errors import InvalidInput
from fedglb.federation.secure_sums.masks import unmasked
from fedglb.federation.wire.sum_messages import SumCall
from tests.federation.helpers.sum_members import MODEL, SIZE, Group
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


def test_a_restart_forgets_nothing_of_this(group):
    first = group.start(group.attempts(1))
    everybody(group, first)
    name = group.names[0]
    seed = group.members[name].consent(1, first.transcript)
    group.restart(name, "s2")
    assert group.members[name].consent(1, first.transcript) == seed
    assert not group.members[name].offer(1)
    again = forge(group, first, attempt=2)
    with pytest.raises(InvalidInput, match="an update without a sum"):
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


def test_the_same_call_after_a_restart_is_not_answered_with_other_noise(group):
    call = group.start(group.attempts())
    name = group.names[0]
    group.answer(name, call)
    group.restart(name, "s2")
    for given in (call, forge(group, call)):
        with pytest.raises(InvalidInput):
            group.answer(name, given)
    assert len(group.sent[name]) == 1


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
