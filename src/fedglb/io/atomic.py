"""Atomic writes, a lock for folders with one writer, and the package's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from fedglb.errors import InvalidInput

UNFINISHED = ".unfinished-"
LOCK = ".lock"


def user_cache() -> Path:
    """Return the user's cache folder: for files that can be made or downloaded again."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root, "fedglb")


def atomic_write(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one.

    The content is written under a temporary name, synced to the disk, and renamed; then the folder
    is synced, because the new name could be lost otherwise. A full disk raises `OSError` and leaves
    nothing behind. Temporary names are unique: of two processes that write one file, neither
    renames a half-written file of the other. The file has `mode` from the first byte on: 0o600 for
    a secret.
    """
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(4)}-{path.name}")
    try:
        with open(unfinished, "wb", opener=lambda p, flags: os.open(p, flags, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder to the disk: the names of new files in it could be lost otherwise."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # a system that cannot open folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(folder: Path, older_than: float = 0.0) -> None:
    """Remove the temporary files of killed processes that are older than `older_than` seconds."""
    for path in folder.glob(UNFINISHED + "*"):
        with contextlib.suppress(FileNotFoundError):
            if older_than <= 0.0 or path.stat().st_mtime < time.time() - older_than:
                path.unlink()


def checksum(content: bytes | memoryview) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


@contextlib.contextmanager
def exclusive_lock(folder: Path, busy: str = "a sweep is running in this one") -> Iterator[None]:
    """Hold the folder's lock; it is released when the process ends, even by a crash.

    `busy` is the message for a second process.
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
            allowed = f"another folder, or wait: {busy}"
            raise InvalidInput("folder", str(folder), allowed) from None
        yield
