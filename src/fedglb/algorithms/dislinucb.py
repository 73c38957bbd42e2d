"""DisLinUCB (Wang et al., 2020): federated linear bandits."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.parts.confidence import Confidence, Linear
from fedglb.parts.global_update import ClosedForm
from fedglb.parts.local_update import Ridge
from fedglb.parts.trigger import Clock, Event


def dislinucb(
    threshold: float,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    clock: Clock = "steps",
) -> Algorithm:
    """DisLinUCB: ridge regression on the rewards, summed over all where a client asks for it.

    The model is linear whatever the problem's link; a client asks as in `fedglb_ucb`.

    Parameters
    ----------
    threshold
        D ≥ 0 of the event trigger: the smaller, the more global updates; 0 makes one after every
        interaction, infinity none.
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius,
        0.1 to 0.3 is what published experiments use. It does not multiply `Fixed`.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖².
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).
    confidence
        The radius. None (default): OFUL's radius, `Linear`. Or `Fixed(alpha)`, a constant.
    clock
        What multiplies a client's gain in the event trigger: "steps" (default), those since the
        last update, or "own samples", the client's since its last model (see `Event`).

    Returns
    -------
    Algorithm
        For `simulate`, `compare` or a federation.

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or a part does not fit the others.

    References
    ----------
    Wang et al. (2020), DisLinUCB; Li and Wang (2022), section "Federated Linear Bandit"; the radius
    of docs/theory.md, section 2.5.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.dislinucb(threshold=1.0).solver
    ClosedForm()
    """
    return Algorithm(
        name="DisLinUCB",
        local_update=Ridge(),
        global_update=ClosedForm(),
        trigger=Event(threshold, clock),
        confidence=Linear() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
