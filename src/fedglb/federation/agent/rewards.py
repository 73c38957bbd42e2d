"""How many rewards an agent has had, and their sum: what it reports if it agreed to."""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

from fedglb.typing import FloatArray

RECENT = 1000  # rewards


class RewardTotals:
    """Counts rewards; any thread may.

    Examples
    --------
    >>> totals = RewardTotals()
    >>> for reward in (1.0, 0.0, 1.0):
    ...     totals.add(reward)
    >>> totals.numbers().tolist()  # count and sum, of all and of the last thousand
    [3.0, 2.0, 3.0, 2.0]
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count, self._total = 0, 0.0
        self._recent: deque[float] = deque(maxlen=RECENT)

    def add(self, reward: float) -> None:
        """Count a reward."""
        with self._lock:
            self._count += 1
            self._total += float(reward)
            self._recent.append(float(reward))

    def numbers(self) -> FloatArray:
        """Return count and sum since the process started, then of the last thousand."""
        with self._lock:
            recent = len(self._recent), sum(self._recent)
            return np.array([self._count, self._total, *recent], dtype=np.float64)
