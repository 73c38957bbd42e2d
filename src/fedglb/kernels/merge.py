"""Tables of distinct samples: where the same arms are offered again and again, a pass is short.

Each distinct feature vector is kept once, with how often it occurs and the sum of its rewards: all
that sums of derivatives and losses need. The order is that of first occurrence, and rewards are
added in the order in which they come. So all sums depend on nothing but the samples and their
order; where no two samples are the same, they have the bits of a pass over samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.typing import FloatArray, IntArray

#: A client with more distinct samples than this is summed over sample by sample.
MOST = 128


class Merged(NamedTuple):
    """The distinct samples of each of L clients."""

    X: FloatArray  # features, shape (L, MOST, d)
    y: FloatArray  # sums of rewards, shape (L, MOST)
    times: FloatArray  # how often each occurs, shape (L, MOST)
    different: IntArray  # their number, shape (L,); −1 once there are more than `MOST`
    taken: IntArray  # number of the client's samples in the table, shape (L,)

    @classmethod
    def empty(cls, clients: int, dim: int) -> Merged:
        """Return tables of no samples."""
        shape = (clients, MOST)
        return cls(
            np.empty((*shape, dim)), np.empty(shape), np.empty(shape),
            np.zeros(clients, dtype=np.int64), np.zeros(clients, dtype=np.int64),
        )  # fmt: skip


@kernel
def merge(merged: Merged, i: int, X: FloatArray, y: FloatArray) -> None:
    """Bring the table of client i up to date; the rows of X and y are all of its samples."""
    found, n = merged.different[i], X.shape[0]
    s = merged.taken[i]
    while s < n and found >= 0:
        k = 0
        while k < found and not equal(merged.X[i, k], X[s]):
            k += 1
        if k == MOST:
            found = -1
        else:
            if k == found:
                for j in range(X.shape[1]):
                    merged.X[i, k, j] = X[s, j]
                merged.y[i, k], merged.times[i, k] = 0.0, 0.0
                found += 1
            merged.y[i, k] += y[s]
            merged.times[i, k] += 1.0
        s += 1
    merged.different[i], merged.taken[i] = found, n


@kernel
def equal(a: FloatArray, b: FloatArray) -> bool:
    """Return whether two vectors are equal."""
    d, j = a.shape[0], 0
    while j < d and a[j] == b[j]:
        j += 1
    return bool(j == d)
