"""DisLinUCB (Wang et al., 2019): federated linear bandits."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, Linear
from fedglb.global_update import ClosedForm
from fedglb.local_update import Ridge
from fedglb.trigger import Event


def dislinucb(
    threshold: float,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
) -> Algorithm:
    """Ridge regression at the clients, sums of A and b over all when one client's data asks.

    Parameters as in `fedglb_ucb`; the link plays no part.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.dislinucb(threshold=1.0).global_update
    ClosedForm()
    """
    return Algorithm(
        name="DisLinUCB",
        local_update=Ridge(),
        global_update=ClosedForm(),
        trigger=Event(threshold),
        confidence=Linear() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
