"""Dot products in eight lanes: sums over samples that stay in vector registers.

Without leave to reorder a sum, the compiler computes a dot product number by number. Here the order
is part of the definition: lane l adds up the products of places l, l + 8, l + 16, …, and the eight
sums are added in pairs, l with l + 4, then l with l + 2, then the last two. So the bits are the
same on every machine, whatever the width of its vectors.
"""

from __future__ import annotations

import numpy as np

from fedglb.kernels.pointers import Intrinsic
from fedglb.typing import FloatArray

#: Sums run over whole groups of so many numbers.
LANES = 8


def _dots_in_python(W: FloatArray, X: FloatArray, row: int, length: int) -> tuple[float, ...]:
    results = []
    for w in W[:2, :length]:
        for x in X[row : row + 2, :length]:
            lanes = np.zeros(LANES)
            for group in (w * x).reshape(-1, LANES):
                lanes += group
            while lanes.size > 1:
                lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
            results.append(float(lanes[0]))
    return tuple(results)


#: ``dots(W, X, row, length)``: the four dot products of the first two rows of W with the rows `row`
#: and `row` + 1 of X, over their first `length` places, a multiple of `LANES`. Both arrays are flat
#: in memory.
dots = Intrinsic("dots", _dots_in_python)
