"""The application's calls: choose, observe, absorb, forget, export, backup.

None of these waits for the network or for a global update.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fedglb.errors import InvalidInput, arms_in_unit_ball, array, finite, instance, integer, shaped
from fedglb.features.encode import Record
from fedglb.federation.agent.decisions import Decision
from fedglb.federation.agent.durable_client import LAST_STEP, DurableClient
from fedglb.federation.agent.explain import Explanation, PreviewedArm, explained, previewed
from fedglb.federation.agent.frozen import decide, exploring, read_frozen_again
from fedglb.federation.agent.log_reader import LogEnd
from fedglb.federation.agent.records import (
    Offer,
    as_json,
    encoded_rows,
    is_records,
    marks_of,
)
from fedglb.federation.agent.store import PendingDecision
from fedglb.federation.agent.update_store import AdoptedModel, SampleNumbers, as_bytes, as_floats
from fedglb.federation.agreement import LEAP
from fedglb.federation.errors import AlreadyObserved, DecisionExpired, UnknownDecision
from fedglb.kernels.scoring import into_columns
from fedglb.protocol import Client
from fedglb.protocol.own_sums import OwnSums
from fedglb.samples import Samples
from fedglb.typing import BoolArray, FloatArray

if TYPE_CHECKING:
    import polars as pl

log = logging.getLogger(__name__)
_LARGEST_ID = 2**63 - 1  # the largest whole number that SQLite stores
_LONGEST_KEY = 200
_UNKEPT = "-unkept"  # in the id of a decision that is not in the file
_AT_ONCE = 100  # maximum decisions that expire in one call: millions would take seconds
_ROWS = 10_000  # samples that are copied at once
_LOG_EVERY = 60.0  # seconds between two log lines about expired decisions
_PAUSE = 0.01  # seconds between two attempts to empty the write-ahead log
_SURELY = 1.0 + 1e-9  # `arms_in_unit_ball` accepts every arm with ‖x‖² below this


class ApplicationCalls:
    """The application's calls on a `DurableClient`; any thread may make them."""

    def __init__(self, durable: DurableClient) -> None:
        self._durable = durable
        self._prefix = secrets.token_hex(4)  # of this object's decision ids
        self._key = durable.store.seed  # of the digests of idempotency keys
        self._unlogged, self._logged_at = 0, -math.inf  # decisions that expired since the last line

    # -- choose ----------------------------------------------------------------------------------

    def choose(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None = None,
        t: int | None = None,
        key: str | None = None,
        context: Record | None = None,
        exclude: Sequence[str | int] = (),
        explore: float | None = None,
    ) -> Decision:
        """Choose an arm and write the decision to the file."""
        left = _eligible(arms, ids, exclude)
        if left is None:
            return self._choose(arms, ids, t, key, context, explore)
        decision = self._choose(_at(arms, left), _at(ids, left), t, key, context, explore)
        return replace(decision, arm=left[decision.arm])

    def _choose(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None,
        t: int | None,
        key: str | None,
        context: Record | None,
        explore: float | None,
    ) -> Decision:
        durable, encoder = self._durable, self._durable.encoder
        algorithm = exploring(durable, explore)
        table, columns, offer = self._arms(arms, context)
        arm_ids = _checked_ids(ids, len(table))
        if t is not None:
            integer("t", t, at_most=min(durable.clock + LEAP, LAST_STEP))
        digest = "" if key is None else self._digest(key)
        with durable.locked():
            durable.ready()
            if durable.encoder is not encoder:  # a new schema
                table, columns, offer = self._arms(arms, context)
            revision = durable.agreement.revision
            if digest and (before := durable.store.keyed(digest, revision)) is not None:
                return _same_request(key, before, table, arm_ids)
            client, now, index = durable.protocol_client, time.time(), durable.number + 1
            prefix = self._prefix + digest
            # A rule's t is the decision's number, not the shared clock, which any application or
            # agent can put far ahead.
            names = client.names(_marks(columns, offer, arm_ids), arm_ids)
            chosen = decide(durable, columns, index, names, algorithm)
            record = None if offer is None else offer.kept(chosen.arm, chosen.runner_up, arm_ids)
            pending = PendingDecision(prefix, now, t, chosen.row, record, revision)
            decision = Decision(
                id=f"{prefix}-{index}",
                arm=chosen.arm,
                arm_id=None if arm_ids is None else arm_ids[chosen.arm],
                score=chosen.score,
                width=chosen.width,
                propensity=chosen.propensity,
                model=durable.chooser.adopted,
                propensity_error=chosen.propensity_error,
            )
            expired = self._expiring(now)
            offered = durable.rules.log == "offered"
            durable.stale = True
            try:
                records = as_json(offer.arms) if offer is not None and offered else None
                durable.store.add_decision(
                    index, decision, pending, table, expired, offered, records
                )
            except sqlite3.Error as error:
                durable.stale = not durable.store.unchanged(index, waits=False)
                durable.oldest = -math.inf  # nothing has expired
                if durable.rules.on_full_disk == "raise" or not _is_full(error):
                    raise
                durable.number = index  # the next decision draws another random number
                return replace(decision, id=f"{self._prefix}{_UNKEPT}-{index}", kept=False)
            durable.number = index
            durable.waiting += 1 - len(expired)
            durable.oldest = min(durable.oldest, now)
            durable.expired += len(expired)
            durable.stale = False
        self._log_expired(len(expired))
        return decision

    def _arms(
        self, arms: ArrayLike | Sequence[Record], context: Record | None
    ) -> tuple[FloatArray, FloatArray, Offer | None]:
        """Return arms as rows and as columns, and the records that they were."""
        durable = self._durable
        if is_records(arms, context):
            offer = Offer.of(arms, context, durable.encoder)  # type: ignore[arg-type]
            if not len(offer.table):
                raise InvalidInput("arms", [], "at least one arm")
            return offer.table, np.ascontiguousarray(offer.table.T), offer
        table = shaped("arms", arms, (None, durable.agreement.problem.dim))  # type: ignore[arg-type]
        columns = np.empty(table.shape[::-1])
        if not into_columns(table, columns, _SURELY):
            table = arms_in_unit_ball("arms", finite("arms", table))
            columns = np.ascontiguousarray(table.T)
        return table, columns, None

    def _digest(self, key: object) -> str:
        """Return a keyed digest of an idempotency key: it does not reveal the key."""
        if not is_id(key) or not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
            raise InvalidInput("key", key, f"a string of 1 to {_LONGEST_KEY} characters")
        return hashlib.blake2b(key.encode(), digest_size=12, key=self._key).hexdigest()

    def _expiring(self, now: float) -> list[int]:
        """Return the decisions that a new decision makes expire: too old, or too many."""
        durable, limit = self._durable, self._durable.rules.expire_after
        excess = durable.waiting + 1 - durable.rules.max_pending
        if excess <= 0 and now - durable.oldest <= limit:
            return []
        expired: list[int] = []
        durable.oldest = math.inf
        for index, made in durable.store.oldest_waiting(_AT_ONCE):
            durable.oldest = made
            if len(expired) >= excess and now - made <= limit:
                break
            expired.append(index)
        return expired

    def _log_expired(self, count: int) -> None:
        """Log that decisions have expired, at most once a minute."""
        self._unlogged += count
        if self._unlogged and time.monotonic() - self._logged_at >= _LOG_EVERY:
            rules = self._durable.rules
            log.warning(
                "%d decisions have expired without a reward (%d so far): they waited longer than "
                "expire_after = %g s, or max_pending = %d newer ones waited",
                self._unlogged, self._durable.expired, rules.expire_after, rules.max_pending,
            )  # fmt: skip
            self._unlogged, self._logged_at = 0, time.monotonic()

    # -- learn -----------------------------------------------------------------------------------

    def observe(self, id: str, reward: float) -> int:  # noqa: A002
        """Learn from a decision's reward; return the step if the trigger fires, or 0."""
        durable = self._durable
        y = durable.agreement.check_reward(reward)
        prefix, index = _parse(id)
        with durable.locked():
            durable.ready()
            now = time.time()
            pending = durable.store.waiting(index, prefix)
            if pending is None:
                raise self._refusal(id, prefix, index, y)
            if now - pending.made > durable.rules.expire_after:
                durable.stale = True
                durable.store.expire([index])
                durable.waiting -= 1
                durable.expired += 1
                durable.stale = False
                self._log_expired(1)
                raise self._refusal(id, prefix, index)
            client, row = durable.protocol_client, pending.row
            if pending.revision != durable.agreement.revision:
                assert pending.record is not None  # a change of the schema drops the others
                row = as_floats(durable.renewed([pending.record], [as_bytes(row)])[0])
            step = pending.t or durable.clock + 1
            durable.stale = True
            try:
                durable.store.add_reward(index, durable.next_sequence, step, y, now)
            except sqlite3.Error:
                durable.stale = not durable.store.unchanged(index, waits=True)
                raise
            durable.waiting -= 1
            durable.numbers.append(durable.next_sequence, step)
            durable.next_sequence += 1
            fires = client.observe_unchecked(row, y, step)
            durable.stale = False
        return step if fires else 0

    def _refusal(
        self,
        id: str,  # noqa: A002
        prefix: str,
        index: int,
        reward: float | None = None,
    ) -> Exception:
        """Return the error for a decision that does not wait for a reward."""
        durable = self._durable
        if prefix.endswith(_UNKEPT):
            return UnknownDecision(
                f"decision {id} was not kept, because the disk was full at the time "
                "(on_full_disk='choose'): its reward is refused"
            )
        outcome = durable.store.outcome(index, prefix)
        if outcome == "observed":
            return AlreadyObserved(
                f"decision {id} already has a reward; a second is refused",
                same=reward == durable.store.reward(index),
            )
        if outcome == "absorbed":
            return AlreadyObserved(f"{id} is an absorbed sample: it already has a reward")
        if outcome == "expired":
            return DecisionExpired(
                f"decision {id} has expired: it waited longer than expire_after = "
                f"{durable.rules.expire_after:g} s, or max_pending = "
                f"{durable.rules.max_pending} newer ones were waiting"
            )
        return UnknownDecision(f"decision {id} is not in this agent's file, or was forgotten")

    def absorb(
        self,
        X: ArrayLike | Sequence[Record],
        y: ArrayLike,
        key: str | None,
        ids: Sequence[str | int] | None,
        contexts: Sequence[Record | None] | None = None,
    ) -> tuple[int, int]:
        """Learn from samples without decisions; return their number, and the step as `observe`.

        A copy learns all samples before any is written: either all are kept or none.
        """
        durable = self._durable
        if key is not None:
            instance("key", key, str, '"last year"')
        with durable.long_calls(), durable.locked():
            durable.ready()
            table, rewards, kept, marks = self._checked(X, y, contexts)
            n, arm_ids = len(table), _checked_ids(ids, len(table))
            known = None if key is None else durable.store.absorbed(key)
            if known not in (None, n):
                allowed = f"another key: {known} samples were absorbed under this one, not {n}"
                raise InvalidInput("key", key, allowed)
            if known is not None or n == 0:
                return 0, 0
            client, clock, begin = durable.protocol_client, durable.clock, durable.next_sequence
            first, learned = len(durable.numbers), client.rows(table, arm_ids, marks)
            samples = Samples.over(
                np.concatenate([client.samples.X, learned]),
                np.concatenate([client.samples.y, rewards]),
                first + n,
            )
            state, sums = client.state.copied(), _copied(client.sums)
            client.algorithm.local_update.replay(client.setting, state, samples, first)
            sums.add(samples)
            steps = [min(clock + k, LAST_STEP) + 1 for k in range(n)]
            numbers = range(begin, begin + n)
            named: Sequence[str | int | None] = arm_ids or [None] * n
            rows = zip(numbers, steps, learned, rewards.tolist(), kept, named, strict=True)
            durable.stale = True
            durable.store.absorb(
                durable.number + 1, self._prefix, time.time(), client.adopted,
                durable.agreement.revision, rows, key,
            )  # fmt: skip
            client.samples, client.state, client.sums = samples, state, sums
            client.last_t = max(client.last_t, steps[-1])
            for k, step in enumerate(steps):
                durable.numbers.append(begin + k, step)
            durable.next_sequence += n
            durable.number += n
            fires = client.triggered(steps[-1])
            durable.stale = False
        return n, steps[-1] if fires else 0

    def _checked(
        self,
        X: ArrayLike | Sequence[Record],
        y: ArrayLike,
        contexts: Sequence[Record | None] | None,
    ) -> tuple[FloatArray, FloatArray, Sequence[bytes | None], FloatArray | None]:
        """Check each sample as `observe` does; return arms, rewards, records, their marks."""
        agreement, kept, marks = self._durable.agreement, None, None
        if is_records(X, contexts):
            given: Any = X
            table, kept = encoded_rows(given, contexts, self._durable.encoder)
            marks = marks_of(given)
        else:
            table = arms_in_unit_ball("X", array("X", X, (None, agreement.problem.dim)))  # type: ignore[arg-type]
        rewards = array("y", y, (len(table),))
        for k, reward in enumerate(rewards.tolist()):
            try:
                agreement.check_reward(reward)
            except InvalidInput as error:
                error.path = ("y", k)
                raise
        return table, rewards, kept or [None] * len(table), marks

    # -- forget ----------------------------------------------------------------------------------

    def forget(self, ids: Iterable[str]) -> None:
        """Delete decisions and their samples for good.

        The new state is computed from the samples in memory without the lock, so other calls go on
        with the old state. Then file and memory change together, in one short moment.
        """
        parsed = [(id_, *_parse(id_)) for id_ in dict.fromkeys(ids)]
        with self._durable.long_calls():
            while not self._forgotten(parsed):
                pass  # a new model or reward came meanwhile: compute it again
            while not self._scrubbed():
                time.sleep(_PAUSE)

    def _forgotten(self, parsed: Sequence[tuple[str, str, int]]) -> bool:
        """Delete decisions; False: the state changed meanwhile, and nothing was done."""
        durable, store = self._durable, self._durable.store
        indices = [index for _, _, index in parsed]
        with durable.locked():
            durable.ready()
            for id_, prefix, index in parsed:
                if store.outcome(index, prefix) == "unknown":
                    raise self._refusal(id_, prefix, index)
            client, adopted = durable.protocol_client, durable.adopted
            released, numbers = durable.releases, durable.numbers
            gone = store.sequence_numbers(indices)
            keep, left = numbers.kept(gone), numbers.without(gone)
            model = store.updates.adopted_model()
        fresh = client if not gone else self._without(client, keep, left, model)
        reduced = released.without(gone, client.samples.so_far(), numbers)
        with durable.locked():
            durable.ready()
            changed = durable.protocol_client is not client or durable.adopted != adopted
            changed = changed or durable.releases is not released
            if changed or store.sequence_numbers(indices) != gone:
                return False
            update, snapshot = client.update, durable.snapshots.get(client.update)
            withdraws = (
                update > durable.adopted
                and snapshot is not None
                and any(k <= snapshot.last_sequence for k in gone)
            )
            waiting = sum(store.outcome(k, prefix) == "pending" for _, prefix, k in parsed)
            if gone:
                _catch_up(fresh, client, len(gone))
            durable.stale = True
            batches = reduced.batches() if durable.one_pass else None
            store.forget(indices, update if withdraws else None, batches)
            durable.waiting -= waiting
            durable.snapshots = store.updates.snapshots()
            durable.releases = reduced.withdrawn() if withdraws else reduced
            if gone:
                durable.hold(fresh, durable.numbers.without(gone))
                read_frozen_again(durable)
            durable.stale = False
            return True

    def _without(
        self, client: Client, keep: BoolArray, left: SampleNumbers, model: AdoptedModel | None
    ) -> Client:
        """Return a client that never saw the forgotten samples; it may lack the newest few."""
        n, gone, samples = len(keep), len(keep) - len(left), client.samples.so_far()
        X, y, end = np.empty((len(left), samples.X.shape[1])), np.empty(len(left)), 0
        for first in range(0, n, _ROWS):  # in parts: other threads wait while one is copied
            part = slice(first, min(first + _ROWS, n))
            begin, end = end, end + int(keep[part].sum())
            X[begin:end], y[begin:end] = samples.X[part][keep[part]], samples.y[part][keep[part]]
        fresh = self._durable.learned(Samples.over(X, y, len(left)), left, model)
        while len(client.samples) - gone - len(fresh.samples) > _AT_ONCE:
            _catch_up(fresh, client, gone)
        return fresh

    def _scrubbed(self) -> bool:
        with self._durable.locked():
            self._durable.ready()
            return self._durable.store.scrub()

    # -- looking inside ---------------------------------------------------------------------------

    def explain(self, id: str) -> Explanation:  # noqa: A002
        """Return what the arms of a decision add up to."""
        prefix, index = _parse(id)
        found = explained(self._durable, id, index, prefix)
        if found is None:
            raise self._refusal(id, prefix, index)
        return found

    def preview(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None,
        context: Record | None,
        exclude: Sequence[str | int],
    ) -> tuple[PreviewedArm, ...]:
        """Return what would be played; nothing is written."""
        left = _eligible(arms, ids, exclude)
        if left is not None:
            arms, ids = _at(arms, left), _at(ids, left)
        with self._durable.locked():
            self._durable.ready()
            table, columns, offer = self._arms(arms, context)
            arm_ids = _checked_ids(ids, len(table))
            client = self._durable.protocol_client
            marks = _marks(columns, offer, arm_ids)
            names = client.names(marks, arm_ids) if arm_ids else client.known_names(marks)
            where = range(len(table)) if left is None else left
            return previewed(self._durable, columns, names, where, arm_ids)

    # -- copies ----------------------------------------------------------------------------------

    def export_batches(self, rows: int) -> Iterator[pl.DataFrame]:
        """Return the log of decisions as it is now, in frames of `rows` rows."""
        integer("rows", rows)
        durable = self._durable
        with durable.locked():
            durable.ready()
            end = LogEnd(durable.number, durable.next_sequence - 1)
            agreement = durable.agreement
            found = durable.store.log(end, agreement.problem.dim, agreement.revision)
            return found.batches(rows)

    def backup(self, path: Path) -> None:
        """Write a copy of the file; other calls go on, except `forget`."""
        with self._durable.long_calls():
            with self._durable.locked():
                self._durable.ready()
            self._durable.store.backup(path)


