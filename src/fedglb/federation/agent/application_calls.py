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
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from fedglb.algorithms import Algorithm
from fedglb.errors import (
    InvalidInput,
    Place,
    arms_in_unit_ball,
    array,
    finite,
    integer,
    shaped,
)
from fedglb.features.encode import Record
from fedglb.federation.agent.decisions import ONE, Asked, Decision
from fedglb.federation.agent.durable_client import LAST_STEP, DurableClient
from fedglb.federation.agent.explain import Explanation, PreviewedArm, explained, previewed
from fedglb.federation.agent.frozen import decide, exploring
from fedglb.federation.agent.log_reader import LogEnd
from fedglb.federation.agent.records import (
    Offer,
    as_json,
    encoded_rows,
    is_records,
    marks_of,
)
from fedglb.federation.agent.removal import Removal
from fedglb.federation.agent.store import MadeDecision, NewReward, PendingDecision
from fedglb.federation.agent.update_store import as_bytes, as_floats
from fedglb.federation.agreement import LEAP
from fedglb.federation.errors import AlreadyObserved, DecisionExpired, UnknownDecision
from fedglb.kernels.scoring import into_columns
from fedglb.protocol.learner import Chosen
from fedglb.protocol.own_sums import OwnSums
from fedglb.samples import Samples
from fedglb.typing import FloatArray

if TYPE_CHECKING:
    import polars as pl

