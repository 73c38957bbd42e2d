"""`fedglb_private`: one message per client and update, and differential privacy if wanted."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import documented
from fedglb.parts.choice import Bayes, Choice, Ucb
from fedglb.parts.confidence import Confidence, Posterior
from fedglb.parts.global_update import OnePass
from fedglb.parts.local_update import FrozenHessian
from fedglb.parts.trigger import Geometric
from fedglb.privacy import GaussianMechanism


@documented(
    raises="when a run starts, if rewards have no bound and `privacy` has no `reward_limit`",
    updates="B, the number of updates; with privacy, of releases that the noise is made for.",
    first=(
        "The step of the first update, in a federation the second. None (default): where the "
        "sums are about as large as the noise in them."
    ),
    privacy="``fg.GaussianMechanism(epsilon, delta)``; None (default): no noise.",
    growth=(
        "How much later each update is than the one before, a factor > 1. None (default): "
        "such that the updates fill the horizon. A federation needs `first` and `growth`."
    ),
    confidence=(
        "The radius. None (default): one standard deviation of the Laplace posterior, the "
        "noise of privacy in it; nothing is proven then. ``fg.OnePassRadius()`` is the proven "
        "set: without noise `Ucb` by it has no more regret than the default, with much noise "
        "several times as much; with ``choice=fg.Certified(fg.Bayes())`` it only limits what "
        "the default may play. ``fg.Fixed(alpha)`` is a constant."
    ),
    choice="Which arm is played. None (default): `Bayes`; with a `confidence` of yours, `Ucb`.",
    delta=(
        "δ, the probability with which some confidence set may fail, in (0, 1). It is not "
        "that of the privacy."
    ),
)
def fedglb_private(
    updates: int,
    first: float | None = None,
    privacy: GaussianMechanism | None = None,
    growth: float | None = None,
    confidence: Confidence[Any] | None = None,
    choice: Choice | None = None,
    ridge: float = 1.0,
    delta: float = 0.01,
) -> Algorithm:
    """FedGLB with updates that take each sample in once, on a schedule known in advance.

    At each update a client sends d + d(d+1)/2 numbers and gets a model: sums over all clients are
    all that the coordinator needs. Between updates clients play the shared model and nothing
    else. So noise in these sums makes it differentially private for every user, and secure sums
    hide each client's own from the coordinator.

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
