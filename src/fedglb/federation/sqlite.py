"""SQLite files that one process at a time can open; remedies for damaged ones."""

from __future__ import annotations

import ctypes
import errno
import io
import math
import os
import secrets
import sqlite3
import struct
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedglb.errors import InvalidInput
from fedglb.federation.errors import Superseded, Unavailable
from fedglb.federation.owner_lock import OwnerLock, Taken, check_free
from fedglb.io.atomic import UNFINISHED, sync_folder

#: The kind of a file.
Kind = Literal["agent", "coordinator"]


class _Facts(NamedTuple):
    """Header, owner and remedies of one kind of file."""

    application_id: int  # in the file's header, and stored: it never changes
    owner: str
    if_open: str
    if_damaged: str


_KINDS: dict[Kind, _Facts] = {
    "agent": _Facts(
        0x6167656E,
        "an agent",
        "every process needs its own agent (file and certificate)",
        "restore a backup, or move the file away and start with a new one: its samples are lost, "
        "the federation's model keeps the others'",
    ),
    "coordinator": _Facts(
        0x636F6F72,
        "a coordinator",
        "stop the other coordinator, or use another file",
        "restore a backup, or move the file away and start with a new one, as if it were lost "
        "(docs/operate.md): no agent loses a sample",
    ),
}
#: Errors from reading damaged bytes.
_UNREADABLE = (
    sqlite3.DatabaseError, zipfile.BadZipFile, msgspec.DecodeError, EOFError, KeyError, ValueError,
    struct.error,
)  # fmt: skip
_LARGEST_LOG = 64 * 2**20  # bytes of the write-ahead log kept for the next writes
_PAGES = 1024  # copied at once
_BUSY = 20  # milliseconds that the owner waits for a reader before retrying later
_PAUSE = 0.05  # seconds between two attempts to open a file


class _Open(NamedTuple):
    """A connection and its lock (None: a reader)."""

    db: sqlite3.Connection
    lock: OwnerLock | None


_open: dict[int, _Open] = {}


class _Locked(Taken):
    """Another program has SQLite's lock: it owns nothing, and will release it."""


def _keep_open() -> None:
    """In a forked child: never close its parent's files.

    Python would close them when the child exits, and that would delete the write-ahead log that
    the parent goes on writing to.
    """
    for each in _open.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each.db))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_open)


def close(db: sqlite3.Connection) -> None:
    """Close a file of `connect` or a `reader`."""
    found = _open.pop(id(db), None)
    db.close()
    if found is not None and found.lock is not None:
        found.lock.release()


def reader(path: str | Path) -> sqlite3.Connection:
    """Return a connection that only reads, beside the owner's connection.

    It sees committed data, and no writer waits for it. `close` it before the owner's connection.
    """
    try:
        found = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
        found.execute("PRAGMA query_only=ON")
    except sqlite3.Error:
        _check_descriptors(path)
        raise
    _open[id(found)] = _Open(found, None)
    return found


def connect(
    path: str | Path,
    schema: str,
    kind: Kind,
    version: int,
    wait: float = 0.0,
) -> sqlite3.Connection:
    """Open or create a file; no other process can open it until it is closed.

    `schema` has the statements that create its tables, separated by semicolons; `version` is the
    schema's. Raises `Unavailable` if the file is still open elsewhere after `wait` seconds
    (`Superseded` if a coordinator has it), or this process may not open another file;
    `InvalidInput` for an unusable file. Close the connection with `close`.
    """
    until = time.monotonic() + wait
    while True:
        try:
            return _connect(path, schema, kind, version)
        except Taken as taken:
            if time.monotonic() >= until:
                who = f" {taken}" if str(taken) else ""
                owned = kind == "coordinator" and not isinstance(taken, _Locked)
                raise (Superseded if owned else Unavailable)(
                    f"{path} is already open{who}, and one process at a time can use it: "
                    f"{_KINDS[kind].if_open}"
                ) from None
        time.sleep(_PAUSE)


