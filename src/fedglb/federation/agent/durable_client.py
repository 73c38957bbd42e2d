"""An agent's learner, the application's side: it chooses, learns and forgets, with its file."""

from __future__ import annotations

import math
import os
import secrets
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from fedglb.errors import InvalidInput, arms_in_unit_ball, finite, integer, shaped
from fedglb.federation.agent.decisions import Decision, DecisionRules, draw
from fedglb.federation.agent.store import AgentFile, Pending
from fedglb.federation.agreement import LEAP, Agreement
from fedglb.federation.errors import (
    AlreadyObserved,
    DecisionExpired,
    Unavailable,
    UnknownDecision,
)
from fedglb.kernels.scoring import choose, into_columns
from fedglb.protocol import Client
from fedglb.samples import Samples

LAST_STEP = 2**52  # far, and the steps after it still fit into a message
_LARGEST_ID = 2**63 - 1  # what the file can hold
_SURELY = 1.0 + 1e-9  # an arm with ‖x‖² below is one that `arms_in_unit_ball` lets pass


class Choosing:
    """The client of the protocol, kept in step with its file, behind one lock."""

    def __init__(
        self, name: str, agreement: Agreement, file: AgentFile, rules: DecisionRules
    ) -> None:
        self.name, self.agreement, self.rules = name, agreement, rules
        self._file = file
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._open = True
        self._session = secrets.token_hex(4)
        self._seed = file.seed
        self._setting = agreement.setting
        self._read()

    def _read(self) -> None:
        """Be what the file describes: what the agent was before a crash, to the bit."""
        self._pending = self._file.pending()
        self._number = self._file.last_number()
        self._marks = self._file.marks()
        self._load()
        self._stale = False  # whether the file may have what the memory has not

    def _load(self) -> None:
        """Make the client of the file's samples and its last model."""
        held, dim = self._file.held(), self.agreement.problem.dim
        places, X, y, last_t = self._file.samples(dim)
        self._places = places
        update, mark = max(self._marks.items(), default=(0, None))
        used = [*places[-1:], *(m.sample for m in self._marks.values())]
        self._next = 1 + max([*used, 0 if held is None else held.sample], default=0)
        self.client = Client.from_samples(
            self.name, self.agreement.algorithm, self._setting,
            Samples.over(X, y, len(y)),
            base=None if held is None else held.base,
            adopted=0 if held is None else held.update,
            covered=0 if held is None else bisect_right(places, held.sample),
            update=max(update, 0 if held is None else held.update),
            frozen=0 if mark is None else bisect_right(places, mark.sample),
            last_t=last_t,
        )  # fmt: skip

    def _locked(self) -> threading.Lock:
        """Return the lock; in a forked child, where it may be held for ever, raise."""
        self.check()
        return self._lock

    def _ready(self) -> None:
        """Under the lock: raise if the agent is closed; make up for what was cut short.

        A signal's exception (Ctrl-C) can come between a write and what follows it in memory.
        """
        self.check()
        if self._stale:
            self._file.rollback()
            self._read()

    @property
    def ours(self) -> bool:
        """Whether this is the process that opened the file."""
        return os.getpid() == self._process

    def check(self) -> None:
        """Raise unless the agent can be used here."""
        if os.getpid() != self._process:
            raise Unavailable(
                "this agent belongs to the process that opened it; a forked child opens one of "
                "its own, with a file and a certificate of its own"
            )
        if not self._open:
            raise Unavailable("this agent is closed")

    # -- the application's calls --------------------------------------------------------------

    def choose(
        self, arms: ArrayLike, ids: Sequence[str | int] | None = None, t: int | None = None
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
        scores, widths = np.empty((2, count))
        with self._locked():
            self._ready()
            client, now = self.client, time.time()
            alpha, chosen_by = client.alpha, client.state
            arm = choose(columns, chosen_by.centre, chosen_by.inverse, alpha, scores, widths)
            share, index = self.rules.explore, self._number + 1
            best = arm
            if share > 0.0:
                first, second = draw(self._seed, index)
                arm = int(second * count) if first < share else best
            pending = Pending(self._session, now, t, table[arm].copy())
            decision = Decision(
                id=f"{self._session}-{index}",
                arm=int(arm),
                arm_id=None if arm_ids is None else arm_ids[arm],
                score=float(scores[arm]),
                width=float(alpha * math.sqrt(max(widths[arm], 0.0))),
                propensity=share / count + (1.0 - share if arm == best else 0.0),
                model=client.adopted,
            )
            expired = self._expired(now, self.rules.most_pending - 1)
            self._stale = True
            self._file.decide(index, decision, pending, count, expired)
            self._number = index
            for number_ in expired:
                del self._pending[number_]
            self._pending[index] = pending
            self._stale = False
        return decision

    def _expired(self, now: float, most: int) -> list[int]:
        """Return the decisions whose time is over: too old, or not among the `most` newest."""
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
        session, index = _parse(id)
        with self._locked():
            self._ready()
            now = time.time()
            pending = self._pending.get(index)
            if pending is None or pending.session != session:
                raise self._refusal(id, session, index)
            if now - pending.made > self.rules.expire_after:
                self._stale = True
                self._file.expire([index])
                del self._pending[index]
                self._stale = False
                raise self._refusal(id, session, index)
            client = self.client
            step = pending.t or self._clock() + 1
            self._stale = True
            self._file.reward(index, self._next, step, y, now)
            del self._pending[index]
            self._places.append(self._next)
            self._next += 1
            wanted = client.observe_unchecked(pending.x, y, step)
            self._stale = False
        return step if wanted else 0

    def _clock(self) -> int:
        """Return the newest step that the agent knows of: its own or the shared model's."""
        return min(max(self.client.last_t, self.client.state.t_last), LAST_STEP)

    def _refusal(self, id: str, session: str, index: int) -> Exception:  # noqa: A002
        outcome = self._file.outcome(index, session)
        if outcome == "observed":
            return AlreadyObserved(f"decision {id} has its reward already; a second is refused")
        if outcome == "expired":
            return DecisionExpired(
                f"decision {id} has expired: it waited longer than expire_after = "
                f"{self.rules.expire_after:g} s, or most_pending = {self.rules.most_pending} "
                "newer ones were waiting"
            )
        return UnknownDecision(f"there is no decision {id} in {self._file.path}")

    def forget(self, ids: Iterable[str]) -> None:
        """Delete decisions and their samples for good."""
        pairs = [(id_, *_parse(id_)) for id_ in dict.fromkeys(ids)]
        with self._locked():
            self._ready()
            for id_, session, index in pairs:
                if self._file.outcome(index, session) == "unknown":
                    raise self._refusal(id_, session, index)
            numbers = [index for _, _, index in pairs]
            learned = self._file.places(numbers)
            update = self.client.update
            mark = self._marks.get(update)
            withdraws = (
                update > self.client.adopted
                and mark is not None
                and any(place <= mark.sample for place in learned)
            )
            self._stale = True
            self._file.forget(numbers, update if withdraws else None)
            self._read()
            self._file.scrub()

    def export(self) -> pl.DataFrame:
        """Return the log of decisions."""
        with self._locked():
            self._ready()
            return self._file.frame()

    def close(self) -> None:
        """Close the file; harmless if it is closed."""
        if not self.ours:
            return  # a child has nothing to close
        with self._lock:
            if self._open:
                self._open = False
                self._file.close()


def _checked_ids(ids: Sequence[str | int] | None, count: int) -> list[str | int] | None:
    if ids is None:
        return None
    given = [i.item() if isinstance(i, np.generic) else i for i in ids]
    if len(given) != count or not all(_is_id(i) for i in given):
        raise InvalidInput("ids", given, f"one string or whole number for each of {count} arms")
    return given


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() == value  # no half of a pair
    return type(value) is int and abs(value) <= _LARGEST_ID


def _parse(id: object) -> tuple[str, int]:  # noqa: A002
    if isinstance(id, str):
        session, dash, index = id.rpartition("-")
        if dash and index.isascii() and index.isdigit() and len(index) < 19:
            return session, int(index)
    raise UnknownDecision(f"{id!r} is no decision's id; give the `id` of a Decision")
