"""Threads around kernels, which release the interpreter's lock.

Results do not depend on how the work is divided.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

from fedglb.provenance import cores

T = TypeVar("T")

#: A range of clients is not divided for fewer numbers to draw than this per thread.
_LEAST_NUMBERS = 100_000


def threads() -> int:
    """Return the number of threads of this process; joblib sets NUMBA_NUM_THREADS for workers."""
    limit = os.environ.get("NUMBA_NUM_THREADS", "")
    return max(int(limit), 1) if limit.isdecimal() else cores()


def each(do: Callable[[T], None], items: Iterable[T]) -> None:
    """Call do(item) for each item, in threads; raise the error of the first that fails."""
    every = list(items)
    count = min(threads(), len(every))
    if count <= 1:
        for item in every:
            do(item)
        return
    with ThreadPoolExecutor(count) as pool:
        for _ in pool.map(do, every):
            pass


def in_ranges(draw: Callable[[int, int], None], clients: int, numbers: int) -> None:
    """Call draw(begin, end) for ranges that together are 0 … clients − 1, in threads.

    `numbers` is the total number of draws: little work is not divided.
    """
    count = max(1, min(threads(), clients, numbers // _LEAST_NUMBERS))
    ends = [clients * k // count for k in range(count + 1)]
    each(lambda pair: draw(*pair), pairwise(ends))
