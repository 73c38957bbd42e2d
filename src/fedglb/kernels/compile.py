"""How the package compiles: the decorator `kernel`, and a disk cache that cannot go stale.

* There is no fastmath and no parallel reduction: the same input gives the same bits everywhere.
* numba's disk cache does not notice an edit in a file that a kernel *imports*, so the name of the
  cache folder has a digest of all of the package's sources in it.

How kernels are called by address is in `fedglb.kernels.pointers`.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

from fedglb.io.atomic import user_cache
from fedglb.provenance import PACKAGE, source_digest

P = ParamSpec("P")
T = TypeVar("T")

# A division by zero gives infinity or NaN, which the callers check for. It raises no exception,
# because a function that is called by address could not pass it on.
_OPTIONS = {"nogil": True, "error_model": "numpy"}


@dataclass(frozen=True)
class Cache:
    """Where compiled kernels are kept.

    Parameters
    ----------
    folder
        None where nothing can be written.
    fresh
        Whether nothing was compiled yet when this process started: its first run takes longer.
    """

    folder: str | None
    fresh: bool


@functools.cache
def cache() -> Cache:
    """Return the folder of compiled kernels, one per user and digest of the package's sources."""
    root = os.environ.get("NUMBA_CACHE_DIR") or user_cache()
    folder = os.path.join(root, "kernels-" + source_digest()[:16])
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:  # a read-only home: every process compiles again
        return Cache(None, fresh=True)
    fresh = not os.listdir(folder)
    return Cache(folder if os.access(folder, os.W_OK) else None, fresh)


@contextlib.contextmanager
def disk_cache() -> Iterator[bool]:
    """Make numba use our folder; give whether there is one."""
    folder, before = cache().folder, numba.config.CACHE_DIR
    if folder is not None:
        numba.config.CACHE_DIR = folder
    try:
        yield folder is not None
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """Compile `function` with numba on its first call; it runs without the GIL.

    The package's own kernels are kept on disk. Those of others are compiled in every process,
    because the digest does not cover what they import.

    Parameters
    ----------
    function
        A function that numba compiles in its nopython mode.

    Returns
    -------
    Callable
        The same function, compiled; `function` itself with ``NUMBA_DISABLE_JIT=1``.

    Examples
    --------
    >>> @kernel
    ... def double(x: float) -> float:
    ...     return 2.0 * x
    >>> double(1.5)
    3.0
    """
    return _compiled(function)


def inlined_kernel(function: Callable[P, T]) -> Callable[P, T]:
    """Do as `kernel` does, and copy `function` into every kernel that calls it.

    Each array is seven words or more when it is passed: a call with ten of them takes longer than
    scoring a few arms.

    Parameters
    ----------
    function
        A function that numba compiles in its nopython mode.

    Returns
    -------
    Callable
        The same function, compiled; `function` itself with ``NUMBA_DISABLE_JIT=1``.
    """
    return _compiled(function, forceinline=True)


def _compiled(function: Callable[P, T], **options: bool) -> Callable[P, T]:
    with disk_cache() as on_disk:
        cached = on_disk and is_own(function)
        compiled = numba.njit(cache=cached, **_OPTIONS, **options)(function)
    return cast("Callable[P, T]", compiled)


def is_own(function: Callable[..., Any]) -> bool:
    """Return whether a function is the package's own: only those are kept on disk."""
    return PACKAGE in Path(function.__code__.co_filename).parents