def _connect(path: str | Path, schema: str, kind: Kind, version: int) -> sqlite3.Connection:
    try:
        # No other user may read it. If the file is there already it is not opened here: closing
        # it again would release the lock of an agent in this process that has it open.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        lock = OwnerLock(path)
    except OSError as error:
        raise _not_opened(path, error) from None
    try:
        try:
            db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
        except sqlite3.Error as error:
            raise _not_opened(path, error) from None
        try:
            _prepare(db, path, schema, kind, version)
        except BaseException:
            db.close()
            raise
    except BaseException:
        lock.release()
        raise
    _open[id(db)] = _Open(db, lock)
    return db


def _prepare(
    db: sqlite3.Connection, path: str | Path, schema: str, kind: Kind, version: int
) -> None:
    """Check a file, or create the tables of a new one."""
    facts = _KINDS[kind]
    try:
        db.execute("PRAGMA secure_delete=ON")  # overwrites deleted rows
        db.execute("BEGIN IMMEDIATE")
        empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not empty:
            _check(db, path, facts, version)
        db.execute("ROLLBACK")
        mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]  # only now: the file is ours
        if mode != "wal":
            raise InvalidInput("path", str(path), "a file on a local disk, not on a network")
        db.execute(f"PRAGMA journal_size_limit={_LARGEST_LOG}")
        db.execute("PRAGMA synchronous=NORMAL")
        if empty:
            db.execute("BEGIN IMMEDIATE")
            db.execute(f"PRAGMA application_id={facts.application_id}")
            db.execute(f"PRAGMA user_version={version}")
            for statement in schema.split(";"):
                db.execute(statement)
            db.execute("COMMIT")
        db.execute(f"PRAGMA busy_timeout={_BUSY}")
    except sqlite3.Error as error:
        _check_descriptors(path)
        if "locked" in str(error):  # by another program, with SQLite's lock only
            raise _Locked from None
        allowed = f"a file that {facts.owner} can use ({error}): {remedy(kind, error)}"
        raise InvalidInput("path", str(path), allowed) from None


def _not_opened(path: str | Path, error: Exception) -> InvalidInput:
    _check_descriptors(path)
    return InvalidInput("path", str(path), f"an accessible file ({error})")


def backup(kind: Kind, source: str | Path, path: str | Path) -> None:
    """Copy a file, as it is now, to a new one; its owner may write meanwhile.

    The copy is atomic and never overwrites a file. Any process may have `source` open.
    """
    path = Path(path)
    unfinished = path.with_name(f"{UNFINISHED}{secrets.token_hex(4)}-{path.name}")
    db = reader(source)
    try:
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        copy = sqlite3.connect(unfinished, isolation_level=None)
        try:
            db.execute("BEGIN")
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()  # it sees this from now
            if db.execute("PRAGMA application_id").fetchone()[0] != _KINDS[kind].application_id:
                raise InvalidInput("source", str(source), f"a file of {_KINDS[kind].owner}")
            db.backup(copy, pages=_PAGES)
            copy.execute("PRAGMA journal_mode=DELETE")  # a single file, without a write-ahead log
        finally:
            copy.close()
        os.link(unfinished, path)  # unlike rename, it never overwrites a file
        sync_folder(path.parent)
    except FileExistsError:
        raise InvalidInput("path", str(path), "a path without a file") from None
    except (OSError, sqlite3.Error) as error:
        allowed = f"a writable place for the copy ({error})"
        raise InvalidInput("path", str(path), allowed) from None
    finally:
        close(db)
        with suppress(OSError):
            unfinished.unlink()


def read_only(path: str | Path) -> sqlite3.Connection:
    """Return a read-only connection, without a lock."""
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=0.5)


