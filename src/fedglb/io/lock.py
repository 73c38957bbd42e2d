"""A folder that only one process writes to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fedglb.errors import InvalidInput

LOCK = ".lock"


@contextlib.contextmanager
def exclusive_lock(folder: Path, busy: str = "a sweep is running in this one") -> Iterator[None]:
    """Hold the folder's lock; a process that ends, however it ends, lets go of it.

    `busy` says to whoever comes second what the first one does.
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
