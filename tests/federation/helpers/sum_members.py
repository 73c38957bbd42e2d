"""Members of secure sums in memory, and a coordinator that is honest unless told otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from secrets import token_bytes

import numpy as np

from fedglb.federation.certificates import Certificate, IssuedCertificate
from fedglb.federation.operator.authority import Authority
from fedglb.federation.secure_sums.attempts import SumAttempts
from fedglb.federation.secure_sums.masks import SEED_SIZE, WordArray
from fedglb.federation.secure_sums.member import SumMember, SumState
from fedglb.federation.secure_sums.roster import Roster
from fedglb.federation.secure_sums.session_keys import KeyRing
from fedglb.federation.secure_sums.transcript import SumRules
from fedglb.federation.wire.sum_messages import SumCall

FEDERATION, SIZE, MODEL = "demo", 5, b"m" * 32


@cache
def authority() -> Authority:
    return Authority.new(FEDERATION)


@cache
def issued(name: str) -> IssuedCertificate:
    return authority().issue(f"fedglb://{FEDERATION}/{name}/1")


def roster_of(names: Sequence[str]) -> Roster:
    return Roster({name: Certificate(issued(name).certificate).public_key for name in names})


def names(count: int) -> list[str]:
    return [f"shop-{k:02}" for k in range(count)]


def session_keys(roster: Roster, name: str, session: str = "s1") -> KeyRing:
    return KeyRing(FEDERATION, roster, name, 1, session, issued(name).key)


class Log:
    """A file in memory, which has what was written before a restart."""

    def __init__(self) -> None:
        self.state = SumState()

    def sum_state(self) -> SumState:
        return self.state

    def write_sum_state(self, state: SumState) -> None:
        self.state = state


@dataclass
class Group:
    """All members of a roster, each with its file."""

    count: int
    minimum: int = 3
    last: int | None = 10
    seed: int = 0
    logs: dict[str, Log] = field(default_factory=dict)
    members: dict[str, SumMember] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = names(self.count)
        self.roster = roster_of(self.names)
        self.rules = SumRules(FEDERATION, self.roster, b"a" * 32, self.minimum, self.last)
        self.rng = np.random.default_rng(self.seed)
        self.secrets = {name: token_bytes(SEED_SIZE) for name in self.names}
        self.sent: dict[str, list[np.ndarray]] = {name: [] for name in self.names}
        self.signed: dict[tuple[str, bytes], bytes] = {}  # by name and transcript
        for name in self.names:
            self.logs[name] = Log()
            self.restart(name, "s1", exchange=False)
        self.exchange()

    def restart(self, name: str, session: str, exchange: bool = True) -> None:
        """Start a member's process again: what it had in memory is gone."""
        keys = session_keys(self.roster, name, session)
        self.members[name] = SumMember(self.rules, keys, self.secrets[name], self.logs[name])
        if exchange:
            self.exchange()

    def exchange(self) -> None:
        """Let everybody have everybody's key."""
        for member in self.members.values():
            for other in self.members.values():
                member.keys.add(other.keys.own)

    def attempts(self, slot: int = 1) -> SumAttempts:
        """Return a sum that is offered, with all that are ready."""
        out = SumAttempts(self.rules, slot, MODEL, self.names, SIZE)
        for name in self.names:
            if self.members[name].offer(slot):
                out.note_ready(name)
        return out

    def start(self, attempts: SumAttempts) -> SumCall:
        return attempts.start({name: m.keys.own for name, m in self.members.items()})

    def answer(self, name: str, call: SumCall, model: bytes = MODEL) -> WordArray:
        """Let a member answer a call; numbers are noted in `sent`, its signature in `signed`."""

        def vector() -> np.ndarray:
            numbers = self.rng.integers(-(2**40), 2**40, SIZE)
            self.sent[name].append(numbers)
            return numbers

        out, self.signed[name, call.transcript] = self.members[name].call(call, model, vector)
        return out

    def receive(self, attempts: SumAttempts, name: str, call: SumCall) -> bool:
        """Let a member answer, and take its answer."""
        vector = self.answer(name, call)
        return attempts.receive_vector(
            name, call.attempt, vector, self.signed[name, call.transcript]
        )

    def signatures(self, call: SumCall) -> list[bytes]:
        """Return the signatures of the members of a set, empty where there is none."""
        members = self.roster.members_of(call.members)
        return [self.signed.get((name, call.transcript), b"") for name in members]

    def consent(self, name: str, call: SumCall) -> bytes:
        """Let a member agree to a sum."""
        return self.members[name].consent(call.update, call.transcript, self.signatures(call))

    def run(self, attempts: SumAttempts) -> np.ndarray:
        """Do all that is left, honestly; return the sum."""
        call = self.start(attempts)
        for name in attempts.members:
            self.receive(attempts, name, call)
        for name in attempts.members:
            attempts.receive_seed(name, call.attempt, self.consent(name, call))
        return attempts.total()

    def expected(self, members: Sequence[str]) -> np.ndarray:
        """Return the sum of what these put under their masks last."""
        return sum((self.sent[name][-1] for name in members), np.zeros(SIZE, np.int64))
