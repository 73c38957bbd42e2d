"""Async-LinUCB (Li and Wang, AISTATS 2022): federated linear bandits that nobody waits for."""

from __future__ import annotations

from typing import Any

from fedglb.algorithms.base import Algorithm
from fedglb.parts.confidence import AsyncLinUCB, Confidence
from fedglb.parts.global_update import Exchange
from fedglb.parts.local_update import AsyncRidge
from fedglb.parts.trigger import Growth


def async_linucb(
    threshold: float,
    download: float | None = None,
    exploration: float = 1.0,
    ridge: float = 1.0,
    delta: float = 0.01,
    confidence: Confidence[Any] | None = None,
) -> Algorithm:
    """Async-LinUCB: a client uploads what it has learnt; who lacks much of all that gets it.

    A client plays by ridge regression on its own samples and those that it was sent. It uploads
    Σ x xᵀ and Σ x y over its samples since its last upload. After each upload the coordinator
    sends its sums to every client that lacks enough of them; the client that uploaded goes on
    with what it has. The model is linear whatever the problem's link.

    Parameters
    ----------
    threshold
        C ≥ 0: a client uploads where its own samples since its last upload make det A more than
        1 + C times; infinity: never. 1 + C is the paper's γ_U: 1, 2, 5, 8 and infinity in the
        authors' program.
    download
        C ≥ 0: a client gets the sums where what it does not have of them makes their determinant
        more than 1 + C times, the paper's γ_D; infinity: never. None (default): as `threshold`, as
        in the authors' program.
    exploration
        Multiplies the radius of the confidence ellipsoid; 1 (default) is the paper's radius. It
        does not multiply `Fixed`.
    ridge
        λ > 0 of the ridge penalty (λ/2)‖θ‖².
    delta
        δ of the radius, in (0, 1): for one client, with which probability its set may fail.
    confidence
        The radius. None (default): the paper's, `AsyncLinUCB`. Or `Fixed(alpha)`, a constant.

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
    Li and Wang (2022), *Asynchronous upper confidence bound algorithms for federated linear
    bandits*, AISTATS; docs/theory.md, section 9.1.

    Examples
    --------
    >>> import fedglb as fg
    >>> env = fg.Synthetic(fg.Problem(dim=3, link=fg.Identity()), clients=4, arms=5)
    >>> every, fewer = fg.compare([fg.async_linucb(0.5), fg.async_linucb(0.5, 4.0)], env, 50)
    >>> every.transfers == 4 * every.syncs  # one up, and one down to each of the others
    True
    >>> fewer.transfers < 4 * fewer.syncs
    True
    """
    trigger = Growth(threshold)  # first: it is `threshold` that is at fault, if both are
    return Algorithm(
        name="Async-LinUCB",
        local_update=AsyncRidge(),
        global_update=Exchange(threshold if download is None else download),
        trigger=trigger,
        confidence=AsyncLinUCB() if confidence is None else confidence,
        ridge=ridge,
        delta=delta,
        exploration=exploration,
    )
