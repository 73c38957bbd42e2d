"""The square-root factorisation: noise that is correlated over updates, so that sums need less."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fedglb.errors import integer
from fedglb.typing import FloatArray


def square_root_weights(updates: int) -> FloatArray:
    """Return f_0, …, f_{B−1}, the coefficients of (1 − z)^(−1/2).

    The lower-triangular Toeplitz matrix F of f has F² = the matrix of ones: prefix sums. What is
    released is F·batches + noise, and F times that is the prefix sums + F·noise.

    Parameters
    ----------
    updates
        B ≥ 1, how many releases there will be.

    Returns
    -------
    array
        f_0 = 1 and f_k = f_{k−1}(2k − 1)/(2k).

    References
    ----------
    Henzinger, Upadhyay and Upadhyay (2023); for streams that depend on earlier releases: Denisov,
    McMahan, Rush, Smith and Thakurta (2022), Theorem 2.1.

    Examples
    --------
    >>> square_root_weights(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    k = np.arange(1, integer("updates", updates))
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def norm(weights: Sequence[float] | FloatArray) -> float:
    """Return ‖f‖, by which one sample's norm grows over all releases.

    Examples
    --------
    >>> round(norm(square_root_weights(30)), 2)
    1.47
    """
    return math.sqrt(math.fsum(w * w for w in weights))
