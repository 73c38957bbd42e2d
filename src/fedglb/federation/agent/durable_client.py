"""A client of the protocol whose every decision, sample and model is in its file first."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedglb.errors import InvalidInput, arms_in_unit_ball, finite, integer, shaped
from fedglb.federation.agent.decisions import Decision, DecisionRules
from fedglb.federation.agent.store import AdoptedModel, AgentStore, Pending, Snapshot
from fedglb.federation.agreement import LEAP, Agreement
from fedglb.federation.errors import (
    AlreadyObserved,
    DecisionExpired,
    Unavailable,
    UnknownDecision,
)
from fedglb.kernels.scoring import into_columns
from fedglb.protocol import Client
from fedglb.protocol.client import Adoption
from fedglb.protocol.messages import (
    Covariance,
    CovarianceRequest,
    Derivatives,
    Evaluate,
    ModelSums,
    NewModel,
)
from fedglb.samples import Samples
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    import polars as pl

LAST_STEP = 2**52  # far away, and the steps after it still fit into a message
_LARGEST_ID = 2**63 - 1  # the largest whole number that SQLite stores
_QUICK = 500_000  # products: a pass takes under a millisecond, a replay of all samples a few
_LONGEST_KEY = 200
_SURELY = 1.0 + 1e-9  # `arms_in_unit_ball` accepts every arm with ‖x‖² below this


class DurableClient:
    """The protocol's client and its file, kept in step behind one lock.

    The application chooses, observes and forgets; the coordinator's requests are answered from
    another thread. That thread does its long work (a pass over the samples, the replay of
    samples on a new model) without the lock, so the application never waits for it.

    Parameters
    ----------
    name
        The client's name in its federation.
    agreement
        What the federation agreed on.
    store
        The client's file, which this object closes.
    rules
        How often to explore, and when decisions expire.
    """

    def __init__(
        self, name: str, agreement: Agreement, store: AgentStore, rules: DecisionRules
    ) -> None:
        self.name, self.agreement, self.rules = name, agreement, rules
        self._store = store
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._open = True
        self._prefix = secrets.token_hex(4)  # of the ids of decisions made from now on
        # Random choices are a function of the file and of a decision's number: a crash neither
        # repeats nor loses one.
        self._store_seed = store.seed
        self._seed = int.from_bytes(self._store_seed[:8], "little")
        self._algorithm, self._setting = rules.applied_to(agreement.algorithm), agreement.setting
        self._read()

    def _read(self) -> None:
        """Become what the file describes: what the client was before a crash, to the bit."""
        self._pending = self._store.pending()
        self._number = self._store.last_number()
        self._snapshots = self._store.snapshots()
        self._load()
        self._stale = False  # whether the file may have what the memory has not

    def _load(self) -> None:
        """Make the protocol's client from the file's samples and its last model."""
        model, dim = self._store.adopted_model(), self.agreement.problem.dim
        sequence, X, y, last_t = self._store.samples(dim)
        self._sequence = sequence  # the samples' sequence numbers, in order
        update, snapshot = max(self._snapshots.items(), default=(0, None))
        used = [*sequence[-1:], *(s.last_sequence for s in self._snapshots.values())]
        self._next = 1 + max([*used, 0 if model is None else model.last_sequence], default=0)
        self.protocol_client = Client.from_samples(
            self.name, self._algorithm, self._setting,
            Samples.over(X, y, len(y)),
            base=None if model is None else model.base,
            adopted=0 if model is None else model.update,
            covered=0 if model is None else bisect_right(sequence, model.last_sequence),
            update=max(update, 0 if model is None else model.update),
            frozen=0 if snapshot is None else bisect_right(sequence, snapshot.last_sequence),
            last_t=last_t,
            seed=self._seed,
        )  # fmt: skip

    def _locked(self) -> threading.Lock:
        """Return the lock; in a forked child, where it may be locked for ever, raise."""
        self.check()
        return self._lock

    def _ready(self) -> None:
        """Under the lock: raise if the agent is closed; read the file again if memory is stale.

        A signal's exception (Ctrl-C) can come between a write and what follows it in memory.
        """
        self.check()
        if self._stale:
            self._store.rollback()
            self._read()

    @property
    def in_own_process(self) -> bool:
        """Whether this is the process that opened the file."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise `Unavailable` if the agent is closed, or was opened by another process."""
        if not self.in_own_process:
            raise Unavailable(
                "this agent belongs to the process that opened it; a forked child opens one of "
                "its own, with a file and a certificate of its own"
            )
        if not self._open:
            raise Unavailable("this agent is closed")

    @property
    def adopted(self) -> int:
        """The update whose model the client uses, 0 before the first."""
        return self.protocol_client.adopted

    # -- the application's calls --------------------------------------------------------------

    def choose(
        self,
        arms: ArrayLike,
        ids: Sequence[str | int] | None = None,
        t: int | None = None,
        key: str | None = None,
    ) -> Decision:
        """Choose an arm and write the decision down."""
        table = shaped("arms", arms, (None, self.agreement.problem.dim))
        count = len(table)
        columns = np.empty(table.shape[::-1])
        if not into_columns(table, columns, _SURELY):
            arms_in_unit_ball("arms", finite("arms", table))
        arm_ids = _checked_ids(ids, count)
        if t is not None:
            integer("t", t, at_most=min(self._clock() + LEAP, LAST_STEP))
        digest = "" if key is None else self._digest(key)
        with self._locked():
            self._ready()
            if digest and (before := self._store.keyed(digest)) is not None:
                return _same_request(key, before, table, arm_ids)
            client, now = self.protocol_client, time.time()
            index = self._number + 1
            prefix = self._prefix + digest
            # A rule's t is the number of the decision, not the shared clock: that one is as far
            # ahead as any application or any other agent says.
            chosen = client.decide(columns, index)
            pending = Pending(prefix, now, t, table[chosen.arm].copy())
            decision = Decision(
                id=f"{prefix}-{index}",
                arm=chosen.arm,
                arm_id=None if arm_ids is None else arm_ids[chosen.arm],
                score=chosen.score,
                width=chosen.width,
                propensity=chosen.propensity,
                model=client.adopted,
                propensity_error=chosen.propensity_error,
            )
            expired = self._expired(now, self.rules.most_pending - 1)
            self._stale = True
            self._store.add_decision(index, decision, pending, count, expired)
            self._number = index
            for number_ in expired:
                del self._pending[number_]
            self._pending[index] = pending
            self._stale = False
        return decision

    def _digest(self, key: object) -> str:
        """Return what stands for a key in the file: nobody else can tell the key from it."""
        if not _is_id(key) or not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
            raise InvalidInput("key", key, f"a string of 1 to {_LONGEST_KEY} characters")
        return hashlib.blake2b(key.encode(), digest_size=12, key=self._store_seed).hexdigest()

    def _expired(self, now: float, most: int) -> list[int]:
        """Return the decisions that expire: too old, or not among the `most` newest."""
        expired, left = [], len(self._pending)
        for number_, waiting in self._pending.items():  # oldest first
            if left <= most and now - waiting.made <= self.rules.expire_after:
                break
            expired.append(number_)
            left -= 1
        return expired

    def observe(self, id: str, reward: float) -> int:  # noqa: A002
        """Learn from a decision's reward; return the step of a request for an update, or 0."""
        y = self.agreement.check_reward(reward)
        prefix, index = _parse(id)
        with self._locked():
            self._ready()
            now = time.time()
            pending = self._pending.get(index)
            if pending is None or pending.prefix != prefix:
                raise self._refusal(id, prefix, index, y)
            if now - pending.made > self.rules.expire_after:
                self._stale = True
                self._store.expire([index])
                del self._pending[index]
                self._stale = False
                raise self._refusal(id, prefix, index)
            client = self.protocol_client
            step = pending.t or self._clock() + 1
            self._stale = True
            self._store.add_reward(index, self._next, step, y, now)
            del self._pending[index]
            self._sequence.append(self._next)
            self._next += 1
            wanted = client.observe_unchecked(pending.x, y, step)
            self._stale = False
        return step if wanted else 0

    def _clock(self) -> int:
        return min(self.protocol_client.clock, LAST_STEP)

    def _refusal(
        self,
        id: str,  # noqa: A002
        prefix: str,
        index: int,
        reward: float | None = None,
    ) -> Exception:
        outcome = self._store.outcome(index, prefix)
        if outcome == "observed":
            return AlreadyObserved(
                f"decision {id} has its reward already; a second is refused",
                same=reward == self._store.reward(index),
            )
        if outcome == "expired":
            return DecisionExpired(
                f"decision {id} has expired: it waited longer than expire_after = "
                f"{self.rules.expire_after:g} s, or most_pending = {self.rules.most_pending} "
                "newer ones were waiting"
            )
        return UnknownDecision(f"there is no decision {id} in {self._store.path}")

    def forget(self, ids: Iterable[str]) -> None:
        """Delete decisions and their samples for good."""
        parsed = [(id_, *_parse(id_)) for id_ in dict.fromkeys(ids)]
        with self._locked():
            self._ready()
            for id_, prefix, index in parsed:
                if self._store.outcome(index, prefix) == "unknown":
                    raise self._refusal(id_, prefix, index)
            numbers = [index for _, _, index in parsed]
            learned = self._store.sequence_numbers(numbers)
            update = self.protocol_client.update
            snapshot = self._snapshots.get(update)
            withdraws = (
                update > self.adopted
                and snapshot is not None
                and any(k <= snapshot.last_sequence for k in learned)
            )
            self._stale = True
            self._store.forget(numbers, update if withdraws else None)
            self._read()
            self._store.scrub()

    def export(self) -> pl.DataFrame:
        """Return the log of decisions."""
        with self._locked():
            self._ready()
            return self._store.frame()

    def close(self) -> None:
        """Close the file; harmless if it is closed."""
        if not self.in_own_process:
            return  # a child has nothing to close
        with self._lock:
            if self._open:
                self._open = False
                self._store.close()

    # -- what the coordinator asks for -----------------------------------------------------------

    def is_quick(self) -> bool:
        """Return whether a pass over the samples is short, and no call of the application's runs.

        Such a call may wait for the disk (`observe` with durable="power") or read the whole file.
        """
        n, d = len(self.protocol_client.samples), self.agreement.problem.dim
        return (n + d) * d * d <= _QUICK and not self._lock.locked()

    def lacks(self, request: CovarianceRequest) -> bool:
        """Return whether the model at which an update asks for sums has not arrived yet."""
        return request.model > self.adopted

    def freeze(self, request: CovarianceRequest) -> Covariance | ModelSums | None:
        """Fix which samples belong to an update, and answer.

        None: this client takes no part in the update, because it is over, or samples of it were
        forgotten, or it asks for sums at another model than the one held.
        """
        with self._locked():
            self._ready()
            client = self.protocol_client
            snapshot = self._snapshots.get(request.update)
            if snapshot is not None and snapshot.withdrawn:
                return None
            if request.model not in (0, client.adopted):
                return None
            if request.update > max(client.update, client.adopted):
                snapshot = Snapshot(self._last_sequence)
                self._stale = True
                self._store.freeze(request.update, snapshot)
                self._snapshots[request.update] = snapshot
                client.freeze(request.update)
                self._stale = False
            answer = client.receive(request) if client.has_ready(request) else None
        if answer is None:  # asked again after a restart, or at θ = 0: a pass, without the lock
            answer = client.receive(request)
            if not self.takes_part(request.update):
                return None  # something was forgotten meanwhile
        return answer[0] if answer else None  # type: ignore[return-value]

    def evaluate(self, request: Evaluate) -> Derivatives | None:
        """Answer a round on the samples of its update; None: this client takes no part in it."""
        client = self.protocol_client
        if not self.takes_part(request.update):
            return None
        answer = client.receive(request)  # samples are only appended: no lock
        if not self.takes_part(request.update):
            return None  # something was forgotten meanwhile
        return answer[0] if answer else None  # type: ignore[return-value]

    def takes_part(self, update: int) -> bool:
        """Return whether samples are frozen for this update, and none of them was forgotten."""
        with self._locked():
            self._ready()
            snapshot = self._snapshots.get(update)
            return snapshot is not None and not snapshot.withdrawn

    def adopt(self, message: NewModel) -> bool:
        """Adopt a new model, with own later samples on top; False: it was adopted before."""
        while True:
            with self._locked():
                self._ready()
                client, last = self.protocol_client, self._last_covered(message)
                covered = bisect_right(self._sequence, last)
            translated = NewModel(message.client, message.update, covered, message.model)
            adoption = client.prepare(translated)
            if adoption is None:
                return False
            model = AdoptedModel(adoption.update, last, adoption.base)
            _ = model.packed  # takes a while: not under the lock
            with self._locked():
                self._ready()
                if self.protocol_client is client:
                    self._install(adoption, model)
                    return True
            # a sample was forgotten meanwhile: work it out again

    def _last_covered(self, message: NewModel) -> int:
        """Return the sequence number of the last sample that a model covers."""
        snapshot = self._snapshots.get(message.update)
        if message.covered == 0 or not self._sequence:
            return 0
        if snapshot is not None:  # also where it withdrew too late, and is in the model
            return snapshot.last_sequence
        # The snapshot is lost (a power cut, an older copy of the file): take the oldest samples,
        # as many as the message says and the file has.
        return self._sequence[min(message.covered, len(self._sequence)) - 1]

    def _install(self, adoption: Adoption, model: AdoptedModel) -> None:
        self._stale = True
        self._store.adopt(model)
        self.protocol_client.install(adoption)
        self._snapshots = {k: v for k, v in self._snapshots.items() if k > adoption.update}
        self._stale = False

    # -- when to ask for an update -----------------------------------------------------------------

    def triggered_at(self) -> int:
        """Return the last step if the trigger fires with the samples so far, or 0."""
        with self._locked():
            self._ready()
            client = self.protocol_client
            fired = len(client.samples) > client.covered and client.triggered(client.last_t)
            return client.last_t if fired else 0

    def newest(self) -> tuple[int, int]:
        """Return the last update known here, and the sequence number of the newest sample."""
        with self._locked():
            self._ready()
            return max(self.protocol_client.update, self.adopted), self._last_sequence

    def covers(self, sequence: int) -> bool:
        """Return whether the adopted model covers the samples up to this sequence number."""
        with self._locked():
            self._ready()
            return bisect_right(self._sequence, sequence) <= self.protocol_client.covered

    def clock(self) -> int:
        """Return the newest step known here: the client's own or the shared model's."""
        with self._locked():
            self._ready()
            return self._clock()

    @property
    def _last_sequence(self) -> int:
        return self._sequence[-1] if self._sequence else 0


