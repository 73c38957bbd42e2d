"""What a check found, and the checks that members and operators share."""

from __future__ import annotations

import platform
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from fedglb.errors import InvalidInput
from fedglb.federation.certificates import Certificate
from fedglb.federation.damage import remedy
from fedglb.provenance import versions

Grade = Literal["ok", "warning", "fault"]
SOON = timedelta(days=30)
_NATS_PY = (2, 16)
_ROOM, _LITTLE_ROOM = 10**9, 10**8  # bytes
_CLOCKS = timedelta(seconds=5)  # by which two clocks may differ


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Parameters
    ----------
    check
        What was looked at.
    grade
        "ok"; "warning": it will go wrong, or may; "fault": it is wrong.
    text
        What was found.
    remedy
        What to do, if it is not ok.
    """

    check: str
    grade: Grade
    text: str
    remedy: str = ""


def attempt(check: str, action: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """Return what a check finds; a file that cannot be read is a finding too."""
    out: list[Finding] = []
    try:
        out.extend(action())
    except InvalidInput as error:
        out.append(Finding(check, "fault", str(error)))  # it says what to do
    except OSError as error:
        text = f"{error.filename or check}: {error.strerror or error}"
        out.append(Finding(check, "fault", text, "run this as the user who owns the folder"))
    return out


def software() -> Iterator[Finding]:
    """Look at the versions of what runs here."""
    yield Finding("python", "ok", platform.python_version())
    found = versions(("fedglb", "nats-py", "cryptography"))
    yield Finding("fedglb", "ok", found.get("fedglb", "from its sources"))
    for name in ("nats-py", "cryptography"):
        if name not in found:
            how = "pip install 'fedglb[federation]'"
            yield Finding(name, "fault", "not installed", how)
        elif name == "nats-py" and _numbers(found[name])[:2] < _NATS_PY:
            how = "pip install --upgrade 'fedglb[federation]'"
            yield Finding(name, "fault", f"{found[name]} is too old", how)
        else:
            yield Finding(name, "ok", found[name])


def server_version(text: str) -> Finding:
    """Judge the version of a nats-server.

    Examples
    --------
    >>> [server_version(v).grade for v in ("2.12.11", "2.12.12", "2.14.2", "2.14.3", "2.15.1")]
    ['fault', 'ok', 'fault', 'ok', 'ok']
    """
    numbers = _numbers(text)
    if numbers >= (2, 14, 3) or (2, 12, 12) <= numbers < (2, 13):
        return Finding("nats-server", "ok", text)
    how = "upgrade it to 2.12.12, 2.14.3 or newer: older ones have open security advisories"
    return Finding("nats-server", "fault", f"{text or 'an unknown version'} is too old", how)


def _numbers(text: str) -> tuple[int, ...]:
    """Return a version as numbers: those of 2.14.3-beta are 2, 14, 3."""
    out = []
    for part in text.strip().lstrip("v").split("-")[0].split("."):
        if not part.isdigit():
            break
        out.append(int(part))
    return tuple(out)


def private(paths: Iterable[Path]) -> Iterator[Finding]:
    """Look whether files and folders can be read by their owner alone."""
    sound = 0
    for path in paths:
        found = path.stat()
        if stat.S_IMODE(found.st_mode) & 0o077:
            how = f"chmod {700 if path.is_dir() else 600} {path}"
            yield Finding("permissions", "fault", f"others can read {path}", how)
        else:
            sound += 1
    if sound:
        yield Finding("permissions", "ok", f"{sound} keys and folders are their owner's alone")


def lasting(
    check: str,
    whose: str,
    ends: datetime | None,
    how: str,
    now: datetime | None = None,
    soon: timedelta = SOON,
) -> Finding:
    """Judge when a certificate ends.

    Examples
    --------
    >>> then = datetime(2030, 1, 31, tzinfo=UTC)
    >>> lasting("certificate", "shop-1", then, "renew it", now=datetime(2030, 1, 11, tzinfo=UTC))
    Finding(check='certificate', grade='warning', text='that of shop-1 ends on 2030-01-31, in 20 \
days', remedy='renew it')
    """
    if ends is None:
        text = f"when that of {whose} ends was not written down"
        return Finding(check, "warning", text, how)
    left = ends - (datetime.now(UTC) if now is None else now)
    text = f"that of {whose} ends on {ends:%Y-%m-%d}, in {left.days} days"
    if left < timedelta(0):
        return Finding(check, "fault", f"that of {whose} expired on {ends:%Y-%m-%d}", how)
    return Finding(check, "warning" if left < soon else "ok", text, how if left < soon else "")


def clock(certificates: Iterable[Certificate], now: datetime | None = None) -> Finding:
    """Judge the clock by certificates: it cannot be earlier than they were issued."""
    latest = max(certificate.begins for certificate in certificates)
    found = datetime.now(UTC) if now is None else now
    if found < latest:
        text = f"it says {found:%Y-%m-%d %H:%M}, and a certificate is valid from {latest} on"
        return Finding("clock", "fault", text, "set it, by NTP best: TLS fails meanwhile")
    return Finding("clock", "ok", f"{found:%Y-%m-%d %H:%M} UTC is after all certificates began")


def same_clock(theirs: datetime, now: datetime | None = None) -> Finding:
    """Judge the clock by the server's."""
    apart = abs(theirs - (datetime.now(UTC) if now is None else now))
    text = f"{apart.total_seconds():.1f} s from the server's"
    if apart > _CLOCKS:
        return Finding("clock", "warning", text, "have both follow NTP: dates here will mislead")
    return Finding("clock", "ok", text)


def room(path: Path) -> Finding:
    """Judge the space on a disk."""
    free = shutil.disk_usage(path).free
    text = f"{free / 1e9:.1f} GB are free where {path} is"
    if free >= _ROOM:
        return Finding("disk", "ok", text)
    how = "make room: what cannot be written is refused"
    return Finding("disk", "warning" if free >= _LITTLE_ROOM else "fault", text, how)


def sqlite_file(check: str, path: Path, owner: str) -> Finding:
    """Judge a file of "an agent" or "a coordinator", which is only read."""
    if not path.exists():
        return Finding(check, "ok", f"there is no {path} yet")
    try:
        with closing(_read_only(path)) as db:
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        if "locked" in str(error):
            return Finding(check, "ok", f"{path} is open in a running process: not looked into")
        return Finding(check, "fault", f"{path}: {error}", remedy(owner, error))
    if found == "ok":
        return Finding(check, "ok", f"{path} is sound")
    how = remedy(owner, sqlite3.DatabaseError(found))
    return Finding(check, "fault", f"{path}: {found}", how)


def fact_in(path: Path, name: str) -> bytes | str | None:
    """Return a fact of a SQLite file; None: it cannot be read now."""
    try:
        with closing(_read_only(path)) as db:
            row = db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else row[0]


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=0.5)
