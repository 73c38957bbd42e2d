"""Past the paper: `fedglb_iterate`, `fedglb_mix`, `fedglb_auto` and `fedglb_private`.

The first repairs FedGLB-UCB for real data, the second is proven without a multiplier, the third
needs no tuning, the fourth uses each sample once, optionally with privacy.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import documented
from fedglb.algorithms.fedglb_ucb import fedglb_ucb
from fedglb.parts.choice import Bayes, ChoiceLike, OptimisticThompson, Ucb
from fedglb.parts.confidence import ConfidenceLike, Iterate, Mixture, Posterior
from fedglb.parts.global_update import GlobalUpdate, OneExchange, OnePass
from fedglb.parts.local_update import Anchored, Calibrated, FrozenHessian, Personal
from fedglb.parts.memory import Forever, Memory
from fedglb.parts.ridge import Evidence
from fedglb.parts.spread import Pooled
from fedglb.parts.trigger import Clock, Event, Geometric
from fedglb.privacy import GaussianMechanism


@documented()
def fedglb_iterate(
    threshold: float,
    solver: GlobalUpdate | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    choice: ChoiceLike | None = None,
    clock: Clock = "own samples",
    memory: Memory | None = None,
) -> Algorithm:
    """FedGLB-UCB around the Newton iterate, with a trigger that counts a client's own samples.

    It is ``fedglb_ucb(threshold, confidence=Iterate(), clock="own samples", choice=Ucb())``, which
    repairs the main losses of FedGLB-UCB if a few dozen samples suffice: a radius that is too large
    right after an update, a shrunk centre, and at most one update per step.

    References
    ----------
    docs/theory.md, sections 7.6 and 12; Li and Wang (2022), Algorithm 1.

    Examples
    --------
    >>> import fedglb as fg
    >>> algorithm = fg.fedglb_iterate(threshold=1.0, solver=fg.Newton())
    >>> algorithm.confidence, algorithm.trigger
    (Iterate(), Event(threshold=1.0, clock='own samples', max_gain=inf, share=inf))
    """
    repaired = fedglb_ucb(
        threshold, solver, exploration, ridge, delta, Iterate(), clock, choice=choice or Ucb(),
        memory=memory,
    )  # fmt: skip
    return replace(repaired, name="FedGLB-Iterate")


@documented(
    raises="when a run starts, if the link's loss is not a likelihood (probit)",
    threshold=(
        "D ≥ 0 of the event trigger: the smaller, the more global updates; infinity none. A client "
        "also asks once its gain is 1. None (default): T/(N𝓡), 𝓡 = d log(1 + c_μNT/(dλ)), for "
        "which the bounds of regret and updates are of the best order; a federation, which has no "
        "horizon T, needs a number."
    ),
    choice=(
        "The choice of an arm. None (default): `Ucb`, the arm of the largest upper confidence "
        "bound, for which the sets are meant."
    ),
    clock=(
        'The trigger\'s factor on the gain: "steps" since the last update (default), or '
        'the client\'s "own samples" since then.'
    ),
    solver=(
        "How all clients fit one model. None (default): ``OneExchange()``; or `Newton`, "
        "`AGD`, `LBFGS`."
    ),
    ridge=(
        "λ > 0 of the ridge penalty (λ/2)‖θ‖², or the rule `Evidence`: the sets are proven for any."
    ),
    confidence="The sets. None (default): `Mixture`. Or `Fixed(alpha)`, a constant radius.",
)
def fedglb_mix(
    threshold: float | None = None,
    choice: ChoiceLike | None = None,
    clock: Clock = "steps",
    solver: GlobalUpdate | None = None,
    ridge: float | Evidence = 1.0,
    delta: float = 0.01,
    privacy: GaussianMechanism | None = None,
    confidence: ConfidenceLike | None = None,
    memory: Memory | None = None,
) -> Algorithm:
    """FedGLB with the sets of likelihood-ratio mixtures: proven radii without a multiplier.

    Clients learn by the exact minimum of their loss linearised at the last shared model. A client
    requests a global update when its Hessian has gained enough; an update is usually one exchange
    of messages. There is no c_μ in the sets, no R (except for the identity link) and no
    multiplier; S enters the radius weakly. The regret is proven, too.

    References
    ----------
    docs/theory.md, sections 7.3 to 7.8.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=3, arms=5)
    >>> run = fg.simulate(fg.fedglb_mix(), env, horizon=50, seed=1)
    >>> run.caveats
    ()
    """
    return Algorithm(
        name="FedGLB-Mix",
        local_update=Anchored(),
        global_update=OneExchange() if solver is None else solver,
        trigger=Event(threshold, clock, max_gain=math.inf if threshold == math.inf else 1.0),
        confidence=Mixture() if confidence is None else confidence,
        choice=Ucb() if choice is None else choice,
        ridge=ridge,
        delta=delta,
        privacy=privacy,
        memory=memory or Forever(),
    )


@documented(
    threshold=(
        "D ≥ 0 of the event trigger: the smaller, the more global updates. Their number grows "
        "about like the square root of the number of samples over D."
    ),
    choice="The choice of an arm. None (default): `OptimisticThompson`.",
    clock=(
        "The trigger's factor on the gain: the client's \"own samples\" since the last "
        'update (default), or the "steps" since then.'
    ),
    solver=(
        'How all clients fit one model. None (default): ``OneExchange(inf, "deviation")``, '
        "exactly one exchange per update; or `Newton`, `AGD`, `LBFGS`, which keep θ within "
        "‖θ‖ ≤ S."
    ),
    ridge="None (default): ``Evidence()``, which chooses λ from the data; or a number.",
    confidence=(
        "The sets, for a `choice` that needs them. None (default): `Posterior`, one standard "
        "deviation; or `Mixture`, with a solver that keeps θ within ‖θ‖ ≤ S."
    ),
    effects=(
        "The number of arms that can have an effect of their own beside xᵀθ, if they recur (by id, "
        "or by equal features); more than that share effects. 0: none."
    ),
)
def fedglb_auto(
    threshold: float = 0.1,
    choice: ChoiceLike | None = None,
    clock: Clock = "own samples",
    solver: GlobalUpdate | None = None,
    ridge: float | Evidence | None = None,
    privacy: GaussianMechanism | None = None,
    confidence: ConfidenceLike | None = None,
    effects: int = 1024,
    memory: Memory | None = None,
) -> Algorithm:
    """FedGLB for applications: no S, c_μ, R or exploration to choose.

    Clients learn as in `fedglb_mix`, with the weights and the effects of `Calibrated`. Arms are
    chosen by draws from the posterior (`OptimisticThompson`), and the ridges follow from the data
    at each global update. Its regret is not proven.

    References
    ----------
    docs/theory.md, sections 7.11 and 7.12; docs/results.md, "Nothing to tune".

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=3, arms=5)
    >>> run = fg.simulate(fg.fedglb_auto(), env, horizon=50, seed=1)
    >>> run.syncs > 0
    True
    """
    calibrated = solver is None and confidence is None
    return Algorithm(
        name="FedGLB-Auto",
        local_update=Calibrated(effects) if calibrated else Anchored(),
        global_update=OneExchange(math.inf, "deviation") if solver is None else solver,
        trigger=Event(threshold, clock),
        confidence=Posterior() if confidence is None else confidence,
        choice=OptimisticThompson() if choice is None else choice,
        ridge=Evidence() if ridge is None else ridge,
        privacy=privacy,
        memory=memory or Forever(),
    )


@documented(
    threshold=(
        "D ≥ 0 of the event trigger, on the gain of the shared model: the smaller, the more global "
        "updates."
    ),
    choice="The choice of an arm. None (default): `OptimisticThompson`.",
    effects=(
        "The number of arms that can have an effect of their own beside xᵀθ, if they recur (by id, "
        "or by equal features); more than that share effects. 0: none."
    ),
    spikes=(
        "Whether clients can differ more in some directions than in others, as where there are two "
        "groups of them; clients then send d(d + 1) numbers more per update."
    ),
)
def fedglb_personal(
    threshold: float = 0.1,
    choice: ChoiceLike | None = None,
    effects: int = 1024,
    spikes: bool = False,
    memory: Memory | None = None,
) -> Algorithm:
    """FedGLB for clients that differ: each has a model of its own, around the shared one.

    It is `fedglb_auto` where clients are alike. How far they differ follows from what they send,
    and a client whose samples say that the others are no help learns alone. A client also requests
    an update after 4 own samples, and half of those before. Its regret is not proven.

    References
    ----------
    docs/theory.md, section 7.13; docs/results.md, "A model for each client".

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Heterogeneous(fg.Synthetic(fg.Problem(dim=3), clients=3, arms=5), spread=1.0)
    >>> run = fg.simulate(fg.fedglb_personal(), env, horizon=50, seed=1)
    >>> run.syncs > 0
    True
    """
    return replace(
        fedglb_auto(threshold, choice, memory=memory),
        name="FedGLB-Personal",
        local_update=Personal(effects),
        trigger=Event(threshold, "own samples", share=0.5),
        spread=Pooled(spikes),
    )


@documented(
    raises="when a run starts, if rewards have no bound and `privacy` has no `reward_limit`",
    updates="B, the number of updates; with privacy, the number of releases.",
    first=(
        "The step of the first update, in a federation the second. None (default): when the "
        "sums are about as large as their noise."
    ),
    privacy="``fg.GaussianMechanism(epsilon, delta)``; None (default): no noise.",
    growth=(
        "The factor > 1 between the times of two updates. None (default): "
        "such that the updates fill the horizon. A federation needs `first` and `growth`."
    ),
    confidence=(
        "The radius. None (default): one standard deviation of the Laplace posterior, the "
        "noise of privacy included; it is not proven. ``fg.OnePassRadius()`` is the proven "
        "set: without noise `Ucb` by it has no more regret than the default, with much noise "
        "several times as much; with ``choice=fg.Bank(fg.Bayes())`` it only bounds the regret of "
        "what the default chooses. ``fg.Fixed(alpha)`` is a constant."
    ),
    choice="The choice of an arm. None (default): `Bayes`; with a `confidence`, `Ucb`.",
    delta=("δ, the failure probability of all confidence sets, in (0, 1): not the δ of `privacy`."),
)
def fedglb_private(
    updates: int,
    first: float | None = None,
    privacy: GaussianMechanism | None = None,
    growth: float | None = None,
    confidence: ConfidenceLike | None = None,
    choice: ChoiceLike | None = None,
    ridge: float = 1.0,
    delta: float = 0.01,
) -> Algorithm:
    """FedGLB with updates that use each sample once, on a schedule known in advance.

    At each update a client sends d + d(d+1)/2 numbers and gets a model: the coordinator needs only
    sums over all clients. Between updates clients play only the shared model. So noise in these
    sums makes it differentially private for every user, and secure sums hide each client's own
    from the coordinator.

    References
    ----------
    docs/privacy.md; docs/theory.md, section 10.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3), clients=50, arms=5)
    >>> privacy = fg.GaussianMechanism(epsilon=1.0, delta=1e-6)
    >>> private = fg.fedglb_private(updates=10, privacy=privacy)
    >>> run = fg.simulate(private, env, horizon=100, seed=1)
    >>> print(str(run.privacy).splitlines()[0])
    epsilon = 1, delta = 1e-06 (zero-out neighbours); spent so far: epsilon = 1
    """
    if choice is None:
        choice = Bayes() if confidence is None else Ucb()
    return Algorithm(
        name="FedGLB-Private",
        local_update=FrozenHessian(),
        global_update=OnePass(),
        trigger=Geometric(updates, first, growth),
        confidence=Posterior() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        choice=choice,
        privacy=privacy,
    )
