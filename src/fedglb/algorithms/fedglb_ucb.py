"""FedGLB-UCB (Li and Wang, 2022) and its variants 1 to 3: the paper's algorithms."""

from __future__ import annotations

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import SCHEDULED, documented
from fedglb.parts.choice import ChoiceLike, Ucb
from fedglb.parts.confidence import ConfidenceLike, FedGLBRadius, GlobalModel, LazyOnsRadius
from fedglb.parts.global_update import AGD, GlobalUpdate, OnsStep
from fedglb.parts.local_update import Frozen, LazyOns, Ons
from fedglb.parts.local_update.lazy_ons import LazyRate
from fedglb.parts.memory import Forever, Memory
from fedglb.parts.trigger import Clock, Event, Schedule
from fedglb.privacy import GaussianMechanism


@documented(radius="the lemma `FedGLBRadius`. Or `Iterate()`, around the Newton iterate")
def fedglb_ucb(
    threshold: float,
    solver: GlobalUpdate | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    clock: Clock = "steps",
    privacy: GaussianMechanism | None = None,
    choice: ChoiceLike | None = None,
    memory: Memory | None = None,
) -> Algorithm:
    """FedGLB-UCB: clients learn by online Newton steps, and together at a client's request.

    A client requests a global update when its own samples since the last one have gained enough
    information; then all clients fit one model to all samples.

    References
    ----------
    Li and Wang (2022), Algorithm 1, with the radius of docs/theory.md, section 2.3.

    Examples
    --------
    >>> import fedglb as fg
    >>> algorithm = fg.fedglb_ucb(threshold=10.0, solver=fg.Newton(), exploration=0.3)
    >>> algorithm.name, algorithm.trigger
    ('FedGLB-UCB', Event(threshold=10.0, clock='steps', max_gain=inf, share=inf))
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=3, arms=5)
    >>> fg.simulate(algorithm, env, horizon=20, seed=1).syncs
    2
    """
    return Algorithm(
        name="FedGLB-UCB",
        local_update=Ons(),
        global_update=AGD() if solver is None else solver,
        trigger=Event(threshold, clock),
        confidence=FedGLBRadius() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        privacy=privacy,
        choice=Ucb("first") if choice is None else choice,
        memory=memory or Forever(),
    )


@documented(
    returns=SCHEDULED,
    raises="when a run starts, if B > T",
    radius="the lemma `GlobalModel`",
)
def fedglb_ucb_1(
    updates: int,
    solver: GlobalUpdate | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    choice: ChoiceLike | None = None,
    memory: Memory | None = None,
) -> Algorithm:
    """FedGLB-UCB₁: clients play the last global model, and learn only by scheduled fits.

    References
    ----------
    Li and Wang (2022), Algorithm 4, with the radius of docs/theory.md, section 2.2.

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
        choice=Ucb("first") if choice is None else choice,
        memory=memory or Forever(),
    )


@documented(
    returns=SCHEDULED,
    raises="when a run starts, if B > T",
    radius="the lemma `FedGLBRadius`. Or `Iterate()`, around the Newton iterate",
)
def fedglb_ucb_2(
    updates: int,
    solver: GlobalUpdate | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    choice: ChoiceLike | None = None,
    memory: Memory | None = None,
) -> Algorithm:
    """FedGLB-UCB₂: FedGLB-UCB with global updates on a schedule instead of by event.

    Clients take online Newton steps between the updates, as in `fedglb_ucb`.

    References
    ----------
    Li and Wang (2022), Algorithm 5, with the radius of docs/theory.md, section 2.3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb_2(updates=20).local_update
    Ons()
    """
    return Algorithm(
        name="FedGLB-UCB2",
        local_update=Ons(),
        global_update=AGD() if solver is None else solver,
        trigger=Schedule(updates),
        confidence=FedGLBRadius() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        choice=Ucb("first") if choice is None else choice,
        memory=memory or Forever(),
    )


@documented(
    returns=SCHEDULED,
    raises="when a run starts, if B > T",
    radius="`LazyOnsRadius`",
    batch_limit=(
        "n_max, the maximum number of samples in one global update. None (default): N⌊T/B⌋, by "
        "the schedule."
    ),
)
def fedglb_ucb_3(
    updates: int,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    batch_limit: int | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """FedGLB-UCB₃: one online Newton step per global update, and one per sample between them.

    A global update takes one step on the batch, all clients' samples since the last one; it is
    one round of messages.

    References
    ----------
    Li and Wang (2022), Algorithm 6, with the step size and the radius of docs/theory.md, section
    2.4 (erratum 5).

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
        confidence=LazyOnsRadius(rate) if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        choice=Ucb("first") if choice is None else choice,
    )
