"""Files that are either complete or absent, and the package's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from pathlib import Path

UNFINISHED = ".unfinished-"


def user_cache() -> Path:
    """Return the user's cache folder: for files that can be made or downloaded again."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root, "fedglb")


def atomic_write(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one.

    The content is written under a temporary name, synced to the disk, and renamed; then the folder
    is synced, because the new name could be lost otherwise. Where there is no room this raises
    `OSError` and leaves nothing behind. Every call has a temporary name of its own: of two
    processes that write one file at a time, neither renames what the other has half written.
    The file has `mode` from the first byte on: 0o600 for a secret.
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
    except OSError:  # a system on which a folder cannot be opened
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
