"""An agent's part in secure sums: messages between the coordinator and `SumMember`.

In a federation that has agreed on secure sums nothing else leaves the agent: it does not answer
requests for plain sums.
"""

from __future__ import annotations

import logging

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.federation.agent.update_answers import UpdateAnswers
from fedglb.federation.bundle import Bundle
from fedglb.federation.secure_sums.member import SumMember
from fedglb.federation.secure_sums.session_keys import KeyRing, MissingKeys, SignedKey
from fedglb.federation.secure_sums.transcript import NO_MODEL, SumRules
from fedglb.federation.wire.messages import Upward, Withdrawal
from fedglb.federation.wire.sum_messages import (
    AllHere,
    Consent,
    SessionKey,
    SessionKeys,
    SumCall,
    SumOffer,
    SumReady,
)
from fedglb.protocol.messages import MaskedSum

log = logging.getLogger(__name__)


class AgentSums:
    """Answers the coordinator's messages about secure sums."""

    def __init__(self, answers: UpdateAnswers, rules: SumRules, keys: KeyRing) -> None:
        self._answers = answers
        self._member = SumMember(rules, keys, answers.sum_secret(), answers)

    @classmethod
    def of(cls, bundle: Bundle, answers: UpdateAnswers, session: str) -> AgentSums | None:
        """Return an agent's part in the secure sums of its federation; None without secure sums."""
        rules = bundle.sum_rules()
        if rules is None:
            return None
        keys = KeyRing(
            rules.federation, rules.roster, bundle.client, bundle.generation, session,
            bundle.signing_key(),
        )  # fmt: skip
        return cls(answers, rules, keys)

    def key(self) -> SessionKey:
        """Return this process's key, sent after every hello."""
        own = self._member.keys.own
        return SessionKey(own.generation, own.key, own.signature)

    def take_keys(self, message: SessionKeys) -> None:
        """Store the others' keys; drop those that no member of the roster has signed."""
        for given in message.keys:
            try:
                self._member.keys.add(SignedKey(*given))
            except InvalidInput as error:
                log.error("dropped a session key: %s", error)

    def holds(self, digest: bytes) -> bool:
        """Return whether sums can be taken at this model: the one held, or θ = 0.

        θ = 0 is for a coordinator that has lost its own model.
        """
        return digest in (self._answers.model_digest(), NO_MODEL)

    def answer(self, message: SumOffer | SumCall | AllHere) -> Upward | None:
        """Return the answer, or None; then the log has the reason.

        After a `Withdrawal` the others need not wait.
        """
        try:
            return self._answer(message)
        except MissingKeys as error:
            log.info("a call is not answered yet: %s", error)  # keys come with the next call
        except InvalidInput as error:
            log.error("refused %s of update %d: %s", message.name, message.update, error)
            return Withdrawal(message.update)
        return None

    def _answer(self, message: SumOffer | SumCall | AllHere) -> Upward | None:
        match message:
            case SumOffer():
                ready = self.holds(message.digest) and self._member.offer(message.update)
                return SumReady(message.update) if ready else Withdrawal(message.update)
            case SumCall():
                update = message.update
                held = NO_MODEL if message.digest == NO_MODEL else self._answers.model_digest()
                masked, signature = self._member.call(
                    message, held, lambda: self._answers.to_release(update, held)
                )
                name = self._member.keys.name
                numbers = masked.view(np.int64)
                return MaskedSum(name, update, message.attempt, numbers, signature)
            case AllHere():
                given = message.update, message.transcript, message.signatures
                seed = self._member.consent(*given)
                return Consent(message.update, message.transcript, seed)
