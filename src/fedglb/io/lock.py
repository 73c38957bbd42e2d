"""A lock, so that only one process writes to a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fedglb.errors import InvalidInput

LOCK = ".lock"


@contextlib.contextmanager
def exclusive_lock(folder: Path, busy: str = "a sweep is running in this one") -> Iterator[None]:
    """Hold the folder's lock; it is released when the process ends, even by a crash.

    `busy` tells a second process what the first one is doing.
    """
    try:
        import fcntl
    except ImportError:  # Windows: no lock
        yield
        return
    with open(folder / LOCK, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            allowed = f"another one, or wait: {busy}"
            raise InvalidInput("folder", str(folder), allowed) from None
        yield
