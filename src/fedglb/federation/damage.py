"""Damaged SQLite files: an error that names the file and says what to do."""

from __future__ import annotations

import os
import sqlite3
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from fedglb.errors import InvalidInput

_AGENT, _COORDINATOR = "an agent", "a coordinator"
_REMEDIES = {
    _AGENT: "restore a backup, or move the file away and start with a new one: its samples are "
    "lost, the federation's model keeps the others'",
    _COORDINATOR: "restore a backup, or move the file away and start with a new one, as if it were "
    "lost (docs/operate.md): no agent loses a sample",
}
#: Errors from reading bytes that are not as they were written.
_UNREADABLE = (
    sqlite3.DatabaseError, zipfile.BadZipFile, msgspec.DecodeError, EOFError, KeyError, ValueError,
    struct.error,
)  # fmt: skip


def remedy(owner: str, error: Exception) -> str:
    """Return what to do about an agent's or a coordinator's file that SQLite cannot use.

    Examples
    --------
    >>> remedy("an agent", sqlite3.OperationalError("attempt to write a readonly database"))
    'check that this user owns the file, may write to its folder, and that the disk has space'
    """
    if not _is_damage(error):
        return (
            "check that this user owns the file, may write to its folder, and that the disk has "
            "space"
        )
    return f"it is damaged; {_REMEDIES[owner]}"


@contextmanager
def as_agents(path: str | os.PathLike[str]) -> Iterator[None]:
    """Read an agent's file inside; raise `InvalidInput` if it is damaged."""
    with _as(_AGENT, path):
        yield


@contextmanager
def as_coordinators(path: str | os.PathLike[str]) -> Iterator[None]:
    """Read a coordinator's file inside; raise `InvalidInput` if it is damaged."""
    with _as(_COORDINATOR, path):
        yield


@contextmanager
def _as(owner: str, path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except InvalidInput:
        raise
    except _UNREADABLE as error:
        if not _is_damage(error):
            raise
        allowed = f"a sound file ({type(error).__name__}: {error}): {remedy(owner, error)}"
        raise InvalidInput("path", os.fspath(path), allowed) from error


def _is_damage(error: Exception) -> bool:
    """Return whether the file is at fault, not a full disk or a missing permission."""
    return not isinstance(error, sqlite3.OperationalError) or "no such" in str(error)


def check_pages(db: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` if a page of a file is damaged; reads the whole file."""
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)
