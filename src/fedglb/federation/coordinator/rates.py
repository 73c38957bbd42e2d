"""How much a client may send: token buckets, looked at before a message is decoded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fedglb.errors import integer, number
from fedglb.federation.wire.codec import kind_of

#: Answers to requests: a client may send one for each request that it was sent.
_ANSWERS = frozenset(
    {"Covariance", "ModelSums", "Derivatives", "BatchSums", "SumReady", "MaskedSum", "Consent"}
)
_BYTES = "bytes"
_OTHERS = "others"
#: A client floods if more of it is dropped: per second, where each message counts as one and one
#: more for every 8 KiB. It costs less than a few per cent of a core up to there.
_FLOOD, _PIECE, _WINDOW = 800.0, 8192, 0.25


@dataclass(frozen=True)
class Rate:
    """A token bucket: `burst` at once, `per_second` in the long run."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        number("per_second", self.per_second, above=0.0)
        integer("burst", self.burst)


@dataclass(frozen=True)
class Rates:
    """What each client may send, by kind of message; more is dropped unread.

    An agent says one heartbeat every two seconds, one hello per connection and a few requests per
    update: these defaults leave it a hundredfold.

    Parameters
    ----------
    hello, heartbeat, sync_request
        Messages of these kinds.
    answer
        Answers (Covariance, ModelSums, BatchSums, Derivatives) beyond those that were asked for:
        every request that is sent allows one more.
    others
        Messages of any other kind, and payloads that are no message.
    bytes
        The size of all messages together; every request that is sent allows its answer's size.
    """

    hello: Rate = Rate(20.0, burst=100)
    heartbeat: Rate = Rate(20.0, burst=200)
    sync_request: Rate = Rate(20.0, burst=100)
    answer: Rate = Rate(1.0, burst=100)
    others: Rate = Rate(10.0, burst=100)
    bytes: Rate = Rate(1024.0 * 1024.0, burst=4 * 1024 * 1024)

    def of(self, kind: str) -> tuple[str, Rate]:
        """Return the bucket's name and its rate, for a message of this kind."""
        name = "answer" if kind in _ANSWERS else _FIELDS.get(kind, _OTHERS)
        return name, getattr(self, name)


_FIELDS = {"Hello": "hello", "Heartbeat": "heartbeat", "SyncRequest": "sync_request"}


@dataclass
class _Bucket:
    """How many tokens a bucket has, and when that was so."""

    tokens: float
    at: float

    def refill(self, rate: Rate, now: float) -> None:
        if now > self.at:
            added = (now - self.at) * rate.per_second
            # what was granted above the burst stays
            self.tokens = max(self.tokens, min(float(rate.burst), self.tokens + added))
            self.at = now

    def take(self, rate: Rate, amount: float, now: float) -> bool:
        self.refill(rate, now)
        if self.tokens < amount:
            return False
        self.tokens -= amount
        return True


@dataclass
class _Client:
    """One client's buckets, and what was dropped of it since the last report."""

    buckets: dict[str, _Bucket] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    reported: float | None = None


class RateLimiter:
    """Decides which payloads are read at all.

    Parameters
    ----------
    rates
        What each client may send.
    answer_size
        The size in bytes of the largest answer to a request.
    """

    def __init__(self, rates: Rates, answer_size: int) -> None:
        self._rates, self._answer_size = rates, answer_size
        self._clients: dict[str, _Client] = {}
        self._unreported: set[str] = set()
        self._recent: Counter[str] = Counter()  # dropped since `_since`, by what it costs
        self._since = 0.0
        #: How many messages were dropped, per client, since the coordinator started.
        self.dropped: Counter[str] = Counter()

    def admits(self, client: str, payload: bytes, now: float) -> bool:
        """Return whether to read this payload; if not, it is counted."""
        bytes_ = self._bucket(client, _BYTES, self._rates.bytes, now)
        if not bytes_.take(self._rates.bytes, len(payload), now):
            self.count(client, _BYTES, len(payload))
            return False
        name, rate = self._rates.of(kind_of(payload) or "")
        if not self._bucket(client, name, rate, now).take(rate, 1.0, now):
            self.count(client, name, len(payload))
            return False
        return True

    def grant(self, client: str, now: float) -> None:
        """Allow one more answer: the client is sent a request."""
        answer, size = self._rates.answer, self._rates.bytes
        for name, rate, amount in (("answer", answer, 1), (_BYTES, size, self._answer_size)):
            bucket = self._bucket(client, name, rate, now)
            bucket.refill(rate, now)
            # not without end: requests to a client that is silent are repeated
            bucket.tokens = min(bucket.tokens + amount, rate.burst + 4.0 * amount)

    def count(self, client: str, why: str, size: int = 0) -> None:
        """Count a message of this size that was dropped."""
        self._recent[client] += 1 + size // _PIECE
        self._of(client).dropped[why] += 1
        self.dropped[client] += 1
        self._unreported.add(client)

    def floods(self, now: float) -> list[str]:
        """Return the clients that send so much that even dropping it costs too much."""
        elapsed = now - self._since
        if elapsed < _WINDOW:
            return []
        found = sorted(c for c, cost in self._recent.items() if cost > _FLOOD * min(elapsed, 1.0))
        self._recent, self._since = Counter(), now
        return found

    def reports(self, now: float, pause: float) -> list[tuple[str, dict[str, int]]]:
        """Return the clients with dropped messages and counts by kind, each once per `pause`."""
        out = []
        for client in sorted(self._unreported):
            state = self._of(client)
            if state.reported is None or now - state.reported >= pause:
                out.append((client, dict(state.dropped)))
                state.dropped, state.reported = Counter(), now
                self._unreported.discard(client)
        return out

    def _of(self, client: str) -> _Client:
        found = self._clients.get(client)
        if found is None:
            found = self._clients[client] = _Client()
        return found

    def _bucket(self, client: str, name: str, rate: Rate, now: float) -> _Bucket:
        buckets = self._of(client).buckets
        found = buckets.get(name)
        if found is None:
            found = buckets[name] = _Bucket(float(rate.burst), now)
        return found
