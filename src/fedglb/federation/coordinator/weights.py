"""How much one client may weigh in an update: a multiple of what the median client does.

An update weights clients by their number of samples, which cannot be verified. A client above the
limit is left out, not scaled down: scaled sums are the sums of no samples, so neither the fit nor
the confidence sets would be what is proven of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedglb.errors import integer, number

_JUMP, _SMALL = 10, 1000  # a jump: over 10 times as many samples, and over 1000 more


@dataclass(frozen=True)
class WeightRule:
    """No client has more samples in an update than `times` the median client.

    Parameters
    ----------
    times
        The multiple.
    floor
        So many samples are allowed in any case: a new federation has a small median.
    clients
        So many clients with samples make a median, at least.
    """

    times: int = 20
    floor: int = 1000
    clients: int = 3

    def __post_init__(self) -> None:
        number("times", self.times, at_least=1.0)
        integer("floor", self.floor, at_least=0)
        integer("clients", self.clients, at_least=3)

    def typical(self, samples: Iterable[int], before: int) -> int:
        """Return the median of the clients that have samples, but no less than `before`.

        The largest median of all updates counts: clients that are new do not make one too heavy
        that was not so before.
        """
        some = [n for n in samples if n > 0]
        return max(before, statistics.median_low(some) if len(some) >= self.clients else 0)

    def limit(self, samples: Mapping[str, int], typical: int) -> int | None:
        """Return how many samples a client may have; None: any number.

        Parameters
        ----------
        samples
            What the clients of an update claim to have.
        typical
            What `typical` returned for the update before.
        """
        median = self.typical(samples.values(), typical)
        return None if not median else max(self.floor, int(self.times * median))


def remark(client: str, before: int, now: int) -> str | None:
    """Return a remark if a client's number of samples fell or jumped since its last answer."""
    both = f"{client} has {now} samples and had {before}"
    if now < before:
        return f"{both}: some were forgotten, or an old backup was restored"
    if now > _JUMP * before and now - before > _SMALL:
        return f"{both} at its last update: a jump"
    return None
