"""A coordinator that lies holds the stolen session key of a process that has ended.

It gives the others that old key in the place of the member's new one, and takes part as the member:
with its own numbers, and without the member's noise. They mask their numbers, which says nothing,
and do not agree to the sum: the member has not signed the attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedglb.federation.agreement import AgreementTable
from fedglb.federation.bundle import Bundle
from fedglb.federation.names import down, up
from fedglb.federation.preload import preload
from fedglb.federation.secure_sums import member
from fedglb.federation.secure_sums.masks import masked, unmasked
from fedglb.federation.secure_sums.session_keys import KeyRing, SignedKey
from fedglb.federation.secure_sums.transcript import NO_MODEL
from fedglb.federation.wire.codec import decode_up, encode
from fedglb.federation.wire.messages import Admitted, Downward, Hello, Upward, Withdrawal
from fedglb.federation.wire.sum_messages import (
    AllHere,
    Consent,
    SessionKey,
    SessionKeys,
    SumCall,
)
from fedglb.privacy.fixed_point import size
from fedglb.problem_table import ProblemTable
from fedglb.protocol.messages import MaskedSum
from fedglb.protocol.one_pass import sums_of
from tests.federation.helpers.evil_coordinator import NAMES, Evil
from tests.federation.helpers.nats_federation import PATIENCE, Connected, connected
from tests.federation.helpers.recorded import DIM, ONE_PASS, stream
from tests.federation.helpers.secure_network import plain_sums
from tests.federation.helpers.self_healing import Kept
from tests.federation.test_kills import KILLED

OWN = bytes(32)  # the seed of the thief's self mask


def thiefs(stolen: KeyRing, keys: Mapping[str, SignedKey], call: SumCall, dim: int) -> np.ndarray:
    """Return the thief's vector in the place of the member's: zeros, under the member's masks."""
    index = stolen.roster.index
    for key in keys.values():
        stolen.add(key)
    secrets = {index[name]: stolen.secret(name) for name in keys}
    zeros = np.zeros(size(dim), np.int64)
    return masked(zeros, index[stolen.name], secrets, OWN, call.transcript)


def opened(vectors: Sequence[np.ndarray], seeds: Sequence[bytes], call: SumCall) -> list[int]:
    total = np.sum(vectors, axis=0, dtype=np.uint64)
    return unmasked(total, list(seeds), call.transcript).tolist()


# -- agents in this process ------------------------------------------------------------------------


@pytest.fixture
def evil(tmp_path):
    out = Evil(tmp_path)
    yield out
    out.close()


VICTIMS = [name for name in NAMES if name != "b"]


def test_a_stolen_key_of_a_process_that_has_ended_is_of_no_use(evil):
    evil.offer()
    honest = evil.call()
    for name in NAMES:
        evil.masked(name, honest)
    for name in NAMES:
        evil.consent(name, honest)
    old = evil.all_here(honest).signatures[NAMES.index("b")]
    stolen = evil.nodes["b"].agent_session.sums._member.keys
    evil.restart("b")  # the others do not learn of its new key
    for restarts in (False, True):
        if restarts:
            for name in VICTIMS:
                evil.restart(name)
            evil.share_keys(VICTIMS, b=stolen.own)
        evil.offer()
        call = evil.call(keys={"b": stolen.own})
        for name in VICTIMS:
            evil.masked(name, call)
        signed = evil.all_here(call).signatures
        requests = [evil.all_here(call, b=forged) for forged in (b"", old, signed[0])]
        requests.append(replace(requests[0], signatures=[s for s in signed if s]))
        for name in VICTIMS:
            assert all(evil.refuses(name, request) for request in requests)
    for name in VICTIMS:  # nor in a process that has read the attempt from its file
        evil.restart(name)
        assert all(evil.refuses(name, request) for request in requests)


def test_without_signatures_the_thief_would_have_the_sum_of_the_others(evil, monkeypatch):
    """What is refused above is worth trying."""
    stolen = evil.nodes["b"].agent_session.sums._member.keys
    evil.restart("b")
    evil.offer()
    call = evil.call(keys={"b": stolen.own})
    vectors = [evil.masked(name, call) for name in VICTIMS]
    monkeypatch.setattr(member, "verify_parts", lambda *_: None)
    seeds = [evil.consent(name, call) for name in VICTIMS]
    vectors.append(thiefs(stolen, {name: evil.keys[name] for name in VICTIMS}, call, 2))
    found = opened(vectors, [*seeds, OWN], call)
    assert found == plain_sums(evil, VICTIMS, np.zeros(2)).tolist()


# -- agents as they would be run, each in its process ----------------------------------------------

SECURE = AgreementTable(3, ProblemTable(DIM, radius=3.0), ONE_PASS.algorithm, minimum=3)


