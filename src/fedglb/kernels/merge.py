"""Samples with the same features, taken together: a pass then costs what the different ones do.

Where the same arms are offered again and again, a client's samples have few different features,
however many samples there are. Each is kept once, with how often it occurs and the sum of its
rewards: all that sums of derivatives and losses need. They are kept in the order in which they
first came, and rewards are added in the order in which they come. So the tables, and all sums over
them, depend on nothing but the samples and their order: it does not matter how often they were
brought up to date. Where no two samples are the same, sums have the bits of a pass over samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedglb.kernels.compile import kernel
from fedglb.typing import FloatArray, IntArray

#: A client with more different samples than so many is summed over sample by sample.
MOST = 64


class Merged(NamedTuple):
    """The different samples of each of L clients.

    Attributes
    ----------
    X, y, times
        Features, sums of rewards, and how often a sample with these features occurs; shapes
        (L, MOST, d), (L, MOST) and (L, MOST).
    different
        How many there are, shape (L,); −1 from the moment on where there are more than `MOST`.
    taken
        How many of the client's samples are in them, shape (L,).
    """

    X: FloatArray
    y: FloatArray
    times: FloatArray
    different: IntArray
    taken: IntArray

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
