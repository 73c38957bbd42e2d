"""FedGLB-UCB₂: a schedule instead of the event trigger."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, FedGLB
from fedglb.global_update import AGD, GlobalUpdate
from fedglb.local_update import Ons
from fedglb.trigger import Schedule


def fedglb_ucb_2(
    updates: int,
    solver: GlobalUpdate | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    b_rule: str = "refit",
) -> Algorithm:
    """Variant 2: online Newton steps between `updates` = B ≤ T scheduled fits.

    The other parameters are those of `fedglb_ucb`.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb_2(updates=20).local_update
    Ons(b_rule='refit')
    """
    return Algorithm(
        name="FedGLB-UCB2",
        local_update=Ons(b_rule),
        global_update=AGD() if solver is None else solver,
        trigger=Schedule(updates),
        confidence=FedGLB() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
