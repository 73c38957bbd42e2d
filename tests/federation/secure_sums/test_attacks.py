"""What a coordinator tries that wants one member's numbers: it is refused, or gets noise.

`test_secure_attacks.py` has what it tries against agents with their files.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedglb.errors import InvalidInput
from fedglb.federation.secure_sums.masks import own_seed, unmasked
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


def test_a_call_without_an_offer_ends_all_updates_before_it(group):
    call = group.start(group.attempts(2))
    name = group.names[0]
    group.answer(name, call)
    with pytest.raises(InvalidInput, match="the newest"):
        group.answer(name, forge(group, call, update=1))
    later = forge(group, call, update=4)
    group.answer(name, later)
    with pytest.raises(InvalidInput, match="newest update"):
        group.consent(name, call)
    for slot in (1, 2, 3):
        with pytest.raises(InvalidInput, match="the newest"):
            group.answer(name, forge(group, call, update=slot))
        assert not group.members[name].offer(slot)
    with pytest.raises(InvalidInput, match="at most 10"):
        group.answer(name, forge(group, call, update=11))
    for other in group.names[1:]:
        group.answer(other, later)
    group.consent(name, later)


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
        told = [call if k < 3 else other for k in range(6)]
        for n, each in zip(group.names, told, strict=True):
            with pytest.raises(InvalidInput, match="signature"):
                group.consent(n, each)
        # as if they had
        seeds = [
            own_seed(group.secrets[n], each.transcript)
            for n, each in zip(group.names, told, strict=True)
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
            found = [group.members[n].call(call, MODEL, lambda: zeros)[0] for n in group.names]
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
        found = [group.members[n].call(call, MODEL, lambda: zeros) for n in group.names]
        vectors, signed = [v for v, _ in found], [s for _, s in found]
        seeds = [group.members[n].consent(slot, call.transcript, signed) for n in group.names[1:]]
        seen.append(unmasked(sum(vectors, np.zeros(SIZE, np.uint64)), seeds, call.transcript))
    assert is_uniform(np.concatenate(seen))
