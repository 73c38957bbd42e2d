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
    """N-UCB-GLM: every client learns alone, and fits all its own samples after each new one.

    Parameters
    ----------
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius,
        0.1 to 0.3 is what published experiments use. It does not multiply `Fixed`.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖².
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).
    confidence
        The radius. None (default): the lemma `OwnModel`, with δ/N per client. Or
        `Fixed(alpha)`, a constant.
    tolerance
        ε with F(θ) − min F ≤ ε after every sample. None (default): 1/n². A smaller one takes more
        passes over the samples.

    Returns
    -------
    Algorithm
        For `simulate`, `lockstep` or a federation.

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or a part does not fit the others.

    References
    ----------
    Li and Wang (2022), section "Experiments" (a baseline); docs/theory.md, sections 2.2
    (the radius) and 5 (the fit).

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
