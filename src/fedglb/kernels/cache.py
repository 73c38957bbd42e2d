"""The folder in which numba keeps compiled kernels, so that a process finds what another compiled.

numba's disk cache does not notice an edit in a file that a kernel *imports*. So the name of the
folder has a digest of all sources of kernels in it.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import warnings
from dataclasses import dataclass

from fedglb.io.atomic import user_cache
from fedglb.provenance import source_digest

#: Set in the environment once the warning was given: child processes do not repeat it.
_WARNED = "FEDGLB_WARNED_KERNELS_NOT_KEPT"


class KernelsNotKept(UserWarning):
    """Compiled kernels cannot be written to disk: every process compiles them again."""


@dataclass(frozen=True)
class Cache:
    """The folder of compiled kernels.

    Parameters
    ----------
    folder
        One per user and digest of the kernels' sources.
    usable
        The folder that this process uses: `folder`, a temporary copy of it where `folder` is
        read-only, or None where nothing can be kept.
    fresh
        Whether the folder was empty when this process started, so that its first run compiles.
    """

    folder: str
    usable: str | None
    fresh: bool


@functools.cache
def cache() -> Cache:
    """Return the folder of compiled kernels; warn once if nothing can be kept there."""
    root = os.environ.get("NUMBA_CACHE_DIR") or user_cache()
    folder = os.path.join(root, "kernels-" + source_digest()[:16])
    try:
        os.makedirs(folder, exist_ok=True)
        fresh = not os.listdir(folder)
    except OSError as error:
        _warn(folder, error.strerror or str(error))
        return Cache(folder, None, fresh=True)
    try:
        tempfile.TemporaryFile(dir=folder).close()
        return Cache(folder, folder, fresh)
    except OSError as error:
        if fresh:
            _warn(folder, error.strerror or str(error))
            return Cache(folder, None, fresh=True)
        return Cache(folder, _writable_copy(folder), fresh=False)


def _writable_copy(folder: str) -> str | None:
    """Copy a read-only folder: numba uses only a folder that it can write to."""
    try:
        copy = tempfile.mkdtemp(prefix="fedglb-kernels-")
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        shutil.copytree(folder, copy, dirs_exist_ok=True, copy_function=shutil.copyfile)
    except OSError as error:
        _warn(folder, error.strerror or str(error))
        return None
    return copy


def _warn(folder: str, reason: str) -> None:
    if _WARNED in os.environ:
        return
    os.environ[_WARNED] = "1"
    warnings.warn(
        f"compiled kernels cannot be kept in {folder} ({reason}): every process compiles them "
        "again, which takes seconds. Set NUMBA_CACHE_DIR to a folder that can be written to, or "
        "run `fedglb warm-up` once as a user who may write to this one.",
        KernelsNotKept, stacklevel=3,
    )  # fmt: skip
