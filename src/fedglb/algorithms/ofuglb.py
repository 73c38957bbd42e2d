"""OFUGLB (Lee, Yun and Jun, 2024): the exact fit, and an ellipsoid around likelihood ratios."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.parts.confidence import Confidence, OfuGlbSet
from fedglb.parts.local_update import HessianMle
from fedglb.parts.trigger import Never


def one_ofuglb(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    tolerance: float | None = None,
) -> Algorithm:
    """One-OFUGLB: one learner sees all clients' samples, and fits all of them after each new one.

    It needs no messages; its ledger counts as that of `one_ucb_glm`. The link must have a
    likelihood (logistic, Poisson, identity).

    Parameters
    ----------
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius. It
        does not multiply `Fixed`.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖².
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).
    confidence
        The radius. None (default): `OfuGlbSet`. Or `Fixed(alpha)`, a constant.
    tolerance
        ε with F(θ) − min F ≤ ε after every sample. None (default): 1/n². A smaller one takes more
        passes over the samples and makes the ellipsoid smaller, which pays for what the fit and
        its Hessian are off.

    Returns
    -------
    Algorithm
        For `simulate` or `compare`; a federation cannot run it.

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or a part does not fit the others; in a run, if the
        link's loss is no likelihood.

    References
    ----------
    Lee, Yun and Jun (2024), *A unified confidence sequence for generalized linear models, with
    applications to bandits*, NeurIPS; docs/theory.md, section 9.3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.one_ofuglb().centralised
    True
    """
    return _ofuglb("One-OFUGLB", exploration, ridge, delta, confidence, tolerance, centralised=True)


def n_ofuglb(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
    tolerance: float | None = None,
) -> Algorithm:
    """N-OFUGLB: every client learns alone, and fits all its own samples after each new one.

    The link must have a likelihood (logistic, Poisson, identity).

    Parameters
    ----------
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius. It
        does not multiply `Fixed`.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖².
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).
    confidence
        The radius. None (default): `OfuGlbSet`, with δ/N per client. Or `Fixed(alpha)`, a
        constant.
    tolerance
        ε with F(θ) − min F ≤ ε after every sample. None (default): 1/n². A smaller one takes more
        passes over the samples and makes the ellipsoid smaller.

    Returns
    -------
    Algorithm
        For `simulate`, `compare` or a federation.

    Raises
    ------
    InvalidInput
        If an argument is out of its range, or a part does not fit the others; in a run, if the
        link's loss is no likelihood.

    References
    ----------
    Lee, Yun and Jun (2024), *A unified confidence sequence for generalized linear models, with
    applications to bandits*, NeurIPS; docs/theory.md, section 9.3.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ofuglb().trigger
    Never()
    """
    return _ofuglb("N-OFUGLB", exploration, ridge, delta, confidence, tolerance, centralised=False)


def _ofuglb(
    name: str,
    exploration: float,
    ridge: float,
    delta: float,
    confidence: Confidence[Any] | None,
    tolerance: float | None,
    centralised: bool,
) -> Algorithm:
    return Algorithm(
        name=name,
        local_update=HessianMle(tolerance),
        global_update=None,
        trigger=Never(),
        confidence=OfuGlbSet() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        centralised=centralised,
    )
