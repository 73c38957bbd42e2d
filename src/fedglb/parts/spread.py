"""How far clients differ, from sums over clients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fedglb.typing import FloatArray

#: A spread counts from this many standard errors on, and again not below so many.
ENTERS, LEAVES = 2.0, 1.0
#: Clients that choose a wider prior by themselves are left out while they are at most this share.
FEW = 0.2


@dataclass(frozen=True)
class Pooled:
    """τ² of the clients' differences: a step of scoring per global update, from two sums.

    For each client, s is twice the derivative of the log evidence of its samples by τ², and f its
    expected square over 2: τ² + Σs/Σf is an unbiased estimate with standard error √(2/Σf), where
    samples are linear and Gaussian. It is taken once it is above 2 standard errors, until it falls
    below 1.

    References
    ----------
    docs/theory.md, section 7.13.

    Examples
    --------
    >>> import numpy as np
    >>> from fedglb.parts.spread import Pooled
    >>> sent = np.array([[30.0, 40.0, 0.0], [50.0, 40.0, 0.0]])
    >>> Pooled().next(np.zeros(3), sent, shortened=False)
    array([1., 0., 1.])
    """

    stored_name = "Pooled"

    def next(
        self, before: FloatArray | None, sent: Iterable[FloatArray], shortened: bool
    ) -> FloatArray:
        """Return the spread of the next model: τ² of θ, τ² of effects, whether s and f count.

        Parameters
        ----------
        before
            The spread of the last model, at which clients took s and f; None before the first.
        sent
            Each client's s, f and whether its prior is wider, for θ and for effects.
        shortened
            Whether the next model is the end of a shortened step: then no estimate is based on it.

        Returns
        -------
        array
            Shape (3,), in units of the dispersion.
        """
        found, rows = [0.0, 0.0], np.array([*sent])
        for block in range(rows.shape[1] // 3 if rows.size else 0):
            s, f, wider = rows[:, 3 * block : 3 * block + 3].T
            if wider.sum() <= FEW * len(rows):
                s, f = s[wider == 0.0], f[wider == 0.0]
            last = 0.0 if before is None else float(before[block])
            found[block] = _estimate(last, float(s.sum()), float(f.sum()))
        return np.array([*found, 0.0 if shortened else 1.0])


def _estimate(last: float, s: float, f: float) -> float:
    if not f > 0.0:
        return last
    estimate, error = last + s / f, math.sqrt(2.0 / f)
    return estimate if estimate > (LEAVES if last > 0.0 else ENTERS) * error else 0.0


def covariance(spread: FloatArray, directions: FloatArray | None, d: int) -> FloatArray:
    """Return T, shape (d, d), in units of the dispersion."""
    T = float(spread[0]) * np.eye(d)
    return T if directions is None else T + directions


def gain_matrix(P: FloatArray, T: FloatArray) -> FloatArray:
    """Return (P + PTP)⁻¹, symmetric: how little is known of the shared model."""
    Q = P + P @ T @ P
    inverse = np.linalg.inv(0.5 * (Q + Q.T))
    result: FloatArray = 0.5 * (inverse + inverse.T)
    return result
