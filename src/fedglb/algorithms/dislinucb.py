"""DisLinUCB (Wang et al., 2020): federated linear bandits."""

from __future__ import annotations

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import documented
from fedglb.parts.choice import ChoiceLike, Ucb
from fedglb.parts.confidence import ConfidenceLike, Linear
from fedglb.parts.global_update import ClosedForm
from fedglb.parts.local_update import Ridge
from fedglb.parts.memory import Forever, Memory
from fedglb.parts.trigger import Clock, Event


@documented(radius="OFUL's, `Linear`")
def dislinucb(
    threshold: float,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    clock: Clock = "steps",
    choice: ChoiceLike | None = None,
    memory: Memory | None = None,
) -> Algorithm:
    """DisLinUCB: ridge regression on the rewards, with sums over all clients at a client's request.

    The model is linear whatever the problem's link; the trigger is that of `fedglb_ucb`.

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
        choice=Ucb("first") if choice is None else choice,
        memory=memory or Forever(),
    )