def _same_request(
    key: str | None,
    before: tuple[Decision, int, FloatArray | None],
    arms: FloatArray,
    ids: Sequence[str | int] | None,
) -> Decision:
    """Return the decision that was made with a key, unless it was made for another request."""
    decision, count, x = before
    same = count == len(arms) and (x is None or np.array_equal(arms[decision.arm], x))
    if not same or decision.arm_id != (None if ids is None else ids[decision.arm]):
        raise InvalidInput("key", key, "one of its own to each request: this was another one's")
    return decision


def _checked_ids(ids: Sequence[str | int] | None, count: int) -> list[str | int] | None:
    if ids is None:
        return None
    given = [i.item() if isinstance(i, np.generic) else i for i in ids]
    if len(given) != count or not all(_is_id(i) for i in given):
        raise InvalidInput("ids", given, f"one string or whole number for each of {count} arms")
    return given


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() == value  # no half of a surrogate pair
    return type(value) is int and abs(value) <= _LARGEST_ID


def _parse(id: object) -> tuple[str, int]:  # noqa: A002
    """Return the prefix and the number of a decision's id."""
    if isinstance(id, str):
        prefix, dash, index = id.rpartition("-")
        if dash and index.isascii() and index.isdigit() and len(index) < 19:
            return prefix, int(index)
    raise UnknownDecision(f"{id!r} is no decision's id; give the `id` of a Decision")
