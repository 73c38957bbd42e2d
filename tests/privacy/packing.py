"""Sums of samples as whole numbers, written plainly; `protocol.batches` has the kernels."""

from __future__ import annotations

import numpy as np

from fedglb.privacy.fixed_point import BITS


def pack(vector: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The vector, then the lower triangle of the matrix, off-diagonal entries times √2."""
    rows, columns = np.tril_indices(vector.shape[-1])
    triangle = matrix[..., rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))
    return np.concatenate([vector, triangle], axis=-1)


def quantised(numbers: np.ndarray) -> np.ndarray:
    """Numbers in units of 2**-BITS, each rounded to the nearest whole number."""
    return np.rint(numbers * 2.0**BITS).astype(np.int64)
