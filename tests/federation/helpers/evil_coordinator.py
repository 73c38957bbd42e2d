"""A coordinator by hand, against real agents with their files: it says what it likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedglb.federation.secure_sums.masks import own_seed
from fedglb.federation.secure_sums.session_keys import SignedKey
from fedglb.federation.secure_sums.transcript import NO_MODEL
from fedglb.federation.wire import sum_messages as said
from fedglb.federation.wire.codec import decode_down, decode_up, encode
from fedglb.federation.wire.messages import Admitted, Downward, Upward
from fedglb.protocol.messages import MaskedSum
from tests.federation.helpers.agent_driver import copied
from tests.federation.helpers.kill_points import statement
from tests.federation.helpers.lossy_network import DIM
from tests.federation.helpers.secure_network import NAMES, rules_of, secure, secure_node


class Evil:
    """Five agents with samples, and the one who plays their coordinator."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.slot, self._deaths = folder, 0, 0
        self.agreement = secure(updates=1000, first=1e6, growth=1.001, minimum=4)
        self.rules = rules_of(self.agreement)
        self.keys: dict[str, SignedKey] = {}
        self.heard: list[tuple[str, Upward]] = []
        self.nodes = {
            name: secure_node(self.rules, name, folder / f"{name}.db", self.agreement, seed)
            for seed, name in enumerate(NAMES)
        }
        for name, node in self.nodes.items():
            node.feed(6)
            self._admit(name)
        self.share_keys()

    def _admit(self, name: str) -> None:
        """Admit an agent, and hear its session key."""
        [key] = self.say(name, Admitted(0))
        assert isinstance(key, said.SessionKey)
        session = self.nodes[name].agent_session.session
        self.keys[name] = SignedKey(name, key.generation, session, key.key, key.signature)

    def restart(self, name: str) -> None:
        """Another session, the same file."""
        self.nodes[name].close()
        self.nodes[name].open()
        self._admit(name)

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()

    # -- what is said ----------------------------------------------------------------------------

    def say(self, name: str, message: Downward) -> list[Upward]:
        """Say something; return the answers."""
        answers = self._answers(name, message)
        self.heard += [(name, answer) for answer in answers]
        return answers

    def _answers(self, name: str, message: Downward) -> list[Upward]:
        session = self.nodes[name].agent_session
        received = decode_down(encode(message, session.session), name, DIM)[1]
        answers = [encode(answer, session.session) for answer in session.receive(received)]
        return [decode_up(answer, name, DIM)[1] for answer in answers]

    def refuses(self, name: str, message: Downward) -> bool:
        """Whether an agent does not answer, or with nothing that is of use."""
        answers = self.say(name, message)
        return not any(isinstance(m, MaskedSum | said.Consent | said.SumReady) for m in answers)

    def dies(self, name: str, message: Downward, at: int) -> bool:
        """Let an agent die before its `at`-th write for a message, and start it again.

        After the last write it dies once before its answer is sent, and once after; then, and only
        then, the answer is heard. Returns whether there is a later moment.
        """
        node, moments, left = self.nodes[name], 0, []

        def moment(sql: str) -> None:
            nonlocal moments
            if statement(sql) is not None:
                moments += 1
                if moments == at:
                    left.append(copied(node.path, self.folder / f"death {self._deaths}"))

        self._deaths += 1
        db = node.learner.store._db
        db.set_trace_callback(moment)
        answers = self._answers(name, message)
        db.set_trace_callback(None)
        moment("COMMIT")  # nothing is written after this, and nothing is sent yet
        sent = not left
        if sent:
            self.heard += [(name, answer) for answer in answers]
            moments = at - 1
            moment("COMMIT")
        node.close()
        [node.path] = left
        node.open()
        self._admit(name)
        self.share_keys()
        return not sent

    # -- a sum -----------------------------------------------------------------------------------

    def offer(self) -> None:
        """Offer the next update; all agents are ready."""
        self.slot += 1
        for name in NAMES:
            answers = self.say(name, said.SumOffer(self.slot, NO_MODEL))
            assert answers[-1] == said.SumReady(self.slot), (name, answers)

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
        [answer] = self.say(name, call)
        assert isinstance(answer, MaskedSum), (name, answer)
        assert (answer.update, answer.attempt) == (call.update, call.attempt)
        return answer.numbers.view(np.uint64)

    def consent(self, name: str, call: said.SumCall) -> bytes:
        """Return the seed that an agent gives away."""
        [answer] = self.say(name, self.all_here(call))
        assert isinstance(answer, said.Consent), (name, answer)
        assert answer.transcript == call.transcript
        return answer.seed

    def all_here(self, call: said.SumCall, **other: bytes) -> said.AllHere:
        """Return the request to agree, with the signatures heard; `other` in the place of some."""
        members = self.rules.roster.members_of(call.members)
        heard = {
            who: m.signature for who, m in self.heard if isinstance(m, MaskedSum)
            and (m.update, m.attempt) == (call.update, call.attempt)
        }  # fmt: skip
        signed = [{**heard, **other}.get(name, b"") for name in members]
        return said.AllHere(call.update, call.transcript, signed)

    def seed(self, name: str, call: said.SumCall) -> bytes:
        """Return the seed that an agent would give away, from its file."""
        return own_seed(self.nodes[name].agent_session.answers.sum_secret(), call.transcript)

    def consents(self) -> dict[tuple[str, int], set[tuple[bytes, bytes]]]:
        """All that agents have agreed to, by agent and update."""
        out: dict[tuple[str, int], set[tuple[bytes, bytes]]] = {}
        for name, message in self.heard:
            if isinstance(message, said.Consent):
                out.setdefault((name, message.update), set()).add(
                    (message.transcript, message.seed)
                )
        return out
