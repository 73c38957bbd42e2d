"""One-UCB-GLM: the centralised baseline, refitted after every interaction."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, OwnModel
from fedglb.local_update import Mle
from fedglb.trigger import Never


def one_ucb_glm(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    tolerance: float | None = None,
) -> Algorithm:
    """One learner that sees every client's samples and fits them exactly after each.

    It needs no messages; its ledger has the paper's count, one transfer to every client after
    every interaction.

    Parameters
    ----------
    tolerance
        ε with F(θ) − min F ≤ ε after every sample; None: 1/n². A smaller one takes more passes
        over the samples and makes the radius smaller, which pays for what the fit is off.
    exploration, ridge, delta, confidence
        As in `fedglb_ucb`.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.one_ucb_glm().centralised
    True
    """
    return Algorithm(
        name="One-UCB-GLM",
        local_update=Mle(tolerance),
        global_update=None,
        trigger=Never(),
        confidence=OwnModel() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        centralised=True,
    )
