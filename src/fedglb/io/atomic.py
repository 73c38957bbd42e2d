"""Files that are either whole or not there, and the folder in which the package keeps some."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from pathlib import Path

UNFINISHED = ".unfinished-"


def user_cache() -> Path:
    """Return the user's folder for what can be made or downloaded again."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root, "fedglb")


def atomic_write(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file so that a crash at any moment leaves the old one or the new one.

    Under another name first, forced to the disk, then renamed; the folder is forced to the
    disk too, or the name itself could be lost. Raises `OSError` and leaves nothing behind
    where there is no room. The other name is never the same twice: two processes may write
    one file at a time, and none renames what the other has half written. `mode` holds from the
    first byte on: 0o600 for a secret.
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


def remove_unfinished(folder: Path, older_than: float = 0.0) -> None:
    """Remove what a killed process was writing, if that was `older_than` seconds ago."""
    for path in folder.glob(UNFINISHED + "*"):
        with contextlib.suppress(FileNotFoundError):
            if older_than <= 0.0 or path.stat().st_mtime < time.time() - older_than:
                path.unlink()


def checksum(content: bytes | memoryview) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()
