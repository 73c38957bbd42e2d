"""ECOLog (Faury et al., 2022): one learner of logistic rewards, at a constant cost per sample."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.parts.confidence import Confidence, EcoLogSet
from fedglb.parts.local_update import EcoLog
from fedglb.parts.trigger import Never


def one_ecolog(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
) -> Algorithm:
    """One-ECOLog: one learner sees all clients' samples, and takes a step of ECOLog on each.

    It needs no messages; its ledger counts as that of `one_ucb_glm`.

    Parameters
    ----------
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius. It
        does not multiply `Fixed`.
    ridge
        λ > 0, the multiple of the identity that W starts from.
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).
    confidence
        The radius. None (default): `EcoLogSet`. Or `Fixed(alpha)`, a constant.

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
    Faury, Abeille, Jun and Calauzènes (2022), *Jointly efficient and optimal algorithms for
    logistic bandits*, AISTATS; docs/theory.md, section 9.2.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.one_ecolog().centralised
    True
    """
    return _ecolog("One-ECOLog", exploration, ridge, delta, confidence, centralised=True)


def n_ecolog(
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
) -> Algorithm:
    """N-ECOLog: every client learns alone, by a step of ECOLog on each of its own samples.

    Parameters
    ----------
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the proven radius. It
        does not multiply `Fixed`.
    ridge
        λ > 0, the multiple of the identity that W starts from.
    delta
        δ, the probability with which some confidence set may fail, in (0, 1).
    confidence
        The radius. None (default): `EcoLogSet`, with δ/N per client. Or `Fixed(alpha)`, a
        constant.

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
    Faury, Abeille, Jun and Calauzènes (2022), *Jointly efficient and optimal algorithms for
    logistic bandits*, AISTATS; docs/theory.md, section 9.2.

    Examples
    --------
    >>> import fedglb as fg
    >>> fg.n_ecolog().trigger
    Never()
    """
    return _ecolog("N-ECOLog", exploration, ridge, delta, confidence, centralised=False)


def _ecolog(
    name: str,
    exploration: float,
    ridge: float,
    delta: float,
    confidence: Confidence[Any] | None,
    centralised: bool,
) -> Algorithm:
    return Algorithm(
        name=name,
        local_update=EcoLog(),
        global_update=None,
        trigger=Never(),
        confidence=EcoLogSet() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
        centralised=centralised,
    )
