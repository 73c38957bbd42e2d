"""A coordinator by hand, against agents that are real processes: it says what it likes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedglb.federation.agreement import AgreementTable
from fedglb.federation.names import down, up
from fedglb.federation.secure_sums.session_keys import SignedKey
from fedglb.federation.secure_sums.transcript import NO_MODEL
from fedglb.federation.wire import sum_messages as said
from fedglb.federation.wire.codec import decode_up, encode
from fedglb.federation.wire.messages import Admitted, Downward, Hello, HelloRequest, Upward
from fedglb.federation.wire.messages import Withdrawal as Refusal
from fedglb.problem_table import ProblemTable
from fedglb.protocol.messages import MaskedSum
from tests.federation.helpers.killable_process import Child
from tests.federation.helpers.nats_federation import PATIENCE, Connected, connected, federation

M = TypeVar("M")
NAMES = ("a", "b", "c", "d", "e")
DIM, EACH = 2, 6


AGREED = AgreementTable(
    6, ProblemTable(DIM),
    {"name": "fedglb-private", "updates": 1000, "first": 1e6, "growth": 1.001}, minimum=4,
)  # fmt: skip


@dataclass
class Evil:
    """All agents' processes, and the one that plays their coordinator."""

    folder: Path
    running: Any
    line: Connected
    loop: asyncio.Runner
    agents: dict[str, Child] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    keys: dict[str, SignedKey] = field(default_factory=dict)
    heard: list[tuple[str, str, Upward]] = field(default_factory=list)
    slot: int = 0
    _read: int = 0

    # -- processes -------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start an agent's process, which has some samples; welcome it, and hear its key."""
        bundle = self.running.folder / "clients" / name
        self.agents[name] = Child(
            self.folder / f"{name}.log", kind="agent", name=name, path=self.folder / f"{name}.db",
            problem=self.running.bundle(name).agreement.problem, bundle=bundle, fault=None,
        )  # fmt: skip
        mark = len(self.heard)
        hello = self.hear(name, Hello, since=mark)
        self.say(name, Admitted(0))
        self.hear(name, said.SessionKey, since=mark)
        assert hello.agreement["roster"] == self.rules.roster.digest.hex()

    def restart(self, name: str) -> None:
        """kill -9, and start it again: another session, the same file."""
        self.agents[name].kill()
        self.start(name)

    def bury(self, name: str) -> None:
        """Wait for the death of a process by its fault."""
        assert self.agents[name].bury() == -9, (self.folder / f"{name}.log").read_text()

    @property
    def rules(self) -> Any:
        return self.running.coordinator_bundle.sum_rules()

    # -- what is said ----------------------------------------------------------------------------

    def say(self, name: str, message: Downward) -> None:
        payload = encode(message, self.sessions.get(name, ""))
        self.loop.run(self._say(down("demo", name), payload))

    async def _say(self, subject: str, payload: bytes) -> None:
        await self.line.say(subject, payload)
        await self.line.flush()

    def hear(self, name: str, kind: type[M], since: int = 0) -> M:
        """Wait for a message of an agent; those before `since` do not count."""

        async def wait() -> M:
            while True:
                self._take_in()
                for who, _, message in self.heard[since:]:
                    if who == name and isinstance(message, kind):
                        return message
                await asyncio.sleep(0.002)

        return self.loop.run(asyncio.wait_for(wait(), PATIENCE))

    def _take_in(self) -> None:
        for subject, data in self.line.heard[self._read :]:
            name = subject.removeprefix(up("demo", ""))
            session, message = decode_up(data, name, DIM)
            if isinstance(message, Hello):
                self.sessions[name] = session
            if isinstance(message, said.SessionKey):
                signed = message.generation, session, message.key, message.signature
                self.keys[name] = SignedKey(name, *signed)
            self.heard.append((name, session, message))
        self._read = len(self.line.heard)

    def ask(self, name: str, message: Downward, kind: type[M]) -> M:
        """Say something, and wait for an answer of this kind, or for a refusal."""
        mark = len(self.heard)
        self.say(name, message)
        return self.hear(name, kind, since=mark)

    def refuses(self, name: str, message: Downward) -> bool:
        """Whether an agent does not answer, or with `Withdrawal`: nothing that is of use."""
        mark = len(self.heard)
        self.say(name, message)
        self.say(name, HelloRequest())  # agents answer in order
        self.hear(name, Hello, since=mark)
        answers = [m for who, _, m in self.heard[mark:] if who == name]
        return not any(isinstance(m, MaskedSum | said.Consent | said.SumReady) for m in answers)

    # -- a sum -----------------------------------------------------------------------------------

    def offer(self) -> None:
        """Offer the next update; all agents are ready."""
        self.slot += 1
        for name in NAMES:
            offer = said.SumOffer(self.slot, NO_MODEL)
            answer = self.ask(name, offer, said.SumReady | Refusal)  # type: ignore[arg-type]
            assert answer == said.SumReady(self.slot), (name, answer)

    def share_keys(self, names: Sequence[str] = NAMES, **other: SignedKey) -> None:
        """Give these agents everybody's keys; `other` in the place of some."""
        keys = {**self.keys, **other}
        sent = [(k.name, k.generation, k.session, k.key, k.signature) for k in keys.values()]
        for name in names:
            self.say(name, said.SessionKeys(sent))

    def call(
        self,
        members: Sequence[str] = NAMES,
        attempt: int = 1,
        keys: Mapping[str, SignedKey] | None = None,
        **changed: Any,
    ) -> said.SumCall:
        """Return a call for a set, with the transcript that follows."""
        rules = self.rules
        facts = {"update": self.slot, "attempt": attempt, "members": rules.roster.bitmap(members),
                 "digest": NO_MODEL, **changed}  # fmt: skip
        known = {**self.keys, **(keys or {})}
        digests = [known[n].digest for n in rules.roster.names if n in members]
        transcript = rules.transcript(
            facts["update"], facts["attempt"], facts["members"], facts["digest"], digests
        )
        return said.SumCall(**facts, transcript=transcript)

    def masked(self, name: str, call: said.SumCall) -> np.ndarray:
        """Return an agent's masked numbers."""
        answer = self.ask(name, call, MaskedSum | Refusal)  # type: ignore[arg-type]
        assert isinstance(answer, MaskedSum), (name, answer)
        assert (answer.update, answer.attempt) == (call.update, call.attempt)
        return answer.numbers.view(np.uint64)

    def consent(self, name: str, call: said.SumCall) -> bytes:
        """Return the seed that an agent gives away."""
        here = said.AllHere(call.update, call.transcript)
        answer = self.ask(name, here, said.Consent | Refusal)  # type: ignore[arg-type]
        assert isinstance(answer, said.Consent), (name, answer)
        assert answer.transcript == call.transcript
        return answer.seed

    def consents(self) -> dict[tuple[str, int], set[tuple[bytes, bytes]]]:
        """All that agents have agreed to, by agent and update."""
        out: dict[tuple[str, int], set[tuple[bytes, bytes]]] = {}
        for name, _, message in self.heard:
            if isinstance(message, said.Consent):
                out.setdefault((name, message.update), set()).add(
                    (message.transcript, message.seed)
                )
        return out


@contextmanager
def evil_federation(folder: Path) -> Iterator[Evil]:
    """Five agents with samples, each a process, and nobody honest to coordinate them."""
    running = federation(folder, NAMES, AGREED)
    with running, asyncio.Runner() as loop:
        context = connected(running.coordinator_bundle)
        line = loop.run(context.__aenter__())
        evil = Evil(folder, running, line, loop)
        try:
            loop.run(line.listen(up("demo", "*")))
            for name in NAMES:
                evil.start(name)
            for agent in evil.agents.values():
                agent.tell("feed", until=EACH)
            evil.share_keys()
            yield evil
        finally:
            for agent in evil.agents.values():
                agent.kill()
            loop.run(context.__aexit__(None, None, None))
