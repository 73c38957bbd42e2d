"""Past the paper: `fedglb_iterate`, `fedglb_mix` and `fedglb_auto`.

The first repairs FedGLB-UCB for real data, the second is proven without a multiplier, the third
needs nothing to be chosen.
"""

from __future__ import annotations

import math

from fedglb.algorithms.base import Algorithm
from fedglb.parts.choice import Bayes, Choice, Ucb
from fedglb.parts.confidence import Iterate, Mixture, Posterior
from fedglb.parts.global_update import AGD, GlobalUpdate, OneExchange
from fedglb.parts.local_update import Anchored, Ons
from fedglb.parts.ridge import Evidence
from fedglb.parts.trigger import Clock, Event
from fedglb.privacy import GaussianMechanism


def fedglb_iterate(
    threshold: float,
    solver: GlobalUpdate | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
) -> Algorithm:
    """FedGLB-UCB around the Newton iterate, with a trigger that counts a client's own samples.

    It is ``fedglb_ucb(threshold, confidence=Iterate(), clock="own samples")``, which repairs what
    costs FedGLB-UCB most where a few dozen samples tell all: a radius that is too large right
    after an update, around a centre that is shrunk, and at most one update in each step.

    Parameters
    ----------
    threshold
        D ≥ 0 of the event trigger: the smaller, the more global updates; 0 makes one after every
        interaction, infinity none.
    solver
        How all clients fit one model: `AGD` (None, the default, is ``AGD()``), `Newton`, `LBFGS`,
        or one of your own. The algorithm has it as `Algorithm.solver`.
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖².
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).

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
    docs/theory.md, sections 7.6 and 12; Li and Wang (2022), Algorithm 1.

    Examples
    --------
    >>> import fedglb as fg
    >>> algorithm = fg.fedglb_iterate(threshold=1.0, solver=fg.Newton())
    >>> algorithm.confidence, algorithm.trigger
    (Iterate(), Event(threshold=1.0, clock='own samples'))
    """
    return Algorithm(
        name="FedGLB-Iterate",
        local_update=Ons(),
        global_update=AGD() if solver is None else solver,
        trigger=Event(threshold, "own samples"),
        confidence=Iterate(),
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )


def fedglb_mix(
    threshold: float,
    choice: Choice | None = None,
    clock: Clock = "steps",
    solver: GlobalUpdate | None = None,
    ridge: float | Evidence = 1.0,
    delta: float = 0.01,
    privacy: GaussianMechanism | None = None,
) -> Algorithm:
    """FedGLB with the sets of likelihood-ratio mixtures: proven radii that nobody has to scale.

    Clients learn by the exact minimum of their loss linearised at the last shared model. A
    client asks for a global update when its Hessian has gained enough; an update is one exchange
    of messages, most of the time. There is no c_μ, no R (but for the identity link) and no
    multiplier; S enters the radius weakly.

    Parameters
    ----------
    threshold
        D ≥ 0 of the event trigger: the smaller, the more global updates; 0 makes one after every
        interaction, infinity none.
    choice
        Which arm is played. None (default): `Ucb`, the arm of the largest upper confidence bound,
        for which the sets are meant.
    clock
        What the trigger multiplies the gain by: "steps" since the last update (default), or the
        client's "own samples" since then.
    solver
        How all clients fit one model. None (default): ``OneExchange()``; or `Newton`, `AGD`,
        `LBFGS`.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖², or the rule `Evidence`: the sets are proven for any.
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).
    privacy
        None (default). Any other is refused, with the reason: when such a trigger fires tells of
        raw samples; `fedglb_private` has updates on a schedule.

    Returns
    -------
    Algorithm
        For `simulate`, `compare` or a federation.

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or a part does not fit the others; when a run starts,
        if the link's loss is no likelihood (probit).

    References
    ----------
    docs/theory.md, sections 7.3 to 7.8.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=3, arms=5)
    >>> run = fg.simulate(fg.fedglb_mix(threshold=1.0), env, horizon=50, seed=1)
    >>> run.caveats
    ()
    """
    return Algorithm(
        name="FedGLB-Mix",
        local_update=Anchored(),
        global_update=OneExchange() if solver is None else solver,
        trigger=Event(threshold, clock),
        confidence=Mixture(),
        choice=Ucb() if choice is None else choice,
        ridge=ridge,
        delta=delta,
        privacy=privacy,
    )


def fedglb_auto(
    threshold: float = 0.1,
    choice: Choice | None = None,
    clock: Clock = "own samples",
    solver: GlobalUpdate | None = None,
    ridge: float | Evidence | None = None,
    privacy: GaussianMechanism | None = None,
) -> Algorithm:
    """FedGLB for applications: no S, no c_μ, no R and no exploration to be chosen.

    Clients learn as in `fedglb_mix`. Arms are chosen by a quantile of the posterior, and the
    ridge follows from the data at each global update. Nothing is proven of its regret.

    Parameters
    ----------
    threshold
        D ≥ 0 of the event trigger: the smaller, the more global updates. Their number grows
        about like the square root of the number of samples over D.
    choice
        Which arm is played. None (default): `Bayes`.
    clock
        What the trigger multiplies the gain by: the client's "own samples" since the last update
        (default), or the "steps" since then.
    solver
        How all clients fit one model. None (default): ``OneExchange(inf, "deviation")``, exactly
        one exchange per update; or `Newton`, `AGD`, `LBFGS`, which keep θ within ‖θ‖ ≤ S.
    ridge
        None (default): ``Evidence()``, which chooses λ from the data; or a number.
    privacy
        None (default). Any other is refused, with the reason: when such a trigger fires tells of
        raw samples; `fedglb_private` has updates on a schedule.

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
    Kaufmann, Cappé and Garivier (2012), *On Bayesian Upper Confidence Bounds for Bandit
    Problems*; docs/theory.md, section 7.11.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=3, arms=5)
    >>> run = fg.simulate(fg.fedglb_auto(), env, horizon=50, seed=1)
    >>> run.syncs > 0
    True
    """
    return Algorithm(
        name="FedGLB-Auto",
        local_update=Anchored(),
        global_update=OneExchange(math.inf, "deviation") if solver is None else solver,
        trigger=Event(threshold, clock),
        confidence=Posterior(),
        choice=Bayes() if choice is None else choice,
        ridge=Evidence() if ridge is None else ridge,
        privacy=privacy,
    )