class Liar:
    """A coordinator by hand, with the coordinator's certificate; it is coordinator enough."""

    def __init__(self, line: Connected, bundle: Bundle) -> None:
        rules = bundle.sum_rules()
        assert rules is not None
        self.line, self.rules, self.federation = line, rules, bundle.federation
        self.sessions: dict[str, str] = {}
        self.keys: dict[str, SignedKey] = {}
        self.heard: list[tuple[str, Upward]] = []

    async def say(self, name: str, message: Downward) -> None:
        await self.line.say(down(self.federation, name), encode(message, self.sessions[name]))

    async def listen(self) -> None:
        """Hear what has come; admit everybody."""
        while self.line.heard:
            subject, data = self.line.heard.pop(0)
            name = subject.rpartition(".")[2]
            session, message = decode_up(data, name, DIM)
            self.heard.append((name, message))
            if isinstance(message, Hello):
                self.sessions[name] = session
                await self.say(name, Admitted(0))
            elif isinstance(message, SessionKey):
                given = name, message.generation, session, message.key, message.signature
                self.keys[name] = SignedKey(*given)

    async def answers(self, names: Sequence[str], kinds: Any, mark: int) -> dict[str, Any]:
        """Wait for a message of these kinds from each of these agents, after a mark."""
        found: dict[str, Any] = {}
        async with asyncio.timeout(PATIENCE):
            while not found.keys() >= set(names):
                await asyncio.sleep(0.01)
                await self.listen()
                found |= {n: m for n, m in self.heard[mark:] if isinstance(m, kinds)}
        return found

    async def ask(self, names: Sequence[str], message: Downward, kinds: Any) -> dict[str, Any]:
        """Say something to these agents and wait for their answers, of these kinds."""
        mark = len(self.heard)
        for name in names:
            await self.say(name, message)
        return await self.answers(names, kinds, mark)

    async def masked(
        self, names: Sequence[str], update: int, **other: SignedKey
    ) -> tuple[SumCall, dict[str, MaskedSum]]:
        """Call these agents for a sum over all members, with other keys in the place of some."""
        keys = {**self.keys, **other}
        members = self.rules.roster.bitmap(keys)
        digests = [keys[name].digest for name in self.rules.roster.names]
        transcript = self.rules.transcript(update, 1, members, NO_MODEL, digests)
        sent = [(k.name, k.generation, k.session, k.key, k.signature) for k in keys.values()]
        for name in names:
            await self.say(name, SessionKeys(sent))
        call = SumCall(update, 1, members, NO_MODEL, transcript)
        return call, await self.ask(names, call, MaskedSum)


async def attack(kept: Kept) -> None:
    bundle = kept.running.coordinator_bundle
    signing_key = kept.running.bundle("b").signing_key()  # which the thief has not: it never signs
    async with connected(bundle) as line:
        await line.listen(up(bundle.federation, "*"))
        liar = Liar(line, bundle)

        async def start(name: str, again: bool = True) -> None:
            if again:
                assert kept.children[name].kill() == KILLED
            mark = len(liar.heard)
            kept.start(name)
            await liar.answers([name], SessionKey, mark)

        for name in "abc":
            await start(name, again=False)
        # as long as it is honest, all agree
        call, sent = await liar.masked("abc", 1)
        signed = [sent[name].signature for name in "abc"]
        await liar.ask("abc", AllHere(1, call.transcript, signed), Consent)
        old = kept.children["b"].tell("session_key")
        stolen = KeyRing(bundle.federation, liar.rules.roster, "b", 1, "", signing_key)
        stolen.own = old["own"]
        stolen._private = X25519PrivateKey.from_private_bytes(old["private"])
        await start("b")
        assert liar.keys["b"].key != stolen.own.key
        for name in "ac":
            kept.children[name].tell("feed", until=4)
        for update in (2, 3):
            call, sent = await liar.masked("ac", update, b=stolen.own)
            request = AllHere(
                update, call.transcript, [sent["a"].signature, signed[1], sent["c"].signature]
            )
            said = await liar.ask("ac", request, (Withdrawal, Consent))
            assert said == {"a": Withdrawal(update), "c": Withdrawal(update)}
            for name in "ac":  # also in other processes, of this attempt and of the next
                await start(name)
            said = await liar.ask("ac", request, (Withdrawal, Consent))
            assert said == {"a": Withdrawal(update), "c": Withdrawal(update)}
        # if they believed it, it would have the sum of these two
        call, sent = await liar.masked("ac", 4, b=stolen.own)
        for name in "ac":
            kept.children[name].tell("trust")
        said = await liar.ask("ac", AllHere(4, call.transcript, []), Consent)
        keys = {name: liar.keys[name] for name in "ac"}
        vectors = [sent[name].numbers.view(np.uint64) for name in "ac"]
        vectors.append(thiefs(stolen, keys, call, DIM))
        found = opened(vectors, [said["a"].seed, said["c"].seed, OWN], call)
        assert found == two_sums()


def two_sums() -> list[int]:
    """The sum of the first four samples of a and c, at θ = 0."""
    X, y = zip(*(stream(name, DIM, 4) for name in "ac"), strict=True)
    every = np.zeros(2, np.int64), np.full(2, 4)
    agreement = SECURE.build()
    each = sums_of(agreement.setting, np.zeros(DIM), np.array(X), np.array(y), *every)
    return each.sum(axis=0).tolist()


@pytest.mark.slow
def test_a_stolen_key_against_real_processes(tmp_path):
    preload(SECURE.build())
    with Kept(tmp_path, ("a", "b", "c"), SECURE) as kept:
        asyncio.run(attack(kept))
