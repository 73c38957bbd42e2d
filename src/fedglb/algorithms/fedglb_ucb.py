"""FedGLB-UCB (Li and Wang, 2022), the paper's algorithm."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.confidence import Confidence, FedGLB
from fedglb.global_update import AGD, GlobalUpdate
from fedglb.local_update import Ons
from fedglb.trigger import Event


def fedglb_ucb(
    threshold: float,
    solver: GlobalUpdate | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    b_rule: str = "refit",
) -> Algorithm:
    """Online Newton steps at the clients, an offline fit over all when one client's data asks.

    Parameters
    ----------
    threshold
        D of the event trigger: smaller means more global updates, 0 one after every
        interaction, infinity none.
    solver
        AGD() (default), Newton() or LBFGS().
    exploration
        Multiplies the lemma's radius; 1 is the proven one.
    ridge
        λ.
    delta
        Probability with which some confidence set may fail.
    confidence
        None: Lemma "FedGLB"; or FedGLBPrinted(), Fixed(alpha).
    b_rule
        "refit", or "printed" for the paper's rule (erratum 2).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.fedglb_ucb(threshold=10.0, solver=fg.Newton()).name
    'FedGLB-UCB'
    """
    return Algorithm(
        name="FedGLB-UCB",
        local_update=Ons(b_rule),
        global_update=AGD() if solver is None else solver,
        trigger=Event(threshold),
        confidence=FedGLB() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