log = logging.getLogger(__name__)
_LARGEST_ID = 2**63 - 1  # the largest whole number that SQLite stores
_LONGEST = 200  # characters of an id or a key
_SHOWN = 60  # characters of one that is too long
_UNKEPT = "-unkept"  # in the id of a decision that is not in the file
_AT_ONCE = 100  # maximum decisions that expire in one call: millions would take seconds
_LOG_EVERY = 60.0  # seconds between two log lines about expired decisions
_RECENT = 10.0  # seconds after a write in which there is room for another
_PAUSE = 0.01  # seconds between two attempts to empty the write-ahead log
_ROUNDING = 1e-12  # of a width, relative to its score
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
        asked: Asked = ONE,
    ) -> Decision:
        """Choose an arm and write the decision to the file."""
        return self.rank(arms, ids, t, key, context, exclude, asked)[0]

    def rank(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None,
        t: int | None,
        key: str | None,
        context: Record | None,
        exclude: Sequence[str | int],
        asked: Asked,
    ) -> tuple[Decision, ...]:
        """Choose arms and write the decisions to the file."""
        left, played = _eligible(arms, ids, exclude), asked.played
        if played is not None:
            integer("played", played, at_least=0, at_most=len(arms) - 1)  # type: ignore[arg-type]
        if left is None:
            return self._choose(arms, ids, t, key, context, asked)
        if played is not None:
            if played not in left:
                raise InvalidInput("played", played, "an arm that is not excluded")
            asked = replace(asked, played=left.index(played))
        made = self._choose(_at(arms, left), _at(ids, left), t, key, context, asked)
        return tuple(_among(left, decision) for decision in made)

    def _choose(
        self,
        arms: ArrayLike | Sequence[Record],
        ids: Sequence[str | int] | None,
        t: int | None,
        key: str | None,
        context: Record | None,
        asked: Asked,
    ) -> tuple[Decision, ...]:
        durable, encoder = self._durable, self._durable.encoder
        algorithm = exploring(durable, asked.explore)
        table, columns, offer = self._arms(arms, context)
        arm_ids = _checked_ids(ids, len(table))
        if t is not None:
            integer("t", t, at_most=min(durable.clock + LEAP, LAST_STEP))
        digest = "" if key is None else self._digest("key", key).hex()
        subject = None if asked.subject is None else self._digest("subject", asked.subject)
        with durable.locked():
            durable.ready()
            if durable.encoder is not encoder:  # a new schema
                table, columns, offer = self._arms(arms, context)
            revision = durable.agreement.revision
            if digest and (before := durable.store.keyed(digest, revision)):
                return _same_request(key, before, table, arm_ids, asked)
            client, now, first = durable.protocol_client, time.time(), durable.number + 1
            names = client.names(_marks(columns, offer, arm_ids), arm_ids)
            prefix, offered = self._prefix + digest, durable.rules.log == "offered"
            made: list[MadeDecision] = []
            decisions: list[Decision] = []
            left = list(range(len(table)))  # without the arms that the ranking already has
            for index in range(first, first + min(asked.count, len(table))):
                if made:
                    table = np.delete(table, made[-1].decision.arm, axis=0)
                    columns = np.ascontiguousarray(table.T)
                    names = np.delete(names, made[-1].decision.arm) if names.size else names
                # A rule's t is the decision's number, not the shared clock, which any application
                # or agent can put far ahead.
                chosen, proposed = _chosen(durable, columns, names, index, asked, algorithm)
                arm = left[chosen.arm]
                second = None if chosen.runner_up is None else left[chosen.runner_up]
                record = None if offer is None else offer.kept(arm, second, arm_ids)
                pending = PendingDecision(prefix, now, t, chosen.row, record, revision, subject)
                decision = Decision(
                    id=f"{prefix}-{index}",
                    arm=chosen.arm,
                    arm_id=None if arm_ids is None else arm_ids[arm],
                    score=chosen.score,
                    width=without_rounding(chosen.width, chosen.score),
                    propensity=chosen.propensity,
                    model=durable.chooser.adopted,
                    propensity_error=chosen.propensity_error,
                    proposed=proposed,
                )
                records = None
                if offer is not None and offered:
                    records = as_json([offer.arms[k] for k in left])
                made.append(MadeDecision(index, decision, pending, table, records))
                decisions.append(decision if arm == chosen.arm else replace(decision, arm=arm))
                left.remove(arm)
            last, count = first + len(made) - 1, 0 if asked.prefetch else len(made)
            expired = self._expiring(now, count) if count else []
            durable.stale = True
            try:
                if asked.prefetch:
                    rules = durable.rules
                    old = last - rules.max_pending, now - rules.expire_after
                    durable.store.prefetch(made, offered, old)
                else:
                    durable.store.add_decisions(made, expired, offered)
            except sqlite3.Error as error:
                durable.stale = not durable.store.unchanged(first, waits=False)
                durable.oldest = -math.inf  # nothing has expired
                durable.written_at = -math.inf
                if durable.rules.on_full_disk == "raise" or not _is_full(error):
                    raise
                durable.number = last  # the next decision draws another random number
                return tuple(
                    replace(each, id=f"{self._prefix}{_UNKEPT}-{k}", kept=False)
                    for k, each in enumerate(decisions, first)
                )
            durable.number, durable.written_at = last, time.monotonic()
            durable.waiting += count - len(expired)
            durable.oldest = min(durable.oldest, now)
            durable.expired += len(expired)
            durable.stale = False
        self._log_expired(len(expired))
        return tuple(decisions)

    def activate(self, ids: Iterable[str]) -> None:
        """Let prefetched decisions happen now; no effect on those that have happened."""
        parsed = [(id_, *_parse(id_)) for id_ in dict.fromkeys(ids)]
        durable, store = self._durable, self._durable.store
        with durable.locked():
            durable.ready()
            now, numbers = time.time(), []
            for id_, prefix, index in parsed:
                if store.is_prefetched(index, prefix):
                    numbers.append(index)
                elif store.outcome(index, prefix) == "unknown":
                    raise self._refusal(id_, prefix, index)
            if not numbers:
                return
            durable.stale = True
            try:
                store.activate(numbers, now)
            except sqlite3.Error:
                durable.stale = not store.unchanged(numbers[0], waits=False)
                raise
            durable.waiting += len(numbers)
            durable.oldest = min(durable.oldest, now)
            durable.stale = False

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

    def _digest(self, name: str, key: object) -> bytes:
        """Return a keyed digest of an idempotency key or a subject: it does not reveal them."""
        return hashlib.blake2b(
            _checked_key(key, name).encode(), digest_size=12, key=self._key, person=name.encode()
        ).digest()

    def _expiring(self, now: float, count: int) -> list[int]:
        """Return the decisions that new ones make expire: too old, or too many."""
        durable, limit = self._durable, self._durable.rules.expire_after
        excess = durable.waiting + count - durable.rules.max_pending
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
                if self._is_late(prefix, index):
                    return self._learn([], now, [NewReward(index, y)])[1]
                raise self._refusal(id, prefix, index, y)
            if now - pending.made > durable.rules.expire_after:
                durable.stale = True
                durable.store.expire([index])
                durable.waiting -= 1
                durable.expired += 1
                durable.stale = False
                self._log_expired(1)
                raise self._refusal(id, prefix, index)
            client, row = durable.protocol_client, self._row(pending)
            step = pending.t or durable.clock + 1
            durable.stale = True
            try:
                durable.store.add_reward(index, durable.next_sequence, step, y, now)
            except sqlite3.Error:
                durable.stale = not durable.store.unchanged(index, waits=True)
                durable.written_at = -math.inf
                raise
            durable.written_at = time.monotonic()
            durable.waiting -= 1
            durable.numbers.append(durable.next_sequence, step)
            durable.next_sequence += 1
            fires = client.observe_unchecked(row, y, step)
            durable.stale = False
        return step if fires else 0

    def _row(self, pending: PendingDecision) -> FloatArray:
        """Return the row of a decision under the present schema."""
        if pending.revision == self._durable.agreement.revision:
            return pending.row
        assert pending.record is not None  # a change of the schema drops the others
        return as_floats(self._durable.renewed([pending.record], [as_bytes(pending.row)])[0])

    def observe_ranking(
        self, ids: Sequence[str], clicked: Iterable[str]
    ) -> tuple[list[float], int]:
        """Learn from a list that was read from the top: all of it, or nothing.

        Return the rewards that are learned now, and the step as `observe` does.
        """
        durable, store = self._durable, self._durable.store
        rewards = self._of_ranking(ids, clicked)
        with durable.locked():
            durable.ready()
            now, waiting, late = time.time(), [], []
            for (id_, prefix, index), y in rewards:
                pending = store.waiting(index, prefix)
                if pending is not None and now - pending.made <= durable.rules.expire_after:
                    waiting.append((index, pending, y))
                elif pending is None and self._is_late(prefix, index):
                    late.append(NewReward(index, y))
                elif store.outcome(index, prefix) not in ("observed", "unseen"):
                    raise self._refusal(id_, prefix, index)
                elif y != store.reward(index):
                    raise AlreadyObserved(f"decision {id_} already has another reward")
            if not waiting and not late:
                raise AlreadyObserved("this ranking already has its rewards", same=True)
            return self._learn(waiting, now, late)

    def _of_ranking(
        self, ids: Sequence[str], clicked: Iterable[str]
    ) -> list[tuple[tuple[str, str, int], float | None]]:
        """Return the reward of each item of a list; None: nobody saw it."""
        for name, given in (("ids", ids), ("clicked", clicked)):
            if isinstance(given, str):
                raise InvalidInput(name, given, "a list of ids")
        shown, chosen = list(ids), set(clicked)
        if not shown or len(set(shown)) < len(shown):
            raise InvalidInput("ids", shown, "the ids of a ranking's decisions, each once")
        if not chosen <= set(shown):
            other = sorted(map(str, chosen - set(shown)))[0]
            raise InvalidInput("clicked", other, "ids of the ranking, which `ids` has")
        last = max((k for k, id_ in enumerate(shown) if id_ in chosen), default=len(shown))
        check, silent = self._durable.agreement.check_reward, self._durable.rules.default_reward
        click, silence = check(1.0), check(0.0 if silent is None else silent)
        return [
            ((id_, *_parse(id_)), None if k > last else click if id_ in chosen else silence)
            for k, id_ in enumerate(shown)
        ]

    def _learn(
        self,
        found: Sequence[tuple[int, PendingDecision, float | None]],
        now: float,
        late: Sequence[NewReward] = (),
        *,
        default: bool = False,
    ) -> tuple[list[float], int]:
        """Under the lock: write and learn rewards of waiting decisions, all or none.

        `late` ones, of decisions that do not wait, are written and learned soon.
        """
        durable = self._durable
        rewards, rows = self._numbered(found)
        durable.stale = True
        try:
            durable.store.add_rewards(rewards, now, late, default=default)
        except sqlite3.Error:
            number = (*rewards, *late)[0].number
            undone = durable.store.unchanged(number, waits=True)
            durable.stale = bool(rewards) and not undone  # late ones are not in memory
            raise
        durable.waiting -= len(rewards)
        durable.defaulted += len(rewards) if default else 0
        return self._learned(rows, rewards)

    def _numbered(
        self, found: Iterable[tuple[int, PendingDecision, float | None]]
    ) -> tuple[list[NewReward], list[FloatArray]]:
        """Under the lock: number rewards as the next samples; return them and the samples' rows."""
        durable, clock = self._durable, self._durable.clock
        rewards: list[NewReward] = []
        rows: list[FloatArray] = []
        for number, pending, y in found:
            step = sequence = 0
            if y is not None:
                step, sequence = pending.t or clock + 1, durable.next_sequence + len(rows)
                clock = max(clock, step)
                rows.append(self._row(pending))
            rewards.append(NewReward(number, y, sequence, step))
        return rewards, rows

    def _learned(
        self, rows: Sequence[FloatArray], rewards: Sequence[NewReward]
    ) -> tuple[list[float], int]:
        """Under the lock, after the file was written: learn the samples."""
        durable, learned, fired = self._durable, [], 0
        for row, each in zip(rows, (r for r in rewards if r.reward is not None), strict=True):
            assert each.reward is not None
            durable.numbers.append(each.sequence, each.step)
            durable.next_sequence = each.sequence + 1
            if durable.protocol_client.observe_unchecked(row, each.reward, each.step):
                fired = each.step
            learned.append(each.reward)
        durable.stale = False
        return learned, fired

    # -- silence ---------------------------------------------------------------------------------

    def learn_silence(self, most: int) -> tuple[list[float], int]:
        """Learn the default reward of up to so many decisions that waited long enough for one."""
        durable, rules = self._durable, self._durable.rules
        if rules.default_reward is None:
            return [], 0
        with durable.locked():
            durable.ready()
            now = time.time()
            silent = durable.store.silent(now - rules.reward_after, most)
            if not silent:
                return [], 0
            found = [(number, pending, rules.default_reward) for number, pending in silent]
            return self._learn(found, now, default=True)

    def _is_late(self, prefix: str, index: int) -> bool:
        """Return whether a reward may come in place of the default one."""
        late = self._durable.rules.late == "replace" and not self._durable.one_pass
        return late and self._durable.store.defaulted(index, prefix)

    def has_late(self) -> bool:
        """Return whether rewards wait until they replace default ones."""
        with self._durable.locked():
            self._durable.ready()
            return bool(self._durable.store.late())

    def learn_late(self) -> int:
        """Learn late rewards in place of default ones; return the step as `observe` does."""
        with self._durable.long_calls():
            while (fired := self._replaced()) is None:
                pass  # a new model or reward came meanwhile: compute it again
        return fired

    def _replaced(self) -> int | None:
        durable, store = self._durable, self._durable.store
        with durable.locked():
            durable.ready()
            late = store.late()
            if not late:
                return 0
            removal = Removal(durable, list(late))
        removal.compute()
        with durable.locked():
            durable.ready()
            if not removal.holds():
                return None
            found = ((number, store.learned(number), y) for number, y in late.items())
            rewards, rows = self._numbered(found)
            update = removal.withdraws_from
            durable.stale = True
            store.replace(rewards, time.time(), update)
            durable.replaced += len(late)
            removal.install(update is not None)
            return self._learned(rows, rewards)[1]

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
        if outcome == "unseen":
            return AlreadyObserved(f"decision {id} was in a ranking, below the last click")
        if durable.store.is_prefetched(index, prefix):
            return UnknownDecision(f"decision {id} has not happened yet: activate it")
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
        subjects: Sequence[str | None] | None = None,
    ) -> tuple[int, int]:
        """Learn from samples without decisions; return their number, and the step as `observe`.

        A copy learns all samples before any is written: either all are kept or none.
        """
        durable = self._durable
        if key is not None:
            _checked_key(key)
        with durable.long_calls(), durable.locked():
            durable.ready()
            table, rewards, kept, marks = self._checked(X, y, contexts)
            n, arm_ids = len(table), _checked_ids(ids, len(table))
            about = self._subjects(subjects, n)
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
            rows = zip(numbers, steps, learned, rewards.tolist(), kept, named, about, strict=True)
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

    def _subjects(
        self, subjects: Sequence[str | None] | None, count: int
    ) -> Sequence[bytes | None]:
        """Return the digests of the subjects of samples."""
        if subjects is None:
            return [None] * count
        if isinstance(subjects, str) or len(subjects) != count:
            raise InvalidInput("subjects", subjects, f"one for each of {count} samples")
        found: list[bytes | None] = []
        for k, each in enumerate(subjects):
            try:
                found.append(None if each is None else self._digest("subject", each))
            except InvalidInput as error:
                error.path = ("subjects", k)
                raise
        return found

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

    def forget(self, ids: Iterable[str], subject: str | None = None) -> int:
        """Delete decisions and their samples for good; return how many."""
        parsed = [(id_, *_parse(id_)) for id_ in dict.fromkeys(ids)]
        digest = None if subject is None else self._digest("subject", subject)
        with self._durable.long_calls():
            while (count := self._forgotten(parsed, digest)) is None:
                pass  # a new model or reward came meanwhile: compute it again
            while not self._scrubbed():
                time.sleep(_PAUSE)
        return count

    def _forgotten(
        self, parsed: Sequence[tuple[str, str, int]], subject: bytes | None
    ) -> int | None:
        """Delete decisions; None: the state changed meanwhile, and nothing was done."""
        durable, store = self._durable, self._durable.store
        with durable.locked():
            durable.ready()
            numbers = self._to_forget(parsed, subject)
            removal = Removal(durable, numbers)
        removal.compute()
        with durable.locked():
            durable.ready()
            if self._to_forget(parsed, subject) != numbers or not removal.holds():
                return None
            waiting, update = store.count_waiting_of(numbers), removal.withdraws_from
            durable.stale = True
            batches = removal.releases.batches() if durable.one_pass else None
            store.forget(numbers, update, batches)
            durable.waiting -= waiting
            removal.install(update is not None)
            durable.stale = False
        return len(numbers)

    def _to_forget(
        self, parsed: Sequence[tuple[str, str, int]], subject: bytes | None
    ) -> list[int]:
        """Return the numbers of decisions; raise if one does not exist."""
        store = self._durable.store
        for id_, prefix, index in parsed:
            if store.outcome(index, prefix) == "unknown" and not store.is_prefetched(index, prefix):
                raise self._refusal(id_, prefix, index)
        more = [] if subject is None else store.of_subject(subject)
        return sorted({*(index for _, _, index in parsed), *more})

    def _scrubbed(self) -> bool:
        with self._durable.locked():
            self._durable.ready()
            return self._durable.store.scrub()

    def check_writable(self) -> None:
        """Raise SQLite's error if `choose` would, for want of room."""
        durable = self._durable
        durable.check()
        if time.monotonic() - durable.written_at < _RECENT:
            return
        try:
            with durable.locked():
                durable.ready()
                durable.store.try_to_write()
                durable.written_at = time.monotonic()
        except sqlite3.Error as error:
            if durable.rules.on_full_disk == "raise" or not _is_full(error):
                raise

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


