"""Arms on their way to scoring: transposed and looked at in one pass."""

from __future__ import annotations

from fedglb.kernels.jit import kernel
from fedglb.kernels.types import FloatArray


@kernel
def into_columns(arms: FloatArray, columns: FloatArray, longest: float) -> bool:
    """Write `arms` (K, d) to `columns` (d, K); whether every ‖x‖² is finite and ≤ `longest`."""
    fits = True
    for k in range(arms.shape[0]):
        square = 0.0
        for j in range(arms.shape[1]):
            x = arms[k, j]
            columns[j, k] = x
            square += x * x
        fits = fits and square <= longest  # not so for NaN
    return fits
