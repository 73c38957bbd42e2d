"""How the package compiles: one decorator, and a disk cache that cannot go stale.

* No fastmath and no parallel reductions: the same input gives the same bits everywhere.
* numba's disk cache does not notice an edit in a file that a kernel *imports*, so the cache
  folder carries a digest of all of the package's sources.
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

# A division by zero gives infinity or NaN, which the callers check for, and no exception: one in
# a function that is called by address could not be passed on.
_OPTIONS = {"nogil": True, "error_model": "numpy"}


@dataclass(frozen=True)
class Cache:
    """Where compiled kernels are kept: `folder` is None where nothing can be written."""

    folder: str | None
    fresh: bool  # nothing is compiled yet: the first run takes longer


@functools.cache
def cache() -> Cache:
    """Return the folder of compiled kernels: per user, per digest of the package's sources."""
    root = os.environ.get("NUMBA_CACHE_DIR") or user_cache()
    folder = os.path.join(root, "kernels-" + source_digest()[:16])
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:  # a read-only home: compile anew in every process
        return Cache(None, fresh=True)
    fresh = not os.listdir(folder)
    return Cache(folder if os.access(folder, os.W_OK) else None, fresh)


@contextlib.contextmanager
def disk_cache() -> Iterator[bool]:
    """Point numba at our folder; give whether there is one."""
    folder, before = cache().folder, numba.config.CACHE_DIR
    if folder is not None:
        numba.config.CACHE_DIR = folder
    try:
        yield folder is not None
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Callable[P, T]) -> Callable[P, T]:
    """Compile `function` with numba on its first call, GIL released.

    The package's own kernels are kept on disk; those of others are not, for the digest does not
    see what they import.
    """
    with disk_cache() as on_disk:
        cached = on_disk and is_own(function)
        return cast("Callable[P, T]", numba.njit(cache=cached, **_OPTIONS)(function))


def is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is the package's own: only those are kept on disk."""
    return PACKAGE in Path(function.__code__.co_filename).parents
