"""FedGLB-UCB₃: one online Newton step a global update."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, LazyONS
from fedglb.global_update import OnsStep
from fedglb.lazy_rate import LazyRate
from fedglb.local_update import LazyOns
from fedglb.trigger import Schedule


def fedglb_ucb_3(
    updates: int,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    batch_limit: int | None = None,
) -> Algorithm:
    """Variant 3: online Newton steps, on own samples and on the batch of all at an update.

    Parameters
    ----------
    updates
        B ≤ T, the number of global updates.
    batch_limit
        The most samples in one update; None: N⌊T/B⌋, what the schedule gives.
    exploration, ridge, delta, confidence
        As in `fedglb_ucb`.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb_3(updates=20).name
    'FedGLB-UCB3'
    """
    rate = LazyRate(updates, batch_limit)
    return Algorithm(
        name="FedGLB-UCB3",
        local_update=LazyOns(rate),
        global_update=OnsStep(rate),
        trigger=Schedule(updates),
        confidence=LazyONS(rate) if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
