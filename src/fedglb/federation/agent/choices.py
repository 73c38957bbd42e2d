"""Choosing arms: single ones, rankings, decisions ahead of time, previews."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedglb.algorithms import Algorithm
from fedglb.errors import InvalidInput, arms_in_unit_ball, finite, integer, shaped
from fedglb.features.encode import Record
from fedglb.federation.agent.calls import UNKEPT, Calls, is_full
from fedglb.federation.agent.decisions import ONE, Asked, Decision
from fedglb.federation.agent.durable_client import LAST_STEP, DurableClient
from fedglb.federation.agent.explain import PreviewedArm, previewed
from fedglb.federation.agent.frozen import decide, exploring
from fedglb.federation.agent.ids import checked_ids, parse_ids
from fedglb.federation.agent.records import Offer, as_json, is_records
from fedglb.federation.agent.store import MadeDecision, PendingDecision
from fedglb.federation.agreement import LEAP
from fedglb.kernels.scoring import into_columns
from fedglb.protocol.learner import Chosen
from fedglb.typing import FloatArray

_AT_ONCE = 100  # maximum decisions that expire in one call: millions would take seconds
_ROUNDING = 1e-12  # of a width, relative to its score
_SURELY = 1.0 + 1e-9  # `arms_in_unit_ball` accepts every arm with ‖x‖² below this


class Choices(Calls):
    """The calls that choose; any thread may make them."""

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
        arm_ids = checked_ids(ids, len(table))
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
                if durable.rules.on_full_disk == "raise" or not is_full(error):
                    raise
                durable.number = last  # the next decision draws another random number
                return tuple(
                    replace(each, id=f"{self._prefix}{UNKEPT}-{k}", kept=False)
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
        parsed = parse_ids("ids", ids)
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
                durable.written_at = -math.inf
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
            arm_ids = checked_ids(ids, len(table))
            client = self._durable.protocol_client
            marks = _marks(columns, offer, arm_ids)
            names = client.names(marks, arm_ids) if arm_ids else client.known_names(marks)
            where = range(len(table)) if left is None else left
            return previewed(self._durable, columns, names, where, arm_ids)


def without_rounding(width: float, score: float) -> float:
    """Return a width, or 0 where it is below 0 by rounding only; a draw may be below its mean."""
    return 0.0 if -_ROUNDING * max(1.0, abs(score)) <= width < 0.0 else width


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
