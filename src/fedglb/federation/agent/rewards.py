"""Learning: rewards, clicks on rankings, silence and what comes late, samples of the past."""

from __future__ import annotations

import copy
import math
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedglb.errors import InvalidInput, arms_in_unit_ball, array
from fedglb.features.encode import Record
from fedglb.federation.agent.calls import Calls
from fedglb.federation.agent.durable_client import LAST_STEP
from fedglb.federation.agent.ids import checked_ids, checked_key, parse_id, parse_ids
from fedglb.federation.agent.records import encoded_rows, is_records, marks_of
from fedglb.federation.agent.removal import Removal
from fedglb.federation.agent.store import NewReward, PendingDecision
from fedglb.federation.errors import AlreadyObserved
from fedglb.protocol.own_sums import OwnSums
from fedglb.samples import Samples
from fedglb.typing import FloatArray


class Rewards(Calls):
    """The calls that learn; any thread may make them."""

    def observe(self, id: str, reward: float) -> int:  # noqa: A002
        """Learn from a decision's reward; return the step if the trigger fires, or 0."""
        durable = self._durable
        y = durable.agreement.check_reward(reward)
        prefix, index = parse_id(id)
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
            return self._learn([(index, pending, y)], now)[1]

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
        parsed = parse_ids("ids", ids)
        shown = [id_ for id_, *_ in parsed]
        chosen = {id_ for id_, *_ in parse_ids("clicked", clicked)}
        if not shown or len(shown) < len(ids):
            raise InvalidInput("ids", ids, "the ids of a ranking's decisions, each once")
        if not chosen <= set(shown):
            other = min(chosen - set(shown))
            raise InvalidInput("clicked", other, "ids of the ranking, which `ids` has")
        last = max((k for k, id_ in enumerate(shown) if id_ in chosen), default=len(shown))
        check, silent = self._durable.agreement.check_reward, self._durable.rules.default_reward
        click, silence = check(1.0), check(0.0 if silent is None else silent)
        return [
            (each, None if k > last else click if each[0] in chosen else silence)
            for k, each in enumerate(parsed)
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
        durable, now = self._durable, self._durable.dated(now)
        rewards = self._numbered(found)
        durable.stale = True
        try:
            durable.store.add_rewards(rewards, now, late, default=default)
        except sqlite3.Error:
            number = (*rewards, *late)[0].number
            undone = durable.store.unchanged(number, waits=True)
            durable.stale = bool(rewards) and not undone  # late ones are not in memory
            durable.written_at = -math.inf
            raise
        durable.written_at = time.monotonic()
        durable.waiting -= len(rewards)
        durable.defaulted += len(rewards) if default else 0
        return self._learned(rewards, now)

    def _numbered(
        self, found: Iterable[tuple[int, PendingDecision, float | None]]
    ) -> list[NewReward]:
        """Under the lock: number rewards as the next samples."""
        clock, sequence = self._durable.clock, self._durable.next_sequence
        rewards = []
        for number, pending, y in found:
            if y is None:
                rewards.append(NewReward(number, None))
                continue
            step = pending.t or clock + 1
            rewards.append(NewReward(number, y, sequence, step, self._row(pending)))
            clock, sequence = max(clock, step), sequence + 1
        return rewards

    def _learned(self, rewards: Sequence[NewReward], now: float) -> tuple[list[float], int]:
        """Under the lock, after the file was written: learn the samples of this time."""
        durable, learned, fired = self._durable, [], 0
        for _, reward, sequence, step, row in rewards:
            if reward is None or row is None:
                continue
            durable.numbers.append(sequence, step)
            durable.next_sequence = sequence + 1
            if durable.protocol_client.observe_unchecked(row, reward, step, now):
                fired = step
            learned.append(reward)
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
            rewards, now = self._numbered(found), durable.dated(time.time())
            update = removal.withdraws_from
            durable.stale = True
            store.replace(rewards, now, update, removal.model)
            durable.replaced += len(late)
            removal.install(update is not None)
            return self._learned(rewards, now)[1]

    # -- samples of the past ---------------------------------------------------------------------

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
            checked_key(key)
        with durable.long_calls(), durable.locked():
            durable.ready()
            table, rewards, kept, marks = self._checked(X, y, contexts)
            n, arm_ids = len(table), checked_ids(ids, len(table))
            about = self._subjects(subjects, n)
            known = None if key is None else durable.store.absorbed(key)
            if known not in (None, n):
                allowed = f"another key: {known} samples were absorbed under this one, not {n}"
                raise InvalidInput("key", key, allowed)
            if known is not None or n == 0:
                return 0, 0
            client, clock, begin = durable.protocol_client, durable.clock, durable.next_sequence
            first, learned = len(durable.numbers), client.rows(table, arm_ids, marks)
            now = durable.dated(time.time())
            samples = Samples.over(
                np.concatenate([client.samples.X, learned]),
                np.concatenate([client.samples.y, rewards]),
                first + n,
                np.concatenate([client.samples.at, np.full(n, now)]),
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
                durable.number + 1, self._prefix, now, client.adopted,
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


def _copied(sums: OwnSums) -> OwnSums:
    made = copy.copy(sums)
    made.matrix, made.vector = sums.matrix.copy(), sums.vector.copy()
    made.tables = sums.tables.copy()
    return made
