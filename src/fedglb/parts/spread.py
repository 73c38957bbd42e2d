"""How far clients differ, from sums over clients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedglb.errors import instance
from fedglb.model import SharedModel
from fedglb.typing import FloatArray

#: Among this many clients or more a spread counts from 1 + `MORE` standard errors on, and not
#: below 1.
MANY, MORE = 50, 1.5
#: Clients that learn alone are left out while they are at most this share.
FEW = 0.2
#: A direction has a spread of its own where an eigenvalue is above the largest that noise has, by
#: so many Tracy–Widom units; later, by so many.
RISES, STAYS = 3.3, 0.0
#: The number of clients, a priori, for which the others are no help; it is at most this share.
UNUSUAL, AT_MOST = 1.5, 1.0 / 8.0
#: At least this share of the variance is noise in every direction; and directions of less variance
#: than this share of the largest have no spread of their own.
NOISE, KNOWN = 0.01, 1e-6


@dataclass(frozen=True)
class Pooled:
    """τ² of the clients' differences: a step of scoring per global update, from two sums.

    For each client, s is twice the derivative of the log evidence of its samples by τ², and f its
    expected square over 2: τ² + Σs/Σf is an unbiased estimate with standard error √(2/Σf), where
    samples are linear and Gaussian. It is taken once it is above 1.5 + z standard errors, until it
    falls below z = log N / log 50, at most 1: few clients wait long for evidence.

    Parameters
    ----------
    spikes
        Whether single directions can have a larger spread, as where clients are of two groups:
        those in which the clients' distances from the others vary more than noise does. Then a
        client sends d(d + 1) numbers more per update.

    Raises
    ------
    InvalidInput
        If `spikes` is not True or False.

    References
    ----------
    Johnstone (2001), On the distribution of the largest eigenvalue in principal components
    analysis; docs/theory.md, section 7.13.

    Examples
    --------
    >>> import numpy as np
    >>> from fedglb.parts.spread import Pooled
    >>> sent = np.array([[30.0, 40.0, 0.0], [50.0, 40.0, 0.0]])
    >>> Pooled().next(np.zeros(3), np.zeros((1, 1)), sent, [], shortened=False)
    (array([1., 0., 1.]), None)
    """

    stored_name = "Pooled"

    spikes: bool = False

    def __post_init__(self) -> None:
        instance("spikes", self.spikes, bool, "True")

    def next(
        self,
        before: FloatArray,
        directions: FloatArray,
        sent: FloatArray,
        moments: Sequence[tuple[FloatArray | None, FloatArray | None]],
        shortened: bool,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return the spread of the next model, and what T has beside τ²I (None without spikes).

        Parameters
        ----------
        before, directions
            Those of the last model, at which clients took their statistics; zeros before it.
        sent
            Per client s, f and whether it learns alone, for θ and for effects; shape (N, 3·).
        moments
            Per client rrᵀ and V.
        shortened
            Whether the next model is the end of a shortened step: then no estimate is based on it.

        Returns
        -------
        spread : array
            τ² of θ, τ² of effects, and whether s and f of this model count; in units of the
            dispersion.
        directions : array or None
            T − τ²I, shape (d, d).
        """
        found = [0.0, 0.0]
        for block in range(sent.shape[1] // 3):
            s, f, alone = sent[:, 3 * block : 3 * block + 3].T
            counted = f > 0.0
            if alone.sum() <= FEW * len(sent):
                counted &= alone == 0.0
            last, s, f = float(before[block]), s[counted], f[counted]
            if f.size == 0:
                found[block] = last
                continue
            if block == 0 and self.spikes:
                E, V = (np.array([pair[k] for pair in moments])[counted] for k in (0, 1))
                last, directions = _spikes(last, directions, E.mean(axis=0), V.mean(axis=0), f)
                found[0] = _taken(float(before[0]), last, float(f.sum()), len(sent))
            else:
                estimate = last + float(s.sum() / f.sum())
                found[block] = _taken(last, estimate, float(f.sum()), len(sent))
        spread = np.array([*found, 0.0 if shortened else 1.0])
        return spread, directions.copy() if self.spikes else None


def _taken(last: float, estimate: float, f: float, clients: int) -> float:
    z = min(1.0, math.log(clients) / math.log(MANY)) + (MORE if last == 0.0 else 0.0)
    return estimate if estimate > z * math.sqrt(2.0 / f) else 0.0


def _spikes(
    tau: float, F: FloatArray, E: FloatArray, V: FloatArray, f: FloatArray
) -> tuple[float, FloatArray]:
    """Return estimates of τ² and of T − τ²I, from the means E of rrᵀ and V of its covariances.

    Were T = τ²I, the covariance would be V − VFV = N, and the eigenvalues of N^(−½)EN^(−½) those of
    noise. Larger ones are spikes; the others say how far τ² is from the truth.
    """
    v, basis = np.linalg.eigh(V)
    if not v[-1] > 0.0:
        return tau, F
    known = v > KNOWN * v[-1]  # in other directions no sample says anything
    v, basis, d = v[known], basis[:, known], int(known.sum())
    # N = half halfᵀ; coordinates are those of V's eigenvectors
    root = np.sqrt(v)
    inner = np.eye(d) - root[:, None] * (basis.T @ F @ basis) * root
    inner_values, inner_basis = np.linalg.eigh(0.5 * (inner + inner.T))
    half = root[:, None] * inner_basis * np.sqrt(np.maximum(inner_values, NOISE))
    whitened = np.linalg.solve(half, np.linalg.solve(half, basis.T @ E @ basis).T)
    values, vectors = np.linalg.eigh(0.5 * (whitened + whitened.T))
    # clients of unequal V count as so many equal ones
    n = max(float(np.sqrt(f).sum() ** 2 / f.sum()), 2.0)
    had = int(np.sum(np.linalg.eigvalsh(F) > 1e-9 * max(np.trace(F), 1e-300)))
    edge = (math.sqrt(n - 1.0) + math.sqrt(d)) ** 2 / n
    unit = (math.sqrt(n - 1.0) + math.sqrt(d)) / n
    unit *= (1.0 / math.sqrt(n - 1.0) + 1.0 / math.sqrt(d)) ** (1.0 / 3.0)
    order = np.argsort(values)[::-1]
    spiked = [
        k for rank, k in enumerate(order)
        if values[k] > edge + (STAYS if rank < had else RISES) * unit
    ]  # fmt: skip
    gamma, found = d / n, np.zeros(F.shape)
    for k in spiked:
        excess = values[k] - 1.0 - gamma
        size = 0.5 * (excess + math.sqrt(max(excess * excess - 4.0 * gamma, 0.0)))
        q = basis @ ((half @ vectors[:, k]) / v)
        found += size * np.outer(q, q)
    rest = [k for k in order if k not in spiked]
    noise = half @ vectors[:, rest]  # N without the spikes' directions
    s = float(np.sum(noise**2 * (values[rest] - 1.0)))
    t = float(np.sum((noise.T @ noise) ** 2)) * float(f.mean() / np.sum(v**2))
    return tau + s / t if t > 0.0 else tau, 0.5 * (found + found.T)


def penalty(clients: int) -> float:
    """Return what learning alone has to gain in log evidence, among N clients: its prior odds.

    The number of clients that do so by mistake does not grow with N: where many share a model, a
    mistake costs much.
    """
    return math.log(1.0 / min(AT_MOST, UNUSUAL / clients) - 1.0)


def covariance(model: SharedModel | None, d: int) -> FloatArray:
    """Return T of a model, shape (d, d), in units of the dispersion; 0 before the first."""
    if model is None or model.spread is None:
        return np.zeros((d, d))
    T = float(model.spread[0]) * np.eye(d)
    return T if model.directions is None else T + model.directions


def respread(W: FloatArray, before: FloatArray, after: FloatArray, faded: float) -> FloatArray:
    """Return A, by which a client's sums W and w become AW and Aw with another T.

    `faded` is the factor by which the weights of its samples have fallen.
    """
    inverse = np.linalg.inv(np.eye(len(W)) + W @ (faded * after - before))
    return np.asarray(faded * inverse, dtype=np.float64)


def gain_matrix(P: FloatArray, T: FloatArray) -> FloatArray:
    """Return (P + PTP)⁻¹, symmetric: how little is known of the shared model."""
    Q = P + P @ T @ P
    inverse = np.linalg.inv(0.5 * (Q + Q.T))
    result: FloatArray = 0.5 * (inverse + inverse.T)
    return result
