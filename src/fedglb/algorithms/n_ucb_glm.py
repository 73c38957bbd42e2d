"""N-UCB-GLM: every client alone, refitted after every interaction."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, OwnModel
from fedglb.local_update import Mle
from fedglb.trigger import Never


def n_ucb_glm(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    tolerance: float | None = None,
) -> Algorithm:
    """N learners that never speak, each fitting its own samples exactly.

    Parameters as in `one_ucb_glm`.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ucb_glm().trigger
    Never()
    """
    return Algorithm(
        name="N-UCB-GLM",
        local_update=Mle(tolerance),
        global_update=None,
        trigger=Never(),
        confidence=OwnModel() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
