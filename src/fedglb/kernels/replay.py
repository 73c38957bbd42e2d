"""Many samples of one client taken in at once: what a restart or a new model needs."""

from __future__ import annotations

from fedglb.kernels.jit import call_step, kernel
from fedglb.kernels.types import FloatArray, IntArray


@kernel
def replay(
    step: int,
    vectors: FloatArray,
    matrices: FloatArray,
    counters: FloatArray,
    X: FloatArray,
    y: FloatArray,
    first: int,
    functions: IntArray,
    constants: FloatArray,
) -> int:
    """Take in the rows of X, y from `first` on with the step at this address, one by one.

    Returns 0, or the number of samples at which a step failed.
    """
    for n in range(first, X.shape[0]):
        if call_step(
            step, vectors, matrices, counters, X[: n + 1], y[: n + 1], functions, constants
        ):
            return n + 1
    return 0
