"""The coordinator's side of one secure sum.

Until all members of a set have answered, missing members are left out and the others are called
again: that is another attempt, and earlier messages stay hidden. From then on members reveal seeds,
and there is this sum or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.federation.secure_sums.masks import SEED_SIZE, WordArray, unmasked
from fedglb.federation.secure_sums.session_keys import SignedKey, verify_parts
from fedglb.federation.secure_sums.transcript import SumRules
from fedglb.federation.wire.sum_messages import SumCall
from fedglb.typing import IntArray

#: Asking which members are ready; waiting for masked vectors; for seeds; sum complete.
SumPhase = Literal["offered", "called", "all here", "done"]


class SumAttempts:
    """The attempts at the sum of update `slot`, at the model with the digest `model`.

    It is offered to the members `asked`; a vector has `size` numbers.
    """

    def __init__(
        self, rules: SumRules, slot: int, model: bytes, asked: Iterable[str], size: int
    ) -> None:
        self.rules, self.slot, self.model, self.size = rules, slot, model, size
        self.phase: SumPhase = "offered"
        self.asked = set(asked)
        for name in self.asked:
            rules.roster.public_key(name)  # raises for a non-member
        self.ready: set[str] = set()
        self.call: SumCall | None = None
        self.keys: dict[str, SignedKey] = {}  # of the members of the call
        self._vectors: dict[str, WordArray] = {}
        self._signatures: dict[str, bytes] = {}
        self._seeds: dict[str, bytes] = {}

    @property
    def attempt(self) -> int:
        """The number of the newest attempt, 0 before the first."""
        return 0 if self.call is None else self.call.attempt

    @property
    def members(self) -> tuple[str, ...]:
        """The set of the newest attempt."""
        return () if self.call is None else self.rules.roster.members_of(self.call.members)

    def missing(self) -> list[str]:
        """Return the members that have not answered the last request, in the roster's order."""
        if self.phase == "offered":
            return sorted(self.asked - self.ready)
        done: Mapping[str, object] = self._vectors if self.phase == "called" else self._seeds
        return [name for name in self.members if name not in done] if self.phase != "done" else []

    def note_ready(self, name: str) -> None:
        """Note that a member is ready; ignore members that were not asked."""
        if name in self.asked:
            self.ready.add(name)

    def drop(self, names: Iterable[str]) -> bool:
        """Go on without these; return False if it is too late, because seeds are revealed."""
        gone = set(names)
        if self.phase in ("all here", "done"):
            return not gone & set(self.members)
        self.asked -= gone
        self.ready -= gone
        return True

    @property
    def enough(self) -> bool:
        """Whether enough members are ready."""
        return len(self.ready) >= self.rules.minimum

    @property
    def outdated(self) -> bool:
        """Whether the newest call waits for a member that has left."""
        return self.phase == "called" and not set(self.members) <= self.ready

    def start(self, keys: Mapping[str, SignedKey]) -> SumCall:
        """Begin the next attempt, with all ready members; `keys` are their session keys.

        `InvalidInput`: they are too few, or seeds of an earlier attempt are revealed.
        """
        if self.phase not in ("offered", "called"):
            raise InvalidInput("attempt", self.attempt + 1, "no attempt: seeds are revealed")
        if not self.enough:
            allowed = f"at least {self.rules.minimum} ready members"
            raise InvalidInput("members", sorted(self.ready), allowed)
        members = [name for name in self.rules.roster.names if name in self.ready]
        bitmap, attempt = self.rules.roster.bitmap(members), self.attempt + 1
        self.keys = {name: keys[name] for name in members}
        digests = [key.digest for key in self.keys.values()]
        transcript = self.rules.transcript(self.slot, attempt, bitmap, self.model, digests)
        self.call = SumCall(self.slot, attempt, bitmap, self.model, transcript)
        self.phase, self._vectors = "called", {}
        return self.call

    def is_stale(self, key: SignedKey) -> bool:
        """Return whether a member has a new key and has not answered under the old one.

        Then it cannot answer this attempt, and there must be another.
        """
        known = self.keys.get(key.name)
        waits = self.phase == "called" and key.name not in self._vectors
        return waits and known is not None and known.digest != key.digest

    @property
    def signatures(self) -> list[bytes]:
        """The signatures of all members of the newest attempt, once they are here."""
        return [self._signatures[name] for name in self.members]

    def receive_vector(self, name: str, attempt: int, vector: WordArray, signature: bytes) -> bool:
        """Take a member's signed vector; return whether it was the last missing one.

        Of two different ones for one attempt the first counts. One for an earlier attempt is
        ignored.
        """
        if self.phase != "called" or attempt != self.attempt or name not in self.missing():
            return False
        assert self.call is not None
        if vector.shape != (self.size,) or vector.dtype != np.uint64:
            raise InvalidInput("MaskedSum.vector", vector.shape, f"{self.size} numbers mod 2**64")
        verify_parts(self.rules.roster, [name], [signature], self.call.transcript)
        self._vectors[name], self._signatures[name] = vector, signature
        if self.missing():
            return False
        self.phase = "all here"
        return True

    def receive_seed(self, name: str, attempt: int, seed: bytes) -> bool:
        """Take a member's seed; return whether it was the last missing one."""
        if self.phase != "all here" or attempt != self.attempt or name not in self.missing():
            return False
        if len(seed) != SEED_SIZE:
            raise InvalidInput("Consent.seed", f"{len(seed)} bytes", f"{SEED_SIZE} bytes")
        self._seeds[name] = seed
        if self.missing():
            return False
        self.phase = "done"
        return True

    def total(self) -> IntArray:
        """Return the sum of all members' vectors, once it is complete."""
        if self.phase != "done" or self.call is None:
            raise InvalidInput("phase", self.phase, "a complete sum")
        out = np.zeros(self.size, np.uint64)
        for vector in self._vectors.values():
            out += vector
        return unmasked(out, list(self._seeds.values()), self.call.transcript)