def _catch_up(fresh: Client, client: Client, gone: int) -> None:
    """Let `fresh`, which has the samples of `client` minus the `gone` ones, learn the newest."""
    samples, first = client.samples.so_far(), len(fresh.samples)
    for k in range(first + gone, len(samples)):
        fresh.samples.append(samples.X[k], float(samples.y[k]))
    fresh.sums.add(fresh.samples)
    fresh.algorithm.local_update.replay(fresh.setting, fresh.state, fresh.samples, first)


def _copied(sums: OwnSums) -> OwnSums:
    made = copy.copy(sums)
    made.matrix, made.vector = sums.matrix.copy(), sums.vector.copy()
    made.tables = sums.tables.copy()
    return made


def _is_full(error: sqlite3.Error) -> bool:
    """Return whether the disk is full or fails."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _same_request(
    key: str | None,
    before: tuple[Decision, int, FloatArray | None],
    arms: FloatArray,
    ids: Sequence[str | int] | None,
) -> Decision:
    """Return the decision with a key; raise if the key belongs to another request."""
    (decision, count, x), d = before, arms.shape[1]
    same = count == len(arms) and (x is None or np.array_equal(arms[decision.arm], x[:d]))
    if not same or decision.arm_id != (None if ids is None else ids[decision.arm]):
        raise InvalidInput("key", key, "another key: this one belongs to another request")
    return decision


def _checked_ids(ids: Sequence[str | int] | None, count: int) -> list[str | int] | None:
    if ids is None:
        return None
    given = [i.item() if isinstance(i, np.generic) else i for i in ids]
    if len(given) != count or not all(is_id(i) for i in given):
        raise InvalidInput("ids", given, f"one string or whole number for each of {count} arms")
    return given


def _marks(columns: FloatArray, offer: Offer | None, ids: Sequence[str | int] | None) -> FloatArray:
    """Return the numbers by which arms without ids are told apart."""
    return columns if offer is None or ids is not None else offer.marks()


def _at(given: Any, places: Sequence[int]) -> Any:
    return [given[k] for k in places]


def _eligible(arms: Any, ids: Any, exclude: Any) -> list[int] | None:
    """Return the indices of the arms that may be played; None: all of them."""
    if not isinstance(exclude, list | tuple | set | frozenset):
        raise InvalidInput("exclude", exclude, "a list of ids")
    if not exclude:
        return None
    if ids is None or len(ids) != len(arms):
        raise InvalidInput("exclude", exclude, "none without an id for each arm")
    excluded = set(exclude)
    left = [k for k, each in enumerate(ids) if each not in excluded]
    if not left:
        raise InvalidInput("exclude", exclude, "at least one arm that is not excluded")
    return left


def is_id(value: object) -> bool:
    """Return whether a value can be an arm's id: a text, or a whole number of 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() == value  # no half of a surrogate pair
    return type(value) is int and abs(value) <= _LARGEST_ID


def _parse(id: object) -> tuple[str, int]:  # noqa: A002
    """Return the prefix and the number of a decision's id."""
    if isinstance(id, str):
        prefix, dash, index = id.rpartition("-")
        if dash and index.isascii() and index.isdigit() and len(index) < 19:
            return prefix, int(index)
    raise UnknownDecision(f"{id!r} is not a decision's id; expected the `id` of a Decision")
