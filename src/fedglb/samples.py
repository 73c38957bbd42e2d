"""A client's own samples. They never leave the client."""

from __future__ import annotations

import numpy as np

from fedglb.typing import FloatArray


class Samples:
    """A growing table of samples (x, y) and when they came, in arrays for fast passes."""

    def __init__(self, dim: int) -> None:
        self._X = np.empty((16, dim))
        self._y = np.empty(16)
        self._at = np.empty(16)
        self._n = 0

    @classmethod
    def over(cls, X: FloatArray, y: FloatArray, n: int, at: FloatArray | None = None) -> Samples:
        """Return a view of the first n rows of (m, d) and (m,) arrays, m ≥ n.

        Appending to it may overwrite row n. Without `at`, all samples came at time 0.
        """
        samples = cls(X.shape[1])
        samples._X, samples._y, samples._n = X, y, n
        samples._at = np.zeros(len(y)) if at is None else at
        return samples

    def so_far(self) -> Samples:
        """Return a view of the samples so far, without later ones.

        Another thread may append meanwhile: the number n is read first, and from then on all
        arrays have at least n rows.
        """
        n = self._n
        return Samples.over(self._X, self._y, n, self._at)

    def __len__(self) -> int:
        return self._n

    @property
    def X(self) -> FloatArray:
        """The features, shape (n, d)."""
        return self._X[: self._n]

    @property
    def y(self) -> FloatArray:
        """The rewards, shape (n,)."""
        return self._y[: self._n]

    @property
    def at(self) -> FloatArray:
        """When each was learned, in steps (or another unit of time), shape (n,)."""
        return self._at[: self._n]

    def append(self, x: FloatArray, y: float, at: float = 0.0) -> int:
        """Add one sample and return its index."""
        if self._n == self._y.shape[0]:
            more = max(self._n, 16)
            self._X = np.concatenate([self._X, np.empty((more, self._X.shape[1]))])
            self._y = np.concatenate([self._y, np.empty(more)])
            self._at = np.concatenate([self._at, np.empty(more)])
        self._X[self._n] = x
        self._y[self._n] = y
        self._at[self._n] = at
        self._n += 1
        return self._n - 1
