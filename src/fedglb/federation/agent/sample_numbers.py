"""The sequence numbers and the steps of an agent's samples, in order."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from fedglb.typing import BoolArray, IntArray


class SampleNumbers:
    """Two growing columns of whole numbers, parallel to the samples.

    Parameters
    ----------
    table
        Sequence numbers, which rise, and steps; shape (2, n). It is not copied.

    Examples
    --------
    >>> numbers = SampleNumbers(np.array([[1, 2, 5], [7, 9, 8]]))
    >>> numbers.append(6, 8)
    >>> len(numbers), numbers.up_to(4), numbers.last_sequence, numbers.last_step
    (4, 2, 6, 9)
    >>> numbers.without({2}).last_step
    8
    """

    def __init__(self, table: IntArray) -> None:
        self._table: IntArray = table
        self._n = int(table.shape[1])

    def __len__(self) -> int:
        return self._n

    @property
    def sequence(self) -> IntArray:
        """The sequence numbers, in order; shape (n,)."""
        return self._table[0, : self._n]

    @property
    def last_sequence(self) -> int:
        """The highest sequence number, 0 without samples."""
        return int(self.sequence[-1]) if self._n else 0

    @property
    def last_step(self) -> int:
        """The newest step, 0 without samples."""
        return int(self._table[1, : self._n].max(initial=0))

    def up_to(self, sequence: int) -> int:
        """Return how many samples have this sequence number or a lower one."""
        return int(np.searchsorted(self.sequence, sequence, side="right"))

    def append(self, sequence: int, step: int) -> None:
        """Append a sample."""
        if self._n == self._table.shape[1]:
            more = np.empty((2, max(self._n, 16)), dtype=np.int64)
            self._table = np.concatenate([self._table, more], axis=1)
        self._table[:, self._n] = sequence, step
        self._n += 1

    def kept(self, gone: Collection[int]) -> BoolArray:
        """Return a mask of the samples whose sequence numbers are not in `gone`."""
        keep = np.ones(self._n, dtype=bool)
        keep[np.searchsorted(self.sequence, sorted(gone))] = False
        return keep

    def without(self, gone: Collection[int]) -> SampleNumbers:
        """Return the numbers of the other samples; each number in `gone` must be a sample's."""
        return SampleNumbers(self._table[:, : self._n][:, self.kept(gone)])