def _copied(sums: OwnSums) -> OwnSums:
    made = copy.copy(sums)
    made.matrix, made.vector = sums.matrix.copy(), sums.vector.copy()
    made.tables = sums.tables.copy()
    return made


def without_rounding(width: float, score: float) -> float:
    """Return a width, or 0 where it is below 0 by rounding only; a draw may be below its mean."""
    return 0.0 if -_ROUNDING * max(1.0, abs(score)) <= width < 0.0 else width


def _is_full(error: sqlite3.Error) -> bool:
    """Return whether the disk is full or fails."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _chosen(
    durable: DurableClient,
    columns: FloatArray,
    names: FloatArray,
    index: int,
    asked: Asked,
    algorithm: Algorithm | None,
) -> tuple[Chosen, int | None]:
    """Return the arm that is played, and what the agent would have played if another decided."""
    chosen = decide(durable, columns, index, names, algorithm)
    if asked.played is None:
        return chosen, None
    k, p = asked.played, asked.propensity
    alone = np.ascontiguousarray(columns[:, k : k + 1])
    played = decide(durable, alone, index, names[k : k + 1], algorithm)
    return replace(
        played, arm=k, propensity=math.nan if p is None else p,
        propensity_error=math.nan if p is None else 0.0,
        runner_up=None if chosen.arm == k else chosen.arm,
    ), chosen.arm  # fmt: skip


def _among(left: Sequence[int], decision: Decision) -> Decision:
    """Return a decision whose arms count those that were excluded, too."""
    proposed = None if decision.proposed is None else left[decision.proposed]
    return replace(decision, arm=left[decision.arm], proposed=proposed)


def _same_request(
    key: str | None,
    before: Sequence[tuple[Decision, int, FloatArray | None]],
    arms: FloatArray,
    ids: Sequence[str | int] | None,
    asked: Asked,
) -> tuple[Decision, ...]:
    """Return the decisions with a key; raise if the key belongs to another request."""
    left, d, found = list(range(len(arms))), arms.shape[1], []
    same = len(before) == min(asked.count, len(arms))
    for decision, count, x in before:
        same = same and count == len(left) and decision.arm < len(left)
        same = same and asked.played == (None if decision.proposed is None else decision.arm)
        if not same:
            break
        arm = left.pop(decision.arm)
        same = x is None or np.array_equal(arms[arm], x[:d])
        same = same and decision.arm_id == (None if ids is None else ids[arm])
        found.append(replace(decision, arm=arm))
    if not same:
        raise InvalidInput("key", key, "another key: this one belongs to another request")
    return tuple(found)


def _checked_ids(ids: Sequence[str | int] | None, count: int) -> list[str | int] | None:
    if ids is None:
        return None
    given = [i.item() if isinstance(i, np.generic) else i for i in ids]
    if len(given) != count:
        raise InvalidInput("ids", given, f"one string or whole number for each of {count} arms")
    for k, each in enumerate(given):
        check_id(("ids", k), each)
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


def check_id(argument: str | Place, value: object) -> None:
    """Raise `InvalidInput` if a value cannot be an arm's id."""
    if _is_text(value) or (type(value) is int and abs(value) <= _LARGEST_ID):
        return
    allowed = f"a string of at most {_LONGEST} characters, or a whole number of 64 bits"
    raise InvalidInput(argument, _shown(value), allowed)


def _checked_key(key: object, name: str = "key") -> str:
    if _is_text(key) and key:
        return key
    raise InvalidInput(name, _shown(key), f"a string of 1 to {_LONGEST} characters")


def _is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is a text that is not too long, without halves of characters."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return False
    return value.isascii() or value.encode("utf-8", "replace").decode() == value


def _shown(value: object) -> object:
    too_long = isinstance(value, str) and len(value) > _LONGEST
    return f"{value[:_SHOWN]} …" if too_long else value  # type: ignore[index]


def _parse(id: object) -> tuple[str, int]:  # noqa: A002
    """Return the prefix and the number of a decision's id."""
    if _is_text(id) and id.isascii():
        prefix, dash, index = id.rpartition("-")
        if dash and index.isdigit() and len(index) < 19:
            return prefix, int(index)
    raise UnknownDecision(f"{_shown(id)!r} is not a decision's id; expected the `id` of a Decision")
