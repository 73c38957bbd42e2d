"""The lock of a file's owner: one process with one connection at a time.

SQLite's exclusive lock would exclude readers in the same process, too. So the owner holds a system
lock on a file beside it, which ends with the process, also after ``kill -9``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_held: set[OwnerLock] = set()
_inherited: set[tuple[int, int]] = set()  # files that the process this one was forked from had open


class Taken(Exception):
    """Another process owns the file; the message names it, if known."""


class OwnerLock:
    """The lock on an existing file, held until `release`.

    Also raises `Taken` in a forked child of a process that had the file open: SQLite's memory of
    the file is not valid there.
    """

    def __init__(self, path: str | Path) -> None:
        at = os.stat(path)
        self.file = (at.st_dev, at.st_ino)
        if self.file in _inherited:
            raise Taken("by the process that this one was forked from")
        self._handle = os.open(_beside(path), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._handle)
        except BlockingIOError:
            owner = os.read(self._handle, 20).decode(errors="replace").strip()
            os.close(self._handle)
            raise Taken(f"by process {owner}" if owner.isdigit() else "") from None
        except BaseException:
            os.close(self._handle)
            raise
        with suppress(OSError):  # a full disk: errors cannot name the owner
            os.truncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Release the lock."""
        _held.discard(self)
        os.close(self._handle)

    def leave_to_parent(self) -> None:
        """In a forked child: do not hold the parent's lock after its death."""
        os.close(self._handle)
        _inherited.add(self.file)


def check_free(path: str | Path) -> None:
    """Raise `Taken` if a process owns the file; create no lock file."""
    if os.path.exists(_beside(path)):
        OwnerLock(path).release()


def _beside(path: str | Path) -> str:
    return f"{os.path.realpath(path)}-lock"  # one lock for all links to a file


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: no lock
        return
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _after_fork() -> None:
    for lock in _held:
        lock.leave_to_parent()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
