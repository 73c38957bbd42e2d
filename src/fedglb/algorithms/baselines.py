"""The paper's baselines without messages: one learner for all clients, or every client alone."""

from __future__ import annotations

from dataclasses import replace

from fedglb.algorithms.base import Algorithm
from fedglb.algorithms.documented import SIMULATED, documented
from fedglb.parts.choice import ChoiceLike, Ucb
from fedglb.parts.confidence import ConfidenceLike, FedGLBRadius, OwnModel
from fedglb.parts.local_update import Mle, Ons
from fedglb.parts.trigger import Never


@documented(
    returns=SIMULATED,
    radius="the lemma `OwnModel`",
)
def one_ucb_glm(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    tolerance: float | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """One-UCB-GLM: one learner sees all clients' samples, and fits all of them after each new one.

    It needs no messages; its ledger has the paper's count, one transfer to every client after
    every interaction.

    References
    ----------
    Li and Wang (2022), section "Experiments" (a baseline); docs/theory.md, sections 2.2
    (the radius) and 5 (the fit).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.one_ucb_glm().centralised
    True
    """
    each = n_ucb_glm(exploration, ridge, delta, confidence, tolerance, choice)
    return replace(each, name="One-UCB-GLM", centralised=True)


@documented(radius="the lemma `OwnModel`, with δ/N per client")
def n_ucb_glm(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    tolerance: float | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """N-UCB-GLM: every client learns alone, and fits all its own samples after each new one.

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
        choice=Ucb("first") if choice is None else choice,
    )


@documented(radius="the lemma `FedGLBRadius`. Or `Iterate()`, around the Newton iterate")
def n_ons_glm(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: ConfidenceLike | None = None,
    choice: ChoiceLike | None = None,
) -> Algorithm:
    """N-ONS-GLM: every client learns alone, by online Newton steps on its own samples.

    It equals `fedglb_ucb` with an infinite threshold: no global updates, no messages.

    References
    ----------
    Li and Wang (2022), section "Experiments" (a baseline), with the local update of Algorithm 2
    and the radius of docs/theory.md, section 2.3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ons_glm().solver is None
    True
    """
    return Algorithm(
        name="N-ONS-GLM",
        local_update=Ons(),
        global_update=None,
        trigger=Never(),
        confidence=FedGLBRadius() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        choice=Ucb("first") if choice is None else choice,
    )
