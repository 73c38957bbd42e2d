"""N-ONS-GLM: every client alone, by online Newton steps."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, FedGLB
from fedglb.local_update import Ons
from fedglb.trigger import Never


def n_ons_glm(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
) -> Algorithm:
    """N learners that never speak, each learning by online Newton steps.

    Parameters as in `fedglb_ucb`, which it equals with an infinite threshold.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ons_glm().global_update is None
    True
    """
    return Algorithm(
        name="N-ONS-GLM",
        local_update=Ons(),
        global_update=None,
        trigger=Never(),
        confidence=FedGLB() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
