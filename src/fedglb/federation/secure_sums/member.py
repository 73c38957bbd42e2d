"""One member's side of secure sums: its answers and refusals.

Offered → ready → called (it sends its masked vector) → all here (it sends its self mask's seed).
The offer may be skipped: it only tells the coordinator which members are present.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from fedglb.errors import InvalidInput
from fedglb.federation.secure_sums.masks import SEED_SIZE, WordArray, masked, own_seed
from fedglb.federation.secure_sums.session_keys import KeyRing, MissingKeys, verify_parts
from fedglb.federation.secure_sums.transcript import SumRules, SumState
from fedglb.federation.wire.sum_messages import SumCall
from fedglb.typing import IntArray


class SumLog(Protocol):
    """Stores a member's `SumState`, as long as its samples."""

    def sum_state(self) -> SumState:
        """Return the last state written."""
        ...

    def write_sum_state(self, state: SumState) -> None:
        """Write the state; with `consented` it must survive a power cut when this returns."""
        ...


class SumMember:
    """One member's side of secure sums.

    Its promises, whatever the coordinator sends, forgets or repeats:

    1. *One sum per update.* It reveals the seed of at most one transcript per slot, and none of a
    slot after being ready for a later one. That is written before it is sent.
    2. *One vector per transcript.* Noise and masks are fresh in each attempt. A repeated call gets
       the same bytes, from memory. After a restart it gets nothing, and the coordinator has to
       make another attempt: a transcript binds the process's session key, which died with it, so
       that no later process can derive this transcript and put other noise under these masks.
       The seed can still be revealed: it is derived from the file's secret.
    3. *No small sets, no non-members.* The set has `minimum` members or more, all in the roster,
       and each has signed its key.
    4. *No replays.* It reveals the seed only if every member of the set has signed this very
       transcript. It binds this member's session key, which is new: so each of them takes part
       now, with the key that its process has now. An old session key, whoever holds it, is of no
       use, and no clock, counter or list of keys is needed.

    Why a vector without its seed reveals nothing: its self mask is a stream that requires the
    file's secret. With the seed, the masks of pairs remain, and cancel only in the sum over all
    members that derived masks from the same transcript: the same set, model, update and attempt.

    `secret` is the file's: 32 random bytes.
    """

    def __init__(self, rules: SumRules, keys: KeyRing, secret: bytes, log: SumLog) -> None:
        if len(secret) != SEED_SIZE:
            raise InvalidInput("secret", f"{len(secret)} bytes", f"{SEED_SIZE} bytes")
        self.rules, self.keys = rules, keys
        self._secret, self._log = secret, log
        # the newest transcript, its vector and signature
        self._answer: tuple[bytes, tuple[WordArray, bytes]] | None = None

    @property
    def state(self) -> SumState:
        """The member's state."""
        return self._log.sum_state()

    def offer(self, slot: int) -> bool:
        """Return whether it is ready for an update; later ones then rule out this one."""
        last = self.rules.last
        if last is not None and slot > last:
            raise InvalidInput("update", slot, f"at most {last}: the budget ends there")
        state = self.state
        if slot > state.slot:
            self._log.write_sum_state(SumState(slot))
            self._answer = None
            return True
        return slot == state.slot and not state.consented

    def call(
        self, call: SumCall, model: bytes, vector: Callable[[], IntArray]
    ) -> tuple[WordArray, bytes]:
        """Return the masked vector and the signature, or raise `InvalidInput` to refuse the call.

        `model` is the digest of this member's model; `vector` makes the numbers with fresh noise,
        and is called at most once per attempt. `MissingKeys`: session keys of the set are unknown
        here, or differ from the coordinator's.
        """
        if call.update > self.state.slot:
            self.offer(call.update)  # a call includes an offer
        state = self.state
        newest = (call.update, call.attempt, call.transcript)
        if self._answer is not None and newest == (state.slot, state.attempt, self._answer[0]):
            return self._answer[1]
        if call.update != state.slot:
            raise InvalidInput("update", call.update, f"{state.slot}, the newest, or a later one")
        if state.consented:
            raise InvalidInput("update", call.update, "an update without a sum")
        if call.attempt <= state.attempt:
            raise InvalidInput("attempt", call.attempt, f"a number above {state.attempt}")
        members = self._checked(call.members)
        if call.digest != model:
            allowed = f"{model.hex()[:16]}, the digest of this member's model"
            raise InvalidInput("model", call.digest.hex()[:16], allowed)
        digests = self.keys.digests(members)
        ours = self.rules.transcript(call.update, call.attempt, call.members, call.digest, digests)
        if ours != call.transcript:
            raise MissingKeys([name for name in members if name != self.keys.name])
        numbers = vector()
        # Written before it is sent: after a crash the member must know that it was sent.
        self._log.write_sum_state(SumState(call.update, call.attempt, ours, call.members))
        index, own = self.rules.roster.index, self.keys.name
        shared = {index[name]: self.keys.secret(name) for name in members if name != own}
        out = masked(numbers, index[own], shared, own_seed(self._secret, ours), ours)
        self._answer = ours, (out, self.keys.sign(ours))
        return self._answer[1]

    def consent(self, slot: int, transcript: bytes, signatures: Sequence[bytes]) -> bytes:
        """Return the seed of its self mask, for the one sum of this update.

        `signatures` are those of all members of the set, in its order.
        """
        state = self.state
        if slot != state.slot or not state.transcript or transcript != state.transcript:
            allowed = "the attempt of the last masked vector, in the newest update"
            raise InvalidInput("transcript", transcript.hex()[:16], allowed)
        members = self.rules.roster.members_of(state.members)
        verify_parts(self.rules.roster, members, signatures, transcript)
        if not state.consented:
            self._log.write_sum_state(replace(state, consented=True))
        return own_seed(self._secret, transcript)

    def _checked(self, bitmap: bytes) -> tuple[str, ...]:
        members, own = self.rules.roster.members_of(bitmap), self.keys.name
        if own not in members:
            raise InvalidInput("members", members, f"a set with {own}")
        if len(members) < self.rules.minimum:
            allowed = f"at least {self.rules.minimum} members"
            raise InvalidInput("members", f"{len(members)} members", allowed)
        return members
