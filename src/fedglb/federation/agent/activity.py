"""An agent's recent decisions and rewards, counted by time, for its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedglb.federation.sqlite import close, reader

_SPAN = 48 * 3600.0  # seconds
_DECISIONS = 100_000  # the newest ones
_WIDTHS = (60.0, 300.0, 900.0, 3600.0)  # seconds of a period
_PERIODS = 48
_FIRST = """
SELECT min(made) FROM decisions WHERE number > :after AND made >= :since AND arms > 0
"""
# One statement: the interpreter is free while SQLite counts. Absorbed samples have no arms.
_COUNTS = """
SELECT CAST((made - :begin) / :width AS INTEGER), count(*), count(reward), avg(reward)
FROM decisions WHERE number > :after AND made >= :begin AND arms > 0 GROUP BY 1
"""


@dataclass(frozen=True)
class Period:
    """Some minutes, or an hour.

    Parameters
    ----------
    begin
        Its begin, a Unix time.
    decisions
        The decisions made in it.
    rewarded
        Those of them that have a reward by now.
    reward
        Their mean reward; None without one.
    """

    begin: float
    decisions: int
    rewarded: int
    reward: float | None


@dataclass(frozen=True)
class Activity:
    """Recent decisions of an agent, returned by `Agent.activity`.

    Parameters
    ----------
    pending
        All decisions that wait for their reward.
    width
        Seconds of a period.
    periods
        From the first of the last 100,000 decisions, or of those within 48 hours, until now.
    """

    pending: int
    width: float
    periods: tuple[Period, ...]


def recent_activity(path: Path, pending: int, now: float) -> Activity:
    """Return the activity in an agent's file, read beside the agent's own connection."""
    db = reader(path)
    try:
        (last,) = db.execute("SELECT ifnull(max(number), 0) FROM decisions").fetchone()
        given = {"after": last - _DECISIONS, "since": now - _SPAN}
        (first,) = db.execute(_FIRST, given).fetchone()
        if first is None:
            return Activity(pending, _WIDTHS[0], ())
        width = next((w for w in _WIDTHS if now - first < (_PERIODS - 1) * w), _WIDTHS[-1])
        begin = first - first % width
        given = {"after": last - _DECISIONS, "begin": begin, "width": width}
        found = {row[0]: row[1:] for row in db.execute(_COUNTS, given)}
    finally:
        close(db)
    return Activity(pending, width, tuple(_periods(found, begin, width, now)))


def _periods(
    found: dict[int, tuple[int, int, float | None]], begin: float, width: float, now: float
) -> Iterator[Period]:
    for k in range(max(int((now - begin) // width), *found) + 1):
        yield Period(begin + k * width, *found.get(k, (0, 0, None)))
