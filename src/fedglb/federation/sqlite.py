"""SQLite files that one process at a time can open."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from fedglb.errors import InvalidInput
from fedglb.federation.damage import remedy
from fedglb.federation.errors import Unavailable

#: Whose file it is.
Kind = Literal["agent", "coordinator"]


class _Facts(NamedTuple):
    """What sets one kind of file apart, and what to do when it cannot be used."""

    application_id: int  # in the file's header, and stored: it never changes
    owner: str
    if_open: str
    if_older: str


_KINDS: dict[Kind, _Facts] = {
    "agent": _Facts(
        0x6167656E,
        "an agent",
        "give every process an agent of its own (file and certificate)",
        "export its log (Agent.export) with the fedglb that made it, or start a new file",
    ),
    "coordinator": _Facts(
        0x636F6F72,
        "a coordinator",
        "stop the other coordinator, or give this one a file of its own",
        "go on with the fedglb that made it, or start a new file (no agent loses a sample)",
    ),
}
_open: dict[int, sqlite3.Connection] = {}


def _keep_open() -> None:
    """In a forked child: never close its parent's files.

    Python would close them when the child exits, and that would delete the write-ahead log that
    the parent goes on writing to.
    """
    for db in _open.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(db))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_open)


def close(db: sqlite3.Connection) -> None:
    """Close a file of `connect`."""
    _open.pop(id(db), None)
    db.close()


def connect(
    path: str | Path,
    schema: str,
    kind: Kind,
    version: int,
    migrations: Mapping[int, str] | None = None,
) -> sqlite3.Connection:
    """Open or make a file that nobody else can open until this process closes it or ends.

    The lock is the system's: it goes with the process, also after ``kill -9``.

    Parameters
    ----------
    path
        The file.
    schema
        The statements that make its tables, with a semicolon between two of them.
    kind
        Whose file it is.
    version
        The version of its tables.
    migrations
        By an older version, the statements that turn its tables into those of `version`.

    Returns
    -------
    sqlite3.Connection
        To be closed with `close`.

    Raises
    ------
    InvalidInput
        The file cannot be opened, is not of this kind, or has tables of another version.
    Unavailable
        The file is open already, in this process or another; or no more files can be opened.
    """
    facts = _KINDS[kind]
    try:
        # No other user may read it. If the file is there already it is not opened here: closing
        # it again would release the lock of an agent in this process that has it open.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.5)
    except (OSError, sqlite3.Error) as error:
        _check_descriptors(path)
        raise InvalidInput("path", str(path), f"a file that can be opened ({error})") from None
    try:
        db.execute("PRAGMA locking_mode=EXCLUSIVE")  # before WAL: then there is no shared memory
        db.execute("PRAGMA secure_delete=ON")  # what is forgotten is overwritten
        db.execute("BEGIN IMMEDIATE")
        empty = not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        before = version
        if not empty:
            before = _check(db, path, facts, version, migrations or {})
        db.execute("ROLLBACK")
        db.execute("PRAGMA journal_mode=WAL")  # only now: it changes the file, which is ours
        db.execute("PRAGMA synchronous=NORMAL")
        if empty or before != version:
            db.execute("BEGIN IMMEDIATE")
            db.execute(f"PRAGMA application_id={facts.application_id}")
            db.execute(f"PRAGMA user_version={version}")
            statements = schema if empty or migrations is None else migrations[before]
            for statement in statements.split(";"):
                db.execute(statement)
            db.execute("COMMIT")
    except sqlite3.Error as error:
        try:
            _check_descriptors(path)
        finally:
            db.close()
        if "locked" in str(error):
            raise Unavailable(
                f"{path} is open already, and one process at a time can use it: {facts.if_open}"
            ) from None
        allowed = f"a file that {facts.owner} can use ({error}): {remedy(facts.owner, error)}"
        raise InvalidInput("path", str(path), allowed) from None
    except BaseException:
        db.close()
        raise
    _open[id(db)] = db
    return db


def read_copy(
    path: str | Path, schema: str, kind: Kind, version: int, migrations: Mapping[int, str]
) -> sqlite3.Connection:
    """Return a copy in memory of a file that nobody has open, with the tables of `version`.

    The file itself is not changed; if it is not there, the copy is empty. Raises as `connect` does.
    """
    facts = _KINDS[kind]
    copy = sqlite3.connect(":memory:", isolation_level=None)
    if not Path(path).exists():
        copy.executescript(schema)
        return copy
    try:
        with contextlib.closing(
            sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=0.5)
        ) as db:
            db.execute("BEGIN")  # a lock that fails where it must: `backup` would wait for ever
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            db.backup(copy)
            found = _check(copy, path, facts, version, migrations)
        if found != version:
            copy.executescript(migrations[found])
    except sqlite3.Error as error:
        copy.close()
        if "locked" in str(error):
            raise Unavailable(f"{path} is open: {facts.owner} is using it") from None
        allowed = f"a file that {facts.owner} can use ({error})"
        raise InvalidInput("path", str(path), allowed) from None
    except BaseException:
        copy.close()
        raise
    return copy


def _check_descriptors(path: str | Path) -> None:
    """Raise `Unavailable` if this process has as many files open as it may: SQLite does not say."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise Unavailable(
                f"{path} cannot be opened: this process has as many files and connections open as "
                "it may, and an agent needs three. Allow it more: `ulimit -n` in a shell, "
                "LimitNOFILE in a systemd unit"
            ) from None


def _check(
    db: sqlite3.Connection,
    path: str | Path,
    facts: _Facts,
    version: int,
    migrations: Mapping[int, str],
) -> int:
    """Refuse a file of another kind or a version that cannot be used; return its version."""
    if db.execute("PRAGMA application_id").fetchone()[0] != facts.application_id:
        raise InvalidInput("path", str(path), f"a new file, or one that {facts.owner} made")
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found != version and found not in migrations:
        remedy = "install a newer fedglb" if found > version else facts.if_older
        raise InvalidInput(
            "path",
            str(path),
            f"a file of version {version}, the only one that this fedglb can use; "
            f"it has version {found}: {remedy}",
        )
    return int(found)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit all that is written inside together, or nothing of it."""
    try:
        db.execute("BEGIN")
        yield
        db.execute("COMMIT")
    except BaseException:
        roll_back(db)
        raise


def roll_back(db: sqlite3.Connection) -> None:
    """Undo a transaction that was interrupted, if there is one."""
    if db.in_transaction:
        db.execute("ROLLBACK")
