"""The alarms of an agent that runs as a service: disk, certificate, rewards.

Rewards are read from the agent's file, beside its own connection: no call waits for it.
docs/operate.md states both tests of rewards, and what they assume.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedglb.federation.alarms import (
    HOUR,
    LOOK_EVERY,
    MINUTE,
    Alarm,
    AlarmBoard,
    AlarmCommand,
    described,
    ends_soon,
    facts_of,
    low_disk,
)
from fedglb.federation.sqlite import close, reader
from fedglb.typing import FloatArray

log = logging.getLogger(__name__)
#: All kinds: stored names.
KINDS = ("disk", "certificate", "no_rewards", "rewards_fall")
_READ_EVERY = MINUTE  # seconds between two reads of the file and the certificate
# No rewards: the last decisions and rewards that are looked at, the fewest rewards; how long it is
# silent at least, and for how many times the usual number of decisions.
_WINDOW, _ENOUGH = 100_000, 100
_SILENT, _TIMES = 15 * MINUTE, 3.0
# Falling rewards: a batch has the rewards of an hour, from and up to so many; batches before the
# newest, at least and at most; the share of tests that are false alarms; standard deviations below
# the mean within which the alarm ends.
_LEAST, _MOST = 1000, 10_000
_FEWEST, _WEEK = 24, 168
_FALSE, _RECOVERED = 1e-6, 2.0
_MADE = "SELECT made FROM decisions WHERE number > ? AND arms > 0 ORDER BY number"
_GIVEN = "FROM decisions WHERE sequence > ? AND arms > 0 AND defaulted IS NULL ORDER BY sequence"
_REWARDED = f"SELECT rewarded {_GIVEN}"  # not by default
_LAST = f"SELECT rewarded {_GIVEN} DESC LIMIT 1"
_SINCE = "SELECT min(made), count(*) FROM decisions WHERE number > ? AND made > ? AND arms > 0"
_AT = "SELECT rewarded FROM decisions WHERE sequence >= ? ORDER BY sequence LIMIT 1"
_BATCH = """
SELECT count(*), ifnull(avg(reward), 0.0), ifnull(avg(reward * reward), 0.0) FROM decisions
WHERE sequence > ? AND sequence <= ? AND arms > 0
"""


@contextmanager
def watching(
    board: AlarmBoard, file: Path, bundle: Path | None, name: str, command: AlarmCommand | None
) -> Iterator[None]:
    """Look for alarms of an agent in a thread inside this block; log and tell them."""
    conditions, over = Conditions(file, bundle, name), threading.Event()

    def tell(alarm: Alarm, starts: bool) -> None:
        log.warning("%s", described(alarm, starts))
        if command is not None:
            command.call(facts_of(alarm, starts))

    def watch() -> None:
        while not over.wait(LOOK_EVERY):
            now = time.time()
            try:
                board.look(conditions.look(board, now), now)
            except Exception:  # a fault here must not stop the service
                log.exception("cannot look for alarms")

    board.tell = tell
    thread = threading.Thread(target=watch, name="alarms", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()  # its connection to the file ends before the agent's


class Conditions:
    """Looks at the disk each time, at the rewards and the certificate every minute."""

    def __init__(self, file: Path, bundle: Path | None, name: str) -> None:
        self._file, self._bundle, self._name = file.absolute(), bundle, name
        self._batches, self._fallen = Batches(), False
        self._usual: Silence | None = None
        self._read_at, self._usual_at, self._found = -math.inf, -math.inf, list[Alarm]()

    def look(self, board: AlarmBoard, now: float) -> list[Alarm]:
        """Return the alarms that hold at this Unix time."""
        if not 0.0 <= now - self._read_at < _READ_EVERY:
            self._read_at = now
            self._found = [*self._certificate(now), *self._rewards(board, now)]
        return [*low_disk(self._file.parent, board.stands("disk")), *self._found]

    def _certificate(self, now: float) -> Iterator[Alarm]:
        if self._bundle is None:
            return
        from fedglb.federation.bundle import CERTIFICATE
        from fedglb.federation.certificates import Certificate

        content = (self._bundle / CERTIFICATE).read_bytes()
        how = "ask the federation's operator for a renewed one"
        yield from ends_soon(self._name, Certificate(content).ends.timestamp(), now, how)

    def _rewards(self, board: AlarmBoard, now: float) -> Iterator[Alarm]:
        db = reader(self._file)
        try:
            if not 0.0 <= now - self._usual_at < HOUR:
                self._usual, self._usual_at = usual_silence(*times(db)), now
            silence = silence_now(db, now)
            if self._batches.read(db):
                self._fallen = has_fallen(self._batches.found, board.stands("rewards_fall"))
        finally:
            close(db)
        if self._usual is not None and is_longer(silence, self._usual):
            text = (
                "decisions are made, and no rewards have come for longer than usual: does the "
                "application still send them?"
            )
            yield Alarm("no_rewards", text, now - silence.seconds)
        if self._fallen:
            newest, *before = self._batches.found
            mean = sum(batch.mean for batch in before) / len(before)
            text = (
                f"the mean of the last {newest.count:,} rewards is {newest.mean:.3g}, of those "
                f"before {mean:.3g}: what has changed in the application, or in its data?"
            )
            yield Alarm("rewards_fall", text)


# -- no rewards ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Silence:
    """Seconds from the first decision after a reward to the next reward, and decisions in it."""

    seconds: float
    decisions: int


def times(db: sqlite3.Connection) -> tuple[FloatArray, FloatArray]:
    """Return when the last decisions were made, and when the last rewards came; in order."""
    made = db.execute(_MADE, (_newest(db, "number") - _WINDOW,)).fetchall()
    rewarded = db.execute(_REWARDED, (_newest(db, "sequence") - _WINDOW,)).fetchall()
    return np.sort(np.array(made, dtype=float).ravel()), np.sort(np.array(rewarded).ravel())


def usual_silence(made: FloatArray, rewarded: FloatArray) -> Silence | None:
    """Return the second longest silence, in seconds and in decisions; None: too few rewards.

    Not the longest: that may be a fault that was mended. For independent rewards the chance that a
    silence has more than three times the decisions of the second longest of n is 24/n³.
    """
    if len(rewarded) < _ENOUGH:
        return None
    by_then = np.searchsorted(made, rewarded, side="right")  # decisions made before each reward
    begin, known = rewarded.copy(), (by_then > 0) & (by_then < len(made))
    begin[known] = made[by_then[known]]
    seconds = np.sort(rewarded[1:] - np.minimum(begin[:-1], rewarded[1:]))
    return Silence(float(seconds[-2]), int(np.sort(np.diff(by_then))[-2]))


def silence_now(db: sqlite3.Connection, now: float) -> Silence:
    """Return the silence since the last reward."""
    last = db.execute(_LAST, (_newest(db, "sequence") - _WINDOW,)).fetchone()
    given = _newest(db, "number") - _WINDOW, -math.inf if last is None else last[0]
    begin, decisions = db.execute(_SINCE, given).fetchone()
    return Silence(0.0 if begin is None else now - begin, decisions)


def is_longer(silence: Silence, usual: Silence) -> bool:
    """Return whether a silence is longer than usual, in seconds and by far in decisions."""
    many = min(_TIMES * usual.decisions, _WINDOW - 1)
    return silence.seconds > max(_SILENT, usual.seconds) and silence.decisions > many


def _newest(db: sqlite3.Connection, column: str) -> int:
    # the condition lets SQLite use the index of sequences
    found = db.execute(f"SELECT max({column}) FROM decisions WHERE {column} > 0").fetchone()[0]
    return int(found or 0)


# -- falling rewards -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Successive rewards: number, mean, variance."""

    count: int
    mean: float
    variance: float


