"""Where compiled kernels are kept on disk, so that one process of a machine compiles each.

* numba's disk cache does not notice an edit in a file that a kernel *imports*, so the name of our
  folder has a digest of all sources of kernels in it.
* Code that checks indices (NUMBA_BOUNDSCHECK=1) is kept in another folder: to numba's cache it is
  the same.
* A process that finds no machine code for a kernel takes the kernel's lock, looks again, and
  compiles. Others wait and load the result. The system releases the lock of a process that dies.
* A folder that can only be read, as in an image, is used. Where something cannot be kept, one
  warning says so.
"""

from __future__ import annotations

import functools
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from fedglb.io.atomic import user_cache
from fedglb.provenance import source_digest

#: Seconds after which a process that waits for another one compiles for itself. The other one may
#: be stopped, by Ctrl-Z for example; no kernel takes nearly as long.
PATIENCE = 120.0
_LOOK_EVERY = 0.02
#: Set in the environment after the warning that kernels are not kept: children do not repeat it.
_SAID = "FEDGLB_SAID_KERNELS_ARE_NOT_KEPT"


class KernelsNotKept(UserWarning):
    """Compiled kernels cannot be written to disk: every process compiles them again."""


@dataclass
class Counts:
    """How many of the package's kernels this process compiled, and found on disk.

    `tell` is called before the first is compiled.
    """

    compiled: int = 0
    loaded: int = 0
    tell: Callable[[], object] | None = None


counts = Counts()


@dataclass(frozen=True)
class Cache:
    """Where compiled kernels are kept."""

    folder: str
    fresh: bool  # nothing was compiled yet when this process started: its first run takes longer
    obstacle: str | None  # why nothing can be kept there


@functools.cache
def cache() -> Cache:
    """Return the folder of compiled kernels, one per user and digest of the kernels' sources."""
    root = os.environ.get("NUMBA_CACHE_DIR") or user_cache()
    checked = "-checked" if os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0") else ""
    folder = os.path.join(root, f"kernels-{source_digest()[:16]}{checked}")
    try:
        os.makedirs(folder, exist_ok=True)
        fresh = not os.listdir(folder)
    except OSError:
        return Cache(folder, True, "the folder is not there and cannot be made")
    closed = fresh and not os.access(folder, os.W_OK)
    return Cache(folder, fresh, "the folder is empty and cannot be written to" if closed else None)


def say_if_not_kept() -> None:
    """Warn where it is known from the start that nothing will be kept, before workers start."""
    obstacle = cache().obstacle
    if obstacle is not None:
        say_not_kept(obstacle)


def say_not_kept(why: str) -> None:
    """Warn that compiled kernels are not kept: once, and not again in processes started later."""
    if _SAID in os.environ:
        return
    os.environ[_SAID] = "1"
    warnings.warn(
        f"compiled kernels are not kept in {cache().folder} ({why}): every process compiles them "
        "again, which takes seconds. Set NUMBA_CACHE_DIR to a folder that can be written to, or "
        "run `fedglb warm-up` once as a user who may write to this one.",
        KernelsNotKept, stacklevel=2,
    )  # fmt: skip


class KernelLock:
    """The right to compile a kernel: of the processes of a machine one has it at a time.

    A process holds one of these at most, so that no two can wait for each other: numba compiles
    one kernel at a time in a process. Where there can be no lock, every process compiles. The
    lock's file stays.
    """

    _held: ClassVar[KernelLock | None] = None

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._thread: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock; return whether this process has it now and did not before."""
        if KernelLock._held is not None:
            return False
        try:
            import fcntl

            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except (ImportError, OSError):  # Windows; a folder that cannot be written to
            return False
        until = time.monotonic() + PATIENCE
        try:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise
                time.sleep(_LOOK_EVERY)
        except OSError:  # also a file system without locks
            os.close(file)
            return False
        except BaseException:
            os.close(file)
            raise
        self._file, self._thread, KernelLock._held = file, threading.get_ident(), self
        return True

    def release(self) -> None:
        """Let others go on, if this thread holds the lock."""
        if self._thread == threading.get_ident():
            self.let_go()

    def let_go(self) -> None:
        """Close the lock's file, which is open."""
        assert self._file is not None
        os.close(self._file)
        self._file, self._thread, KernelLock._held = None, None, None


def _let_go_in_child() -> None:
    """Close a forked child's copy of the lock: it would hold it after its parent has died."""
    if KernelLock._held is not None:
        KernelLock._held.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
