"""SQLite files that one process holds, and arrays in them."""

from __future__ import annotations

import ctypes
import io
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedglb.errors import InvalidInput
from fedglb.federation.errors import Unavailable

_held: dict[int, sqlite3.Connection] = {}


def _keep_open() -> None:
    """In a forked child: never let go of its parent's files.

    To close one, which Python does when the child exits, would delete the write-ahead log that
    the parent goes on writing to.
    """
    for db in _held.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_open)


def close(db: sqlite3.Connection) -> None:
    """Close a file of `connect`."""
    _held.pop(id(db), None)
    db.close()


def connect(path: str | Path, schema: str, kind: str, version: int) -> sqlite3.Connection:
    """Open or make a file that nobody else can open until this process ends.

    The lock is the system's: it goes with the process, also after ``kill -9``. `kind` is the
    file's `application_id` in words, `version` that of its tables.
    """
    try:
        # Nobody else's to read. A file that is there is not opened: closing it would take away
        # the lock of whoever in this process holds it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
    except (OSError, sqlite3.Error) as error:
        raise InvalidInput("path", str(path), f"a file that can be opened: {error}") from None
    try:
        db.execute("PRAGMA locking_mode=EXCLUSIVE")  # before WAL: then there is no shared memory
        db.execute("PRAGMA secure_delete=ON")  # what is forgotten is overwritten
        db.execute("BEGIN IMMEDIATE")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        mark = int.from_bytes(kind.encode()[:4], "big")
        if not empty and db.execute("PRAGMA application_id").fetchone()[0] != mark:
            raise InvalidInput("path", str(path), f"a new file, or one that a {kind} made")
        if not empty and found != version:
            allowed = f"a file of version {version} of this software's tables; this is {found}"
            raise InvalidInput("path", str(path), allowed)
        db.execute("ROLLBACK")
        db.execute("PRAGMA journal_mode=WAL")  # not before: it changes the file, whosever it is
        db.execute("PRAGMA synchronous=NORMAL")
        if empty:
            db.execute("BEGIN IMMEDIATE")
            db.execute(f"PRAGMA application_id={mark}")
            db.execute(f"PRAGMA user_version={version}")
            for statement in schema.split(";"):
                db.execute(statement)
            db.execute("COMMIT")
    except sqlite3.Error as error:
        db.close()
        if "locked" in str(error):
            raise Unavailable(
                f"{path} is open already: one process uses a file, and every process needs an "
                f"{kind} of its own (file and certificate)"
            ) from None
        raise InvalidInput("path", str(path), f"a file that {kind} can use: {error}") from None
    except BaseException:
        db.close()
        raise
    _held[id(db)] = db
    return db


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit what happens inside as one, or nothing of it."""
    try:
        db.execute("BEGIN")
        yield
        db.execute("COMMIT")
    except BaseException:
        roll_back(db)
        raise


def roll_back(db: sqlite3.Connection) -> None:
    """Undo a transaction that was cut short, if there is one."""
    if db.in_transaction:
        db.execute("ROLLBACK")


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as bytes (NumPy's own format, no pickles).

    Examples
    --------
    >>> unpack(pack({"a": np.array([1.0, 2.0])}))["a"].tolist()
    [1.0, 2.0]
    """
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: np.asarray(a) for name, a in arrays.items()})
    return file.getvalue()


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of `pack`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return dict(found)
