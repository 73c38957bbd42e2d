"""FedLinUCB (He et al., 2022): federated linear bandits without a common clock."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.parts.confidence import Confidence, FedLinUCB
from fedglb.parts.global_update import Exchange
from fedglb.parts.local_update import FrozenRidge
from fedglb.parts.trigger import Growth


def fedlinucb(
    threshold: float,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
) -> Algorithm:
    """FedLinUCB: a client that has learnt enough exchanges sums with the coordinator, alone.

    It uploads Σ x xᵀ and Σ x y over its samples since its last exchange, and downloads the sums
    over all that was uploaded so far. Until the next exchange it plays by these; its own newer
    samples wait. The model is linear whatever the problem's link.

    Parameters
    ----------
    threshold
        C > 0: a client talks where its own samples since the last exchange make det Σ more than
        1 + C times. The paper's α: 1/N² in its theory, 1 in its experiments.
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius, which
        is large. It does not multiply `Fixed`; the paper's experiments have ``fg.Fixed(0.5)``.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖².
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).
    confidence
        The radius. None (default): the paper's, `FedLinUCB`. Or `Fixed(alpha)`, a constant.

    Returns
    -------
    Algorithm
        For `simulate` or `compare`; a federation cannot run it.

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or a part does not fit the others.

    References
    ----------
    He, Wang, Min and Gu (2022), *A simple and provably efficient algorithm for asynchronous
    federated contextual linear bandits*, NeurIPS, Algorithm 1; docs/theory.md, section 9.1.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3, link=fg.Identity()), clients=4, arms=5)
    >>> run = fg.simulate(fg.fedlinucb(1.0, confidence=fg.Fixed(0.5)), env, horizon=50, seed=1)
    >>> run.transfers == 2 * run.syncs
    True
    """
    return Algorithm(
        name="FedLinUCB",
        local_update=FrozenRidge(),
        global_update=Exchange(),
        trigger=Growth(threshold),
        confidence=FedLinUCB(threshold) if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
