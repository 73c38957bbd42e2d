"""Rate limits for clients: token buckets, checked before a message is decoded."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from fedglb.federation.wire.codec import kind_of

_BUCKETS = {
    "Hello": "hello", "Heartbeat": "heartbeat", "SyncRequest": "sync_request",
    "Covariance": "answer", "ModelSums": "answer", "Derivatives": "answer", "BatchSums": "answer",
    "SumReady": "answer", "MaskedSum": "answer", "Consent": "answer",
}  # fmt: skip
_BYTES = "bytes"
#: A client floods if more is dropped per second, where each message counts as one and one more for
#: every 8 KiB. Dropping up to that costs less than a few per cent of a core.
_FLOOD, _PIECE, _WINDOW = 800.0, 8192, 0.25


@dataclass(frozen=True)
class Rate:
    """A token bucket: `burst` at once, `per_second` in the long run."""

    per_second: float
    burst: int


@dataclass(frozen=True)
class Rates:
    """The rate limits by kind of message; messages above them are dropped unread.

    An agent sends one heartbeat every two seconds, one hello per connection and a few requests per
    update: these defaults are a hundred times higher.
    """

    hello: Rate = Rate(20.0, burst=100)
    heartbeat: Rate = Rate(20.0, burst=200)
    sync_request: Rate = Rate(20.0, burst=100)
    answer: Rate = Rate(1.0, burst=100)  # plus one per request sent
    others: Rate = Rate(10.0, burst=100)  # also payloads that are not messages
    #: Bytes of all messages together, plus the answer's size per request sent.
    bytes: Rate = Rate(1024.0 * 1024.0, burst=4 * 1024 * 1024)


@dataclass
class _Bucket:
    """A bucket's tokens, and the time of that count."""

    rate: Rate
    tokens: float
    at: float

    def refill(self, now: float) -> None:
        if now > self.at:
            added = (now - self.at) * self.rate.per_second
            # grants above the burst stay
            self.tokens = max(self.tokens, min(float(self.rate.burst), self.tokens + added))
            self.at = now

    def take(self, amount: float, now: float) -> bool:
        self.refill(now)
        if self.tokens < amount:
            return False
        self.tokens -= amount
        return True

    def grant(self, amount: float, now: float) -> None:
        self.refill(now)
        # bounded: requests to a silent client are repeated
        self.tokens = min(self.tokens + amount, self.rate.burst + 4.0 * amount)


@dataclass
class _Client:
    """One client's buckets, and its dropped messages since the last report."""

    buckets: dict[str, _Bucket] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    reported: float | None = None


class RateLimiter:
    """Decides which payloads are read; the largest answer has `answer_size` bytes."""

    def __init__(self, rates: Rates, answer_size: int) -> None:
        self._rates, self._answer_size = rates, answer_size
        self._clients: defaultdict[str, _Client] = defaultdict(_Client)
        self._unreported: set[str] = set()
        self._recent: Counter[str] = Counter()  # cost of messages dropped since `_since`
        self._since = 0.0
        #: Number of dropped messages per client since the coordinator started.
        self.dropped: Counter[str] = Counter()

    def admits(self, client: str, payload: bytes, now: float) -> bool:
        """Return whether to read this payload; if not, count it.

        Called for every payload on arrival; costs some microseconds.
        """
        size = len(payload)
        if not self._take(client, _BYTES, size, size, now):
            return False
        return self._take(client, _BUCKETS.get(kind_of(payload) or "", "others"), 1, size, now)

    def _take(self, client: str, name: str, amount: float, size: int, now: float) -> bool:
        taken = self._bucket(client, name, now).take(amount, now)
        if not taken:
            self.count(client, name, size)
        return taken

    def grant(self, client: str, now: float) -> None:
        """Allow one more answer, for a request sent to the client."""
        self._bucket(client, "answer", now).grant(1, now)
        self._bucket(client, _BYTES, now).grant(self._answer_size, now)

    def count(self, client: str, why: str, size: int = 0) -> None:
        """Count a dropped message of this size."""
        self._recent[client] += 1 + size // _PIECE
        self._clients[client].dropped[why] += 1
        self.dropped[client] += 1
        self._unreported.add(client)

    def floods(self, now: float) -> list[str]:
        """Return the clients whose messages are too many even to drop them."""
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
            state = self._clients[client]
            if state.reported is None or now - state.reported >= pause:
                out.append((client, dict(state.dropped)))
                state.dropped, state.reported = Counter(), now
                self._unreported.discard(client)
        return out

    def _bucket(self, client: str, name: str, now: float) -> _Bucket:
        buckets = self._clients[client].buckets
        if name not in buckets:
            rate: Rate = getattr(self._rates, name)
            buckets[name] = _Bucket(rate, float(rate.burst), now)
        return buckets[name]
