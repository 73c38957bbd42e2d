"""How long a coordinator waits for its clients, and what it allows them."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedglb.errors import integer, number
from fedglb.federation.coordinator.rates import Rates
from fedglb.federation.coordinator.weights import WeightRule


@dataclass(frozen=True)
class Policy:
    """How long a coordinator waits for its clients, and what it allows them.

    Parameters
    ----------
    quorum
        How many clients an update needs, from its start to its end.
    max_samples
        How many samples a client may claim to have; None: as `weights` says. An update weights
        clients by their samples, so a client that may claim any number can outweigh all others.
    time_limit
        Seconds per answer; then the update goes on without the client.
    absent_after
        Seconds of silence after which a client counts as absent.
    resend
        Seconds without any answer after which a request is sent again; doubled each time, up to
        four seconds.
    grace
        Seconds that a restarted coordinator waits for the clients that were present before, until
        it starts an update: a new one, or again the one that the crash interrupted.
    min_interval
        Seconds from the start of an update to the start of the next, at least. A request that
        comes earlier waits. The command's default is a second.
    rates
        How many messages a client may send; what is above is dropped unread.
    weights
        How many samples a client may have beside the others, where there is no `max_samples`.
    """

    quorum: int = 1
    time_limit: float = 30.0
    absent_after: float = 10.0
    max_samples: int | None = None
    resend: float = 0.25
    grace: float = 10.0
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
