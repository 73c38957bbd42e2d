"""Files that are either whole or not there, and a folder that only one process writes to."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from fedglb.errors import InvalidInput

LOCK = ".lock"
UNFINISHED = ".unfinished-"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one.

    Under another name first, forced to the disk, then renamed; the folder is forced to the
    disk too, or the name itself could be lost. Raises `OSError` and leaves nothing behind
    where there is no room.
    """
    unfinished = path.with_name(UNFINISHED + path.name)
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # a system on which a folder cannot be opened
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process was writing."""
    for path in folder.glob(UNFINISHED + "*"):
        path.unlink(missing_ok=True)


def checksum(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a process that ends, however it ends, lets go of it."""
    try:
        import fcntl
    except ImportError:  # Windows: no lock
        yield
        return
    with open(folder / LOCK, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(
                "folder", str(folder), "another one, or wait: a sweep is running in this one"
            ) from None
        yield