def read_copy(path: str | Path, schema: str, kind: Kind, version: int) -> sqlite3.Connection:
    """Return a copy in memory of a file that no process has open.

    The file is not changed; the copy is empty if the file does not exist. Raises as `connect`.
    """
    facts = _KINDS[kind]
    copy = sqlite3.connect(":memory:", isolation_level=None)
    if not Path(path).exists():
        copy.executescript(schema)
        return copy
    try:
        check_free(path)
        with closing(read_only(path)) as db:
            db.execute("BEGIN")  # fails if the file is locked, where `backup` would wait for ever
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            db.backup(copy)
            _check(copy, path, facts, version)
    except (sqlite3.Error, Taken) as error:
        copy.close()
        if isinstance(error, Taken) or "locked" in str(error):
            raise Unavailable(f"{path} is open: {facts.owner} is using it") from None
        allowed = f"a file that {facts.owner} can use ({error})"
        raise InvalidInput("path", str(path), allowed) from None
    except BaseException:
        copy.close()
        raise
    return copy


def _check_descriptors(path: str | Path) -> None:
    """Raise `Unavailable` if this process may not open more files: SQLite's error hides it."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise Unavailable(
                f"cannot open {path}: this process has too many open files and connections, and an "
                "agent needs five more. Raise the limit: `ulimit -n` in a shell, LimitNOFILE in a "
                "systemd unit"
            ) from None


def _check(db: sqlite3.Connection, path: str | Path, facts: _Facts, version: int) -> None:
    """Raise for a file of another kind or version."""
    if db.execute("PRAGMA application_id").fetchone()[0] != facts.application_id:
        raise InvalidInput("path", str(path), f"a new file, or a file of {facts.owner}")
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found != version:
        allowed = (
            f"a file of version {version}, the only supported one, not {found}: use the fedglb "
            "that wrote it, or start a new file"
        )
        raise InvalidInput("path", str(path), allowed)


def remedy(kind: Kind, error: Exception) -> str:
    """Return the remedy for a file that SQLite cannot use."""
    if _is_damage(error):
        return f"it is damaged; {_KINDS[kind].if_damaged}"
    return (
        "check that this user owns the file, may write to its folder, and that the disk has space"
    )


@contextmanager
def named_damage(kind: Kind, path: str | os.PathLike[str]) -> Iterator[None]:
    """Read a file inside; raise `InvalidInput` with the remedy if it is damaged."""
    try:
        yield
    except InvalidInput:
        raise
    except _UNREADABLE as error:
        if not _is_damage(error):
            raise
        allowed = f"an undamaged file ({type(error).__name__}: {error}): {remedy(kind, error)}"
        raise InvalidInput("path", os.fspath(path), allowed) from error


def _is_damage(error: Exception) -> bool:
    """Return whether the file is at fault, not a full disk or a missing permission."""
    return not isinstance(error, sqlite3.OperationalError) or "no such" in str(error)


def check_pages(db: sqlite3.Connection) -> None:
    """Raise `sqlite3.DatabaseError` if a page of a file is damaged; reads the whole file."""
    (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)


# -- reading and writing -----------------------------------------------------------------------


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as bytes, in NumPy's ``.npz`` format."""
    for name, array in arrays.items():
        if np.asarray(array).dtype.hasobject:
            raise ValueError(f"Object arrays, such as {name}, cannot be stored: they need a pickle")
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of `pack`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        return dict(found)


def fact(db: sqlite3.Connection, name: str) -> Any:
    """Return a fact of the table `facts`; None: not there."""
    row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def set_fact(db: sqlite3.Connection, name: str, value: object) -> None:
    """Write a fact to the table `facts`."""
    db.execute("REPLACE INTO facts VALUES (?, ?)", (name, value))


def or_nan(stored: float | None) -> float:
    """Return a stored number: SQLite stores nan as NULL."""
    return math.nan if stored is None else stored


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit all writes inside this block together, or none."""
    try:
        db.execute("BEGIN")
        yield
        db.execute("COMMIT")
    except BaseException:
        roll_back(db)
        raise


@contextmanager
def on_disk(db: sqlite3.Connection) -> Iterator[None]:
    """Wait for the disk at every commit inside, so that it survives a power cut."""
    db.execute("PRAGMA synchronous=FULL")
    try:
        yield
    finally:
        db.execute("PRAGMA synchronous=NORMAL")


def roll_back(db: sqlite3.Connection) -> None:
    """Undo an interrupted transaction, if any."""
    if db.in_transaction:
        db.execute("ROLLBACK")
