"""What the application's calls share: digests of names, refusals, the row of a decision."""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import sqlite3
import time

from fedglb.federation.agent.durable_client import DurableClient
from fedglb.federation.agent.ids import checked_key
from fedglb.federation.agent.store import PendingDecision
from fedglb.federation.agent.update_store import as_bytes, as_floats
from fedglb.federation.errors import AlreadyObserved, DecisionExpired, UnknownDecision
from fedglb.typing import FloatArray

log = logging.getLogger(__name__)

UNKEPT = "-unkept"  # in the id of a decision that is not in the file
_LOG_EVERY = 60.0  # seconds between two log lines about expired decisions


class Calls:
    """The base of the application's calls on a `DurableClient`."""

    def __init__(self, durable: DurableClient) -> None:
        self._durable = durable
        self._prefix = secrets.token_hex(4)  # of this object's decision ids
        self._key = durable.store.seed  # of the digests of idempotency keys
        self._unlogged, self._logged_at = 0, -math.inf  # decisions that expired since the last line

    def _digest(self, name: str, key: object) -> bytes:
        """Return a keyed digest of an idempotency key or a subject: it does not reveal them."""
        return hashlib.blake2b(
            checked_key(key, name).encode(), digest_size=12, key=self._key, person=name.encode()
        ).digest()

    def _row(self, pending: PendingDecision) -> FloatArray:
        """Return the row of a decision under the present schema."""
        if pending.revision == self._durable.agreement.revision:
            return pending.row
        assert pending.record is not None  # a change of the schema drops the others
        return as_floats(self._durable.renewed([pending.record], [as_bytes(pending.row)])[0])

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

    def _refusal(
        self,
        id: str,  # noqa: A002
        prefix: str,
        index: int,
        reward: float | None = None,
    ) -> Exception:
        """Return the error for a decision that does not wait for a reward."""
        durable = self._durable
        if prefix.endswith(UNKEPT):
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


def is_full(error: sqlite3.Error) -> bool:
    """Return whether the disk is full or fails."""
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
