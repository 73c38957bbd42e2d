"""Noise correlated over updates, which reduces the noise in prefix sums of batches.

At update b a client sends Σ_j E_bj·(its batch j) + noise, and D_b1, D_b2, … times its messages so
far is the sum of all batches up to b: DE = A, the lower triangle of ones. One sample counts in a
column of E, so its norm over all releases grows by the norm of that column; the noise in the
prefix sum grows by the norm of row b of D.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass

import numpy as np

from fedglb.errors import integer
from fedglb.privacy.fixed_point import BITS
from fedglb.typing import FloatArray

#: Entries of E are multiples of this: sums weighted by them are exact, and the same on machines
#: that round the last bits of an eigenvalue differently.
STEP = 2.0**-20
#: Up to this number of updates E is optimised; beyond it, the square root of A has some 15 % more
#: noise early.
LARGEST = 256
# The noise in a prefix sum matters less in larger sums. Its variance counts fully over the first
# 40 % of the updates, and then less and less, down to e^-4.3.
_FULLY, _FALL = 0.4, 7.2
_ITERATIONS = 400


@dataclass(frozen=True, eq=False)
class Factors:
    """The two factors of the prefix sum: DE = A, all of shape (B, B) and lower triangular."""

    encoder: FloatArray  # E, in [0, 1]
    decoder: FloatArray  # D, not negative

    @property
    def digest(self) -> str:
        """A digest of E, and of the unit of whole numbers."""
        text = np.rint(self.encoder / STEP).astype("<i8").tobytes() + bytes([BITS])
        return hashlib.sha256(text).hexdigest()[:32]

    def growth(self, releases: int) -> float:
        """Return the maximum growth of one sample's norm over the first releases."""
        return float(np.linalg.norm(self.encoder[:releases], axis=0).max(initial=0.0))


@functools.lru_cache(maxsize=16)
def factors(updates: int) -> Factors:
    """Return the factors for n updates.

    They minimise Σ_b c_b·‖D_b‖² with columns of E of norm 1, c_b being 1 over the first 40 % of
    the updates and falling then: sums that grow geometrically bear more noise later. A fixed
    point of the optimality condition is reached by iteration (Denisov et al. 2022, section 3).
    Entries are then rounded, and D is the exact decoder of the rounded E. All entries are ≥ 0, so
    a batch counts between 0 and 1 times in a prefix sum if some release is missing.

    References
    ----------
    Denisov, McMahan, Rush, Smith and Thakurta (2022), Theorem 2.1: also for streams in which
    samples depend on earlier releases; Henzinger, Upadhyay and Upadhyay (2023): the square root.
    """
    B = integer("updates", updates)
    wanted = _optimised(B) if B <= LARGEST else _toeplitz(square_root_weights(B))
    encoder = np.rint(np.maximum(np.tril(wanted), 0.0) / STEP) * STEP
    np.fill_diagonal(encoder, np.maximum(encoder.diagonal(), STEP))
    # D solves DE = A, row by row from the right
    decoder = np.linalg.solve(encoder.T, np.tril(np.ones((B, B))).T).T
    return Factors(encoder, np.tril(decoder))


def _optimised(B: int) -> FloatArray:
    """Return E: the minimum of tr(W X⁻¹), X = EᵀE with ones on its diagonal, W = AᵀcA."""
    A = np.tril(np.ones((B, B)))
    behind = np.maximum(np.arange(1, B + 1) / B - _FULLY, 0.0)
    W = (A.T * np.exp(-_FALL * behind)) @ A
    dual, X = np.ones(B), np.eye(B)
    for _ in range(_ITERATIONS):
        root = np.sqrt(dual)
        values, vectors = np.linalg.eigh(W * np.outer(root, root))
        X = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T / np.outer(root, root)
        diagonal = X.diagonal()
        dual = dual * diagonal
        if np.abs(diagonal - 1.0).max() < 1e-7:
            break
    scale = np.sqrt(X.diagonal())
    # X = EᵀE with E lower triangular: the Cholesky factor of X backwards
    return np.asarray(np.linalg.cholesky((X / np.outer(scale, scale))[::-1, ::-1])[::-1, ::-1].T)


def _toeplitz(weights: FloatArray) -> FloatArray:
    B = len(weights)
    places = np.subtract.outer(np.arange(B), np.arange(B))
    return np.where(places >= 0, weights[np.abs(places)], 0.0) / norm(weights)


def square_root_weights(updates: int) -> FloatArray:
    """Return f_0, …, f_{B−1}, the coefficients of (1 − z)^(−1/2).

    f_0 = 1 and f_k = f_{k−1}(2k − 1)/(2k); the lower-triangular Toeplitz matrix F of f has F² = A.
    """
    k = np.arange(1, integer("updates", updates))
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def norm(weights: FloatArray) -> float:
    """Return ‖f‖, summed exactly."""
    return math.sqrt(math.fsum(w * w for w in weights.tolist()))
