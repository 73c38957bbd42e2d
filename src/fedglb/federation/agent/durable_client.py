"""A client of the protocol whose every decision, sample and model is in its file first."""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from fedglb.errors import InvalidInput, arms_in_unit_ball, array, finite, instance, integer, shaped
from fedglb.federation.agent.decisions import Decision, DecisionRules
from fedglb.federation.agent.log_frames import LogEnd
from fedglb.federation.agent.releases import PrivacySpent, Releases
from fedglb.federation.agent.sample_numbers import SampleNumbers
from fedglb.federation.agent.store import (
    AdoptedModel,
    AgentStore,
    Pending,
    Snapshot,
    StoredRelease,
)
from fedglb.federation.agreement import LEAP, Agreement
from fedglb.federation.errors import (
    AlreadyObserved,
    DecisionExpired,
    Unavailable,
    UnknownDecision,
)
from fedglb.federation.secure_sums.state import SumState
from fedglb.federation.secure_sums.transcript import NO_MODEL, model_digest
from fedglb.kernels.scoring import into_columns
from fedglb.privacy.fixed_point import size
from fedglb.protocol import Client
from fedglb.protocol.client import Adoption
from fedglb.protocol.messages import (
    BatchSums,
    Covariance,
    CovarianceRequest,
    Derivatives,
    Evaluate,
    ModelSums,
    NewModel,
)
from fedglb.protocol.one_pass import Batches
from fedglb.protocol.own_sums import OwnSums
from fedglb.samples import Samples
from fedglb.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl

