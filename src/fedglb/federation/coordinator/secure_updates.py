"""Global updates with secure sums.

If a member's key or model may be outdated, the sum is offered first, to find the ready members.
Otherwise the call is the first message, which saves a round trip.

Until all members of a set have sent their masked numbers, missing members are left out and the
others are called again. From then on there is this sum or none: if a member does not agree in time
the update is lost, and the weights of its samples in later updates make up for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from fedglb.errors import InvalidInput
from fedglb.federation.agreement import Agreement
from fedglb.federation.coordinator.events import Emit
from fedglb.federation.coordinator.policy import CoordinatorPolicy
from fedglb.federation.coordinator.store import CoordinatorStore
from fedglb.federation.coordinator.sum_check import check_sum
from fedglb.federation.coordinator.updates import Addressed, UpdateDriver
from fedglb.federation.secure_sums.attempts import SumAttempts
from fedglb.federation.secure_sums.session_keys import SignedKey, verify
from fedglb.federation.secure_sums.transcript import SumRules, model_digest
from fedglb.federation.wire.sum_messages import (
    AllHere,
    Consent,
    SessionKey,
    SessionKeys,
    SumCall,
    SumOffer,
    SumReady,
)
from fedglb.privacy.fixed_point import size
from fedglb.protocol.messages import MaskedSum, Message


class SecureUpdateDriver(UpdateDriver):
    """An `UpdateDriver` that gets sums over a set of clients, and no client's own numbers.

    An update needs at least the `rules`' minimum number of clients.
    """

    def __init__(
        self,
        agreement: Agreement,
        store: CoordinatorStore,
        policy: CoordinatorPolicy,
        emit: Emit,
        after: int = 0,
        *,
        rules: SumRules,
    ) -> None:
        least = replace(policy, quorum=max(policy.quorum, rules.minimum))
        super().__init__(agreement, store, least, emit, after)
        self.rules = rules
        self.sums: SumAttempts | None = None  # of the update in progress
        self.sessions: dict[str, str] = {}  # of each member, the newest
        self._keys: dict[str, SignedKey] = {}  # of each member, perhaps of the session before
        self._sent_keys: dict[str, dict[str, bytes]] = {}  # by member: the keys sent to it
        self._stage: tuple[object, ...] = ()
        self._model = 0  # the update of the model at which sums are taken

    def missing(self) -> list[str]:
        """Return the clients whose answers the sum in progress waits for."""
        return [] if self.sums is None else self.sums.missing()

    # -- keys ------------------------------------------------------------------------------------

    def note_key(
        self, client: str, session: str, message: SessionKey, now: float
    ) -> list[Addressed]:
        """Note a member's key of this session; a forged one raises `InvalidInput`."""
        key = SignedKey(client, message.generation, session, message.key, message.signature)
        known = self._keys.get(client)
        if known is not None and known.digest == key.digest:
            return []
        verify(self.rules.federation, self.rules.roster, key)
        self._keys[client] = key
        self._sent_keys.pop(client, None)  # a new process lacks the others' keys
        if self.sums is not None and self.sums.is_stale(key):
            return self._call(now)
        return self._go_on(now)

    def _is_current(self, client: str) -> bool:
        """Return whether a member's key is known and the newest model was sent to it."""
        newest = self.records[client].model == self.coordinator.finished
        return newest and self._has_its_key(self._keys, client)

    def _has_its_key(self, keys: Mapping[str, SignedKey], client: str) -> bool:
        """Return whether these have the key of a member's newest session."""
        key = keys.get(client)
        return key is not None and key.session == self.sessions.get(client)

    # -- what members say ------------------------------------------------------------------------

    def receive_sum(
        self, client: str, message: SumReady | MaskedSum | Consent, now: float
    ) -> list[Addressed]:
        """Handle a member's message about a sum; ignore stale ones."""
        sums = self.sums
        if sums is None or message.update != sums.slot:
            return []
        match message:
            case SumReady():
                sums.note_ready(client)
            case MaskedSum():
                waited = client in sums.missing() and message.attempt == sums.attempt
                vector = message.numbers.view(np.uint64)
                sums.receive_vector(client, message.attempt, vector, message.signature)
                if waited:
                    self.coordinator.ledger.count(message)
            case Consent():
                current = sums.call is not None and message.transcript == sums.call.transcript
                if not current:
                    return []
                sums.receive_seed(client, sums.attempt, message.seed)
        return self._go_on(now)

    # -- members come and go ---------------------------------------------------------------------

    def exclude(self, clients: Iterable[str], why: str, now: float) -> list[Addressed]:
        """Go on without these clients, unless members have agreed to a sum with them."""
        leaving = list(clients)
        if self.sums is None:
            return super().exclude(leaving, why, now)
        if self.sums.phase in ("all here", "done"):
            return []  # they may come back and agree
        out = super().exclude(leaving, why, now)
        if self.sums is not None:
            self.sums.drop(leaving)
            out += self._go_on(now)
        return out

    def withdraw(self, client: str, now: float) -> list[Addressed]:
        """Go on without a client; if its numbers are in the sum, the update is lost."""
        sums = self.sums
        if sums is not None and sums.phase == "all here" and client in sums.missing():
            return self._lose(f"{client} withdrew, and its numbers are in the sum", now)
        return super().withdraw(client, now)

    # -- the clock -------------------------------------------------------------------------------

    def _give_up_on(self, missing: list[str], within: str, now: float) -> list[Addressed]:
        """Go on without these clients, or lose the update if their numbers are in the sum."""
        if self.sums is not None and self.sums.phase == "all here":
            return self._lose(f"{', '.join(missing)} did not agree to the sum {within}", now)
        return super()._give_up_on(missing, within, now)

    def _requests(self) -> list[Addressed]:
        """Return the unanswered requests, with all keys."""
        return self._say(self.missing(), again=True)

    # -- from stage to stage ---------------------------------------------------------------------

    def _begin(self, t: int) -> list[Message]:
        """Begin an update; `_run` then offers its members a sum, or calls them for one."""
        if self.coordinator.clients and not self.coordinator.budget_spent:
            self.coordinator.start_update(t, None)
        return []

    def _run(
        self, action: Callable[[], list[Message]], now: float, checked: bool = False
    ) -> list[Addressed]:
        """Do as the base does; request the sum of an update that has begun."""
        messages = super()._run(action, now, checked)
        update = self.coordinator.update
        if update is None:
            self.sums = None
            return messages
        if self.sums is not None and self.sums.slot == update.number:
            return messages
        asked = [str(client) for client in update.participants]
        digest = model_digest(update.base, self.coordinator.model)
        numbers = size(self.coordinator.setting.problem.dim)
        self.sums = SumAttempts(self.rules, update.number, digest, asked, numbers)
        self._model = update.base
        if not all(self._is_current(client) for client in asked):
            return self._enter(now)
        for client in asked:  # the call, too, finds absent members
            self.sums.note_ready(client)
        return self._call(now)

    def _go_on(self, now: float) -> list[Addressed]:
        """Start the stage that follows the last answer."""
        sums = self.sums
        if sums is None:
            return []
        if sums.phase == "offered" and not sums.missing():
            return self._call(now)
        if sums.outdated:
            return self._call(now)
        if sums.phase == "done":
            return self._open(sums, now)
        if (sums.slot, sums.phase, sums.attempt) != self._stage:
            return self._enter(now)
        return []

    def _call(self, now: float) -> list[Addressed]:
        """Begin the next attempt, with all ready members whose keys are known."""
        sums = self.sums
        assert sums is not None
        unknown = [name for name in sums.ready if name not in self._keys]
        if unknown:
            return self.exclude(unknown, "it has sent no session key", now)
        if not sums.enough:
            return self._lose(f"fewer than {self.rules.minimum} clients are left", now)
        sums.start(self._keys)
        return self._enter(now)

    def _enter(self, now: float) -> list[Addressed]:
        """Begin to wait for the answers of a new stage."""
        sums = self.sums
        assert sums is not None
        self._stage = (sums.slot, sums.phase, sums.attempt)
        self._wait_for_answers(now)
        return self._say(sums.missing())

    def _open(self, sums: SumAttempts, now: float) -> list[Addressed]:
        """Add the sum to the model, unless a member sent bad data."""
        clients, numbers = len(sums.members), sums.total()
        try:
            check_sum(numbers, self.coordinator.setting, clients, self.policy.max_samples)
        except InvalidInput as error:
            return self._lose(f"invalid sum over {clients} clients: {error}", now)
        return self._run(lambda: self.coordinator.accept_total(clients, numbers), now)

    def _lose(self, why: str, now: float) -> list[Addressed]:
        """End the update without a model."""

        def action() -> list[Message]:
            update = self.coordinator.started
            self._emit("abandoned", f"update {update} is lost: {why}", update=update)
            self.coordinator.abandon()
            return []

        return self._run(action, now)

    # -- messages ----------------------------------------------------------------------------

    def _say(self, clients: Iterable[str], again: bool = False) -> list[Addressed]:
        """Return the requests of this stage to these clients."""
        sums = self.sums
        assert sums is not None
        if sums.call is None:
            offer = SumOffer(sums.slot, sums.model, self._model)
            return [(client, offer) for client in clients]
        if sums.phase == "called":
            return self._calls(clients, sums, sums.call, again)
        here = AllHere(sums.slot, sums.call.transcript, sums.signatures)
        return [(client, here) for client in clients]

    def _calls(
        self, clients: Iterable[str], sums: SumAttempts, call: SumCall, again: bool
    ) -> list[Addressed]:
        """Return the call to these clients, with the keys that they lack.

        A member that has restarted would refuse a call with its old key, and withdraw. It is
        called in another attempt when its new key arrives.
        """
        out: list[Addressed] = []
        for client in clients:
            if not self._has_its_key(sums.keys, client):
                continue
            if keys := self._lacking(client, sums, again):
                out.append((client, SessionKeys(keys)))
            out.append((client, call))
        return out

    def _lacking(
        self, client: str, sums: SumAttempts, again: bool
    ) -> list[tuple[str, int, str, bytes, bytes]]:
        """Return the set's keys that a member lacks; all of them if `again`."""
        sent = self._sent_keys.setdefault(client, {})
        if again:
            sent.clear()
        out = []
        for name, key in sums.keys.items():
            if name != client and sent.get(name) != key.digest:
                sent[name] = key.digest
                out.append((name, key.generation, key.session, key.key, key.signature))
        return out