class Batches:
    """Batches of rewards in the order of their arrival, newest first, at least an hour apart."""

    def __init__(self) -> None:
        self.found: list[Batch] = []
        self._end, self._at = 0, -math.inf  # of the newest

    def read(self, db: sqlite3.Connection) -> bool:
        """Read the newest batch, at first also those before; return whether there is a new one."""
        end = _newest(db, "sequence")
        at = _time_of(db, end)
        if end - self._end < _LEAST or at - self._at < HOUR:
            return False
        most = 1 if self.found else _WEEK + 1
        self._end, self._at = end, at
        self.found = [*_batches(db, end, most), *self.found][: _WEEK + 1]
        return True


def _batches(db: sqlite3.Connection, end: int, most: int) -> Iterator[Batch]:
    """Yield the batches up to a sample's number, newest first; imported samples do not count."""
    for _ in range(most):
        hour = _last_before(db, _time_of(db, end) - HOUR, end)
        first = max(end - _MOST, min(hour, end - _LEAST))
        if first < 0:
            return
        count, mean, square = db.execute(_BATCH, (first, end)).fetchone()
        if count >= _LEAST // 2:  # others were imported, or forgotten
            yield Batch(count, mean, max(0.0, square - mean * mean))
        end = min(hour, first)


def _time_of(db: sqlite3.Connection, number: int) -> float:
    row = db.execute(_AT, (number,)).fetchone()
    return -math.inf if row is None else row[0]


def _last_before(db: sqlite3.Connection, at: float, end: int) -> int:
    """Return the number of the last sample, up to `end`, that came before this Unix time."""
    low = 0
    while low < end:
        middle = (low + end + 1) // 2
        low, end = (middle, end) if _time_of(db, middle) <= at else (low, middle - 1)
    return low


def has_fallen(batches: Sequence[Batch], stands: bool) -> bool:
    """Return whether the mean of the newest batch is below those of the batches before.

    Student's t for one new observation, with a probability of 1e-6 for a false alarm if the means
    of batches are independent and normal with one mean and variance; `stands`: it has fallen.
    """
    from scipy.special import stdtr

    if len(batches) <= _FEWEST:
        return False
    newest, means = batches[0], np.array([batch.mean for batch in batches[1:]])
    fall = float(means.mean()) - newest.mean
    if fall <= 1e-9 * abs(means).max():  # rounding, if all rewards are equal
        return False
    # rewards that were all equal have no variance: this batch has its own
    variance = max(means.var(ddof=1), newest.variance / newest.count)
    distance = fall / math.sqrt(variance * (1 + 1 / len(means))) if variance > 0 else math.inf
    if stands:
        return distance > _RECOVERED
    return bool(stdtr(len(means) - 1, -distance) < _FALSE)
