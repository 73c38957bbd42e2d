"""A user's score of arms as a kernel with the signature `pointers.INDEX`.

The layout of kernels stays in here: the user's function gets arms as (K, d) and returns (K,).
numba is imported here, so import this module only where a kernel is first called.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from fedglb.kernels import linking
from fedglb.kernels.layout import SCORES
from fedglb.kernels.pointers import INDEX, compile_scalar

#: What a kernel around a user's function returns.
FINE, INVALID = 0, 1


def compiled(
    score: Callable[..., Any], numbers: tuple[tuple[str, str], ...], offered: Callable[..., Any]
) -> tuple[int, Any]:
    """Return the address of a kernel around a function, and what keeps it alive.

    The function is called as score(rule, arms, model, t). `numbers` are the names and types of the
    rule's numbers, which follow the one that the kernel `offered` takes in `constants`. An index
    beyond an array raises `IndexError`.
    """
    names = [name for name, _ in numbers]
    found = {"Rule": namedtuple("Rule", names)}
    values = ", ".join(f"{kind}(constants[{k}])" for k, (_, kind) in enumerate(numbers, start=1))
    exec(f"def read(constants): return Rule({values})", found)
    read, ranks = numba.njit(found["read"]), numba.njit(boundscheck=True)(score)

    def index(  # type: ignore[no-untyped-def]
        arms, vectors, matrices, work, factor, constants, t, key, number, client, draw
    ):
        rows, model = offered(arms, vectors, matrices, work, constants[0])
        K = rows.shape[0]
        # This memory is handed out next: scores that are left unwritten in `np.empty(K)` are NaN.
        np.full(K, np.nan), np.full(K, np.nan), np.full(K, np.nan), np.full(K, np.nan)
        scores = ranks(read(constants), rows, model, t)
        if scores.shape[0] != K:
            return INVALID
        for k in range(K):
            work[SCORES, k] = scores[k]
            if not math.isfinite(scores[k]):
                return INVALID
        return FINE

    entry = linking.compiled_here(index)
    return linking.native_address(entry, INDEX), entry


def interpreted(call: Callable[..., int]) -> tuple[int, Any]:
    """Return the address of a kernel that calls a Python function, and what keeps it alive.

    What the function raises, `decide` raises.
    """
    if linking.interpreted():
        return compile_scalar(call, 0).address, call

    def index(  # type: ignore[no-untyped-def]
        arms, vectors, matrices, work, factor, constants, t, key, number, client, draw
    ):
        with numba.objmode():
            call(arms, vectors, matrices, work, factor, constants, t, key, number, client, draw)
        return FINE

    entry = numba.njit(index)
    return linking.native_address(entry, INDEX), entry
