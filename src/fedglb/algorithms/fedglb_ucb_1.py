"""FedGLB-UCB₁: a schedule, and no learning between global updates."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, GlobalModel
from fedglb.global_update import AGD, GlobalUpdate
from fedglb.local_update import Frozen
from fedglb.trigger import Schedule


def fedglb_ucb_1(
    updates: int,
    solver: GlobalUpdate | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
) -> Algorithm:
    """Variant 1: clients play the last global model; `updates` is B ≤ T.

    The other parameters are those of `fedglb_ucb`.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb_1(updates=20).trigger
    Schedule(updates=20)
    """
    return Algorithm(
        name="FedGLB-UCB1",
        local_update=Frozen(),
        global_update=AGD() if solver is None else solver,
        trigger=Schedule(updates),
        confidence=GlobalModel() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
