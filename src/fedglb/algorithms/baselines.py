"""The paper's baselines without messages: one learner for all clients, or every client alone."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.parts.confidence import Confidence, FedGLB, OwnModel
from fedglb.parts.local_update import Mle, Ons
from fedglb.parts.trigger import Never


def one_ucb_glm(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    tolerance: float | None = None,
) -> Algorithm:
    """One-UCB-GLM: one learner sees all clients' samples, and fits all of them after each new one.

    It needs no messages; its ledger has the paper's count, one transfer to every client after
    every interaction.

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
        The radius. None (default): the lemma `OwnModel`. Or `Fixed(alpha)`, a constant.
    tolerance
        ε with F(θ) − min F ≤ ε after every sample. None (default): 1/n². A smaller one takes more
        passes over the samples and makes the radius smaller, which pays for what the fit is
        off.

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
    Li and Wang (2022), section "Experiments" (a baseline); docs/theory.md, sections 2.2
    (the radius) and 5 (the fit).

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.one_ucb_glm().centralised
    True
    """
    return Algorithm(
        name="One-UCB-GLM",
        local_update=Mle(tolerance),
        global_update=None,
        trigger=Never(),
        confidence=OwnModel() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        centralised=True,
    )


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
        For `simulate`, `compare` or a federation.

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


def n_ons_glm(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
) -> Algorithm:
    """N-ONS-GLM: every client learns alone, by online Newton steps on its own samples.

    It equals `fedglb_ucb` with an infinite threshold: no global updates, no messages.

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
        The radius. None (default): the lemma `FedGLB`. Or `Iterate()`, around the Newton iterate,
        or `Fixed(alpha)`, a constant.

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
        confidence=FedGLB() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
