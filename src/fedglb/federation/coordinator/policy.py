"""A coordinator's time limits and limits for clients."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from fedglb.errors import integer, number
from fedglb.federation.coordinator.rates import Rates

_JUMP, _SMALL = 10, 1000  # a jump: over 10 times as many samples, and over 1000 more


@dataclass(frozen=True)
class WeightRule:
    """No client has more samples in an update than `times` × the median client, or `floor`.

    An update weights clients by their number of samples, which cannot be verified. A client above
    the limit is left out, not scaled down: scaled sums are not sums over samples, so the proofs for
    the fit and the confidence sets would not hold.
    """

    times: int = 20
    floor: int = 1000  # a new federation has a small median
    clients: int = 3  # minimum number with samples for a median

    def typical(self, samples: Iterable[int], before: int) -> int:
        """Return the median of the clients that have samples, but no less than `before`.

        The largest median of all updates counts: new clients do not make an old one overweight.
        """
        some = [n for n in samples if n > 0]
        return max(before, statistics.median_low(some) if len(some) >= self.clients else 0)

    def limit(self, samples: Iterable[int], typical: int) -> int | None:
        """Return the maximum samples per client, given these claims; None: no limit.

        `typical` is the result of that method for the update before.
        """
        median = self.typical(samples, typical)
        return None if not median else max(self.floor, int(self.times * median))


def remark(client: str, before: int, now: int) -> str | None:
    """Return a remark if a client's number of samples fell or jumped since its last answer."""
    both = f"{client} has {now} samples, before {before}"
    if now < before:
        return f"{both}: some were forgotten, or an old backup was restored"
    if now > _JUMP * before and now - before > _SMALL:
        return f"{both} at its last update: a jump"
    return None


@dataclass(frozen=True)
class CoordinatorPolicy:
    """The limits of a coordinator; times are in seconds."""

    quorum: int = 1  # minimum number of clients in an update, from start to end
    time_limit: float = 30.0  # per answer; then the client is left out
    absent_after: float = 10.0  # without a message, a client counts as absent
    max_samples: int | None = None  # maximum that a client may claim; None: by `weights`
    resend: float = 0.25  # without any answer, a request is sent again; doubled each time, up to 4
    #: Time for clients to come back after a restart of the coordinator, before it starts an update:
    #: a new one, or again the one that the crash interrupted.
    grace: float = 10.0
    #: Between the starts of two updates; earlier requests wait. The command's default is 1.
    min_interval: float = 0.0
    rates: Rates = field(default_factory=Rates)
    weights: WeightRule = field(default_factory=WeightRule)

    def __post_init__(self) -> None:
        integer("quorum", self.quorum)
        if self.max_samples is not None:
            integer("max_samples", self.max_samples)
        for name in ("time_limit", "absent_after", "resend", "grace"):
            number(name, getattr(self, name), above=0.0)
        number("min_interval", self.min_interval, at_least=0.0)