log = logging.getLogger(__name__)
LAST_STEP = 2**52  # far away, and the steps after it still fit into a message
_LARGEST_ID = 2**63 - 1  # the largest whole number that SQLite stores
_QUICK = 500_000  # products: a pass takes under a millisecond, a replay of all samples a few
_LONGEST_KEY = 200
_UNKEPT = "-unkept"  # in the id of a decision that is not in the file
_AT_ONCE = 100  # decisions that expire with one choice, at most: nobody waits for millions
_ROWS = 10_000  # samples that are copied at once
_QUIET = 60.0  # seconds between two lines of the log about decisions that have expired
_PAUSE = 0.01  # seconds between two attempts to empty the write-ahead log
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
        self._long = threading.Lock()  # taken before the other: by what takes long, one at a time
        self._process = os.getpid()
        self._open = True
        self._prefix = secrets.token_hex(4)  # of the ids of decisions made from now on
        # Random choices are a function of the file and of a decision's number: a crash neither
        # repeats nor loses one.
        self._store_seed = store.seed
        self._seed = int.from_bytes(self._store_seed[:8], "little")
        self._algorithm, self._setting = rules.applied_to(agreement.algorithm), agreement.setting
        self._number = 0  # of the newest decision
        self._prepared: tuple[Client, Releases, StoredRelease] | None = None  # of a secure sum
        self._withheld: str | None = None  # why nothing was released for the last request
        self._untold, self._told = 0, -math.inf  # expired since the last line about it, and when
        self._read()

    def _read(self) -> None:
        """Become what the file describes: what the client was before a crash, to the bit."""
        self._waiting = self._store.count_waiting()
        self._oldest = -math.inf  # no decision that waits was made before this
        self.expired = self._store.expired()
        self._number = max(self._number, self._store.last_number())
        self._snapshots = self._store.snapshots()
        self._releases = Releases(self._store.releases(), self._setting)
        samples, numbers = self._store.samples(self.agreement.problem.dim)
        model = self._store.adopted_model()
        used = [s.last_sequence for s in self._snapshots.values()]
        used += [r.last_sequence for r in self._releases.stored.values()]
        used += [numbers.last_sequence, 0 if model is None else model.last_sequence]
        self._next = 1 + max(used)
        self._hold(self._learned(samples, numbers, model), numbers)
        self._stale = False  # whether the file may have what the memory has not

    def _learned(
        self, samples: Samples, numbers: SampleNumbers, model: AdoptedModel | None
    ) -> Client:
        """Make the protocol's client from samples and the last model."""
        return Client.from_samples(
            self.name, self._algorithm, self._setting, samples,
            base=None if model is None else model.base,
            adopted=0 if model is None else model.update,
            covered=0 if model is None else numbers.up_to(model.last_sequence),
            seed=self._seed,
        )  # fmt: skip

    def _hold(self, client: Client, numbers: SampleNumbers) -> None:
        """Go on with a client that has learned; tell it of its clock and the update in progress."""
        update, snapshot = max(self._snapshots.items(), default=(0, None))
        client.update = max(update, client.adopted)
        client.frozen = 0 if snapshot is None else numbers.up_to(snapshot.last_sequence)
        client.last_t = numbers.last_step
        if client.batches is not None:
            self._releases.tell(client.batches, numbers)
        self.protocol_client, self._numbers = client, numbers

    def _locked(self) -> threading.Lock:
        """Return the lock; in a forked child, where it may be locked for ever, raise."""
        self.check()
        return self._lock

    def _one_at_a_time(self) -> threading.Lock:
        """Return the lock of calls that take long; to be taken before that of `_locked`."""
        self.check()
        return self._long

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
            expired = self._expired(now)
            self._stale = True
            if not self._written(index, decision, pending, table, expired):
                self._number = index  # the next one draws another random number
                return replace(decision, id=f"{self._prefix}{_UNKEPT}-{index}", kept=False)
            self._number = index
            self._waiting += 1 - len(expired)
            self._oldest = min(self._oldest, now)
            self.expired += len(expired)
            self._stale = False
        self._tell(len(expired))
        return decision

    def _digest(self, key: object) -> str:
        """Return what stands for a key in the file: nobody else can tell the key from it."""
        if not _is_id(key) or not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
            raise InvalidInput("key", key, f"a string of 1 to {_LONGEST_KEY} characters")
        return hashlib.blake2b(key.encode(), digest_size=12, key=self._store_seed).hexdigest()

    def _written(
        self,
        index: int,
        decision: Decision,
        pending: Pending,
        arms: FloatArray,
        expired: Sequence[int],
    ) -> bool:
        """Write a decision; False: there is no room for it, and the agent is to answer anyway."""
        offered = self.rules.log == "offered"
        try:
            self._store.add_decision(index, decision, pending, arms, expired, offered)
        except sqlite3.Error as error:
            self._stale = not self._store.unchanged(index, waits=False)
            self._oldest = -math.inf  # nothing has expired
            if self.rules.on_full_disk == "raise" or not _is_full(error):
                raise
            return False
        return True

    def _expired(self, now: float) -> list[int]:
        """Return which decisions expire now, where one more is made: too old, or too many."""
        excess, limit = self._waiting + 1 - self.rules.most_pending, self.rules.expire_after
        if excess <= 0 and now - self._oldest <= limit:
            return []
        expired: list[int] = []
        self._oldest = math.inf
        for number_, made in self._store.oldest_waiting(_AT_ONCE):
            self._oldest = made
            if len(expired) >= excess and now - made <= limit:
                break
            expired.append(number_)
        return expired

    def _tell(self, expired: int) -> None:
        """Log that decisions have expired, but not every time."""
        self._untold += expired
        if self._untold and time.monotonic() - self._told >= _QUIET:
            log.warning(
                "%d decisions have expired without a reward (%d so far): they waited longer than "
                "expire_after = %g s, or more than most_pending = %d waited",
                self._untold, self.expired, self.rules.expire_after, self.rules.most_pending,
            )  # fmt: skip
            self._untold, self._told = 0, time.monotonic()

    def observe(self, id: str, reward: float) -> int:  # noqa: A002
        """Learn from a decision's reward; return the step of a request for an update, or 0."""
        y = self.agreement.check_reward(reward)
        prefix, index = _parse(id)
        with self._locked():
            self._ready()
            now = time.time()
            pending = self._store.waiting(index, prefix)
            if pending is None:
                raise self._refusal(id, prefix, index, y)
            if now - pending.made > self.rules.expire_after:
                self._stale = True
                self._store.expire([index])
                self._waiting -= 1
                self.expired += 1
                self._stale = False
                self._tell(1)
                raise self._refusal(id, prefix, index)
            client = self.protocol_client
            step = pending.t or self._clock() + 1
            self._stale = True
            self._write_reward(index, step, y, now)
            self._waiting -= 1
            self._numbers.append(self._next, step)
            self._next += 1
            wanted = client.observe_unchecked(pending.x, y, step)
            self._stale = False
        return step if wanted else 0

    def _write_reward(self, index: int, step: int, y: float, now: float) -> None:
        try:
            self._store.add_reward(index, self._next, step, y, now)
        except sqlite3.Error:
            self._stale = not self._store.unchanged(index, waits=True)
            raise

    def _clock(self) -> int:
        return min(self.protocol_client.clock, LAST_STEP)

    def _refusal(
        self,
        id: str,  # noqa: A002
        prefix: str,
        index: int,
        reward: float | None = None,
    ) -> Exception:
        if prefix.endswith(_UNKEPT):
            return UnknownDecision(
                f"decision {id} was not kept, because there was no room on the disk when it was "
                "made (on_full_disk='choose'): its reward cannot be learned"
            )
        outcome = self._store.outcome(index, prefix)
        if outcome == "observed":
            return AlreadyObserved(
                f"decision {id} has its reward already; a second is refused",
                same=reward == self._store.reward(index),
            )
        if outcome == "absorbed":
            return AlreadyObserved(f"{id} is a sample that was absorbed: it has its reward")
        if outcome == "expired":
            return DecisionExpired(
                f"decision {id} has expired: it waited longer than expire_after = "
                f"{self.rules.expire_after:g} s, or most_pending = {self.rules.most_pending} "
                "newer ones were waiting"
            )
        return UnknownDecision(f"there is no decision {id} in this agent's file, or no more")

    def absorb(self, X: ArrayLike, y: ArrayLike, key: str | None) -> tuple[int, int]:
        """Learn from samples that were no decisions; return how many, and the step as `observe`.

        All of them are worked out before one is written, so that none is if one cannot be.
        """
        table, rewards = self._checked(X, y)
        if key is not None:
            instance("key", key, str, '"last year"')
        n = len(table)
        with self._one_at_a_time(), self._locked():
            self._ready()
            known = None if key is None else self._store.absorbed(key)
            if known not in (None, n):
                allowed = f"another key: {known} samples were absorbed under this one, not {n}"
                raise InvalidInput("key", key, allowed)
            if known is not None or n == 0:
                return 0, 0
            client, first, clock = self.protocol_client, len(self._numbers), self._clock()
            samples = Samples.over(
                np.concatenate([client.samples.X, table]),
                np.concatenate([client.samples.y, rewards]),
                first + n,
            )
            state, sums = client.state.copied(), _copied(client.sums)
            client.algorithm.local_update.replay(client.setting, state, samples, first)
            sums.add(samples)
            steps = [min(clock + k, LAST_STEP) + 1 for k in range(n)]
            rows = zip(
                range(self._next, self._next + n), steps, table, rewards.tolist(), strict=True
            )
            self._stale = True
            self._store.absorb(
                self._number + 1, self._prefix, time.time(), client.adopted, rows, key
            )
            client.samples, client.state, client.sums = samples, state, sums
            client.last_t = max(client.last_t, steps[-1])
            for k, step in enumerate(steps):
                self._numbers.append(self._next + k, step)
            self._next += n
            self._number += n
            wanted = client.triggered(steps[-1])
            self._stale = False
        return n, steps[-1] if wanted else 0

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return samples, each checked as an observed one."""
        table = arms_in_unit_ball("X", array("X", X, (None, self.agreement.problem.dim)))
        rewards = array("y", y, (len(table),))
        for k, reward in enumerate(rewards.tolist()):
            try:
                self.agreement.check_reward(reward)
            except InvalidInput as error:
                error.path = ("y", k)
                raise
        return table, rewards

    def forget(self, ids: Iterable[str]) -> None:
        """Delete decisions and their samples for good.

        What is left is worked out from the samples in memory, without the lock: other calls go on
        with what there was before. Then file and memory change together, in one short moment.
        """
        parsed = [(id_, *_parse(id_)) for id_ in dict.fromkeys(ids)]
        with self._one_at_a_time():
            while not self._forgotten(parsed):
                pass  # a model was adopted meanwhile, or a reward has come: work it out again
            while not self._scrubbed():
                time.sleep(_PAUSE)

    def _forgotten(self, parsed: Sequence[tuple[str, str, int]]) -> bool:
        """Delete decisions; False: what was worked out is not true any more, nothing is done."""
        numbers = [index for _, _, index in parsed]
        with self._locked():
            self._ready()
            for id_, prefix, index in parsed:
                if self._store.outcome(index, prefix) == "unknown":
                    raise self._refusal(id_, prefix, index)
            client, adopted = self.protocol_client, self.adopted
            gone = self._store.sequence_numbers(numbers)
            keep = self._numbers.kept(gone)
            left, model = self._numbers.without(gone), self._store.adopted_model()
            released, numbers_ = self._releases, self._numbers
        fresh = client if not gone else self._without(client, keep, left, model)
        reduced = released.without(gone, client.samples.so_far(), numbers_)
        with self._locked():
            self._ready()
            changed = self.protocol_client is not client or self.adopted != adopted
            changed = changed or self._releases is not released
            if changed or self._store.sequence_numbers(numbers) != gone:
                return False
            update, snapshot = client.update, self._snapshots.get(client.update)
            withdraws = (
                update > self.adopted
                and snapshot is not None
                and any(k <= snapshot.last_sequence for k in gone)
            )
            waiting = sum(self._store.outcome(k, prefix) == "pending" for _, prefix, k in parsed)
            if gone:
                _catch_up(fresh, client, len(gone))
            self._stale = True
            batches = reduced.batches() if self.one_pass else None
            self._store.forget(numbers, update if withdraws else None, batches)
            self._waiting -= waiting
            self._snapshots = self._store.snapshots()
            self._releases = reduced.withdrawn() if withdraws else reduced
            if gone:
                self._hold(fresh, self._numbers.without(gone))
            self._stale = False
            return True

    def _without(
        self, client: Client, keep: BoolArray, left: SampleNumbers, model: AdoptedModel | None
    ) -> Client:
        """Return the client that never saw some samples, up to the newest but a few."""
        n, gone, samples = len(keep), len(keep) - len(left), client.samples.so_far()
        X, y, end = np.empty((len(left), samples.X.shape[1])), np.empty(len(left)), 0
        for first in range(0, n, _ROWS):  # in parts: other threads wait while one is copied
            part = slice(first, min(first + _ROWS, n))
            begin, end = end, end + int(keep[part].sum())
            X[begin:end], y[begin:end] = samples.X[part][keep[part]], samples.y[part][keep[part]]
        fresh = self._learned(Samples.over(X, y, len(left)), left, model)
        while len(client.samples) - gone - len(fresh.samples) > _AT_ONCE:
            _catch_up(fresh, client, gone)
        return fresh

    def _scrubbed(self) -> bool:
        with self._locked():
            self._ready()
            return self._store.scrub()

    def export_batches(self, rows: int) -> Iterator[pl.DataFrame]:
        """Return the log of decisions as it is now, in frames of so many rows."""
        integer("rows", rows)
        with self._locked():
            self._ready()
            end = LogEnd(self._number, self._next - 1)
            return self._store.log(end, self.agreement.problem.dim).batches(rows)

    def backup(self, path: Path) -> None:
        """Write a copy of the file; other calls go on, but for `forget`."""
        with self._one_at_a_time():
            with self._locked():
                self._ready()
            self._store.backup(path)

    def close(self) -> None:
        """Close the file; harmless if it is closed."""
        if not self.in_own_process:
            return  # a child has nothing to close
        with self._long, self._lock:
            if self._open:
                self._open = False
                self._store.close()

    # -- what the coordinator asks for -----------------------------------------------------------

    def is_quick(self) -> bool:
        """Return whether a pass over the samples is short, and no call of the application's runs.

        Such a call may wait for the disk (`observe` with durable="power") or read the whole file.
        A release always waits for the disk.
        """
        if self.one_pass:
            return False
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
                snapshot = Snapshot(self._numbers.last_sequence)
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

    def release(self, request: CovarianceRequest) -> BatchSums | None:
        """Release sums for a one-pass update: written before they are sent, and once per update.

        A repeated request gets the very same numbers, also after a crash: the same sums with other
        noise would be a second release. None: this client takes no part in the update, because it
        is over, its slot is none that may be used, samples were forgotten, or it asks for sums at
        another model than the one held.
        """
        update = request.update
        while True:
            with self._locked():
                self._ready()
                client, released = self.protocol_client, self._releases
                assert client.batches is not None
                snapshot, adopted = self._snapshots.get(update), client.adopted
                if snapshot is not None and snapshot.withdrawn:
                    return None
                if request.model not in (0, adopted):
                    return None
                if (numbers := released.numbers(update)) is not None:
                    return BatchSums(self.name, update, numbers)
                if not self._may_release(client.batches, update):
                    return None
                first = released.first_sequence(adopted)
                last = released.last_sequence(self._numbers)
                frozen, theta = len(self._numbers), client.shared_theta
            try:  # noise takes milliseconds: without the lock
                made = client.batches.prepare(update, client.samples, frozen, theta, adopted)
            except InvalidInput as error:  # sums that may overflow
                self._withhold(str(error))
                return None
            with self._locked():
                self._ready()
                same = self.protocol_client is client and self._releases is released
                if not same or client.adopted != adopted:
                    continue  # what was prepared is thrown away: nobody has seen it
                stored = StoredRelease(
                    update, time.time(), first, last, theta, made.batch, made.numbers
                )
                self._stale = True
                self._store.release(stored, released.keep_batches)
                self._snapshots[update] = Snapshot(stored.last_sequence)
                self._releases = released.with_one(stored)
                client.update, client.frozen = update, frozen
                client.batches.commit(made)
                self._stale = False
            return BatchSums(self.name, update, made.numbers.copy())

    def _may_release(self, batches: Batches, update: int) -> bool:
        """Return whether something may be released for an update; if not, the log says why."""
        client = self.protocol_client
        why = batches.refusal(update)
        if why is None and update <= max(client.update, client.adopted):
            why = f"update {update}: it is over"
        self._withhold(why)
        return why is None

    def _withhold(self, why: str | None) -> None:
        if why is not None and why != self._withheld:
            log.warning("nothing is released: %s", why)
        self._withheld = why

    def note_released(self, update: int) -> None:
        """Take note that others have a release of this client's for an update.

        If the file does not know of it, it is an old copy: any of its samples that are in no batch
        may be in that release or in one before it. They are left out of all later ones: to send a
        sample twice would tell more of it than was agreed to.
        """
        with self._locked():
            self._ready()
            client, released = self.protocol_client, self._releases
            assert client.batches is not None
            last = released.last
            if update <= (0 if last is None else last.update):
                return
            end, theta = released.last_sequence(self._numbers), client.shared_theta
            nothing = np.zeros(size(self.agreement.problem.dim), dtype=np.int64)
            stored = StoredRelease(update, time.time(), end, end, theta, nothing, None)
            self._stale = True
            self._store.release(stored, released.keep_batches)
            self._snapshots[update] = Snapshot(end)
            self._releases = released.with_one(stored)
            client.update, client.frozen = max(client.update, update), len(self._numbers)
            self._releases.tell(client.batches, self._numbers)
            self._stale = False
        log.warning(
            "the file is an old copy: something was released for update %d, and it has nothing of "
            "that. Its samples that were in no release are left out of all later ones",
            update,
        )

    @property
    def one_pass(self) -> bool:
        """Whether updates take each sample in once."""
        return self.protocol_client.batches is not None

    def privacy(self) -> PrivacySpent | None:
        """Return what was spent of the privacy budget; None: there is none."""
        privacy, plan = self.agreement.algorithm.privacy, self._setting.noise
        return self._releases.spent(privacy, plan, self._withheld)

    def evaluate(self, request: Evaluate) -> Derivatives | None:
        """Answer a round on the samples of its update; None: this client takes no part in it.

        There are no rounds where each sample is sent once: whoever asks for one gets nothing.
        """
        client = self.protocol_client
        if self.one_pass:
            log.warning("a round of update %d is not answered: there are none", request.update)
            return None
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
                covered = self._numbers.up_to(last)
            translated = NewModel(message.client, message.update, covered, message.model)
            adoption = client.prepare(translated)
            if adoption is None:
                return False
            digest = b""
            if self.agreement.minimum is not None:
                digest = model_digest(message.update, message.model)
            model = AdoptedModel(adoption.update, last, adoption.base, digest)
            _ = model.packed  # takes a while: not under the lock
            with self._locked():
                self._ready()
                if self.protocol_client is client:
                    self._install(adoption, model)
                    return True
            # a sample was forgotten meanwhile: work it out again

    def _last_covered(self, message: NewModel) -> int:
        """Return the sequence number of the last sample that a model covers."""
        if self.one_pass:  # nobody is told a number of samples: what was released is covered
            return 0 if self._releases.last is None else self._releases.last.last_sequence
        snapshot = self._snapshots.get(message.update)
        if message.covered == 0 or not len(self._numbers):
            return 0
        if snapshot is not None:  # also where it withdrew too late, and is in the model
            return snapshot.last_sequence
        # The snapshot is lost (a power cut, an older copy of the file): take the oldest samples,
        # as many as the message says and the file has.
        return int(self._numbers.sequence[min(message.covered, len(self._numbers)) - 1])

    def _install(self, adoption: Adoption, model: AdoptedModel) -> None:
        self._stale = True
        self._store.adopt(model, self._releases.keep_batches if self.one_pass else None)
        self.protocol_client.install(adoption)
        self._snapshots = {k: v for k, v in self._snapshots.items() if k > adoption.update}
        self._releases = self._releases.adopted(adoption.update)
        self._stale = False

    # -- secure sums: this is a `SumLog` ----------------------------------------------------------

    def sum_secret(self) -> bytes:
        """Return the file's secret, from which seeds of masks follow."""
        with self._locked():
            self._ready()
            return self._store.sum_secret()

    def model_digest(self) -> bytes:
        """Return the digest of the model that is held."""
        with self._locked():
            self._ready()
            return self._store.model_digest() or NO_MODEL

    def to_release(self, update: int, digest: bytes) -> IntArray:
        """Return what this client would put under its masks, with fresh noise.

        `digest` is that of the model at which sums are taken: the one that is held, or none, after
        the coordinator has lost its own: then sums are taken at θ = 0.

        The batch is that of the samples so far. It counts as released when `write_sum_state` says
        that its sum was consented to; before that it is hidden, and each attempt has its own.

        A batch that was consented to is in no later one, also where its update led to no model:
        without noise, sums over two sets that share a batch could be subtracted from each other.
        """
        with self._locked():
            self._ready()
            client, released = self.protocol_client, self._releases
            assert client.batches is not None
            if not self._may_release(client.batches, update):
                allowed = f"one that something may be released for ({self._withheld})"
                raise InvalidInput("update", update, allowed)
            last = released.last
            first = 0 if last is None else last.last_sequence
            end, frozen = released.last_sequence(self._numbers), len(self._numbers)
            theta = client.shared_theta.copy()
        if digest == NO_MODEL:
            theta[:] = 0.0
        made = client.batches.prepare(update, client.samples, frozen, theta, update)
        stored = StoredRelease(update, time.time(), first, end, theta, made.batch, None)
        with self._locked():
            self._prepared = (client, released, stored)
        return made.numbers

    def sum_state(self) -> SumState:
        """Return where this client stands in secure sums."""
        with self._locked():
            self._ready()
            return self._store.sum_state()

    def write_sum_state(self, state: SumState) -> None:
        """Write where this client stands; with consent, its batch counts as released.

        Both are written at once: a batch whose sum was consented to is never in another one.
        """
        with self._locked():
            self._ready()
            client, prepared = self.protocol_client, self._prepared
            self._prepared = None
            if state.attempt and not state.consented:
                same = prepared is not None and prepared[0] is client
                if prepared is None or not same or prepared[1] is not self._releases:
                    allowed = "a sum whose samples are all there: some were forgotten just now"
                    raise InvalidInput("update", state.slot, allowed)
                self._store.write_sum_state(state, prepared[2])
                return
            self._stale = True
            if state.consented:
                stored = self._store.consent(state, self._releases.keep_batches)
                self._releases = self._releases.with_one(stored)
                assert client.batches is not None
                self._releases.tell(client.batches, self._numbers)
                client.update = state.slot
            else:
                self._store.write_sum_state(state, None)
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
            return max(self.protocol_client.update, self.adopted), self._numbers.last_sequence

    def covers(self, sequence: int) -> bool:
        """Return whether the adopted model covers the samples up to this sequence number."""
        with self._locked():
            self._ready()
            return self._numbers.up_to(sequence) <= self.protocol_client.covered

    def clock(self) -> int:
        """Return the newest step known here: the client's own or the shared model's."""
        with self._locked():
            self._ready()
            return self._clock()


def _catch_up(fresh: Client, client: Client, gone: int) -> None:
    """Let a client learn the newest samples of another one, whose older ones it has but `gone`."""
    samples, first = client.samples.so_far(), len(fresh.samples)
    for k in range(first + gone, len(samples)):
        fresh.samples.append(samples.X[k], float(samples.y[k]))
    fresh.sums.add(fresh.samples)
    fresh.algorithm.local_update.replay(fresh.setting, fresh.state, fresh.samples, first)


def _copied(sums: OwnSums) -> OwnSums:
    made = copy.copy(sums)
    made.matrix, made.vector = sums.matrix.copy(), sums.vector.copy()
    return made


def _is_full(error: sqlite3.Error) -> bool:
    """Return whether there was no room for a write, or no way to write."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


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
